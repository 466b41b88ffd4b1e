"""Descriptions of single values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import BATCH_MAGIC, CODEC_MASK, LATEST_CODEC, USED_BITS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNUSED = 0xFFFF & ~USED_BITS[BATCH_MAGIC]


def iso_time(ms: int) -> str:
    """ISO 8601 in UTC."""
    if ms == -1:
        return "no timestamp"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return "outside the range of dates"


def codec(attributes: int) -> str:
    number = attributes & CODEC_MASK
    return CODEC_NAMES[number] if number <= LATEST_CODEC else f"{number}, which does not exist"


def batch_attributes(value: int) -> str:
    """The attributes of a magic 2 batch, one line per bit or group (KIP-32, KIP-98, KIP-534)."""
    rows = (
        ("bits 0-2", f"{value & CODEC_MASK:03b}", f"codec {codec(value)}"),
        _bit(value, 3, "timestamps are log append time", "timestamps are create time"),
        _bit(value, 4, "transactional", "not transactional"),
        _bit(value, 5, "control batch: markers, no data", "data"),
        _bit(value, 6, "base_timestamp is the delete horizon", "no delete horizon"),
        ("bits 7-15", f"{value >> 7 & 0x1FF:09b}", "unused" + (", but set: ignored" if value & _UNUSED else "")),
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
            "unused" + (", but set: ignored" if unused else ""),
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
    return "null" if value == -1 else "null: readers read every negative length as null, writers write -1"
