"""Random logs for compaction, as a broker has them: few keys, tombstones, transactions, all codecs and magics."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

import builders
from reading import BATCH_FIELDS

import kafkarec

FIELDS = tuple(name for name in BATCH_FIELDS if name not in ("position", "batch_length", "size_in_bytes", "crc"))
"""The batch columns that rewriting a batch must keep; the others depend on its bytes."""
_RECORDS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence", "is_control")


@dataclass
class Producer:
    number: int
    transactional: bool
    epoch: int = 0
    sequence: int = 0
    open: bool = False


@dataclass
class Log:
    """A log from a seed, as batches in order. `uncompressed`: without any codec, so that bytes can be compared."""

    seed: int
    uncompressed: bool = False
    magics: tuple[int, ...] = (2,)
    batches: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.offset = self.random.choice([0, 0, 5, 1000])
        self.now = builders.NOW
        self.keys = self.random.choice([2, 5, 20])
        self.append_time = self.random.randrange(5) == 0
        self.bumps = self.random.randrange(2)
        self.without_key = self.random.randrange(4) == 0
        self.producers = [
            Producer(self.random.choice([i, 1000 + i]), self.random.randrange(3) > 0)
            for i in range(self.random.randrange(5))
        ]
        count = self.random.randrange(1, 40)
        for step in range(count):
            self.step(min(self.magics) if step < count // 3 else max(self.magics))
        if not self.batches:
            self.write(None)

    @property
    def data(self) -> bytes:
        return b"".join(self.batches)

    def segments(self, parts: int, border: int | None = None) -> list[tuple[int, bytes]]:
        """Return (base offset, bytes) of up to `parts` segments; one begins with the batch at the offset `border`."""
        lasts = [kafkarec.scan(batch)[0]["last_offset"] for batch in self.batches]
        at = [] if border is None else [number for number, last in enumerate(lasts) if last >= border][:1]
        borders = sorted({0, *at, *(self.random.randrange(len(self.batches)) for _ in range(parts - 1))})
        ends = [*borders[1:], len(self.batches)]
        chunks = [b"".join(self.batches[a:b]) for a, b in zip(borders, ends, strict=True)]
        return [(_first_offset(chunk), chunk) for chunk in chunks]

    def step(self, magic: int) -> None:
        self.now += self.random.randrange(2000)
        if self.random.randrange(12) == 0:
            self.offset += self.random.randrange(5)
        if magic < 2:
            self.legacy(magic)
            return
        kind = self.random.randrange(20)
        producer = self.random.choice(self.producers) if self.producers and kind < 15 else None
        if producer and producer.transactional and self.random.randrange(5) < 2:
            if producer.open or self.random.randrange(6) == 0:
                self.end(producer)
        elif kind == 19:
            self.leader_change()
        else:
            self.write(producer)

    def codec(self, magic: int = 2) -> str:
        if self.uncompressed or self.random.randrange(3) == 0:
            return "none"
        return self.random.choice(["gzip", "snappy", "lz4", "zstd"][: 4 if magic == 2 else 3])

    def key(self) -> bytes | None:
        if self.without_key and self.random.randrange(5) == 0:
            return None
        return self.random.choice([b"", b"key %d"]).replace(b"%d", b"%d" % self.random.randrange(self.keys))

    def value(self) -> bytes | None:
        return None if self.random.randrange(5) == 0 else self.random.randbytes(self.random.choice([0, 3, 70, 200]))

    def headers(self) -> list[tuple[bytes, bytes | None]]:
        if self.random.randrange(3):
            return []
        return [("häder".encode(), self.value()) for _ in range(self.random.randrange(3))]

    def write(self, producer: Producer | None) -> None:
        count, step = self.random.choice([1, 1, 2, 3, 8]), self.random.choice([1, 1, 1, 2])
        records = [
            builders.record(
                offset_delta=i * step,
                timestamp_delta=self.random.randrange(-500, 500),
                key=self.key(),
                value=self.value(),
                headers=self.headers(),
            )
            for i in range(count)
        ]
        last = (count - 1) * step + self.random.choice([0, 0, 0, 1])
        attributes = builders.LOG_APPEND if self.append_time else 0
        producer_fields: dict[str, Any] = {}
        if producer:
            attributes |= builders.TRANSACTIONAL if producer.transactional else 0
            producer.open |= producer.transactional
            producer_fields = {
                "producer_id": producer.number,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
            }
            producer.sequence = (producer.sequence + last + 1) % 2**31
        self.put(
            builders.batch(
                records,
                codec=self.codec(),
                base_offset=self.offset,
                leader_epoch=self.random.randrange(3) // 2,
                attributes=attributes,
                last_offset_delta=last,
                base_timestamp=self.now,
                max_timestamp=self.now + 499,
                **producer_fields,
            ),
            last + 1,
        )

    def end(self, producer: Producer) -> None:
        producer.epoch += self.bumps
        if self.bumps:
            producer.sequence = 0
        marker = builders.end_marker(
            commit=bool(self.random.randrange(2)),
            producer_id=producer.number,
            producer_epoch=producer.epoch,
            base_offset=self.offset,
            base_timestamp=self.now,
        )
        producer.open = False
        self.put(marker, 1)

    def leader_change(self) -> None:
        record = builders.record(key=struct.pack(">hh", 0, 2), value=b"\x00\x00\x00\x00\x00\x01\x01\x01\x00")
        where = {"base_offset": self.offset, "base_timestamp": self.now}
        self.put(builders.batch([record], attributes=builders.CONTROL, **where), 1)

    def legacy(self, magic: int) -> None:
        stamp = builders.LOG_APPEND if self.append_time and magic else 0
        codec = self.codec(magic)
        count = 1 if codec == "none" else self.random.choice([1, 2, 5])
        relative = magic == 1 and codec != "none"
        made = [
            builders.message(
                magic=magic,
                offset=i if relative else self.offset + i,
                key=self.key(),
                value=self.value(),
                timestamp=self.now + self.random.randrange(500),
                attributes=0 if relative else stamp,
            )
            for i in range(count)
        ]
        if codec == "none":
            self.put(made[0], 1)
            return
        last = self.offset + count - 1
        wrapped = builders.wrapper(
            made, magic=magic, codec=codec, offset=last, attributes=stamp, timestamp=self.now + 500
        )
        self.put(wrapped, count)

    def put(self, batch: bytes, offsets: int) -> None:
        self.batches.append(batch)
        self.offset += offsets


def _first_offset(data: bytes) -> int:
    """Return a segment's base offset; of its first record if it begins with a wrapper, which has only a last offset."""
    first = kafkarec.decode(data, columns=["offset"], control=True)[:1].column("offset")
    base = kafkarec.scan(data)[0]["base_offset"]
    return int(first[0] if base is None else base)


def read(data: bytes) -> list[tuple[object, ...]]:
    """Return every batch's fields and records, and the bytes of uncompressed batches."""
    rows: list[tuple[object, ...]] = []
    for batch in kafkarec.batches(data, header_keys="binary"):
        plain = bytes(batch.raw) if batch.compression == "none" else None
        records = [tuple(getattr(record, name) for name in _RECORDS) for record in batch]
        rows.append((*(getattr(batch, name) for name in FIELDS), plain, records))
    return rows
