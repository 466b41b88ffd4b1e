"""Random logs as a broker has them: few keys, tombstones, producers, transactions, gaps, all codecs and magics."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import builders
import plain_logs
from random_logs import Maker
from reading import BATCH_FIELDS

import kafkarec

FIELDS = tuple(name for name in BATCH_FIELDS if name not in ("position", "batch_length", "size_in_bytes", "crc"))
"""The batch columns that rewriting a batch must keep; the others depend on its bytes."""


@dataclass
class Producer:
    number: int
    transactional: bool
    epoch: int = 0
    sequence: int = 0
    open: bool = False


@dataclass
class Log:
    """A log from a seed, as batches in order.

    codecs        ("none",): nothing is compressed, so that bytes can be compared
    header_keys   of which each header has one; Kafka writes those that are not UTF-8 in other bytes
    odd           one of so many batches is odd; 0: none is
    epochs        of which the first leader has one
    most          batches
    distinct      no two batches have the same content: each record has another key
    aged          also old messages in front of all batches, up to 30 producers of any id, end markers that the log
                  cleaner emptied
    rising        no batch has an earlier time than the one before it
    """

    seed: int
    magics: tuple[int, ...] = (2,)
    codecs: tuple[str, ...] = builders.CODECS
    header_keys: tuple[bytes, ...] = ("häder".encode(),)
    odd: int = 0
    epochs: tuple[int, ...] = (0, 3)
    gaps: bool = True
    most: int = 40
    distinct: bool = False
    aged: bool = False
    rising: bool = False
    batches: list[bytes] = field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.odd_ones = Maker(self.seed)
        self.offset = self.random.choice([0, 0, 5, 1000, 2**40])
        self.now, self.epoch = builders.NOW, self.random.choice(self.epochs)
        self.keys = self.random.choice([2, 5, 20])
        self.append_time = builders.LOG_APPEND if self.random.randrange(5) == 0 else 0
        self.bumps = self.random.randrange(2)
        self.without_key = self.random.randrange(4) == 0
        self.compacted = self.random.randrange(3) == 0
        self.old = self.random.randrange(8) if self.aged else 0
        self.producers = [
            Producer(
                self.random.getrandbits(63) if self.aged else self.random.choice([i, 1000 + i]),
                self.random.randrange(3) > 0,
            )
            for i in range(self.random.randrange(30 if self.aged else 5))
        ]
        for producer in self.producers:
            producer.sequence = self.random.choice([0, 0, 2**31 - 3])
        for _ in range(self.random.randrange(1, self.most)):
            self.step()

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

    def step(self):
        self.now += 1 + self.random.randrange(2000)
        self.epoch += self.random.randrange(30) == 0
        if self.gaps and self.random.randrange(12) == 0:
            self.offset += self.random.randrange(5)
        magic = self.random.choice((0, 1) if len(self.batches) < self.old else self.magics)
        kind = self.random.randrange(20)
        producer = self.random.choice(self.producers) if self.producers and kind < 15 else None
        if self.odd and self.random.randrange(self.odd) == 0:
            make = self.random.choice([self.odd_ones.batch, self.odd_ones.legacy])
            self.put(make(self.offset), 1)
        elif magic < 2:
            self.legacy(magic)
        elif kind == 19:
            self.leader_change()
        elif producer and producer.transactional and self.random.randrange(5) < 2 and self.may_end(producer):
            self.end(producer)
        else:
            self.write(producer)

    def may_end(self, producer: Producer) -> bool:
        return producer.open or self.random.randrange(6) == 0

    def codec(self, magic: int = 2) -> str:
        codec = self.random.choice(["none", *self.codecs])
        return "none" if codec == "zstd" and magic < 2 else codec

    def key(self) -> bytes | None:
        if self.distinct:
            self.keys += 1
            return b"%d" % self.keys
        if self.without_key and self.random.randrange(5) == 0:
            return None
        return self.random.choice([b"", b"key %d"]).replace(b"%d", b"%d" % self.random.randrange(self.keys))

    def value(self) -> bytes | None:
        if self.distinct:
            return self.random.randbytes(1) * 60 + self.random.randbytes(self.random.choice([0, 0, 3, 40, 100, 600]))
        return None if self.random.randrange(5) == 0 else self.random.randbytes(self.random.choice([0, 3, 70, 200]))

    def inner_value(self) -> bytes | None:
        """Of a log of distinct batches one that is compressed: a message that is stored is a batch in a value."""
        value = self.value()
        return value[:60] if self.distinct and value else value

    def headers(self) -> list[tuple[bytes, bytes | None]]:
        if self.random.randrange(3):
            return []
        return [(self.random.choice(self.header_keys), self.value()) for _ in range(self.random.randrange(3))]

    def write(self, producer: Producer | None):
        last = self.random.choice([0, 0, 1, 2, 4, 19])
        deltas = [delta for delta in range(last + 1) if not self.compacted or self.random.randrange(3)]
        times = [0 if self.rising else self.random.choice([delta, delta * 1000, 0, -1, 70]) for delta in deltas]
        records = [
            builders.record(
                offset_delta=delta, timestamp_delta=time, key=self.key(), value=self.value(), headers=self.headers()
            )
            for delta, time in zip(deltas, times, strict=True)
        ]
        attributes = self.append_time | (self.random.randrange(12) == 0) * builders.DELETE_HORIZON
        fields = {}
        if producer:
            attributes |= producer.transactional * builders.TRANSACTIONAL
            producer.open |= producer.transactional
            fields = {
                "producer_id": producer.number,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
            }
            producer.sequence = (producer.sequence + last + 1) % 2**31
        self.put(
            builders.batch(
                records,
                codec=self.codec() if records else "none",
                attributes=attributes,
                last_offset_delta=last,
                max_timestamp=self.now + (70 if self.append_time else max(times, default=0)),
                **self.where(),
                **fields,
            ),
            last + 1,
        )

    def where(self) -> dict[str, Any]:
        return {"base_offset": self.offset, "base_timestamp": self.now, "leader_epoch": self.epoch}

    def end(self, producer: Producer):
        producer.epoch += self.bumps
        if self.bumps:
            producer.sequence = 0
        commit = bool(self.random.randrange(2))
        who = {"producer_id": producer.number, "producer_epoch": producer.epoch}
        if self.aged and not producer.open:
            flags = builders.TRANSACTIONAL | builders.CONTROL
            self.put(builders.batch([], attributes=flags, last_offset_delta=0, **who, **self.where()), 1)
            return
        producer.open = False
        self.put(builders.end_marker(commit=commit, coordinator_epoch=self.epoch + 1, **who, **self.where()), 1)

    def leader_change(self):
        record = builders.record(key=struct.pack(">hh", 0, 2), value=b"\x00\x00\x00\x00\x00\x01\x01\x01\x00")
        self.put(builders.batch([record], attributes=builders.CONTROL, **self.where()), 1)

    def legacy(self, magic: int):
        """Uncompressed messages, or a wrapper."""
        codec = self.codec(magic)
        count = self.random.choice([1, 2, 5])
        relative = magic == 1 and codec != "none"
        stamped = self.append_time * magic
        times = [self.random.choice([self.now + i, self.now + 500, -1, 0]) for i in range(count)]
        made = [
            builders.message(
                magic=magic,
                offset=i if relative else self.offset + i,
                key=self.key(),
                value=self.value() if codec == "none" else self.inner_value(),
                timestamp=time,
                attributes=0 if relative else stamped,
            )
            for i, time in enumerate(times)
        ]
        if codec == "none":
            for message in made:
                self.put(message, 1)
            return
        last = self.offset + count - 1
        self.put(
            builders.wrapper(made, magic=magic, codec=codec, offset=last, attributes=stamped, timestamp=max(times)),
            count,
        )

    def put(self, batch: bytes, offsets: int):
        self.batches.append(batch)
        self.offset += offsets


def _first_offset(data: bytes) -> int:
    """Return a segment's base offset; of its first record if it begins with a wrapper, which has only a last offset."""
    base = kafkarec.scan(data)[0]["base_offset"]
    return int(kafkarec.decode(data, columns=["offset"])[0].offset if base is None else base)


