"""From an input to columns: of every batch what matching needs, of every control batch what its first record says

    input -> Decoder: headers of all batches, payloads of control batches -> Step: columns of some 64 Ki batches

A step has one code a batch. Rows of code NOTHING matter to nobody and become no Python objects but the columns' ints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress
from typing import Any, NamedTuple, TypeVar

from .. import control
from .._core import Chunk, Decoder, Layout, Rows, Source
from ..errors import InvalidRecordError, KafkaRecordError
from ..faults import Damage
from ..indexes import producer_snapshot, txn_index
from ..request import ALL_CHECKS, CHUNK_BYTES, CONTROL_PAYLOADS, NO_PAYLOADS, PAYLOAD_CHECKS, Options
from ..schema import BATCH_FIELDS, Schema, record_schema
from ..table import cells

# What a batch is; data has odd codes. STAMPED data: the base timestamp is not its first record's, because it is stamped
# by the broker (KIP-32) or holds a delete horizon (KIP-534).
NOTHING, DATA, ABORT, STAMPED, COMMIT, UNREADABLE = 0, 1, 2, 3, 4, 6

_TRANSACTIONAL, _CONTROL, _LOG_APPEND, _HORIZON = 0x10, 0x20, 0x08, 0x40


def _data_code(attributes: int) -> int:
    if attributes & (_TRANSACTIONAL | _CONTROL) != _TRANSACTIONAL:
        return NOTHING
    return STAMPED if attributes & (_LOG_APPEND | _HORIZON) else DATA


_DATA_CODES = bytes(map(_data_code, range(256)))
_MARKER_CODES = {control.ControlRecordType.ABORT.value: ABORT, control.ControlRecordType.COMMIT.value: COMMIT}

# Of a marker's row, `record_count` holds the coordinator epoch of its value instead.
COLUMNS = (
    "producer_id", "base_offset", "last_offset", "size_in_bytes", "record_count", "base_timestamp", "max_timestamp",
    "producer_epoch", "position",
)  # fmt: skip
_COUNT = COLUMNS.index("record_count")
_BATCHES = Layout(Schema(BATCH_FIELDS[name] for name in ("attributes", *COLUMNS)))
_MARKERS = Layout(record_schema(("key", "value"), "ms"))
_NOTHING = Layout(record_schema((), "ms"))
_ROWS_AT_ONCE = 1 << 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Input:
    """One buffer, or one segment of a log and what lies beside it.

    opened       a context manager that gives what `Decoder.feed` takes
    name         the file's name, which turns on the rules for files; None: a buffer
    index        gives the bytes of its .txnindex; None: there is none
    snapshot     gives those of its producer .snapshot: what was open in front of it
    later_segment     a later segment exists: a cut tail is damage then
    again        whether it can be opened more than once
    """

    opened: Callable[[], AbstractContextManager[Source]]
    name: str | None = None
    index: Callable[[], bytes | None] = lambda: None
    snapshot: Callable[[], bytes | None] = lambda: None
    later_segment: bool = False
    again: bool = True

    @classmethod
    def of(cls, data: Any) -> Input:
        """From a Segment, from a request and the Source it is for, from a buffer, or from what is an Input already."""
        if isinstance(data, Input):
            return data
        if isinstance(data, tuple):
            asked, source = data
            named = asked.named
            return cls(lambda: nullcontext(source), named["file"], later_segment=named["later_segment"], again=False)
        if hasattr(data, "sidecar"):
            index, snapshot = (partial(data.sidecar, one.SUFFIX) for one in (txn_index, producer_snapshot))
            return cls(data.opened, data.path, index, snapshot, data.later_segment)
        source = data if isinstance(data, Source) else Source(data)
        return cls(lambda: nullcontext(source))

    def decoder(self, layout: Layout, options: Options, *, skip: bool) -> Decoder:
        return Decoder(layout, options, skip=skip, file=self.name, later_segment=self.later_segment)


@dataclass(slots=True)
class Step:
    """Columns of some batches, in the log's order.

    codes         what each batch is
    columns       lists of ints in the order of COLUMNS; -1 where a value is absent
    unreadable    (row, what is wrong) for each control batch whose first record has no readable key
    """

    codes: bytearray
    columns: list[list[int]]
    unreadable: list[tuple[int, str]]

    def column(self, name: str) -> list[int]:
        return self.columns[COLUMNS.index(name)]

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, ...]]:
        """(code, *columns) of the batches that matter among rows [start, stop)."""
        if start == 0 and stop is None:
            return compress(zip(self.codes, *self.columns, strict=True), self.codes)
        codes = self.codes[start:stop]
        return compress(zip(codes, *(column[start:stop] for column in self.columns), strict=True), codes)


class _Memo(dict[_T, int]):
    """What a function says of a value, asked once: keys and values of markers repeat."""

    def __init__(self, ask: Callable[[_T], int]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, value: _T) -> int:
        self[value] = answer = self._ask(value)
        return answer


def _marker_code(key: bytes | None) -> int:
    try:
        return _MARKER_CODES.get(control.type_id(key), NOTHING)
    except InvalidRecordError:
        return UNREADABLE


def _coordinator_epoch(value: bytes | None) -> int:
    """-1 where the value has none; Kafka's EndTransactionMarker reads it in any version from 0 on."""
    if value is None or len(value) < 6 or value[0] >= 0x80:
        return -1
    return int.from_bytes(value[2:6], "big", signed=True)


