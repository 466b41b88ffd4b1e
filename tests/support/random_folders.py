"""Random segments with their side files: indexes that Kafka's own writer made, then damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import broker_logs
from builders import NOW
from crc32c import crc32c
from jvm_oracle import Oracle
from random_logs import Maker


def fill(maker: Maker, kafka: Oracle, folder: Path) -> str:
    """Empty `folder`, write a segment and its four side files, and return their stem."""
    random = maker.random
    for file in folder.iterdir():
        file.unlink()
    if random.randrange(5):
        [(base_offset, data)] = broker_logs.Log(random.getrandbits(32)).segments(1)
    else:
        base_offset, data = random.choice([0, 0, 0, 100]), maker.log()
    stem = f"{base_offset:020d}"
    batches = folder / "batches"
    batches.write_bytes(data)
    kafka.ask("append", batches, folder, random.choice([1, 100, 256, 1024]), base_offset)
    log = folder / f"{stem}.log"
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        index = folder / f"{stem}{suffix}"
        index.write_bytes(_spoiled(maker, index.read_bytes(), size, len(data)) if index.exists() else b"")
    if not random.randrange(3):
        log.write_bytes(maker.damaged(log.read_bytes()))
    if not random.randrange(8):
        log.write_bytes(log.read_bytes() + maker.odd(50) + maker.legacy(80) + maker.batch(90))
    (folder / f"{stem}.txnindex").write_bytes(_txn_index(maker))
    (folder / f"{stem}.snapshot").write_bytes(_snapshot(maker))
    return stem


def _spoiled(maker: Maker, data: bytes, size: int, log_size: int) -> bytes:
    """The entries of an index, of `size` bytes each; in half of the cases others, or damaged ones."""
    random = maker.random
    kind = random.randrange(10)
    if kind == 0:
        return b""
    if kind == 1:
        entries = [data[at : at + size] for at in range(0, len(data), size)]
        random.shuffle(entries)
        return b"".join(entries)
    if kind == 2:
        offsets = [random.randrange(80) for _ in range(random.randrange(6))]
        if size == 8:
            return b"".join(struct.pack(">ii", one, random.randrange(log_size + 20)) for one in offsets)
        return b"".join(struct.pack(">qi", NOW + random.randrange(2000), one) for one in offsets)
    return maker.damaged(data) if kind < 6 else data


def _txn_index(maker: Maker) -> bytes:
    data = b"".join(
        struct.pack(">hqqqq", 0, *(maker.some(5, 6, 9, bits=64) for _ in range(4)))
        for _ in range(maker.random.randrange(4))
    )
    return maker.damaged(data) if data and not maker.random.randrange(3) else data


def _snapshot(maker: Maker) -> bytes:
    random = maker.random
    entries = [
        struct.pack(
            ">qhiqiqiq",
            maker.some(5, 6, bits=64),
            maker.some(0, -1, bits=16),
            maker.some(0, -1, 7),
            maker.some(-1, 9, bits=64),
            maker.some(0, 3),
            maker.some(0, NOW, bits=64),
            maker.some(-1, 4),
            maker.some(-1, 4, bits=64),
        )
        for _ in range(random.randrange(4))
    ]
    count = len(entries) if random.randrange(8) else maker.some(0, 1, 2, 5, -1)
    body = struct.pack(">i", count) + b"".join(entries)
    if not random.randrange(8):
        body = body[: random.randrange(len(body) + 1)]
    data = struct.pack(">hI", maker.some(1, 1, 1, 1, 0, 2, bits=16), crc32c(body)) + body
    return maker.damaged(data) if not random.randrange(6) else data