def convertible(seed: int, **options) -> Log:
    """A log of every magic, with header keys that are not UTF-8."""
    keys = (b"h", b"", b"\xff", b"\xed\xa0\x80", "€😀".encode())
    return Log(seed, **{"magics": (0, 1, 2, 2, 2), "header_keys": keys, "epochs": (-1, 0, 3), "most": 13, **options})


def partition(seed: int, folder: Path) -> Log:
    """Write a log's segments into a folder, and nothing else."""
    log = Log(seed, gaps=False)
    plain_logs.log(folder, *log.segments(log.random.randrange(1, 5)))
    return log


def rows(data) -> list[tuple[object, ...]]:
    """Return every batch's fields and records, and the bytes of uncompressed batches."""
    names = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence", "is_control")
    found = []
    for batch in kafkarec.batches(data, header_keys="binary"):
        plain = bytes(batch.raw) if batch.compression == "none" else None
        records = [tuple(getattr(record, name) for name in names) for record in batch]
        found.append((*(getattr(batch, name) for name in FIELDS), plain, records))
    return found


_STORED = (
    "offset",
    "timestamp",
    "key",
    "value",
    "headers",
    "sequence",
    "is_control",
    "control_type",
    "is_transactional",
    "producer_id",
    "producer_epoch",
    "partition_leader_epoch",
    "timestamp_type",
)


def records(data) -> list[tuple[Any, ...]]:
    """Return every record column that magic 2 can store; magic 0 has no timestamp type: it becomes CreateTime (0)."""
    columns = kafkarec.decode(
        data, columns=_STORED, control=True, header_keys="binary", timestamp_unit="int64", check_crcs="all"
    )
    found = zip(*(columns.column(name) for name in _STORED), strict=True)
    return [(*row[:-1], row[-1] or 0) for row in found]
