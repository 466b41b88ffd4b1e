"""The inputs of `growth.py`: `python benchmarks/growth_inputs.py DIMENSION SIZE FOLDER` makes one, prints its Facts.

In a process of its own, because the peak of a process is also that of those that it starts.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # kafkarec as built in place

NOW = 1_700_000_000_000  # ms


class Facts(NamedTuple):
    """What limits depend on: bytes of all payloads and of the largest, decompressed; segments, partitions, damaged
    places and transactions."""

    payload: int
    largest: int
    items: int = 1


def batch(records: int, size: int = 100, compression: str = "lz4") -> bytes:
    """Records from offset 0 on with values of `size` bytes, which compress to less than half."""
    import kafkarec

    data = random.Random(1)
    words = [b"%08x" % data.getrandbits(32) for _ in range(256)]
    values = [b"".join(data.choices(words, k=size // 8)) for _ in range(records)]
    rows = [(at, NOW + at, b"key%d" % (at % 1000), value, ()) for at, value in enumerate(values)]
    return bytes(kafkarec.encode(rows, compression=compression, batch_size=1 << 30))


def again(raw: bytes, records: int, times: int, base: int = 0) -> Iterator[bytes]:
    """The batch so many times: no checksum covers the base offset."""
    return (struct.pack(">q", base + number * records) + raw[8:] for number in range(times))


def write(folder: Path, batches: Iterable[bytes], base: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{base:020}.log").open("wb") as file:
        file.writelines(batches)


def alike(folder: Path, records: int, batches: int, segments: int = 1, partitions: int = 1) -> Facts:
    raw, total = batch(records), records * batches
    for number in range(partitions):
        for base in range(0, segments * total, total):
            write(folder / f"t-{number}", again(raw, records, batches, base), base)
    return Facts(118 * total * segments * partitions, 118 * records, max(segments, partitions))


def damaged(folder: Path, places: int) -> Facts:
    """In turn a flipped bit in a payload, a length that is 1 MiB too large, a batch of zeros, a wrong magic."""
    raw, batches = batch(3, 40, "none"), 32768
    log = bytearray().join(again(raw, 3, batches))
    for number in range(places):
        at, flipped = number * (batches // places) * len(raw), ((70, 1), (9, 0x10), None, (16, 0x40))[number % 4]
        if flipped is None:
            log[at : at + len(raw)] = bytes(len(raw))
        else:
            log[at + flipped[0]] ^= flipped[1]
    write(folder / "t-0", [log])
    return Facts(len(log), len(raw), places)


def transactions(folder: Path, number: int, damage: bool = False) -> Facts:
    """Each of its own producer, all open at once; every second one is aborted. damage: its marker is damaged."""
    batches = []
    for offset in range(2 * number):
        producer, is_marker = offset % number, offset >= number
        batches.append(transactional(offset, producer, is_marker))
        if damage and is_marker and producer % 2:
            batches[-1][-3] ^= 1
    write(folder / "t-0", batches)
    return Facts(160 * number, 80, number)


def transactional(offset: int, producer: int, is_marker: bool) -> bytearray:
    import kafkarec

    with kafkarec.RecordBatchBuilder(
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=-1 if is_marker else 0,
        is_transactional=True,
        is_control=is_marker,
    ) as builder:
        if is_marker:
            builder.append_end_txn_marker(NOW + offset, "abort" if producer % 2 else "commit")
        else:
            builder.append(NOW + offset, None, b"value")
        return bytearray(builder.build())


MAKERS: dict[str, Callable[[Path, int], Facts]] = {
    "records per batch": lambda folder, size: alike(folder, size, 4),
    "batches per segment": lambda folder, size: alike(folder, 1, size),
    "segments per partition": lambda folder, size: alike(folder, 10, 4, segments=size),
    "partitions per folder": lambda folder, size: alike(folder, 10, 4, partitions=size),
    "threads": lambda folder, size: alike(folder, 1000, 800),
    "damaged places per segment": damaged,
    "transactions": transactions,
    "damaged markers": lambda folder, size: transactions(folder, size, damage=True),
}

if __name__ == "__main__":
    print(json.dumps(MAKERS[sys.argv[1]](Path(sys.argv[3]), int(sys.argv[2]))))
