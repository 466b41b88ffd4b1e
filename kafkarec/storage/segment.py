"""One file of record batches: a .log, a .checkpoint, or any blob.

    00000000000000000030.log         batches, from base offset 30 on
    00000000000000000030.index       beside it: where offsets are       (read when a range is asked for)
    00000000000000000030.timeindex   beside it: where times are
    00000000000000000030.txnindex    beside it: which transactions were aborted
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
from kafkarec.read.decode_options import CHUNK_BYTES, DecodeRequest, demand_known, request
from kafkarec.read.marker_columns import MarkerInput
from kafkarec.read.passes import PassResult, as_columns, joined, read_part, read_pieces, scan_pieces
from kafkarec.sidecars import producer_snapshot, txn_index
from kafkarec.state import transactions
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns

from . import names, ranges
from .folders import FetchCounter, Folder
from .ranges import EVERYTHING, RecordRange
from .raw_batches import BatchSlice, SegmentBytes, send
from .remote_errors import shown
from .sources import ByteSource, core_source

if TYPE_CHECKING:
    from kafkarec.ops.salvage import SalvageReport
    from kafkarec.ops.verify import Report

_SEVERAL = ("topic", "partition", "file")
LOOKED_AHEAD = 4 << 20  # bytes: as far as resynchronisation looks (MOST_LOOKED_AHEAD of _c/resync.pxd)


class _Reading(NamedTuple):
    """One partition's segments that may hold what is wanted, and what is asked of each."""

    asked: DecodeRequest
    segments: Sequence[Segment]
    stable: int | None


