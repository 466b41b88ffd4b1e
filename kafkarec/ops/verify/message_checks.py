"""Checks of messages of magic 0 and 1, plain ones and inner ones of wrappers, byte by byte.


    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | [timestamp int64: magic 1]
    | key length int32, key | value length int32, value

A wrapper's value is a compressed set of such messages. If the last inner message is incomplete, Kafka's readers ignore
it (AbstractLegacyRecordBatch.DeepRecordsIterator); they also ignore bytes after a value.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from .findings import FindingNotes, FindingPlace

_OFFSET_AND_SIZE = Struct(">qi")
_INT32 = Struct(">i")
_PREFIX = 12
_KEY_AT = {0: 18, 1: 26}
_USED_BITS = {0: 0x07, 1: 0x0F}


def value_of(message: Any, magic: int) -> Any:
    """The value of an outer message that was read without an error; empty for null."""
    at = _KEY_AT[magic]
    at += 4 + max(_INT32.unpack_from(message, at)[0], 0)
    length = max(_INT32.unpack_from(message, at)[0], 0)
    return message[at + 4 : at + 4 + length]


def check_message(message: Any, magic: int, notes: FindingNotes, place: FindingPlace, inner: bool = False) -> None:
    """Checks one whole message: its lengths, bytes after its value, and an inner one's attribute bits."""
    at = _KEY_AT.get(magic)
    if at is None or len(message) < at + 4:
        return
    if inner and message[17] & ~_USED_BITS[magic]:
        notes.add("attributes_unknown", f"attribute bits {message[17]:#04x} of an inner message", place)
    for _ in range(2):
        if at + 4 > len(message):
            return
        (length,) = _INT32.unpack_from(message, at)
        if length < -1:
            notes.add("length_below_minus_one", f"a length of {length}", place)
        at += 4 + max(length, 0)
    if at < len(message):
        notes.add("message_bytes_behind", f"{len(message) - at} bytes behind a message's value", place)


def check_inner(content: Any, magic: int, notes: FindingNotes, place: FindingPlace) -> None:
    """Checks the decompressed messages of a wrapper of `magic`."""
    at, size, number = 0, len(content), 0
    while size - at >= _PREFIX:
        _, claimed = _OFFSET_AND_SIZE.unpack_from(content, at)
        if claimed > size - at - _PREFIX:
            detail = f"inner message {number} claims {claimed} bytes, {size - at - _PREFIX} are left"
            notes.add("inner_truncated", detail, place)
            return
        if claimed < 6:
            return  # refused by the reader: the file changes while it is read
        inner_magic = content[at + 16]
        if inner_magic != magic:
            detail = f"inner message {number} has magic {inner_magic}, its wrapper {magic}"
            notes.add("inner_magic_differs", detail, place)
        check_message(content[at : at + _PREFIX + claimed], inner_magic, notes, place, inner=True)
        at += _PREFIX + claimed
        number += 1
    if at < size:
        notes.add("inner_bytes_behind", f"{size - at} bytes behind inner message {number - 1}", place)
