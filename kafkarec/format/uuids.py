"""Kafka's text of a UUID: its 16 bytes in URL-safe base64 without padding, 22 characters."""

from __future__ import annotations

import base64
import re

_TEXT = re.compile(r"([\w-]{22})(==)?", re.ASCII)


def uuid_text(blob: bytes) -> str:
    """Kafka's Uuid.toString of 16 bytes."""
    return base64.urlsafe_b64encode(blob).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes | None:
    """The 16 bytes of a text that Kafka's Uuid.fromString takes; None for any other text."""
    found = _TEXT.fullmatch(text)
    return base64.urlsafe_b64decode(f"{found[1]}==") if found else None
