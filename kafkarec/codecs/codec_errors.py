"""What can be wrong with a compressed payload, and the one place that imports a compression library.

These exceptions stay inside the package: the compiled modules turn each into its public class with position and base
offset.
"""

import importlib
from typing import Any

from . import native_decompress

REASONS: dict[str, str] = {
    "payload_empty": "there is no compressed payload at all",
    "payload_header_invalid": "the payload does not begin as this codec's stream does",
    "payload_unsupported": "the stream asks for a feature that Kafka does not read",
    "payload_truncated": "the compressed stream ends before its end mark",
    "payload_corrupt": "the compressed data cannot be decompressed",
    "payload_checksum_mismatch": "a checksum or size inside of the compressed stream is wrong",
    "limit_exceeded": "the payload decompresses to more than max_decompressed_bytes",
    "missing_codec": "the library of this codec is not installed",
    "unsupported_codec": "no codec has this id",
}
"""Every `CodecError.reason` with its meaning."""


class CodecError(Exception):
    """A payload that Kafka's stream of this codec would refuse. `detail` never holds payload bytes."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class LimitReached(CodecError):
    """The payload holds, or says that it holds, more than `limit` bytes."""

    def __init__(self, limit: int, detail: str = "") -> None:
        super().__init__("limit_exceeded", detail or f"more than {limit} bytes when decompressed")
        self.limit = limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit, self.detail)


class MissingCodec(CodecError):
    """The library is not there; `pip_name` is what brings it."""

    def __init__(self, codec: str, pip_name: str) -> None:
        super().__init__("missing_codec", f"{codec} needs a library: pip install {pip_name}")
        self.codec = codec
        self.pip_name = pip_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.codec, self.pip_name)


def load(module: str, codec: str, pip_name: str) -> Any:
    """Imports a compression library at its first use, and offers the core what C functions it has."""
    try:
        library = importlib.import_module(module)
    except ImportError as error:
        raise MissingCodec(codec, pip_name) from error
    native_decompress.install(codec)
    return library


MAX_FIRST_ROOM = 1 << 20


def first_room(guess: int, payload_length: int, least: int) -> int:
    """Bytes to ask for at first: the last size and an eighth, or four times the payload; 1 MiB at most.

    The libraries allocate what they are told, so never the limit itself.
    """
    room = guess + (guess >> 3) if guess > 0 else payload_length << 2
    return least if room < least else MAX_FIRST_ROOM if room > MAX_FIRST_ROOM else room
