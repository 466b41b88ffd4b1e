"""The demo's input, made from the real segments in examples/data.

gib/      1 GiB: the batches of all-codecs-0 again and again in segments of about 8 MB. Only the base
offsets are
          patched; Kafka's checksum begins behind them (KIP-98), so every batch still carries the broker's
          own.
flipped/  all-codecs-0 with one byte changed in the middle.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

GIB = 1 << 30
SEGMENT_BYTES = 8 << 20
SOURCE = "all-codecs-0"

BASE_OFFSET_AND_LENGTH = struct.Struct(">qi")
LOG_OVERHEAD = BASE_OFFSET_AND_LENGTH.size  # the bytes that batchLength does not count
LAST_OFFSET_DELTA_AT = 23


def walk(log: bytes) -> Iterator[tuple[int, int, int]]:
    """Each magic 2 batch as (position, bytes, next offset)."""
    position = 0
    while position < len(log):
        base_offset, length = BASE_OFFSET_AND_LENGTH.unpack_from(log, position)
        (last_delta,) = struct.unpack_from(">i", log, position + LAST_OFFSET_DELTA_AT)
        yield position, LOG_OVERHEAD + length, base_offset + last_delta + 1
        position += LOG_OVERHEAD + length


def repeat(log: bytes, times: int, first_offset: int) -> tuple[bytes, int]:
    """`log` repeated with consecutive offsets from `first_offset` on: (bytes, next offset)."""
    batches = list(walk(log))
    offsets = [BASE_OFFSET_AND_LENGTH.unpack_from(log, position)[0] for position, _, _ in batches]
    step = batches[-1][2] - offsets[0]
    out = bytearray(log * times)
    for turn in range(times):
        shift = first_offset + turn * step - offsets[0]
        for (position, _, _), offset in zip(batches, offsets, strict=True):
            struct.pack_into(">q", out, turn * len(log) + position, offset + shift)
    return bytes(out), first_offset + times * step


def make_gib(log: bytes, folder: Path) -> None:
    """Segments of one partition, at least 1 GiB together; does nothing if they exist."""
    times = SEGMENT_BYTES // len(log)
    files = -(-GIB // (times * len(log)))
    done = folder / "complete"
    wanted = f"{files} files of {times * len(log)} bytes\n"
    if done.exists() and done.read_text() == wanted:
        return
    if folder.exists():
        shutil.rmtree(folder)
    partition = folder / SOURCE
    partition.mkdir(parents=True)
    free = shutil.disk_usage(folder).free
    if free < 2 * GIB:
        raise SystemExit(f"{folder}: 2 GiB of free space are needed, there are {free >> 20} MiB")
    print(f"demo: writing 1 GiB of repeated real batches to {folder} ...", flush=True)
    offset = 0
    for _ in range(files):
        name = partition / f"{offset:020d}.log"
        data, offset = repeat(log, times, offset)
        name.write_bytes(data)
    done.write_text(wanted)


def make_flipped(log: bytes, folder: Path) -> None:
    """One bit of one record changed, in the middle of the batch in the middle of the log."""
    batches = list(walk(log))
    position, length, _ = batches[len(batches) // 2]
    damaged = bytearray(log)
    damaged[position + length // 2] ^= 0x01
    partition = folder / SOURCE
    partition.mkdir(parents=True, exist_ok=True)
    (partition / f"{0:020d}.log").write_bytes(damaged)


def make(examples: Path, folder: Path) -> None:
    (segment,) = (examples / SOURCE).glob("*.log")
    log = segment.read_bytes()
    make_gib(log, folder / "gib")
    make_flipped(log, folder / "flipped")
