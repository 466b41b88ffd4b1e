"""Errors and notes about compressed payloads, and `load`, which imports the compression libraries.

These exceptions are internal: the compiled modules convert them to public ones with position and base offset.

zlib, lz4 and zstandard raise one class without a code for all faults, so their messages are read where they are caught
and in `as_codec_error`; no message of this package is.
"""

import importlib
import re
from typing import Any

from . import native


class CodecError(Exception):
    """A payload that the Java stream of this codec would refuse. reason: a key of `errors.REASONS`. `detail` never
    contains payload bytes."""

    reason = "payload_corrupt"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"

    def sides(self, limit: int) -> dict[str, Any]:
        """What the public error of this reason has of it: detail, expected, found. limit: max_decompressed_bytes"""
        return {"detail": self.detail}


class Truncated(CodecError):
    """The compressed stream ends before its end mark."""


class UnknownCodec(CodecError):
    """No codec has this id."""

    reason = "unsupported_codec"


class LimitReached(CodecError):
    """The payload decompresses, or declares that it decompresses, to more than `limit` bytes."""

    reason = "limit_exceeded"

    def __init__(self, limit: int, detail: str = "") -> None:
        super().__init__(detail or f"more than {limit} bytes when decompressed")

    def sides(self, limit: int) -> dict[str, Any]:
        detail = f"max_decompressed_bytes={limit} can be raised ({self.detail})"
        return {"detail": detail, "expected": limit, "found": limit}


_NO_MEMORY = re.compile("not enough memory|allocation|^Error -4 ", re.IGNORECASE)  # -4: zlib's Z_MEM_ERROR


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of a library says that it could not allocate, which is no fault of the payload."""
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None


def as_codec_error(error: Exception, codec: str, limit: int) -> CodecError:
    """What an error of zlib, lz4 or cramjam means, or a MemoryError."""
    if is_out_of_memory(error):
        return LimitReached(limit, "out of memory before the limit")
    return CodecError(f"{codec}: a block cannot be decompressed")


class MissingCodec(CodecError):
    """The codec's library is not installed; pip_name: the package to install. problem: it is, and cannot be loaded."""

    reason = "missing_codec"

    def __init__(self, codec: str, pip_name: str, problem: str = "") -> None:
        needed = f"{pip_name}, which cannot be loaded: {problem}" if problem else f"a library: pip install {pip_name}"
        super().__init__(f"{codec} needs {needed}")

    def sides(self, limit: int) -> dict[str, Any]:
        return {"detail": str(self)}


class StreamNotes:
    """What `decompress` notes about a payload that Kafka's streams read without an error.

    streams                      how many in a row: gzip members, zstd and skippable frames, xerial streams
    trailing_bytes                 after the end of the last stream, which are not read
    checksum_wrong, size_wrong   of the content, in an LZ4 frame, where Kafka does not compare them
    """

    __slots__ = ("checksum_wrong", "size_wrong", "streams", "trailing_bytes")

    def __init__(self) -> None:
        self.streams, self.trailing_bytes = 1, 0
        self.checksum_wrong = self.size_wrong = False


def load(module: str, codec: str, pip_name: str) -> Any:
    """Imports a compression library at its first use; if it exports its C functions, they are called from then on.

    MissingCodec if the library is not installed, or cannot be loaded: a process may have too little memory for it.
    """
    try:
        library = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingCodec(codec, pip_name) from error
    except ImportError as error:
        raise MissingCodec(codec, pip_name, str(error)) from error
    native.install(codec)
    return library
