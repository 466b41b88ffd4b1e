"""Support for tests of a SegmentWriter that is killed or fails: batches, a run, a disk that loses unsynced data."""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import builders
import plain_logs
from plain_logs import content

import kafkarec
from kafkarec import (
    CorruptRecordError,
    InvalidRecordError,
    SegmentWriter,
    UnsupportedCompressionError,
    UnsupportedMagicError,
)
from kafkarec.ops.segment_writer import AppendRefused

SETTINGS = {
    "segment_bytes": 1300,
    "index_interval_bytes": 300,
    "topic_id": "pmqbwj8JRCSCfzvNTqatEw",
}
CALLS = ("open", "pwrite", "ftruncate", "fsync", "replace", "unlink", "mkdir", "close")


@lru_cache(1)
def batches() -> tuple[bytes, ...]:
    """Return 22 batches for several segments: every codec, transactions, two leader epochs, gaps in the offsets."""
    made, offset, sequence = [], 0, 0
    for number in range(22):
        where = {
            "base_offset": offset,
            "leader_epoch": 0 if number < 9 else 3,
            "base_timestamp": builders.NOW + 10 * number,
        }
        if number % 5 == 4:
            made.append(builders.end_marker(commit=number % 2 == 0, producer_id=7, **where))
            offset += 1
            continue
        transactional = number % 5 in (1, 2)
        records = builders.records(3, value=random.Random(number).randbytes(90))
        made.append(
            builders.batch(
                records,
                codec=builders.CODECS[number % 5],
                attributes=builders.TRANSACTIONAL if transactional else 0,
                producer_id=7 if transactional else -1,
                producer_epoch=0 if transactional else -1,
                base_sequence=sequence if transactional else -1,
                **where,
            )
        )
        sequence += 3 * transactional
        offset += 3 + (number == 12)
    return tuple(made)


def ends() -> tuple[int, ...]:
    """Return the log end offset after each batch."""
    return tuple(kafkarec.scan(b"".join(batches())).column("next_offset"))


def run(folder: Path, acknowledge: Callable[[int], object] = lambda offset: None, **settings) -> SegmentWriter:
    """Write all batches that the folder does not have yet; `acknowledge` gets each recovery point."""
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


def check_what_is_left(folder: Path, acknowledged: int):
    """Assert that the folder has all acknowledged batches, byte for byte, then whole batches and at most a torn one."""
    files = content(folder)
    logs = sorted(name for name in files if name.endswith(".log"))
    whole = b"".join(batches())
    for name in logs[:-1]:
        assert kafkarec.scan(files[name]).remaining == 0, f"{name} is not the last one, and torn"
    data = b"".join(map(files.get, logs))
    good = kafkarec.decode(data, errors="skip", control=True).batches
    last = good[-1]["next_offset"] if len(good) else 0
    assert last >= acknowledged, f"{acknowledged} was acknowledged, and the log ends at {last}"
    size = sum(good.column("size_in_bytes"))
    assert data[:size] == whole[:size]
    if files:
        with kafkarec.open(folder) as opened:
            assert not isinstance(opened, kafkarec.Log) or not len(logs) or (opened.next_offset or 0) >= acknowledged


def _inodes(folder: Path | int) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


