"""`convert` and `compact` whose output is joined to bytes."""

from __future__ import annotations

from typing import Any

import kafkarec


class Joined(bytes):
    """All output of `batches`, a Converted or Compacted, which has the other attributes."""

    def __new__(cls, batches: Any) -> Joined:
        joined = super().__new__(cls, b"".join(batches))
        joined.batches = batches
        return joined

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batches, name)


def convert(data: Any, **options: Any) -> Joined:
    return Joined(kafkarec.convert(data, **options))


def compact(source: Any, **settings: Any) -> Joined:
    return Joined(kafkarec.compact(source, **settings))
