"""Random logs for conversions, from a seed: mostly what a broker could have written, and some odd batches."""

from __future__ import annotations

from typing import Any

import builders
from random_logs import Maker

import kafkarec

CODECS = ("none", "none", "gzip", "snappy", "lz4")


class ConvertibleMaker(Maker):
    """Makes batches of every magic with rising offsets: of producers, of transactions, markers, compacted, empty."""

    def good_record(self, offset_delta: int, timestamp_delta: int) -> bytes:
        return builders.record(
            offset_delta=offset_delta,
            timestamp_delta=timestamp_delta,
            key=self.blob(),
            value=self.blob(),
            headers=self.headers(),
        )

    def good_batch(self, offset: int, producer: dict[str, int], codecs: tuple[str, ...]) -> tuple[bytes, int]:
        """Return a batch and its last offset. `producer` holds the next sequence, which is updated."""
        last = self.random.choice([0, 0, 1, 2, 4, 19])
        deltas = list(range(last + 1))
        if self.random.randrange(4) == 0:  # compacted
            deltas = [delta for delta in deltas if self.random.randrange(2)]
        attributes = self.random.choice([0, 0, 0, builders.LOG_APPEND])
        fields: dict[str, int] = {}
        if self.random.randrange(2):
            attributes |= producer["flag"]
            fields = {"producer_id": producer["id"], "producer_epoch": 0, "base_sequence": producer["sequence"]}
            producer["sequence"] = (producer["sequence"] + last + 1) % 2**31
        if self.random.randrange(6) == 0:
            attributes |= builders.DELETE_HORIZON
        now = self.random.choice([builders.NOW, builders.NOW + 1, 1])
        times = [self.random.choice([i, i * 1000, 0, -1, 70]) for i in range(len(deltas))]
        raw = builders.batch(
            [self.good_record(*both) for both in zip(deltas, times, strict=True)],
            codec=self.random.choice(codecs) if deltas else "none",
            base_offset=offset,
            leader_epoch=self.random.choice([-1, 0, 0, 3]),
            attributes=attributes,
            last_offset_delta=last,
            base_timestamp=now,
            max_timestamp=now + (70 if attributes & builders.LOG_APPEND else max(times, default=0)),
            **fields,  # type: ignore[arg-type]
        )
        return raw, offset + last

    def good_legacy(self, offset: int) -> tuple[bytes, int]:
        """Return uncompressed messages, or a wrapper, of magic 0 or 1; and the last offset."""
        magic = self.random.randrange(2)
        count = self.random.choice([1, 2, 5])
        codec = self.random.choice(CODECS)
        relative = magic == 1 and codec != "none"
        times = [self.random.choice([builders.NOW + i, builders.NOW, -1, 0]) for i in range(count)]
        stamped = magic * self.random.choice([0, 0, builders.LOG_APPEND])
        messages = [
            builders.message(
                magic=magic,
                offset=i if relative else offset + i,
                key=self.blob(),
                value=self.blob(),
                timestamp=times[i],
                attributes=stamped,
            )
            for i in range(count)
        ]
        last = offset + count - 1
        if codec == "none":
            return b"".join(messages), last
        wrapper = builders.wrapper(
            messages, magic=magic, codec=codec, offset=last, timestamp=max(times), attributes=stamped
        )
        return wrapper, last

    def marker(self, offset: int, producer: dict[str, int]) -> bytes:
        return builders.end_marker(
            commit=bool(self.random.randrange(2)),
            producer_id=producer["id"],
            base_offset=offset,
            leader_epoch=self.random.choice([-1, 0]),
        )

    def good_log(self, *, codecs: tuple[str, ...] = CODECS, legacy: bool = True, odd: int = 0) -> bytes:
        """Return up to a dozen batches; one of `odd` is odd (0: none)."""
        parts = []
        offset = self.random.choice([0, 0, 100, 2**40])
        producer = {"id": self.random.choice([7, 8]), "sequence": self.random.choice([0, 0, 2**31 - 3])}
        producer["flag"] = self.random.choice([0, builders.TRANSACTIONAL])
        for _ in range(self.random.randrange(1, 13)):
            kind = self.random.randrange(10)
            last = offset
            if odd and self.random.randrange(odd) == 0:
                part = self.batch(offset) if self.random.randrange(2) else self.legacy(offset)
            elif kind < 6:
                part, last = self.good_batch(offset, producer, codecs)
            elif kind < 9 and legacy:
                part, last = self.good_legacy(offset)
            else:
                part = self.marker(offset, producer)
            parts.append(part)
            offset = last + self.random.choice([1, 1, 1, 1, 3])
        return b"".join(parts)


_COLUMNS = (
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


def records(data: Any) -> list[tuple[Any, ...]]:
    """Return every record column that magic 2 can store; magic 0 has no timestamp type: it becomes CreateTime (0)."""
    columns = kafkarec.decode(
        data, columns=_COLUMNS, control=True, header_keys="binary", timestamp_unit="int64", check_crcs="all"
    )
    rows = zip(*(columns.column(name) for name in _COLUMNS), strict=True)
    return [(*row[:-1], row[-1] or 0) for row in rows]
