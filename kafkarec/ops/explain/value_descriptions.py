"""Descriptions of single values."""

from __future__ import annotations

from functools import lru_cache

from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import BATCH_MAGIC, CODEC_MASK, LATEST_CODEC, USED_BITS
from kafkarec.support.text_table import utc_text


def iso_time(ms: int) -> str:
    """ISO 8601 in UTC."""
    if ms == -1:
        return "no timestamp"
    try:
        return utc_text(ms)
    except OverflowError:
        return "outside the range of dates"


def codec(attributes: int) -> str:
    number = attributes & CODEC_MASK
    return CODEC_NAMES[number] if number <= LATEST_CODEC else f"{number}, which does not exist"


_BITS = (
    ("timestamps are create time", "timestamps are log append time"),
    ("not transactional", "transactional"),
    ("data", "control batch: markers, no data"),
    ("no delete horizon", "base_timestamp is the delete horizon"),
)
"""What attribute bits 3 to 6 mean when they are clear and set; a message of magic 1 has only the first one."""


@lru_cache(64)  # many messages have the same
def attributes(value: int, magic: int) -> str:
    """The attributes of a batch or message, one line per bit or group (KIP-32, KIP-98, KIP-534)."""
    size = 16 if magic >= BATCH_MAGIC else 8
    rows = [("bits 0-2", f"{value & CODEC_MASK:03b}", f"codec {codec(value)}")]
    used = USED_BITS[magic].bit_length()
    for bit, meanings in zip(range(3, used), _BITS, strict=False):
        rows.append((f"bit {bit}", str(value >> bit & 1), meanings[value >> bit & 1]))
    unused = (value & (1 << size) - 1) >> used
    ignored = ", but set: ignored" if unused else ""
    rows.append((f"bits {used}-{size - 1}", f"{unused:0{size - used}b}", f"unused{ignored}"))
    return "\n".join(f"{where:<9} {bits:<9} {what}" for where, bits, what in rows)


def sized(value: int, _: object) -> str:
    """The note of a length where every negative value means null."""
    if value >= 0:
        return ""
    return "null" if value == -1 else "null: readers read every negative length as null, writers write -1"
