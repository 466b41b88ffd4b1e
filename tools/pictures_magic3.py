"""The picture of magic 3: the batch of batch.svg as `kafkarec.experimental` writes it, in both forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pictures_bytes import Field, panel
from pictures_style import WIDTH, card

from kafkarec.experimental import header_first, v3
from kafkarec.format.layout import LOG_OVERHEAD, batch_length

BATCH = Path(__file__).resolve().parent.parent / "examples" / "data" / "txn-0" / "00000000000000000000.log"
SHOWN = 96

# name, bytes (or what reads them: "int", "long"), group, label
_HEADER = (
    ("base_offset", 8, "frame", "base offset"),
    ("batch_length", 4, "frame", "batch length"),
    ("partition_leader_epoch", 4, "frame", "partition leader epoch"),
    ("magic", 1, "frame", "magic"),
    ("crc", 4, "crc", "CRC-32C"),
    ("attributes", 2, "attributes", "attributes"),
    ("producer_id", 8, "producer", "producer id"),
    ("producer_epoch", 2, "producer", "producer epoch"),
    ("base_sequence", 4, "producer", "base sequence"),
    ("record_count", 4, "records", "record count"),
    ("last_offset_delta", None, "attributes", "last offset delta"),
    ("base_timestamp", None, "time", "base timestamp"),
    ("max_timestamp", None, "time", "max timestamp"),
)
_FIELDS = ("length", "time", "offset", "key length", "value length", "header count")


def magic3() -> str:
    """Magic 3 above, header-first below."""
    log = BATCH.read_bytes()
    original = log[: LOG_OVERHEAD + batch_length(log)]
    panels = (
        ("Magic 3: a shorter header", v3.from_v2(original), _records),
        ("Header-first", header_first.from_v2(original), _split),
    )
    drawn, top = "", 0.0
    for title, data, payload in panels:
        about = f"{len(data)} bytes, {len(original)} in magic 2; the first {SHOWN}. No broker reads this"
        header = list(_header_fields(data))
        fields = [*header, *payload(data, header[-1].start + header[-1].length)]
        part, top = panel(title, about, data, fields, SHOWN, top)
        drawn += part
    return card(WIDTH, top, "Magic 3, byte by byte", drawn)


def _varint_end(data: bytes, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1


def _header_fields(data: bytes) -> Iterator[Field]:
    at = 0
    for name, size, group, label in _HEADER:
        end = _varint_end(data, at) if size is None else at + size
        yield Field(at, end - at, name, group, label)
        at = end


def _records(data: bytes, at: int) -> Iterator[Field]:
    for number in range(_count(data)):
        for field, value in _record(data, at, number):
            yield field
            at = field.start + field.length
            if value is not None:
                what = field.words.split()[0]
                yield Field(at, value, f"record {number}: {what}", what, what)
                at += value


def _split(data: bytes, at: int) -> Iterator[Field]:
    sizes = []
    for number in range(_count(data)):
        for field, value in _record(data, at, number, apart=True):
            yield field
            at = field.start + field.length
            if value is not None:
                sizes.append((f"{field.words.split()[0]} of record {number}", value))
    for words, size in sizes:
        yield Field(at, size, words, words.split()[0], words)
        at += size


def _count(data: bytes) -> int:
    return int.from_bytes(data[37:41], "big")


def _record(data: bytes, at: int, number: int, *, apart: bool = False) -> Iterator[tuple[Field, int | None]]:
    """(field, the length that it is of a key or value) of each field of a record. apart: from the keys and values."""
    for name in _FIELDS:
        end = _varint_end(data, at)
        value = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(data[at:end])) >> 1
        length = value if name in ("key length", "value length") else None
        words = f"record {number}: length" if name == "length" else name
        yield Field(at, end - at, f"record {number}: {name}", ("record", "other")[number % 2], words), length
        at = end if apart or length is None else end + length