class Disk:
    """Simulates a folder's content after a power failure: each file has at least its content at its last fsync, each
    folder the names at its last fsync; later changes may be present, absent or partial. Patches os while `watching`."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._synced = {}
        self._names = {}  # inode of a folder -> name -> inode
        self._descriptors = []  # open descriptors, so that no inode number is used again

    @contextmanager
    def watching(self) -> Iterator[None]:
        real, one_by_one = os.fsync, threading.Lock()

        def fsync(descriptor):
            with one_by_one:  # else a thread could put an earlier list of names in place of a later one
                real(descriptor)
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    self._names[status.st_ino] = _inodes(descriptor)
                else:
                    self._descriptors.append(os.dup(descriptor))
                    self._synced[status.st_ino] = os.pread(descriptor, status.st_size, 0)

        os.fsync = fsync
        try:
            yield
        finally:
            os.fsync = real

    def leave(self, to: Path, random_: random.Random):
        """Write a folder as a power failure may leave it."""
        self._leave_folder(self._folder, to, random_)

    def _leave_folder(self, folder: Path, to: Path, random_: random.Random):
        to.mkdir()
        synced_names, current_names = self._names.get(folder.stat().st_ino, {}), _inodes(folder)
        folders = {path.stat().st_ino: path for path in folder.iterdir() if path.is_dir()}
        bytes_now = {path.stat().st_ino: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for name in synced_names.keys() | current_names.keys():
            inode = random_.choice([synced_names, current_names]).get(name)
            if inode is None:
                continue
            if inode in folders:
                self._leave_folder(folders[inode], to / name, random_)
                continue
            safe = self._synced.get(inode, b"")
            later = bytes_now.get(inode, safe)
            unsynced = later[len(safe) :] if later.startswith(safe) else b""
            kept = random_.randrange(len(unsynced) + 1)
            tail = random_.choice(
                [b"", unsynced, unsynced[:kept], unsynced[:kept] + bytes(len(unsynced) - kept), bytes(len(unsynced))]
            )
            (to / name).write_bytes(safe + tail)

    def forget(self):
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def batch(offset: int = 0, count: int = 3, **fields) -> bytes:
    return plain_logs.batch(offset, count, **fields, value=b"v" * 90)


GOOD = batch(3)
REFUSED: dict[str, tuple[bytes, type[ValueError], str, int]] = {
    "checksum": (GOOD[:-1] + b"?", CorruptRecordError, "crc mismatch", 0),
    "second checksum": (GOOD + batch(6)[:-1] + b"?", CorruptRecordError, "crc mismatch", len(GOOD)),
    "old checksum": (builders.message(offset=3)[:-1] + b"?", CorruptRecordError, "crc mismatch", 0),
    "cut": (GOOD + batch(6)[:-1], CorruptRecordError, "more bytes than there are", len(GOOD)),
    "cut in the size": (GOOD + bytes(5), CorruptRecordError, "whole batches", len(GOOD)),
    "zeros": (GOOD + bytes(40), CorruptRecordError, "size field", len(GOOD)),
    "magic": (builders.patched(GOOD, 16, b"\x05"), UnsupportedMagicError, "unknown magic", 0),
    "codec": (batch(3, codec=6), UnsupportedCompressionError, "codec", 0),
    "offset below the end": (
        batch(2),
        AppendRefused,
        "offsets 2 to 4 do not follow the log, which ends before offset 3",
        0,
    ),
    "offsets twice": (GOOD + GOOD, AppendRefused, "ends before offset 6", len(GOOD)),
    "offsets within": (batch(5) + batch(6), AppendRefused, "offsets 6 to 8", len(GOOD)),
    "negative delta": (batch(3, last_offset_delta=-1), AppendRefused, "offsets 3 to 2", 0),
    "negative offset": (batch(-9), AppendRefused, "offsets -9", 0),
    "no next offset": (batch(2**63 - 1, 1), AppendRefused, "do not follow", 0),
    "epoch": (batch(3, epoch=4) + batch(6, epoch=3), AppendRefused, "below 4", len(GOOD)),
    "plain in a transaction": (
        batch(3, transaction=9) + batch(6, producer_id=9, producer_epoch=0, base_sequence=3),
        AppendRefused,
        "whose transaction is open",
        len(GOOD),
    ),
    "marker of no kind": (
        plain_logs.batch(
            3,
            1,
            producer_id=9,
            attributes=builders.CONTROL | builders.TRANSACTIONAL,
            key=b"\0\0\0\x07",
            value=b"\0\0\0\0\0\0",
        ),
        InvalidRecordError,
        "ABORT or COMMIT",
        0,
    ),
    "marker that cannot be read": (
        GOOD + plain_logs.batch(6, 1, producer_id=9, attributes=builders.CONTROL, key=b"\0"),
        InvalidRecordError,
        r"^control record cannot be read at byte \d+ \(base offset 6\): the key is too short \(limit 4, found 1\)$",
        len(GOOD),
    ),
}
