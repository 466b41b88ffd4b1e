"""Random segments with their side files: indexes that Kafka's own writer made, then damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import builders
from builders import NOW
from crc32c import crc32c
from jvm_oracle import Oracle
from random_logs import Maker


def fill(maker: Maker, kafka: Oracle, folder: Path) -> str:
    """Empty `folder`, write a segment and its four side files, and return their stem."""
    random = maker.random
    for file in folder.iterdir():
        file.unlink()
    data = maker.plain_log() if random.randrange(5) else maker.log()
    base_offset = random.choice([0, 0, 0, 100])
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
    random = maker.random
    kind = random.randrange(11)
    if kind == 3:
        return data + bytes(random.choice([1, size, size * 3, 4096 * 3]))
    if kind == 4:
        return data[: random.randrange(len(data) + 1)]
    if kind == 5 and data:
        changed = bytearray(data)
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(changed)
    if kind == 6:
        entries = [data[at : at + size] for at in range(0, len(data), size)]
        random.shuffle(entries)
        return b"".join(entries)
    if kind == 7:
        return random.randbytes(size * random.randrange(4))
    if kind == 8 and size == 8:
        count = random.randrange(5)
        return b"".join(struct.pack(">ii", random.randrange(60), random.randrange(log_size + 20)) for _ in range(count))
    if kind == 8:
        return b"".join(
            struct.pack(">qi", NOW + random.randrange(2000), random.randrange(80)) for _ in range(random.randrange(6))
        )
    return b"" if kind == 9 else data


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


def partition(maker: Maker, folder: Path) -> int:
    """Write segments of one partition as a broker may have: producers with and without transactions, leader
    epochs, records in every codec. Return the next offset."""
    random = maker.random
    offset, epoch, now = 0, 0, NOW
    sequences: dict[int, int] = {}
    open_since: dict[int, int] = {}  # producer -> first offset
    for _ in range(random.randrange(1, 5)):
        start, parts = offset, []
        for _ in range(random.randrange(1, 25)):
            producer = random.choice([-1, 7, 8, 9])
            now += random.choice([0, 1, 900, -400])
            epoch += random.randrange(30) == 0
            common = {"base_offset": offset, "leader_epoch": epoch, "base_timestamp": now}
            if producer in open_since and not random.randrange(3):
                del open_since[producer]
                part = builders.end_marker(commit=bool(random.randrange(2)), producer_id=producer, **common)
                count = 1
            else:
                count = random.choice([1, 1, 2, 7])
                transactional = producer in (7, 9)
                if transactional:
                    open_since.setdefault(producer, offset)
                sequence = sequences.get(producer, 0)
                sequences[producer] = sequence + count
                part = builders.batch(
                    builders.records(count, value=b"v" * random.choice([1, 40, 300])),
                    codec=random.choice(list(builders.CODEC_IDS)),
                    attributes=(builders.TRANSACTIONAL if transactional else 0) | random.choice([0, 0, 0, 8]),
                    producer_id=producer,
                    producer_epoch=-1 if producer == -1 else 0,
                    base_sequence=-1 if producer == -1 else sequence,
                    **common,
                )
            parts.append(part)
            offset += count
        (folder / f"{start:020d}.log").write_bytes(b"".join(parts))
    return offset
