"""Counts what is read of the files of a folder."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from kafkarec.sources import folders
from kafkarec.sources.files import LocalFile


class Reading(NamedTuple):
    path: str
    position: int
    length: int


class _CountedFile(LocalFile):
    """Its bytes are read by read_at alone, not by the engine."""

    readings: list[Reading]

    def __init__(self, path: str, disk: bool = False):
        super().__init__(path, disk)
        self._number, self.descriptor = self.descriptor or 0, None
        self.skip_bytes = 0  # so that headers alone are read in windows

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._number, length, position)
        self.readings.append(Reading(self.name, position, len(data)))
        return data

    def close(self):
        os.close(self._number)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Reading]:
    """Return the list that gets every reading of files in folders from now on."""
    readings = []
    monkeypatch.setattr(_CountedFile, "readings", readings, raising=False)
    monkeypatch.setattr(folders, "LocalFile", _CountedFile)
    return readings


def of_segments(readings: list[Reading]) -> int:
    """Return how many bytes of .log files were read."""
    return sum(one.length for one in readings if one.path.endswith(".log"))
