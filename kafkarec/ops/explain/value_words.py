"""Descriptions of single values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = 1 << 64
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_UNUSED = 0xFF80


def iso_time(ms: int) -> str:
    """ISO 8601 in UTC."""
    if ms == -1:
        return "no timestamp"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return "outside of the calendar"


def wrapped(value: int) -> int:
    """Java's 64 bit overflow."""
    return (value + (_INT64 >> 1)) % _INT64 - (_INT64 >> 1)


def sequence(base: int, delta: int) -> int:
    """DefaultRecordBatch.incrementSequence: 0 follows 2^31-1."""
    return base + delta if base + delta < 1 << 31 else base + delta - (1 << 31)


def codec(attributes: int) -> str:
    return CODECS.get(attributes & CODEC_MASK, f"{attributes & CODEC_MASK}, which does not exist")


def batch_attributes(value: int) -> str:
    """The attributes of a magic 2 batch, one line per bit or group (KIP-32, KIP-98, KIP-534)."""
    rows = (
        ("bits 0-2", f"{value & CODEC_MASK:03b}", f"codec {codec(value)}"),
        _bit(value, 3, "timestamps are log append time", "timestamps are create time"),
        _bit(value, 4, "transactional", "not transactional"),
        _bit(value, 5, "control batch: markers, no data", "data"),
        _bit(value, 6, "base_timestamp holds the delete horizon", "no delete horizon"),
        ("bits 7-15", f"{value >> 7 & 0x1FF:09b}", "unused" + (", and yet set: ignored" if value & _UNUSED else "")),
    )
    return "\n".join(f"{where:<9} {bits:<9} {what}" for where, bits, what in rows)


def message_attributes(value: int, magic: int) -> str:
    """The attributes of a magic 0 or 1 message, one line per bit or group (KIP-32)."""
    rows = [("bits 0-2", f"{value & CODEC_MASK:03b}", f"codec {codec(value)}")]
    if magic:
        rows.append(_bit(value, 3, "timestamp is log append time", "timestamp is create time"))
    unused = value >> (4 if magic else 3) & (0xF if magic else 0x1F)
    rows.append(
        (
            "bits 4-7" if magic else "bits 3-7",
            f"{unused:0{4 if magic else 5}b}",
            "unused" + (", and yet set: ignored" if unused else ""),
        )
    )
    return "\n".join(f"{where:<9} {bits:<9} {what}" for where, bits, what in rows)


def _bit(value: int, bit: int, set_: str, clear: str) -> tuple[str, str, str]:
    on = value >> bit & 1
    return f"bit {bit}", str(on), set_ if on else clear


def absent(what: str, otherwise: str = "") -> Callable[[int], str]:
    """A note for fields where -1 means none: `what` for -1, else `otherwise`."""
    return lambda value: what if value == -1 else otherwise


def sized(value: int) -> str:
    """The note of a length where every negative value means null."""
    if value >= 0:
        return ""
    return "null" if value == -1 else "null: readers take every negative length for null, writers write -1"


def plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
