"""Reads the columns that matching markers to transactions needs: batch headers, and first records of control batches.

    MarkerInput -> Decoder: headers of all batches, payloads of control batches -> MarkerColumns of up to 64 Ki batches

Each batch has a code. Iterating the rows skips those with the code NOTHING.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import Any, NamedTuple, TypeVar

from kafkarec._core import Chunk, Decoder, Layout, Rows, Source
from kafkarec.damage import Damage
from kafkarec.errors import InvalidRecordError, KafkaRecordError
from kafkarec.format import control
from kafkarec.format.schema import BATCH_FIELDS, Schema, record_schema
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.tables.table import cells

from .decode_options import (
    ALL_CHECKS,
    CHUNK_BYTES,
    CONTROL_PAYLOADS,
    NO_PAYLOADS,
    PAYLOAD_CHECKS,
    EngineOptions,
    engine_decoder,
)
from .restoring import NO_FACTS, LogFacts

# Codes of batches; data has odd ones. STAMPED data: the base timestamp is not that of the first record, because of log
# append time (KIP-32) or because it holds the delete horizon (KIP-534).
NOTHING, DATA, ABORT, STAMPED, COMMIT, UNREADABLE = 0, 1, 2, 3, 4, 6

_TRANSACTIONAL, _CONTROL, _LOG_APPEND, _HORIZON = 0x10, 0x20, 0x08, 0x40


def _data_code(attributes: int) -> int:
    if attributes & (_TRANSACTIONAL | _CONTROL) != _TRANSACTIONAL:
        return NOTHING
    return STAMPED if attributes & (_LOG_APPEND | _HORIZON) else DATA


_DATA_CODES = bytes(map(_data_code, range(256)))
_MARKER_CODES = {control.ControlRecordType.ABORT.value: ABORT, control.ControlRecordType.COMMIT.value: COMMIT}

# In a marker's row `record_count` holds the coordinator epoch of the marker's value.
COLUMNS = (
    "producer_id",
    "base_offset",
    "last_offset",
    "size_in_bytes",
    "record_count",
    "base_timestamp",
    "max_timestamp",
    "producer_epoch",
    "position",
)
_COUNT = COLUMNS.index("record_count")
_BATCHES = Layout(Schema(BATCH_FIELDS[name] for name in ("attributes", *COLUMNS)))
_MARKERS = Layout(record_schema(("key", "value"), "ms"))
_NOTHING = Layout(record_schema((), "ms"))
_ROWS_AT_ONCE = 1 << 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MarkerInput:
    """One buffer, or one segment of a log with its .txnindex and .snapshot.

    opened       returns a context manager with the Source for `Decoder.feed`
    name         the file's name, which enables the rules for files; None: a buffer
    index        returns the entries of the .txnindex, None: there is none; raises if it cannot be read
    snapshot     the same for the producer .snapshot at the segment's start
    later_segment   a later segment exists, so a cut batch at the end is damage
    snapshots    returns (offset, entries) of the intact producer snapshots beside the log, in order
    raw          returns up to `length` bytes from `position` on; none if they cannot be read
    facts        what is known of the file for restoring
    restore      header fields are restored
    prepared     returns {(producer id, epoch): whether it was aborted} from `__transaction_state` beside the log
    """

    opened: Callable[[], AbstractContextManager[Source]]
    name: str | None = None
    index: Callable[[], Sequence[AbortedTransaction] | None] = lambda: None
    snapshot: Callable[[], Sequence[SnapshotEntry] | None] = lambda: None
    later_segment: bool = False
    snapshots: Callable[[], Sequence[tuple[int, Sequence[SnapshotEntry]]]] = lambda: ()
    raw: Callable[[int, int], bytes] = lambda position, length: b""
    facts: LogFacts = NO_FACTS
    restore: bool = True
    prepared: Callable[[], Mapping[tuple[int, int], bool]] = dict

    @classmethod
    def of(cls, data: Any) -> MarkerInput:
        """From a Segment, a Source, a buffer or a MarkerInput."""
        if isinstance(data, MarkerInput):
            return data
        if hasattr(data, "marker_input"):
            marker_input: MarkerInput = data.marker_input()
            return marker_input
        if isinstance(data, Source):
            return cls(lambda: nullcontext(data))
        return cls.of_buffer(data, Source(data))

    @classmethod
    def of_buffer(cls, data: Any, source: Source) -> MarkerInput:
        """From a buffer and the Source of it."""
        view = memoryview(data)
        flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
        return cls(lambda: nullcontext(source), raw=lambda position, length: bytes(flat[position : position + length]))

    def decoder(self, layout: Layout, options: EngineOptions, *, skip: bool) -> Decoder:
        named = {"file": self.name, "later_segment": self.later_segment, "facts": self.facts}
        options = options if self.restore else replace(options, restore=False)
        return engine_decoder(layout, options, skip=skip, **named)


@dataclass(slots=True)
class MarkerColumns:
    """Columns of some batches, in the log's order.

    codes         one code per batch
    columns       lists of ints in the order of COLUMNS; -1: absent
    unreadable    (row, error text) for each control batch whose first record has no readable key
    """

    codes: bytearray
    columns: list[list[int]]
    unreadable: list[tuple[int, str]]

    def column(self, name: str) -> list[int]:
        return self.columns[COLUMNS.index(name)]

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, ...]]:
        """(code, *columns) of the rows [start, stop) whose code is not NOTHING."""
        if start == 0 and stop is None:
            return compress(zip(self.codes, *self.columns, strict=True), self.codes)
        codes = self.codes[start:stop]
        return compress(zip(codes, *(column[start:stop] for column in self.columns), strict=True), codes)


class _Cache(dict[_T, int]):
    """Caches the results of a function: keys and values of markers repeat."""

    def __init__(self, compute: Callable[[_T], int]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, value: _T) -> int:
        self[value] = result = self._compute(value)
        return result


def _marker_code(key: bytes | None) -> int:
    try:
        return _MARKER_CODES.get(control.type_id(key), NOTHING)
    except InvalidRecordError:
        return UNREADABLE


def _coordinator_epoch(value: bytes | None) -> int:
    """The coordinator epoch in a marker's value, any version from 0 on (Kafka: EndTransactionMarker); -1: none."""
    if value is None or len(value) < 6 or value[0] >= 0x80:
        return -1
    return int.from_bytes(value[2:6], "big", signed=True)


