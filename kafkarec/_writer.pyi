"""Types of the writing desk. Private: users find everything in `kafkarec`."""

from typing import Any, final

def install_native(codec: str, addresses: list[int]) -> None: ...
def release_memory() -> int: ...
def record_size(
    magic: int, offset_delta: int, timestamp_delta: int, key: Any, value: Any, headers: Any = ()
) -> int: ...

@final
class OpenBatch:
    is_open: bool
    ratio: float
    last_offset: int | None
    def __new__(
        cls,
        magic: int,
        codec: int,
        *,
        base_offset: int,
        base_timestamp: int | None,
        log_append_time: int | None,
        limit: int,
        header_size: int,
        most_records: int,
        most_bytes: int,
    ) -> OpenBatch: ...
    def __len__(self) -> int: ...
    def append(self, timestamp: Any, key: Any, value: Any, headers: Any, offset: Any) -> int | None: ...
    def has_room(self, timestamp: Any, key: Any, value: Any, headers: Any) -> bool | None: ...
    def write(self, header: Any) -> bytes: ...
    def clear(self) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def size_so_far(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def base_timestamp(self) -> int | None: ...
    @property
    def max_timestamp(self) -> tuple[int, int]: ...

@final
class RecordInput:
    rows: int
    names: set[str]
    has_offsets: bool
    def __new__(
        cls,
        *,
        stream: object = None,
        array: object = None,
        rows: tuple[Any, ...] | None = None,
        ways: Any = None,
        batch: OpenBatch | None = None,
        left_out: set[str] | frozenset[str] = ...,
        own: bool = False,
    ) -> RecordInput: ...
    def __len__(self) -> int: ...
    def write(self, header: Any, start: int = 0, stop: int | None = None, keep: Any = None) -> bytes: ...
    def encode(
        self,
        header: Any,
        first_offset: int | None,
        batch_size: int,
        cuts: tuple[Any, bool] | None = None,
        *,
        keep_cuts: bool = False,
        keep_codec: bool = False,
        keep_magic: bool = False,
        overrides: int = 0,
    ) -> bytes: ...

@final
class Job:
    def __new__(cls, record_input: RecordInput, header: Any, keep_codec: bool = False) -> Job: ...
