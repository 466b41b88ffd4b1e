"""The attributes of Segment that are used by the modules it imports, as a Protocol, which avoids circular imports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from kafkarec._core import Source
from kafkarec.read.decode_options import DecodeRequest
from kafkarec.sources.files import ByteSource
from kafkarec.sources.folders import FetchCounter
from kafkarec.tables.records import BatchTable


class SegmentLike(Protocol):
    """See `segment.Segment`, which documents each of these."""

    path: str
    base_offset: int | None

    @property
    def size(self) -> int: ...
    @property
    def fetch_counter(self) -> FetchCounter | None: ...
    @property
    def source(self) -> ByteSource: ...
    def opened(self) -> AbstractContextManager[Source]: ...
    def open_source(self, suffix: str | None = None) -> ByteSource | None: ...
    def sidecar(self, suffix: str) -> bytes | None: ...
    def named(self, decode_request: DecodeRequest) -> DecodeRequest: ...
    def raw(self, position: int, length: int) -> bytes: ...
    def scan(
        self, *, start_offset: int | None = None, end_offset: int | None = None, errors: str = "raise"
    ) -> BatchTable: ...
    def scan_pieces(self, *, errors: str = "raise") -> Iterator[BatchTable]: ...
