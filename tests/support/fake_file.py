"""Files for tests: with small windows, with ranges that fail with EIO, shorter than their size says."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any

import kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part


@dataclass
class FakeFile:
    """Bytes that are read by `read_at`, as kafkarec.storage.sources describes a source.

    unreadable   ranges whose reading fails with EIO
    present      how many bytes are really there
    """

    data: bytes
    window_bytes: int = 64
    skip_bytes: int = 32
    unreadable: list[range] = field(default_factory=list)
    present: int | None = None
    calls: int = 0
    fetched: int = 0
    name: str = "test.log"
    descriptor: None = None

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, length: int) -> bytes:
        self.calls += 1
        for bad in self.unreadable:
            if position < bad.stop and bad.start < position + length:
                raise OSError(errno.EIO, "Input/output error")
        data = self.data[position : min(position + length, len(self.data) if self.present is None else self.present)]
        self.fetched += len(data)
        return data

    def is_damage(self, error: OSError) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""


def read(fake: FakeFile, **options: Any) -> kafkarec.RecordColumns:
    asked = request(**{"control": True, **options}, _file=fake.name)
    return as_columns(asked, read_part(asked, Source(file=fake)))
