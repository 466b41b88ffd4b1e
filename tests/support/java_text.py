"""`new String(bytes, UTF_8)` of the JDK (17), byte for byte: which malformed sequences become one U+FFFD.

It differs from errors="replace" for surrogates (`ed a0 80` is one U+FFFD, Python makes three) and
for a sequence cut at the end. Source: java.lang.String.decodeUTF8_UTF16, malformed3, malformed4 and the like.
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def _stray(byte: int) -> bool:
    """Return whether the byte is not a continuation byte."""
    return byte & 0xC0 != 0x80


def _bad_second_of_3(b1: int, b2: int) -> bool:
    return (b1 == 0xE0 and b2 & 0xE0 == 0x80) or _stray(b2)


def _bad_second_of_4(b1: int, b2: int) -> bool:
    return (b1 == 0xF0 and not 0x90 <= b2 <= 0xBF) or (b1 == 0xF4 and b2 & 0xF0 != 0x80) or _stray(b2)


def _two(data: bytes, at: int) -> tuple[str, int]:
    if at + 1 >= len(data):
        return REPLACEMENT, len(data)
    if _stray(data[at + 1]):
        return REPLACEMENT, at + 1
    return chr((data[at] & 0x1F) << 6 | data[at + 1] & 0x3F), at + 2


def _three(data: bytes, at: int) -> tuple[str, int]:
    b1 = data[at]
    if at + 2 < len(data):
        b2, b3 = data[at + 1], data[at + 2]
        if _bad_second_of_3(b1, b2):
            return REPLACEMENT, at + 1
        if _stray(b3):
            return REPLACEMENT, at + 2
        code = (b1 & 0x0F) << 12 | (b2 & 0x3F) << 6 | b3 & 0x3F
        return (REPLACEMENT if 0xD800 <= code <= 0xDFFF else chr(code)), at + 3
    if at + 1 < len(data) and _bad_second_of_3(b1, data[at + 1]):
        return REPLACEMENT, at + 1
    return REPLACEMENT, len(data)


def _four(data: bytes, at: int) -> tuple[str, int]:
    b1 = data[at]
    if at + 3 < len(data):
        b2, b3, b4 = data[at + 1 : at + 4]
        if b1 > 0xF4 or _bad_second_of_4(b1, b2):
            return REPLACEMENT, at + 1
        if _stray(b3):
            return REPLACEMENT, at + 2
        if _stray(b4):
            return REPLACEMENT, at + 3
        return chr((b1 & 7) << 18 | (b2 & 0x3F) << 12 | (b3 & 0x3F) << 6 | b4 & 0x3F), at + 4
    if b1 > 0xF4 or (at + 1 < len(data) and _bad_second_of_4(b1, data[at + 1])):
        return REPLACEMENT, at + 1
    if at + 2 < len(data) and _stray(data[at + 2]):
        return REPLACEMENT, at + 2
    return REPLACEMENT, len(data)


def java_utf8(data: bytes) -> str:
    """Return the string that a Java consumer gets as a header's key."""
    out = []
    at = 0
    while at < len(data):
        b1 = data[at]
        if b1 < 0x80:
            piece, at = chr(b1), at + 1
        elif 0xC2 <= b1 <= 0xDF:
            piece, at = _two(data, at)
        elif 0xE0 <= b1 <= 0xEF:
            piece, at = _three(data, at)
        elif 0xF0 <= b1 <= 0xF7:
            piece, at = _four(data, at)
        else:
            piece, at = REPLACEMENT, at + 1
        out.append(piece)
    return "".join(out)
