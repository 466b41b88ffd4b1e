"""Types of the compiled module that writes. Private: the public names are in `kafkarec`."""

from collections.abc import Iterable
from typing import Any, Literal, TypeVar, final

from typing_extensions import disjoint_base

BATCH_COLUMNS: frozenset[str]
_Method = TypeVar("_Method")

BATCH_SIZE: int

def attach(codecs: Any, refused: Any, options: Any, conversion: Any) -> None: ...

INITIAL_RATIO: float

def next_ratio(expected: float, seen: float) -> float: ...
def record_size(
    magic: int, offset_delta: int, timestamp_delta: int, key: Any, value: Any, headers: Any = ()
) -> int: ...

@disjoint_base
class OpenBatch:
    _expected_ratio: float
    _last_offset: int | None
    _most_bytes: int
    _topic: str | None
    def _begin(self, header: Any, batch_size: int) -> None: ...
    def __len__(self) -> int: ...
    def _append_row(self, timestamp: Any, key: Any, value: Any, headers: Any, offset: Any) -> int | None: ...
    def _has_room(self, timestamp: Any, key: Any, value: Any, headers: Any) -> bool | None: ...
    def _build(self) -> bytes: ...
    def _abort(self) -> None: ...
    @property
    def _header(self) -> Any: ...
    @property
    def _state(self) -> Literal["open", "built", "aborted"]: ...
    @property
    def _ratio(self) -> float: ...
    @property
    def _limit(self) -> int: ...
    @property
    def _size(self) -> int: ...
    @property
    def _size_so_far(self) -> int: ...
    @property
    def _is_full(self) -> bool: ...
    @property
    def _first_offset(self) -> int: ...
    @property
    def _max_timestamp(self) -> tuple[int, int]: ...

def forget_options() -> None: ...
def compiled_append(function: _Method) -> _Method: ...
def compiled_init(function: _Method) -> _Method: ...

@final
class RecordInput:
    rows: int
    has_offsets: bool
    @property
    def names(self) -> set[str]: ...
    def __new__(
        cls,
        *,
        stream: object = None,
        array: object = None,
        rows: tuple[Any, ...] | None = None,
        left_out: set[str] | frozenset[str] = ...,
        own: bool = False,
    ) -> RecordInput: ...
    def __len__(self) -> int: ...
    def write(self, header: Any, start: int = 0, stop: int | None = None, keep: bytes | None = None) -> bytes: ...
    def write_full_batch(
        self, header: Any, start: int, stop: int, batch_size: int, ratio: float, *, may_continue: bool
    ) -> tuple[bytes, int, float] | None: ...
    def batch_starts(self, header: Any, start: int, stop: int, batch_size: int) -> list[int]: ...
    def summary(self, start: int, stop: int) -> dict[str, Any]: ...

@final
class EncodeOptions:
    def __new__(
        cls, header: Any, keep_codec: bool = False, keep_magic: bool = False, overrides: Iterable[str] = ()
    ) -> EncodeOptions: ...

@final
class EncodeRun:
    def __new__(cls, record_input: RecordInput) -> EncodeRun: ...

def encode(
    records: Any,
    base_offset: int | None,
    batch_size: int | None,
    magic: Any,
    compression: Any,
    level: int | None,
    timestamp_type: Any,
    log_append_time: int | None,
    partition_leader_epoch: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    base_sequence: int | None,
    is_transactional: bool | None,
    /,
) -> bytes:
    """write.encoding.encode, with all arguments by position. Options after batch_size are checked by
    write.encoding.checked_options, once for equal ones."""
