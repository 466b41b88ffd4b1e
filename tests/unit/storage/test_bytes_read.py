"""How often each operation reads the bytes of a log: counted at the files, for a log of two segments with ordinary
batches (100 records of 100 bytes). Headers alone are read in windows, a third of the bytes here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkarec
from kafkarec.ops.compact import cleaned
from kafkarec.ops.convert import converted
from kafkarec.ops.diff import compare
from kafkarec.sources import folders
from kafkarec.sources.files import LocalFile
from kafkarec.storage.rebuild_folder import rebuild_log

_BATCHES = 300  # a segment


class CountedFile:
    """A LocalFile whose bytes the engine gets by read_at, which counts them."""

    descriptor = None

    def __init__(self, *args: Any) -> None:
        self._file = LocalFile(*args)
        self.name, self.size = self._file.name, self._file.size
        self.window_bytes, self.skip_bytes = self._file.window_bytes, 0

    def read_at(self, position: int, length: int) -> bytes:
        data = self._file.read_at(position, length)
        counted[self.name] = counted.get(self.name, 0) + len(data)
        return data

    def is_damage(self, error: OSError) -> bool:
        return self._file.is_damage(error)

    def close(self) -> None:
        self._file.close()


counted: dict[str, int] = {}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bytes") / "orders-0"
    records = 100
    with kafkarec.SegmentWriter(folder, segment_bytes=_BATCHES * 12_000) as writer:
        offset = 0
        for number in range(2 * _BATCHES):
            rows = [(None, 1000 + number, f"{n % 50}".encode(), bytes(100), ()) for n in range(records)]
            writer.append(kafkarec.encode([(offset + n, *row[1:]) for n, row in enumerate(rows)], base_offset=offset))
            offset += records
    return folder


READINGS: dict[str, tuple[float, Callable[[Any, Path], object]]] = {
    "read": (1.02, lambda log, to: log.read()),
    "stream": (1.02, lambda log, to: list(log.stream())),
    "read_committed": (1.35, lambda log, to: log.read(isolation="read_committed")),
    "scan": (0.35, lambda log, to: log.scan()),
    "transactions": (0.35, lambda log, to: log.transactions()),
    "reindex": (1.02, lambda log, to: list(rebuild_log(log))),
    "diff": (1.02, lambda log, to: compare(log, kafkarec.open(shutil.copytree(log.path, to / "copy")))),
    "convert": (2.02, lambda log, to: list(converted(log, compression="zstd"))),
    "compact": (2.35, lambda log, to: list(cleaned(log))),
    "verify": (1.35, lambda log, to: log.verify()),
    "salvage": (2.2, lambda log, to: log.salvage(to / "out")),
}


@pytest.mark.parametrize("name", READINGS)
def test_how_often_the_bytes_are_read(name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most, reading = READINGS[name]
    monkeypatch.setattr(folders, "LocalFile", CountedFile)
    counted.clear()
    log = kafkarec.open(made)
    reading(log, tmp_path)
    size = sum(path.stat().st_size for path in made.glob("*.log"))
    found = sum(count for path, count in counted.items() if path.startswith(str(made)) and path.endswith(".log"))
    assert found <= most * size
