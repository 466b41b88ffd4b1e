"""Reads the content of gzip and zstd files: decompressed from the start, as far as needed, into a temporary file.

Reads use that copy (in TMPDIR), in any order and in constant memory; it is removed when the source is closed. If the
compressed data is cut off or corrupt, everything before that is read, and the rest is damage. The size of the rest is
known only if the zstd frame has its content size.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

from kafkarec.codecs import CodecError, MissingCodec, Truncated, packed_stream
from kafkarec.errors import LimitExceededError, MissingCodecError, PackedFileError

from .files import ByteSource


def unpacked(source: ByteSource, limit: int, least_rest: int) -> ByteSource:
    """A source of the decompressed content; `source` itself if its bytes are not compressed.

    limit        bytes of content; reading raises LimitExceededError if there are more
    least_rest   bytes that a rest of unknown size, which cannot be decompressed, is taken to have
    """
    codec = packed_stream.recognise(source.read_at(0, 4)) if source.size else None
    return source if codec is None else Unpacked(source, codec, limit, least_rest)


class Unpacked:
    """The content of a gzip or zstd file.

    codec     "gzip" or "zstd"
    packed    the compressed file
    failure   why the content ends before the end of that file; None: it does not, or not yet
    """

    window_bytes = 1 << 20
    skip_bytes = 8 << 10

    def __init__(self, packed: ByteSource, codec: str, limit: int, least_rest: int) -> None:
        self.name, self.packed, self.codec = packed.name, packed, codec
        self.failure: CodecError | OSError | None = None
        self._limit, self._least_rest = limit, least_rest
        self._lock = threading.RLock()
        self._at = self._done = 0
        self._spool: IO[bytes] | None = tempfile.TemporaryFile(prefix="kafkarec-")  # noqa: SIM115  until close
        self._pieces: Iterator[bytes] = packed_stream.unpack(codec, self._read_packed)

    @property
    def size(self) -> int:
        """Bytes of the content. Decompresses the whole file."""
        self._unpack_to(self._limit + 1)
        if self.failure is None:
            return self._done
        declared = packed_stream.zstd_content_size(self.packed.read_at(0, packed_stream.HEAD_BYTES))
        return declared if self._done < declared <= self._limit else self._done + self._least_rest

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the copy; None if the compressed data is damaged."""
        self._unpack_to(self._limit + 1)
        return None if self.failure is not None or self._spool is None else self._spool.fileno()

    def read_at(self, position: int, length: int) -> bytes:
        if self._spool is None:
            raise ValueError(f"{self.name} is closed")
        self._unpack_to(position + length)
        data = os.pread(self._spool.fileno(), min(length, max(0, self._done - position)), position)
        if data or not length or self.failure is None or position >= self.size:
            return data
        if isinstance(self.failure, OSError):
            number = self.failure.errno or errno.EIO
            raise OSError(number, "the packed file could not be read to its end", self.name)
        cut_off = isinstance(self.failure, Truncated)
        raise PackedFileError(self.name, self.codec, PackedFileError.CUT_OFF if cut_off else PackedFileError.CORRUPT)

    def is_damage(self, error: OSError) -> bool:
        return True

    def close(self) -> None:
        with self._lock:
            if self._spool is not None:
                self._spool.close()
                self._spool = None
        self.packed.close()

    def _read_packed(self, count: int) -> bytes:
        data = self.packed.read_at(self._at, min(count, self.packed.size - self._at))
        self._at += len(data)
        return data

    def _unpack_to(self, end: int) -> None:
        """Decompresses until the copy has `end` bytes or the whole content."""
        with self._lock:
            while self._done < end and self._spool is not None and (piece := self._next_piece()):
                try:
                    view = memoryview(piece)
                    if not any(piece[:64]) and piece.count(0) == len(piece):  # preallocated zeros need no disk space
                        os.ftruncate(self._spool.fileno(), self._done + len(piece))
                        self._done, view = self._done + len(piece), view[:0]
                    while view:
                        written = os.pwrite(self._spool.fileno(), view, self._done)
                        self._done, view = self._done + written, view[written:]
                except OSError as error:
                    why = f"cannot unpack into {tempfile.gettempdir()} ({os.strerror(error.errno or 0).lower()})"
                    raise OSError(error.errno, f"{why}; TMPDIR=FOLDER sets another folder", self.name) from error

    def _next_piece(self) -> bytes:
        """Nothing at the end of the content, and after a failure."""
        try:
            piece = next(self._pieces, b"")
        except MissingCodec as error:
            raise MissingCodecError(f"{self.name}: {error.detail}", reason=error.reason, file=self.name) from error
        except CodecError as error:
            self.failure = error
            return b""
        except OSError as error:
            if not self.packed.is_damage(error):
                raise
            self.failure = error
            return b""
        if len(piece) > self._limit - self._done:
            raise LimitExceededError(
                f"{self.name} unpacks to more than {self._limit} bytes, which is more than a segment can have",
                reason="limit_exceeded",
                expected=self._limit,
                file=self.name,
            )
        return piece
