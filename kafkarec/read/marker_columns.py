"""Reads the columns that matching markers to transactions needs: batch headers, and first records of control batches.

    MarkerInput -> Decoder: headers of all batches, payloads of control batches -> MarkerColumns of some batches

Each batch has a mark: what it is for its producer (`_c/producer_table.pxd`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kafkarec._core import Chunk, Decoder, Layout, Rows, Source
from kafkarec.damage import Damage
from kafkarec.errors import InvalidRecordError, KafkaRecordError
from kafkarec.format import control
from kafkarec.format.schema import BATCH_FIELDS, Schema, record_schema
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.recover.restoring import NO_FACTS, LogFacts
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

# Codes of marks, from `_c/producer_table.pxd`; data has odd ones. STAMPED data: the base timestamp is not that of the
# first record, because of log append time (KIP-32) or because it holds the delete horizon (KIP-534).
NOTHING, DATA, ABORT, STAMPED, COMMIT, UNREADABLE = 0, 1, 2, 3, 4, 6

# A marker with its transaction, from `_c/producer_table.pxd`: WIDTH consecutive int64; -1: absent.
# last_stable_offset: once the marker is written; batch: the marker's, an index into the batches of the call.
ROW = (
    "producer_id",
    "code",
    "marker_offset",
    "marker_timestamp",
    "coordinator_epoch",
    "last_segment",
    "producer_epoch",
    "first_offset",
    "last_offset",
    "first_timestamp",
    "last_timestamp",
    "batches",
    "records",
    "bytes",
    "segment",
    "last_stable_offset",
    "batch",
)
WIDTH = len(ROW)
# What is odd about a batch, from `_c/producer_table.pxd`, with the epoch and the first offset of its producer's open
# transaction before it.
ODDITY = ("kind", "producer_id", "producer_epoch", "first_offset", "batch")
EPOCH_CHANGED, UNREADABLE_MARKER, PLAIN_DATA = 0, 1, 2

COLUMNS = ("base_offset", "last_offset", "size_in_bytes", "producer_epoch", "position")
_BATCHES = Layout(Schema(BATCH_FIELDS[name] for name in COLUMNS))
_MARKERS = Layout(record_schema(("key", "value"), "ms"))
_NOTHING = Layout(record_schema((), "ms"))


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


class MarkerColumns:
    """Some batches, at least one, in the log's order.

    table, marks             BatchRow structs, and a Mark for each
    first_offset, last_offset, max_timestamp   of all these batches
    """

    def __init__(self, table: Rows, markers: Chunk | None) -> None:
        self.table = table
        self.marks, self.first_offset, self.last_offset, self.max_timestamp = table.mark(markers)
        self._markers = markers

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def columns(self) -> dict[str, list[int]]:
        """The values of each of COLUMNS; -1: absent."""
        table, schema = self.table.chunk(_BATCHES), _BATCHES.schema
        values = {name: cells(table, at, schema[at].format, 0, len(self)) for at, name in enumerate(COLUMNS)}
        return {name: [-1 if one is None else one for one in column] for name, column in values.items()}

    def marked(self, code: int) -> set[tuple[int, int]]:
        """(producer id, last offset) of the batches with a code."""
        return self.table.marked(self.marks, code)

    def why_unreadable(self, row: int) -> str:
        """The error text of a control batch with the code UNREADABLE."""
        assert self._markers is not None
        runs = self._markers.runs().cast("q").tolist()
        record = sum(runs[1 : 2 * runs[::2].index(row) : 2])
        [key] = cells(self._markers, 0, "z", record, record + 1)
        try:
            control.type_id(key)
        except InvalidRecordError as error:
            return str(error)
        return ""


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
                yield MarkerColumns(rows, chunk)
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
