"""Types of the compiled module that checks produce requests. Private: the public names are in `kafkarec`."""

from typing import Any, final

def headers_of_good_batches(data: Any, *, check_crcs: bool) -> list[tuple[Any, ...]] | None: ...

@final
class WritableBytes: ...

def writable_view(fresh: bytes) -> memoryview: ...
def stamp_messages(buffer: Any, first_offset: int, timestamp_type: int, log_append_time: int) -> None: ...

@final
class Request:
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
    ) -> Request: ...
    @property
    def first(self) -> tuple[int, int, int, int, int, int, int, int, int, int, bool, bool]: ...
    @property
    def stats(self) -> tuple[int, bool, int, int, int, bool]: ...
    def payload(self) -> tuple[int, int]: ...
    def scan_records(self, payload: Any, rules: Any, partly: bool, limit: int) -> tuple[int, int, int]: ...
    def too_large(self, payload: Any, most: int) -> tuple[int, int] | None: ...
    def refused(self) -> tuple[int, bool, list[tuple[int, int, int, int, int]]]: ...
