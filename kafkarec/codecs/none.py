"""No compression: the payload is the content."""

from typing import Any

from kafkarec.codecs.codec_errors import StreamAudit

NAME, PIP_NAME, MODULE = "none", None, None
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = None, None, None  # it has no levels


def decompress(
    payload: Any, limit: int, guess: int = 0, magic: int = 2, seen: StreamAudit | None = None
) -> bytes | memoryview:
    """The payload itself."""
    return payload if isinstance(payload, bytes) else memoryview(payload)


def compress(payload: Any, level: None = None, magic: int = 2) -> bytes:
    """A copy."""
    return bytes(payload)


def probe(payload: Any, limit: int, magic: int = 2) -> None:
    """There is nothing to check."""