class Readable:
    """Segment, Log and LogDir: `read`, `stream`, `scan`, `batches` and what is built on them."""

    def groups(self) -> Iterator[Sequence[Segment]]:
        """The segments of each partition, in order."""
        raise TypeError(f"{type(self).__name__} has no segments of its own")

    @property
    def tally(self) -> FetchCounter | None:
        """What counts the bytes that come over the wire, for all that was opened with one call; None: not remote."""
        tally: FetchCounter | None = getattr(getattr(self, "_folder", None), "tally", None)
        return tally

    @property
    def fetched(self) -> int | None:
        """Bytes that came over the wire so far, for this and everything opened with it; None: it is not remote."""
        return None if self.tally is None else self.tally.fetched

    @property
    def _default_columns(self) -> tuple[str, ...] | None:
        return None

    def _readings(
        self, asked: DecodeRequest, wanted: RecordRange, isolation: Isolation | str,
        aborted: Iterable[Any] | None, last_stable_offset: int | None,
    ) -> Iterator[_Reading]:  # fmt: skip
        options = replace(asked.options, offsets=wanted.offsets, times=wanted.times)
        committed = Isolation.of(isolation) is Isolation.READ_COMMITTED
        aborted = None if aborted is None else list(aborted)
        for group in self.groups():
            chosen, stable = options, None
            if committed:
                hidden = isolating.excluded(group, aborted, last_stable_offset, skip=asked.skip)
                chosen = replace(options, aborted=hidden.aborted, stable_offset=hidden.stable_offset)
                stable = hidden.last_stable_offset
            yield _Reading(asked._replace(options=chosen), _within(group, wanted), stable)

    def _asked(self, wishes: dict[str, Any]) -> DecodeRequest:
        demand_known(wishes)
        if wishes.get("columns") is None and self._default_columns:
            wishes = {**wishes, "columns": self._default_columns}
        return request(**wishes)

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
        **wishes: Any,
    ) -> RecordColumns:
        """All chosen records as columns. Takes decode's options besides:

        start_offset, end_offset: offsets from the first to the second, which is exclusive
        start_timestamp, end_timestamp: the same for timestamps, int milliseconds or an aware datetime; a record
            without a timestamp is in no range. The indexes beside a segment tell where to begin; a batch whose header
            shows that nothing in it is wanted is not decoded
        `.batches` and `.damage` are those of what was read; `.remaining` sums up the tails of all segments.
        """
        asked = self._asked(wishes)
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
        **wishes: Any,
    ) -> Generator[RecordColumns]:
        """As read, in pieces of about `batch_bytes` of payload, each with its own batches and damage: flat memory.

        Under errors="raise" everything in front of the damage comes first. Closing the iterator closes the file.
        """
        wanted = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        pieces = self._stream(wanted, isolation, aborted, last_stable_offset, batch_bytes, wishes)
        return _second_of(pieces)

    def pieces(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        **wishes: Any,
    ) -> Generator[tuple[Segment, RecordColumns]]:
        """As stream, each piece with the segment that it lies in."""
        wanted = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        return self._stream(wanted, isolation, None, None, batch_bytes, wishes)

    def _stream(
        self, wanted: RecordRange, isolation: Isolation | str, aborted: Any, stable: int | None, batch_bytes: int,
        wishes: dict[str, Any],
    ) -> Generator[tuple[Segment, RecordColumns]]:  # fmt: skip
        if not isinstance(batch_bytes, int) or batch_bytes < 1:
            raise ValueError(f"batch_bytes {batch_bytes!r}: 1 or more")
        asked = self._asked(wishes)
        asked = asked._replace(options=replace(asked.options, chunk_bytes=batch_bytes))
        return self._pieces(asked, wanted, Isolation.of(isolation), aborted, stable)

    def _pieces(self, asked: DecodeRequest, wanted: RecordRange, *isolation: Any) -> Generator[tuple[Segment, RecordColumns]]:
        for reading in self._readings(asked, wanted, *isolation):
            for segment in reading.segments:
                with closing(segment.parts(reading.asked, wanted)) as parts:
                    for part in parts:
                        yield segment, as_columns(asked, part, reading.stable)

    def scan(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> BatchTable:
        """One row per batch from the headers alone: of all, or of those that may hold offsets of a range, whose end is
        exclusive. `scan_pieces` gives the same in flat memory."""
        return BatchTable.joined(
            list(self.scan_pieces(errors=errors, start_offset=start_offset, end_offset=end_offset))
        )

    def scan_pieces(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> Generator[BatchTable]:
        """Batch tables of some 11,000 batches each. Positions count within a segment."""
        asked = request(errors=errors)
        wanted = RecordRange.of(start_offset, end_offset, None, None)
        for group in self.groups():
            for segment in _within(group, wanted):
                yield from segment.headers(asked, wanted)

    def batches(self, *, errors: str = "raise", **wishes: Any) -> Iterator[RecordBatch]:
        """The batches one by one; see kafkarec.batches. Bytes are read when they are asked for."""
        demand_known(wishes)
        asked = request(**{"control": True, **wishes}, errors=errors)
        return (batch for group in self.groups() for segment in group for batch in segment.record_batches(asked))

    def transactions(self, *, hanging_after: timedelta = transactions.HANGING_AFTER) -> Any:
        """All transactions of the log, from headers and markers: a transactions.TransactionListing."""
        (group,) = self.groups()
        return transactions.listing(group, hanging_after=hanging_after)

    @property
    def last_stable_offset(self) -> int | None:
        """Where a read_committed consumer stops: the first open transaction's first offset, else the log's end."""
        (group,) = self.groups()
        return isolating.excluded(group).last_stable_offset

    def verify(self, **wishes: Any) -> Report:
        """Is it damaged, where, what is lost: see kafkarec.verify."""
        from kafkarec.ops.verify import verify

        return verify(self, **wishes)

    def salvage(self, out: Any, **wishes: Any) -> SalvageReport:
        """Every good batch into a new folder: see kafkarec.salvage."""
        from kafkarec.ops.salvage import salvage

        return salvage(self, out, **wishes)

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """The offset of the first record at or after a time (ms, or an aware datetime); None: there is none.

        Follows KafkaConsumer.offsetsForTimes.
        """
        for piece in self.stream(start_timestamp=timestamp, columns=["offset"], batch_bytes=1):
            if len(piece):
                return int(piece.column("offset")[0])
        return None


class Segment(Readable):
    """A file of record batches. A context manager: within it the file stays open, otherwise each call opens it.

    .path, .name              as given, and the file's name
    .topic, .partition        what folder or name tell, or the caller; None: unknown
    .base_offset              what the name tells; None: unknown
    .size                     bytes, when it was opened first
    .later_segment                 a later segment of the same log exists: nothing may be missing at this one's end
    .begin, .end              the bytes that are read, see `between`; the whole file otherwise (0, None)
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
        """The bytes: see storage.sources. The file stays open until `close`."""
        if self._open is None:
            self.__enter__()
        assert self._open is not None
        return self._open

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """What a Decoder is fed with. The file is closed behind its last user."""
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
                    self._let_go()

    def _opened_source(self) -> ByteSource:
        if self._folder is None:
            raise ValueError(f"{self.path} was given as an open file, and is closed")
        return self._folder.open(self.name)

    def _let_go(self) -> None:
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
        """Closes the file, where `source` or a `with` keep it open."""
        held = self.__dict__.pop("_held", None)
        if held is not None:
            held.__exit__(None, None, None)

    def raw(self, position: int, length: int) -> bytes:
        """Bytes of the file; fewer at its end."""
        with self.opened():
            assert self._open is not None
            return self._open.read_at(position, max(0, min(length, self._open.size - position)))

    def sidecar(self, suffix: str) -> bytes | None:
        """The whole file beside this one that differs in its suffix (".index", ...); None: there is none."""
        return None if self._folder is None else self._folder.read(names.sidecar(self.name, suffix))

    def marker_input(self) -> MarkerInput:
        """What matching markers to transactions reads of a segment: its batches, and the files beside it."""
        return MarkerInput(self.opened, self.path, self._aborted, self._producers, self.later_segment)

    def _aborted(self) -> Sequence[AbortedTransaction] | None:
        data = self.sidecar(txn_index.SUFFIX)
        return None if data is None else txn_index.read(data, self.path)

    def _producers(self) -> Sequence[SnapshotEntry] | None:
        data = self.sidecar(producer_snapshot.SUFFIX)
        return None if data is None else producer_snapshot.read(data)

    def open_source(self, suffix: str | None = None) -> ByteSource | None:
        """The bytes of this file, or of the one beside it (None: there is none), for those who need only some of them.
        Yours to close."""
        if suffix is None:
            return self._opened_source()
        try:
            return None if self._folder is None else self._folder.open(names.sidecar(self.name, suffix))
        except FileNotFoundError:
            return None

    def named(self, asked: DecodeRequest) -> DecodeRequest:
        """A request for this file: errors and columns tell its name, topic and partition."""
        file = shown(self.path) if "://" in self.path else self.path  # without a signature in it
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
        """This segment from byte `begin` to byte `end` alone, both batch borders (0, or the file's end): what one task
        of several reads. Positions stay those of the file; see `splits`."""
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"bytes {begin} to {end} of a file of {self.size}")
        part = Segment(
            self.path, self.name, folder=self._folder, source=self._given, topic=self.topic, partition=self.partition,
            size=self.size, later_segment=self.later_segment or end < self.size, mapped=self._mapped,
        )  # fmt: skip
        part.begin, part.end = begin, end
        return part

    def splits(self, max_bytes: int) -> list[tuple[int, int]]:
        """Bytes [begin, end) of about `max_bytes` each, one behind the other, cut between two batches that are whole
        and whose offsets rise.

        Reads the headers of the file, and the two batches at each cut, and cuts nowhere near a place where frames break
        off or offsets go back: nobody then goes on behind damage from one part into the next, so the parts' records
        and damage are those of the file.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes {max_bytes}: 1 or more")
        borders, before, next_offset = [self.begin], self.begin, 0
        behind, calm = self.begin, self.begin
        end = self.size if self.end is None else self.end
        for table in self.between(self.begin, end).headers(request(errors="skip")):  # the file may grow meanwhile
            facts = (table.column(name) for name in ("position", "size_in_bytes", "last_offset", "next_offset"))
            for position, size, last, following in zip(*facts, strict=True):
                if position != behind or last < next_offset:
                    calm = position + LOOKED_AHEAD
                far = position - borders[-1] >= max_bytes and position >= calm
                if far and self._whole(before, position, position + size):
                    borders.append(position)
                before, behind, next_offset = position, position + size, following
        return [*pairwise(borders), (borders[-1], end)]

    def _whole(self, *borders: int) -> bool:
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
        """The whole batches that may hold offsets from the first to the second, which is exclusive (or of a range), as
        they lie there. Batches are not cut: the first one may begin below, the last one may end above."""
        if isinstance(start_offset, range):
            wanted = RecordRange.of(start_offset.start, start_offset.stop, None, None)
        else:
            wanted = RecordRange.of(start_offset, end_offset, None, None)
        return BatchSlice(self, list(self.record_batches(request(control=True), wanted)))

    def copy_bytes(self, position: int, length: int, file: Any) -> int:
        """Bytes of this file to another, within the kernel where it can; answers how many."""
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


def _within(group: Sequence[Segment], wanted: RecordRange) -> Sequence[Segment]:
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


def _second_of(pieces: Generator[tuple[Segment, RecordColumns]]) -> Generator[RecordColumns]:
    with closing(pieces):
        for _, piece in pieces:
            yield piece


def several_columns() -> tuple[str, ...]:
    return (*DEFAULT_RECORD_COLUMNS, *_SEVERAL)
