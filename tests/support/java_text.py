"""`new String(bytes, UTF_8)` of the JDK (17): which malformed sequences become one U+FFFD.

Java replaces what Python's decoder does, but for surrogates: `ed a0 80` is one U+FFFD, not three, also if the last byte
is missing. Source: java.lang.String.decodeUTF8_UTF16, malformed3, malformed4 and the like.
"""

from __future__ import annotations

import codecs
import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    surrogate = _SURROGATE.match(error.object, error.start)
    return "\ufffd", surrogate.end() if surrogate else error.end


codecs.register_error("java", _replaced)


def java_utf8(data: bytes) -> str:
    """Return the string that a Java consumer gets as a header's key."""
    return data.decode("utf-8", "java")
