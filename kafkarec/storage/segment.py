"""One file of record batches: a .log, a .checkpoint, or any blob.

00000000000000000030.log         batches, from base offset 30 on
00000000000000000030.index       positions of offsets; this and the next one are read for ranges
00000000000000000030.timeindex   offsets of timestamps
00000000000000000030.txnindex    aborted transactions
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkarec._core import Source
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import Isolation
from kafkarec.format.schema import DEFAULT_RECORD_COLUMNS
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.read import isolation as isolating
from kafkarec.read.decode_options import CHUNK_BYTES, DecodeRequest, check_option_names, request
from kafkarec.read.marker_columns import MarkerInput
from kafkarec.read.passes import PassResult, as_columns, joined, read_part, read_pieces, scan_pieces
from kafkarec.sidecars import producer_snapshot, txn_index
from kafkarec.state import transactions
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns

from . import names, ranges
from .folders import FetchCounter, Folder
from .ranges import EVERYTHING, RecordRange
from .raw_batches import BatchSlice, SegmentBytes, send
from .remote_errors import display_url
from .sources import ByteSource, core_source

if TYPE_CHECKING:
    from kafkarec.ops.salvage import SalvageReport
    from kafkarec.ops.verify import Report

_SEVERAL = ("topic", "partition", "file")
RESYNC_BYTES = 4 << 20  # how far resynchronisation searches (MAX_SEARCH_BYTES of _c/resync.pxd)


class _Reading(NamedTuple):
    """The segments of one partition that may hold wanted records, the request for each, the last stable offset."""

    asked: DecodeRequest
    segments: Sequence[Segment]
    stable: int | None


class Readable:
    """The methods that Segment, Log and LogDir share: `read`, `stream`, `scan`, `batches`, ..."""

    def groups(self) -> Iterator[Sequence[Segment]]:
        """The segments of each partition, in order."""
        raise TypeError(f"{type(self).__name__} has no segments of its own")

    @property
    def fetch_counter(self) -> FetchCounter | None:
        """Counts the bytes fetched for everything opened by the same call of `open`; None: not remote."""
        counter: FetchCounter | None = getattr(getattr(self, "_folder", None), "fetch_counter", None)
        return counter

    @property
    def fetched(self) -> int | None:
        """Bytes fetched so far for everything opened by the same call of `open`; None: not remote."""
        return None if self.fetch_counter is None else self.fetch_counter.fetched

    @property
    def _default_columns(self) -> tuple[str, ...] | None:
        return None

    def _readings(
        self,
        asked: DecodeRequest,
        wanted: RecordRange,
        isolation: Isolation | str,
        aborted: Iterable[Any] | None,
        last_stable_offset: int | None,
    ) -> Iterator[_Reading]:
        options = replace(asked.options, offsets=wanted.offsets, times=wanted.times)
        committed = Isolation.of(isolation) is Isolation.READ_COMMITTED
        aborted = None if aborted is None else list(aborted)
        for group in self.groups():
            chosen, stable = options, None
            if committed:
                excluded = isolating.excluded(group, aborted, last_stable_offset, skip=asked.skip)
                chosen = replace(options, aborted=excluded.aborted, stable_offset=excluded.stable_offset)
                stable = excluded.last_stable_offset
            yield _Reading(asked._replace(options=chosen), _in_range(group, wanted), stable)

    def _request(self, options: dict[str, Any]) -> DecodeRequest:
        check_option_names(options)
        if options.get("columns") is None and self._default_columns:
            options = {**options, "columns": self._default_columns}
        return request(**options)

    def read(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        aborted: Iterable[tuple[int, int] | tuple[int, int, int]] | None = None,
        last_stable_offset: int | None = None,
        threads: int = 1,
        **options: Any,
    ) -> RecordColumns:
        """The selected records as columns. Takes decode's options as well.

        start_offset, end_offset: offsets to read; the end is exclusive
        start_timestamp, end_timestamp: the same for timestamps, int milliseconds or an aware datetime; a record
            without a timestamp is in no range. The position to begin at comes from the segment's indexes; a batch
            without wanted records, according to its header, is not decoded
        `.batches` and `.damage` are those of the bytes read; `.remaining` is the sum over all segments.
        """
        asked = self._request(options)
        wanted = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        parts: list[PassResult] = []
        stable: list[int | None] = []
        for reading in self._readings(asked, wanted, isolation, aborted, last_stable_offset):
            stable.append(reading.stable)
            for segment in reading.segments:
                parts.append(segment.part(reading.asked, wanted, threads))
        return as_columns(asked, joined(parts), stable[0] if len(stable) == 1 else None)

    def stream(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        aborted: Iterable[tuple[int, int] | tuple[int, int, int]] | None = None,
        last_stable_offset: int | None = None,
        batch_bytes: int = CHUNK_BYTES,
        **options: Any,
    ) -> Generator[RecordColumns]:
        """As read, in pieces of about `batch_bytes` of payload, each with its own batches and damage: constant memory.

        With errors="raise" it yields everything before the damage, then raises. Closing the iterator closes the file.
        """
        wanted = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        pieces = self._stream(wanted, isolation, aborted, last_stable_offset, batch_bytes, options)
        return _without_segments(pieces)

    def pieces(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        **options: Any,
    ) -> Generator[tuple[Segment, RecordColumns]]:
        """As stream, each piece with its segment."""
        wanted = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        return self._stream(wanted, isolation, None, None, batch_bytes, options)

    def _stream(
        self,
        wanted: RecordRange,
        isolation: Isolation | str,
        aborted: Any,
        stable: int | None,
        batch_bytes: int,
        options: dict[str, Any],
    ) -> Generator[tuple[Segment, RecordColumns]]:
        if not isinstance(batch_bytes, int) or batch_bytes < 1:
            raise ValueError(f"batch_bytes {batch_bytes!r}: 1 or more")
        asked = self._request(options)
        asked = asked._replace(options=replace(asked.options, chunk_bytes=batch_bytes))
        return self._pieces(asked, wanted, Isolation.of(isolation), aborted, stable)

    def _pieces(
        self, asked: DecodeRequest, wanted: RecordRange, *isolation: Any
    ) -> Generator[tuple[Segment, RecordColumns]]:
        for reading in self._readings(asked, wanted, *isolation):
            for segment in reading.segments:
                with closing(segment.parts(reading.asked, wanted)) as parts:
                    for part in parts:
                        yield segment, as_columns(asked, part, reading.stable)

    def scan(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> BatchTable:
        """One row per batch, from the headers alone; of all batches, or of those that may hold offsets of a range,
        whose end is exclusive. `scan_pieces` yields the same in constant memory."""
        return BatchTable.joined(
            list(self.scan_pieces(errors=errors, start_offset=start_offset, end_offset=end_offset))
        )

    def scan_pieces(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> Generator[BatchTable]:
        """Batch tables of about 11,000 batches each. Positions are those within the segment."""
        asked = request(errors=errors)
        wanted = RecordRange.of(start_offset, end_offset, None, None)
        for group in self.groups():
            for segment in _in_range(group, wanted):
                yield from segment.headers(asked, wanted)

    def batches(self, *, errors: str = "raise", **options: Any) -> Iterator[RecordBatch]:
        """The batches one by one; see kafkarec.batches. Reads a batch's bytes when they are used."""
        check_option_names(options)
        asked = request(**{"control": True, **options}, errors=errors)
        return (batch for group in self.groups() for segment in group for batch in segment.record_batches(asked))

    def transactions(self, *, hanging_after: timedelta = transactions.HANGING_AFTER) -> Any:
        """All transactions of the log, from batch headers and markers: a transactions.TransactionListing."""
        (group,) = self.groups()
        return transactions.listing(group, hanging_after=hanging_after)

    @property
    def last_stable_offset(self) -> int | None:
        """Where a read_committed consumer stops: the first open transaction's first offset, else the log's end."""
        (group,) = self.groups()
        return isolating.excluded(group).last_stable_offset

    def verify(self, **options: Any) -> Report:
        """Checks everything; reports damage, where it is and what is lost: see kafkarec.verify."""
        from kafkarec.ops.verify import verify

        return verify(self, **options)

    def salvage(self, out: Any, **options: Any) -> SalvageReport:
        """Copies every good batch to a new folder: see kafkarec.salvage."""
        from kafkarec.ops.salvage import salvage

        return salvage(self, out, **options)

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """The offset of the first record at or after a timestamp (ms, or an aware datetime); None: there is none.

        Follows KafkaConsumer.offsetsForTimes.
        """
        for piece in self.stream(start_timestamp=timestamp, columns=["offset"], batch_bytes=1):
            if len(piece):
                return int(piece.column("offset")[0])
        return None