class _Marker(NamedTuple):
    row: int
    code: int
    epoch: int
    detail: str


def _markers(chunk: Chunk | None) -> Iterator[_Marker]:
    """The markers: the first record of each control batch, the only one that is relevant. Skips empty batches."""
    if chunk is None:
        return
    runs = chunk.runs().cast("q").tolist()
    rows, counts = runs[::2], runs[1::2]
    if len(rows) == len(chunk):
        keys, values = (cells(chunk, column, "z", 0, len(chunk)) for column in (0, 1))
    else:
        firsts = list(accumulate(counts[:-1], initial=0))
        keys, values = ([cells(chunk, column, "z", at, at + 1)[0] for at in firsts] for column in (0, 1))
    codes, epochs = _Cache(_marker_code), _Cache(_coordinator_epoch)
    for row, key, value in zip(rows, keys, values, strict=True):
        code = codes[key]
        yield _Marker(row, code, epochs[value], _error_text(key) if code == UNREADABLE else "")


def _error_text(key: bytes | None) -> str:
    try:
        control.type_id(key)
    except InvalidRecordError as error:
        return str(error)
    return ""


def _steps(chunk: Chunk | None, rows: Rows) -> Iterator[MarkerColumns]:
    table = rows.chunk(_BATCHES)
    _, attributes, _ = table.column(0, 2)
    low_bytes = bytes(attributes[::2])
    markers = _markers(chunk)
    marker = next(markers, None)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(rows))
        codes = bytearray(low_bytes[start:stop].translate(_DATA_CODES))
        columns = [_ints(table, at, start, stop) for at in range(1, 1 + len(COLUMNS))]
        step = MarkerColumns(codes, columns, [])
        while marker is not None and marker.row < stop:
            row = marker.row - start
            codes[row] = marker.code
            columns[_COUNT][row] = marker.epoch
            if marker.detail:
                step.unreadable.append((row, marker.detail))
            marker = next(markers, None)
        yield step


def _ints(table: Chunk, column: int, start: int, stop: int) -> list[int]:
    values = cells(table, column, _BATCHES.schema[column].format, start, stop)
    return [-1 if value is None else value for value in values] if None in values else values


def read(
    marker_input: MarkerInput, *, check_all: bool, damage: list[Damage], tails: list[tuple[int, int]]
) -> Iterator[MarkerColumns]:
    """The batches of an input without the damaged ones, whose damage is appended to `damage`.

    check_all: check the checksums of all batches and not only of control batches
    tails: gets the position and length of what follows the last batch and is not damage
    """
    options = EngineOptions(
        payloads=CONTROL_PAYLOADS,
        control=True,
        check_crc=ALL_CHECKS if check_all else PAYLOAD_CHECKS,
        chunk_bytes=CHUNK_BYTES,
    )
    decoder = marker_input.decoder(_MARKERS, options, skip=True)
    with marker_input.opened() as source:
        decoder.feed(source)
        more = True
        while more:
            more = decoder.run()
            damage.extend(one for _, _, one in decoder.pop_damage(not more))
            chunk, rows = decoder.take()
            if len(rows):
                yield from _steps(chunk, rows)
        if decoder.remaining:
            tails.append((source.size - decoder.remaining, decoder.remaining))


def passes_checksum(marker_input: MarkerInput, position: int, size: int) -> bool:
    """Whether the batch at `position` has a correct checksum."""
    decoder = marker_input.decoder(_NOTHING, EngineOptions(payloads=NO_PAYLOADS, check_crc=True), skip=False)
    with marker_input.opened() as source:
        decoder.feed(source, position, position + size)
        try:
            decoder.run()
        except KafkaRecordError:
            return False
    return True
