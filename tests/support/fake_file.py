"""A fake file: with small windows, ranges that fail with EIO, and fewer bytes than its size says."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

import reading

import kafkarec


@dataclass
class FakeFile:
    """Bytes that are read by `read_at`: the source protocol of kafkarec.sources.files.

    unreadable   ranges where a read fails with EIO
    present      how many bytes the file really has; None: as many as its size says
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

    def close(self):
        """Do nothing: no file is open."""


def read(fake: FakeFile, **options) -> kafkarec.RecordColumns:
    return reading.decode_file(fake, fake.name, **{"control": True, **options})
