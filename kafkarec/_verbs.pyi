"""Types of the compiled module of single verbs. Private: the public names are in `kafkarec`."""

from collections.abc import Iterable
from typing import Any, final

from kafkarec._core import Chunk

def writable_view(fresh: bytes) -> memoryview: ...
def stamp_messages(buffer: Any, first_offset: int, timestamp_type: int, log_append_time: int) -> None: ...

@final
class RequestCheck:
    batches: int
    end: int
    other_position: int
    last_offset: int
    max_timestamp: int
    codec: int
    other_magic: int
    one_magic: bool
    def __new__(
        cls,
        data: Any,
        *,
        check_crcs: bool,
        from_zero: bool,
        rising: bool,
        leader_epoch: int | None,
        most_bytes: int,
    ) -> RequestCheck: ...
    @property
    def first_batch(self) -> tuple[int, int, int, int, int, int, int, int, int, int, bool, bool]: ...
    @property
    def summary(self) -> tuple[int, bool, int, int, int, bool]: ...
    def payload(self) -> tuple[int, int]: ...
    def scan_records(self, payload: Any, rules: Any, partly: bool, limit: int) -> tuple[int, int, int]: ...
    def first_too_large(self, payload: Any, most: int) -> tuple[int, int] | None: ...
    def refused_records(self) -> tuple[int, bool, list[tuple[int, int, int, int, int]]]: ...

@final
class LastOffsets:
    address: int
    nbytes: int
    def __len__(self) -> int: ...
    def set(self, key: bytes, offset: int) -> None: ...
    def put(self, chunk: Chunk, spans: Iterable[tuple[int, int]]) -> None: ...
    def latest(self, chunk: Chunk) -> bytearray: ...

_Column = tuple[str, bytes, int, str, list[bytes | None] | None]

def lines(columns: list[_Column], end: bytes, chunk: Chunk, start: int, stop: int, at: int) -> bytes: ...
def rewrite_records(
    fields: Any,
    data: Any,
    count: int,
    has_attributes: bool,
    is_apart: bool,
    to_apart: bool,
    to_attributes: bool,
    batch: dict[str, Any],
) -> Any: ...
def read_batch_header(magic: int, data: Any, at: int, check_crc: bool) -> tuple[int, int, tuple[int, ...]]: ...

@final
class HeaderFirstCheck:
    batches: int
    records: int
    compressed_bytes: int
    decompressed_bytes: int
    def __new__(cls, data: Any, limit: int) -> HeaderFirstCheck: ...
    def run(self) -> int: ...
    def read(self, content: Any, compressed_bytes: int) -> None: ...
