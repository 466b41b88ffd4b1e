"""What the tests of a SegmentWriter that is killed, or fails, have in common: batches, a run, a disk that forgets."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import builders

import kafkarec
from kafkarec.ops.segment_writer import SegmentWriter

SETTINGS: dict[str, Any] = {
    "segment_bytes": 1300, "index_interval_bytes": 300, "topic_id": "pmqbwj8JRCSCfzvNTqatEw",
}  # fmt: skip
CALLS = ("open", "pwrite", "ftruncate", "fsync", "replace", "unlink", "mkdir", "close")


@lru_cache(1)
def batches() -> tuple[bytes, ...]:
    """Twenty or so in every codec, with transactions, two leader epochs and gaps; some segments' worth."""
    made, offset, sequence = [], 0, 0
    for number in range(22):
        where: dict[str, Any] = {
            "base_offset": offset, "leader_epoch": 0 if number < 9 else 3, "base_timestamp": builders.NOW + 10 * number,
        }  # fmt: skip
        if number % 5 == 4:
            made.append(builders.end_marker(commit=number % 2 == 0, producer_id=7, **where))
            offset += 1
            continue
        transactional = number % 5 in (1, 2)
        records = builders.records(3, value=random.Random(number).randbytes(90))
        made.append(
            builders.batch(
                records, codec=list(builders.CODEC_IDS)[number % 5],
                attributes=builders.TRANSACTIONAL if transactional else 0,
                producer_id=7 if transactional else -1, producer_epoch=0 if transactional else -1,
                base_sequence=sequence if transactional else -1, **where,
            )
        )  # fmt: skip
        sequence += 3 * transactional
        offset += 3 + (number == 12)
    return tuple(made)


def ends() -> tuple[int, ...]:
    """The log end offset behind each batch."""
    return tuple(kafkarec.scan(b"".join(batches())).column("next_offset"))


def run(folder: Path, acknowledge: Callable[[int], object] = lambda offset: None, **settings: Any) -> SegmentWriter:
    """Writes all batches that the folder does not have yet; says how far they are on the disk."""
    with SegmentWriter(folder, **(SETTINGS | settings)) as writer:
        acknowledge(writer.recovery_point)
        for number, (batch, end) in enumerate(zip(batches(), ends(), strict=True)):
            if end <= writer.next_offset:
                continue
            writer.append(batch)
            if number % 3 == 0:
                acknowledge(writer.flush())
    acknowledge(writer.recovery_point)
    return writer


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def log_bytes(found: dict[str, bytes]) -> bytes:
    return b"".join(found[name] for name in sorted(found) if name.endswith(".log"))


def check_what_is_left(folder: Path, acknowledged: int) -> None:
    """All acknowledged batches, byte for byte; behind them whole batches and at most a torn one. It opens and reads."""
    found = content(folder)
    logs = sorted(name for name in found if name.endswith(".log"))
    whole = b"".join(batches())
    for name in logs[:-1]:
        assert kafkarec.scan(found[name]).remaining == 0, f"{name} is not the last one, and torn"
    data = log_bytes(found)
    good = kafkarec.decode(data, errors="skip", control=True).batches
    last = good[-1]["next_offset"] if len(good) else 0
    assert last >= acknowledged, f"{acknowledged} was acknowledged, and the log ends at {last}"
    size = sum(good.column("size_in_bytes"))
    assert data[:size] == whole[:size]
    if found:
        with kafkarec.open(folder) as opened:
            assert not isinstance(opened, kafkarec.Log) or not len(logs) or (opened.next_offset or 0) >= acknowledged


class Disk:
    """What would be in a folder behind a power failure: of each file what its last fsync found, of names what the
    folder's last fsync found; what came later may be there too, or in part. Patches os while `watching`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._synced: dict[int, bytes] = {}
        self._names: dict[str, int] = {}
        self._held: list[int] = []  # so that no inode is used a second time

    @contextmanager
    def watching(self) -> Iterator[None]:
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                if os.path.samestat(found, os.stat(self._folder)):
                    self._names = self._now()
            else:
                self._held.append(os.dup(descriptor))
                self._synced[found.st_ino] = os.pread(descriptor, found.st_size, 0)

        os.fsync = fsync
        try:
            yield
        finally:
            os.fsync = real

    def _now(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self._folder.iterdir()}

    def leave(self, to: Path, dice: random.Random) -> None:
        """A folder as a power failure may leave it."""
        to.mkdir()
        there, now = self._names, self._now()
        bytes_now = {path.stat().st_ino: path.read_bytes() for path in self._folder.iterdir()}
        for name in there.keys() | now.keys():
            inode = dice.choice([there, now]).get(name)
            if inode is None:
                continue
            safe = self._synced.get(inode, b"")
            later = bytes_now.get(inode, safe)
            grown = later[len(safe) :] if later.startswith(safe) else b""
            kept = dice.randrange(len(grown) + 1)
            tail = dice.choice([b"", grown, grown[:kept], grown[:kept] + bytes(len(grown) - kept), bytes(len(grown))])
            (to / name).write_bytes(safe + tail)

    def forget(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        self._held = []