class Segment(Readable):
    """A file of record batches. As a context manager it keeps the file open; otherwise each call opens it.

    .path, .name              as given, and the file's name
    .topic, .partition        as the caller gave them, else from the folder's or the file's name; None: unknown
    .base_offset              from the file's name; None: unknown
    .size                     bytes, when it was first opened
    .later_segment            a later segment of the same log exists, so a cut batch at the end is damage
    .begin, .end              the bytes that are read (see `between`); 0, None: the whole file
    """

    begin: int = 0
    end: int | None = None

    def __init__(
        self,
        path: str,
        name: str,
        *,
        folder: Folder | None = None,
        source: ByteSource | None = None,
        topic: str | None = None,
        partition: int | None = None,
        size: int | None = None,
        later_segment: bool = False,
        mapped: bool = False,
    ) -> None:
        self.path, self.name = path, name
        self.topic, self.partition = topic, partition
        self.later_segment = later_segment
        self.base_offset = names.base_offset(name)
        self._folder, self._given, self._mapped = folder, source, mapped
        self._size = size
        self._open: ByteSource | None = None
        self._core: Source | None = None
        self._users = 0
        self._lock = threading.Lock()

    def groups(self) -> Iterator[Sequence[Segment]]:
        yield (self,)

    @property
    def size(self) -> int:
        if self._size is None:
            with self.opened() as source:
                self._size = int(source.size)
        return self._size

    @property
    def source(self) -> ByteSource:
        """The open file: see storage.sources. It stays open until `close`."""
        if self._open is None:
            self.__enter__()
        assert self._open is not None
        return self._open

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """A context manager with the Source for a Decoder. Closes the file after its last concurrent user."""
        with self._lock:
            if self._core is None:
                self._open = self._given if self._given is not None else self._opened_source()
                self._core = core_source(self._open, self._mapped)
            self._users += 1
            core = self._core
        try:
            yield core
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._close_source()

    def _opened_source(self) -> ByteSource:
        if self._folder is None:
            raise ValueError(f"{self.path} was given as an open file, and is closed")
        return self._folder.open(self.name)

    def _close_source(self) -> None:
        opened, self._open, self._core = self._open, None, None
        if opened is not None and opened is not self._given:
            opened.close()

    def __enter__(self) -> Segment:
        self._held = self.opened()
        self._held.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file if `source` or a `with` statement keeps it open."""
        held = self.__dict__.pop("_held", None)
        if held is not None:
            held.__exit__(None, None, None)

    def raw(self, position: int, length: int) -> bytes:
        """Bytes of the file; fewer at its end."""
        with self.opened():
            assert self._open is not None
            return self._open.read_at(position, max(0, min(length, self._open.size - position)))

    def sidecar(self, suffix: str) -> bytes | None:
        """All bytes of the segment's file with this suffix (".index", ...); None: there is none."""
        return None if self._folder is None else self._folder.read(names.sidecar(self.name, suffix))

    def marker_input(self) -> MarkerInput:
        """The input for matching markers to transactions: the batches, .txnindex and .snapshot of the segment."""
        return MarkerInput(self.opened, self.path, self._aborted, self._producers, self.later_segment)

    def _aborted(self) -> Sequence[AbortedTransaction] | None:
        data = self.sidecar(txn_index.SUFFIX)
        return None if data is None else txn_index.read(data, self.path)

    def _producers(self) -> Sequence[SnapshotEntry] | None:
        data = self.sidecar(producer_snapshot.SUFFIX)
        return None if data is None else producer_snapshot.read(data)

    def open_source(self, suffix: str | None = None) -> ByteSource | None:
        """Opens this file, or the segment's file with this suffix (None: there is none). The caller closes it."""
        if suffix is None:
            return self._opened_source()
        try:
            return None if self._folder is None else self._folder.open(names.sidecar(self.name, suffix))
        except FileNotFoundError:
            return None

    def named(self, asked: DecodeRequest) -> DecodeRequest:
        """The request with this file's name, topic and partition for errors and columns."""
        file = display_url(self.path) if "://" in self.path else self.path  # without a signature in it
        named = {"file": file, "topic": self.topic, "partition": self.partition, "later_segment": self.later_segment}
        return asked._replace(named=named)

    def part(self, asked: DecodeRequest, wanted: RecordRange, threads: int) -> PassResult:
        with self.opened() as source:
            return read_part(self.named(asked), source, self._start(wanted), self.end, threads)

    def parts(self, asked: DecodeRequest, wanted: RecordRange) -> Generator[PassResult]:
        with self.opened() as source:
            yield from read_pieces(self.named(asked), source, self._start(wanted), self.end)

    def headers(self, asked: DecodeRequest, wanted: RecordRange = EVERYTHING) -> Iterator[BatchTable]:
        ranged = asked._replace(options=replace(asked.options, offsets=wanted.offsets))
        with self.opened() as source:
            yield from scan_pieces(self.named(ranged), source, self._start(wanted), self.end)

    def position_of(self, offset: int) -> int:
        """Where reading for an offset may begin: the position (bytes) of a batch with no record at or above `offset`
        before it, by the .index beside the segment. 0 without an index, or where it does not fit the log."""
        return ranges.start_position(self, RecordRange.of(offset, None, None, None))

    def _start(self, wanted: RecordRange) -> int:
        return max(self.begin, ranges.start_position(self, wanted))

    def between(self, begin: int, end: int) -> Segment:
        """The bytes [begin, end) of this segment as a Segment of their own, for one of several tasks. Both must be
        starts of batches or the file's end: see `splits`. Positions stay those of the file."""
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"bytes {begin} to {end} of a file of {self.size}")
        part = Segment(
            self.path,
            self.name,
            folder=self._folder,
            source=self._given,
            topic=self.topic,
            partition=self.partition,
            size=self.size,
            later_segment=self.later_segment or end < self.size,
            mapped=self._mapped,
        )
        part.begin, part.end = begin, end
        return part

    def splits(self, max_bytes: int) -> list[tuple[int, int]]:
        """Consecutive ranges [begin, end) of about `max_bytes` each, cut between two good batches of rising offsets.

        Reads the headers of the file, and the two batches at each cut. Does not cut within RESYNC_BYTES after broken
        framing or falling offsets, so resynchronisation never goes from one range into the next, and the ranges
        together have the records and damage of the file.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes {max_bytes}: 1 or more")
        borders, previous, next_offset = [self.begin], self.begin, 0
        expected, cut_from = self.begin, self.begin
        end = self.size if self.end is None else self.end
        for table in self.between(self.begin, end).headers(request(errors="skip")):  # the file may grow meanwhile
            columns = (table.column(name) for name in ("position", "size_in_bytes", "last_offset", "next_offset"))
            for position, size, last, following in zip(*columns, strict=True):
                if position != expected or last < next_offset:
                    cut_from = position + RESYNC_BYTES
                may_cut = position - borders[-1] >= max_bytes and position >= cut_from
                if may_cut and self._are_good_batches(previous, position, position + size):
                    borders.append(position)
                previous, expected, next_offset = position, position + size, following
        return [*pairwise(borders), (borders[-1], end)]

    def _are_good_batches(self, *borders: int) -> bool:
        """Whether there is exactly one good batch between each two neighbours of `borders`."""
        try:
            parts = [self.between(*ends).part(request(columns=[]), EVERYTHING, 1) for ends in pairwise(borders)]
        except KafkaRecordError:
            return False
        return all(sum(map(len, part.tables)) == 1 and not part.remaining for part in parts)

    def record_batches(self, asked: DecodeRequest, wanted: RecordRange = EVERYTHING) -> Iterator[RecordBatch]:
        one = self.named(asked._replace(skip=False))
        with self.opened():
            for table in self.headers(asked, wanted):
                for fields in table:
                    yield RecordBatch(fields, SegmentBytes(self, one, fields["position"], fields["size_in_bytes"]))

    def slice(self, start_offset: int | range | None = None, end_offset: int | None = None) -> BatchSlice:
        """The unchanged bytes of the batches that may hold offsets of a range, whose end is exclusive. Batches are not
        cut: the first one may begin below the range, the last one may end above it."""
        if isinstance(start_offset, range):
            wanted = RecordRange.of(start_offset.start, start_offset.stop, None, None)
        else:
            wanted = RecordRange.of(start_offset, end_offset, None, None)
        return BatchSlice(self, list(self.record_batches(request(control=True), wanted)))

    def copy_bytes(self, position: int, length: int, file: Any) -> int:
        """Copies bytes of this file to a file object, by sendfile if possible; returns how many."""
        with self.opened():
            assert self._open is not None
            return send(self._open, position, length, file)

    def _names(self) -> str:
        known = self.topic is not None and self.partition is not None
        return f"{self.topic}-{self.partition}/{self.name}" if known else self.path

    def __repr__(self) -> str:
        size = f"{self._size} bytes" if self._size is not None else "not opened yet"
        base = "unknown" if self.base_offset is None else self.base_offset
        return f"<Segment {self._names()}: {size}, base offset {base}>"


def _in_range(group: Sequence[Segment], wanted: RecordRange) -> Sequence[Segment]:
    """The segments that may hold the wanted offsets, by the base offsets of their names."""
    chosen = []
    for number, segment in enumerate(group):
        later = group[number + 1].base_offset if number + 1 < len(group) else None
        first, end, base = wanted.first_offset, wanted.end_offset, segment.base_offset
        if first is not None and later is not None and base is not None and base < later <= first:
            continue
        if end is not None and base is not None and base >= end and number > 0:
            continue
        chosen.append(segment)
    return chosen


def _without_segments(pieces: Generator[tuple[Segment, RecordColumns]]) -> Generator[RecordColumns]:
    with closing(pieces):
        for _, piece in pieces:
            yield piece


def columns_of_several_logs() -> tuple[str, ...]:
    return (*DEFAULT_RECORD_COLUMNS, *_SEVERAL)
