"""Random segments for comparisons with Kafka's own classes: good, odd and damaged, from a seed."""

from __future__ import annotations

import random
import struct
from functools import lru_cache

import builders
import damage
import golden

_TEXT = ["", "k", "key 1", "naïve", "€ and 😀", "line\nbreak", "tab\there", "x" * 70, '{"a": 1}']
_BAD_TEXT = [b"\xff", b"\xed\xa0\x80", b"a\xe2\x82", b"\xf0\x9f\x98", b"\xc0\x80z", b"\x00\x01\x1b[31m", b"\xf5abc"]
_MEASURES = ["length", "key_length", "value_length", "header_count", "header_key_length", "header_value_length"]


@lru_cache(1)
def vectors() -> tuple[bytes, ...]:
    """Return every golden buffer below 4 KiB, invalid buffers included."""
    return tuple(case.bytes for case in golden.vectors() + golden.invalid() if len(case.bytes) < 4096)


class Maker:
    """Makes random logs; the same seed makes the same logs."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def blob(self) -> bytes | None:
        kind = self.random.randrange(12)
        if kind == 0:
            return None
        if kind == 1:
            return self.random.choice(_BAD_TEXT) + self.random.choice(_BAD_TEXT)
        if kind == 2:
            return self.random.randbytes(self.random.randrange(40))
        return self.random.choice(_TEXT).encode() * self.random.randrange(4)

    def some(self, *usual: int, bits: int = 32) -> int:
        """Return one of `usual`, and in one of 20 cases any number."""
        if self.random.randrange(20):
            return self.random.choice(usual)
        return self.random.randrange(-(1 << bits - 1), 1 << bits - 1)

    def headers(self) -> list[tuple[bytes | None, bytes | None]]:
        if self.random.randrange(3):
            return []
        return [(self.blob() or b"h", self.blob()) for _ in range(self.random.randrange(4))]

    def records(self) -> list[bytes]:
        count = self.random.choice([0, 1, 1, 2, 3, 5, 20])
        step = self.random.choice([1, 1, 1, 1, 3, 0, -1])
        return [
            builders.record(
                offset_delta=self.some(i * step),
                timestamp_delta=self.some(i, i * 1000, -5, bits=64),
                key=self.blob(),
                value=self.blob(),
                headers=self.headers(),
            )
            for i in range(count)
        ]

    def batch(self, offset: int, **fields) -> bytes:
        producer = self.some(-1, -1, 7, bits=64)
        wanted = {
            "codec": self.random.choice(builders.CODECS),
            "base_offset": offset,
            "leader_epoch": self.some(0, 3),
            "attributes": self.random.choice([0, 0, 0, 0, 8, 16, 0x40, 0x48, 0x80]),
            "producer_id": producer,
            "producer_epoch": self.some(0, -1, bits=16),
            "base_sequence": -1 if producer == -1 else self.some(0, 5, 2**31 - 2),
        }
        return builders.batch(self.records(), **(wanted | fields))

    def control_batch(self, offset: int, **fields) -> bytes:
        kind = self.some(0, 1, 0, 1, 2, 3, 4, 5, 6, 7, -1, bits=16)
        key = struct.pack(">hh", self.some(0, 0, 1, bits=16), kind)
        value = self.message(kind)
        if not self.random.randrange(6):
            key = self.random.choice([None, b"", b"\0\0\0", (key or b"") + b"more"])
        if not self.random.randrange(6):
            value = self.random.choice([None, b"", b"\0", (value or b"")[:-1], (value or b"") + b"more"])
        markers = [builders.record(offset_delta=i, key=key, value=value) for i in range(self.random.choice([1, 1, 2]))]
        wanted = {
            "base_offset": offset,
            "codec": self.random.choice(["none", "none", "gzip"]),
            "attributes": self.random.choice([0x30, 0x20, 0x70]),
            "producer_id": self.some(7, bits=64),
            "producer_epoch": self.some(0, 1, bits=16),
        }
        return builders.batch(markers, **(wanted | fields))

    def message(self, kind: int) -> bytes:
        """Return a control record's value of a kind; its version is usually 0."""
        version = struct.pack(">h", self.some(0, 0, 0, 1, 2, bits=16))
        voters = b"\x02" + struct.pack(">i", self.some(1, 2)) + b"\0"
        text = self.random.choice(["host", "h\u00f6st", 'a"b\\c', "\x01\x1f", ""]).encode()
        named = bytes([len(text) + 1]) + text
        endpoint = named + named + struct.pack(">H", self.random.randrange(65536)) + b"\0"
        feature = struct.pack(">hh", self.some(0, bits=16), self.some(1, bits=16)) + b"\0"
        bodies = {
            2: struct.pack(">i", self.some(1, 3)) + voters + voters + b"\0",
            3: struct.pack(">q", self.some(0, 1_700_000_000_000, bits=64)) + b"\0",
            4: b"\0",
            5: struct.pack(">h", self.some(0, 1, bits=16)) + b"\0",
            6: b"\x02"
            + struct.pack(">i", self.some(1))
            + self.random.randbytes(16)
            + b"\x02"
            + endpoint
            + feature
            + b"\0"
            + self.random.choice([b"\0", b"\0", b"\x01\x05\x02ab"]),
        }
        return version + bodies.get(kind, struct.pack(">i", self.some(0, 5)))

    def legacy(self, offset: int) -> bytes:
        magic = self.random.randrange(2)
        plain = [
            builders.message(
                magic=magic if self.random.randrange(10) else self.random.choice([0, 1, 2]),
                offset=self.some(i, offset + i, 0, bits=64),
                key=self.blob(),
                value=self.blob(),
                timestamp=self.some(builders.NOW + i, -1, bits=64),
                attributes=self.random.choice([0, 0, 8]),
                trailing=self.random.choice([b"", b"", b"", b"abc"]),
            )
            for i in range(self.random.choice([1, 1, 2, 4]))
        ]
        if self.random.randrange(2):
            return plain[0][:0] + struct.pack(">q", offset) + plain[0][8:]
        return builders.wrapper(
            plain,
            magic=magic,
            codec=self.random.choice(["gzip", "snappy", "lz4", "lz4", "zstd", 5]),
            offset=self.some(offset + len(plain) - 1, 0, bits=64),
            attributes=self.random.choice([0, 8]),
            timestamp=self.some(builders.NOW, -1, bits=64),
        )

    def odd(self, offset: int) -> bytes:
        """Return a batch whose checksum is right and one field wrong."""
        kind = self.random.randrange(6)
        if kind == 0:
            field = self.random.choice(["count", "count", "last_offset_delta"])
            return self.batch(offset, **{field: self.some(0, 1, 2, 4, -1)})
        if kind == 1:
            return self.batch(offset, magic=self.random.choice([3, 4, 127]))
        if kind == 2:
            return self.batch(offset, codec=self.random.choice([5, 6, 7]))
        if kind == 3:
            lie = {self.random.choice(_MEASURES): self.some(-2, -1, 0, 1, 3, 100)}
            good = [builders.record(offset_delta=i) for i in range(self.random.randrange(3))]
            bad = builders.record(offset_delta=len(good), headers=[(b"a", b"b")], **lie)
            return builders.batch([*good, bad], base_offset=offset, codec=self.random.choice(["none", "none", "gzip"]))
        if kind == 4:
            return self.batch(offset)[: self.random.randrange(26, 61)]
        return self.random.choice(vectors())

    def log(self) -> bytes:
        """Return some batches; every other log is damaged."""
        parts = []
        offset = self.random.choice([0, 0, 100, 2**40])
        for _ in range(self.random.randrange(1, 9)):
            kind = self.random.randrange(20)
            if kind < 11:
                part = self.batch(offset)
            elif kind < 14:
                part = self.control_batch(offset)
            elif kind < 17:
                part = self.legacy(offset)
            else:
                part = self.odd(offset)
            parts.append(part)
            offset += self.random.choice([1, 3, 5, 20])
        data = b"".join(parts)
        return self.damaged(data) if self.random.randrange(2) else data

    def damaged(self, data: bytes) -> bytes:
        return damage.damaged(self.random, data)