class _Marker(NamedTuple):
    row: int
    code: int
    epoch: int
    detail: str


def _markers(chunk: Chunk | None) -> Iterator[_Marker]:
    """What the first record of each control batch says: it alone decides. A batch without records says nothing."""
    if chunk is None:
        return
    runs = chunk.runs().cast("q").tolist()
    rows, counts = runs[::2], runs[1::2]
    if len(rows) == len(chunk):
        keys, values = (cells(chunk, column, "z", 0, len(chunk)) for column in (0, 1))
    else:
        firsts = list(accumulate(counts[:-1], initial=0))
        keys, values = ([cells(chunk, column, "z", at, at + 1)[0] for at in firsts] for column in (0, 1))
    codes, epochs = _Memo(_marker_code), _Memo(_coordinator_epoch)
    for row, key, value in zip(rows, keys, values, strict=True):
        code = codes[key]
        yield _Marker(row, code, epochs[value], _complaint(key) if code == UNREADABLE else "")


def _complaint(key: bytes | None) -> str:
    try:
        control.type_id(key)
    except InvalidRecordError as error:
        return str(error)
    return ""


def _steps(chunk: Chunk | None, rows: Rows) -> Iterator[Step]:
    table = rows.chunk(_BATCHES)
    _, attributes, _ = table.column(0, 2)
    low_bytes = bytes(attributes[::2])
    markers = _markers(chunk)
    marker = next(markers, None)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(rows))
        codes = bytearray(low_bytes[start:stop].translate(_DATA_CODES))
        columns = [_ints(table, at, start, stop) for at in range(1, 1 + len(COLUMNS))]
        step = Step(codes, columns, [])
        while marker is not None and marker.row < stop:
            row = marker.row - start
            codes[row] = marker.code
            columns[_COUNT][row] = marker.epoch
            if marker.detail:
                step.unreadable.append((row, marker.detail))
            marker = next(markers, None)
        yield step


def _ints(table: Chunk, column: int, start: int, stop: int) -> list[int]:
    found = cells(table, column, _BATCHES.schema[column].format, start, stop)
    return [-1 if value is None else value for value in found] if None in found else found


def read(one: Input, *, check_all: bool, damage: list[Damage]) -> Iterator[Step]:
    """The batches of an input; what is damaged is left out and goes to `damage`.

    check_all: the checksum of every batch counts, not only those of control batches
    """
    options = Options(
        payloads=CONTROL_PAYLOADS,
        control=True,
        check_crc=ALL_CHECKS if check_all else PAYLOAD_CHECKS,
        chunk_bytes=CHUNK_BYTES,
    )
    decoder = one.decoder(_MARKERS, options, skip=True)
    with one.opened() as source:
        decoder.feed(source)
        more = True
        while more:
            more = decoder.run()
            damage.extend(found for _, _, found in decoder.pop_damage(not more))
            chunk, rows = decoder.take()
            if len(rows):
                yield from _steps(chunk, rows)


def passes_checksum(one: Input, position: int, size: int) -> bool:
    """Whether the batch there passes its checksum."""
    decoder = one.decoder(_NOTHING, Options(payloads=NO_PAYLOADS, check_crc=True), skip=False)
    with one.opened() as source:
        decoder.feed(source, position, position + size)
        try:
            decoder.run()
        except KafkaRecordError:
            return False
    return True
