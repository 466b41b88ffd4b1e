"""One file of record batches: a .log, a .checkpoint, or any blob.

00000000000000000030.log         batches, from base offset 30 on
00000000000000000030.index       positions of offsets; this and the next one are read for ranges
00000000000000000030.timeindex   offsets of timestamps
00000000000000000030.txnindex    aborted transactions
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkarec._core import Source
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import Isolation
from kafkarec.format.schema import DEFAULT_RECORD_COLUMNS
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.read import isolation as isolation_rules
from kafkarec.read.decode_options import CHUNK_BYTES, DecodeRequest, check_option_names, checked_threads, request
from kafkarec.read.marker_columns import MarkerInput
from kafkarec.read.passes import PassResult, as_columns, joined, read_part, read_pieces, scan_pieces
from kafkarec.recover.offset_order import WINDOW
from kafkarec.recover.restoring import NO_FACTS, LogFacts
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, txn_index
from kafkarec.sources.files import ByteSource, LocalFile
from kafkarec.sources.folders import FetchCounter, Folder
from kafkarec.sources.remote_errors import display_url
from kafkarec.state import transactions
from kafkarec.support.package_logger import logger
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns, places

from . import names, ranges
from .log_files import open_file
from .ranges import EVERYTHING, RecordRange
from .raw_batches import BatchSlice, SegmentBytes

if TYPE_CHECKING:
    from kafkarec.ops.salvage import SalvageReport
    from kafkarec.ops.verify import Report

    from .follower import Follower

_SPLIT_COLUMNS = ("position", "size_in_bytes", "last_offset", "next_offset", "partition_leader_epoch")
_SEVERAL = ("topic", "partition", "file")
MAX_OFFSETS = 2**31  # in one segment: an .index has offsets of 4 bytes, relative to the base offset
RESYNC_BYTES = 4 << 20  # how far resynchronisation searches (MAX_SEARCH_BYTES of _c/resync.pxd)


class _Reading(NamedTuple):
    """The request for each segment of a partition, the segments that may have records of a range, and what
    read_committed leaves out."""

    decode_request: DecodeRequest
    segments: Sequence[Segment]
    left_out: isolation_rules.Excluded | None


class Readable(ABC):
    """The methods that Segment, Log and LogDir share: `read`, `stream`, `scan`, `batches`, ..."""

    @abstractmethod
    def groups(self) -> Iterator[Sequence[Segment]]:
        """The segments of each partition, in order."""

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
        decode_request: DecodeRequest,
        record_range: RecordRange,
        isolation: Isolation | str,
        aborted: Iterable[Any] | None,
        last_stable_offset: int | None,
    ) -> Iterator[_Reading]:
        options = replace(decode_request.options, offsets=record_range.offsets, times=record_range.times)
        committed = Isolation.of(isolation) is Isolation.READ_COMMITTED
        aborted = None if aborted is None else list(aborted)
        for group in self.groups():
            chosen, left_out = options, None
            if committed:
                left_out = isolation_rules.excluded(
                    group, aborted, last_stable_offset, skip=decode_request.skip, restore=options.restore
                )
                chosen = replace(options, aborted=left_out.aborted, stable_offset=left_out.stable_offset)
            yield _Reading(decode_request._replace(options=chosen), _in_range(group, record_range), left_out)

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
        """The selected records as columns. Accepts decode's options as well.

        start_offset, end_offset: range of offsets; the end is exclusive
        start_timestamp, end_timestamp: range of timestamps, int milliseconds or an aware datetime; a record without a
            timestamp is in no range. The position at which reading begins is found with the segment's indexes; a batch
            without records in the ranges, according to its header, is not decoded
        `.batches` and `.damage` are those of the bytes read; `.remaining` is the sum over all segments.
        """
        decode_request = self._request(options)
        record_range = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        parts: list[PassResult] = []
        left_out: list[isolation_rules.Excluded | None] = []
        for reading in self._readings(decode_request, record_range, isolation, aborted, last_stable_offset):
            left_out.append(reading.left_out)
            for segment in reading.segments:
                parts.append(segment.part(reading.decode_request, record_range, threads))
        return as_columns(decode_request, joined(parts), _of_all(left_out))

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
        threads: int = 1,
        **options: Any,
    ) -> Generator[RecordColumns]:
        """As read, in pieces of about `batch_bytes` of payload, each with its own batches and damage: constant memory.

        threads: how many threads decode, the calling one included, up to 8 MiB of payload ahead for each; the pieces
            are the same
        With errors="raise" it yields everything before the damage, then raises. Closing the iterator closes the file.
        """
        record_range = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        pieces = self._stream(record_range, isolation, aborted, last_stable_offset, batch_bytes, threads, options)
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
        threads: int = 1,
        **options: Any,
    ) -> Generator[tuple[Segment, RecordColumns]]:
        """As stream, each piece with its segment."""
        record_range = RecordRange.of(start_offset, end_offset, start_timestamp, end_timestamp)
        return self._stream(record_range, isolation, None, None, batch_bytes, threads, options)

    def _stream(
        self,
        record_range: RecordRange,
        isolation: Isolation | str,
        aborted: Any,
        stable: int | None,
        batch_bytes: int,
        threads: int,
        options: dict[str, Any],
    ) -> Generator[tuple[Segment, RecordColumns]]:
        checked_threads(threads)
        decode_request = self._chunked_request(batch_bytes, options)
        return self._pieces(decode_request, record_range, threads, Isolation.of(isolation), aborted, stable)

    def _chunked_request(self, batch_bytes: int, options: dict[str, Any]) -> DecodeRequest:
        if not isinstance(batch_bytes, int) or batch_bytes < 1:
            raise ValueError(f"batch_bytes {batch_bytes!r}: 1 or more")
        decode_request = self._request(options)
        return decode_request._replace(options=replace(decode_request.options, chunk_bytes=batch_bytes))

    def _pieces(
        self, decode_request: DecodeRequest, record_range: RecordRange, threads: int, *isolation: Any
    ) -> Generator[tuple[Segment, RecordColumns]]:
        for reading in self._readings(decode_request, record_range, *isolation):
            for segment in reading.segments:
                with closing(segment.parts(reading.decode_request, record_range, threads)) as parts:
                    for part in parts:
                        yield segment, as_columns(decode_request, part, reading.left_out)

    def follow(
        self,
        *,
        start_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        interval: float = 0.25,
        on_note: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Generator[RecordColumns]:
        """As stream, and then what is appended, as it arrives: an iterator without an end. Closing it closes the files.

        interval: seconds between two polls, in which the iterator blocks
        on_note: called with a sentence when the log was truncated, or segments were deleted before they were read; by
            default a warning of the logger `kafkarec`
        Later segments of a Log are followed, too, and each log of a LogDir in turn; ValueError for what is not on this
        machine, FileNotFoundError when the folder, or the file that is followed alone, no longer exists. Incomplete
        batches and preallocated zeros at the end are waited for. Damage is raised, after the records before it, or with
        errors="skip" reported, when a good batch is behind it and it has been there for 2 seconds: what is written
        behind it meanwhile may tell more. With errors="skip" that holds as well for a batch at the end that does not
        continue the one before it by offset and leader epoch, as its header may have to be restored.
        """
        from .follower import follow

        if not interval >= 0:
            raise ValueError(f"interval {interval!r}: seconds, 0 or more")
        followers = self.followers(
            start_offset=start_offset,
            start_timestamp=start_timestamp,
            isolation=isolation,
            batch_bytes=batch_bytes,
            on_note=on_note,
            **options,
        )
        return follow(followers, interval)

    def followers(
        self,
        *,
        start_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        on_note: Callable[[str], object] | None = None,
        **options: Any,
    ) -> list[Follower]:
        """As follow, without blocking: a Follower of each log. Its `poll()` yields pairs (segment, records) of what is
        new since the last one, and ends."""
        from .follower import followers

        decode_request = self._chunked_request(batch_bytes, options)
        record_range = RecordRange.of(start_offset, None, start_timestamp, None)
        return followers(self, decode_request, record_range, Isolation.of(isolation), on_note or logger.warning)

    def scan(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> BatchTable:
        """One row per batch, from the headers alone: all batches, or those that may have offsets of a range, whose end
        is exclusive. `scan_pieces` yields the same in constant memory."""
        return BatchTable.joined(
            list(self.scan_pieces(errors=errors, start_offset=start_offset, end_offset=end_offset))
        )

    def scan_pieces(
        self,
        *,
        errors: str = "raise",
        start_offset: int | None = None,
        end_offset: int | None = None,
        check_crcs: bool = False,
    ) -> Generator[BatchTable]:
        """Batch tables of about 11,000 batches each. Positions are those within the segment.

        check_crcs: also checks every checksum, which reads all bytes and decompresses nothing
        """
        decode_request = request(errors=errors)
        record_range = RecordRange.of(start_offset, end_offset, None, None)
        for group in self.groups():
            for segment in _in_range(group, record_range):
                yield from segment.headers(decode_request, record_range, check_crcs)

    def batches(self, *, errors: str = "raise", **options: Any) -> Iterator[RecordBatch]:
        """The batches one by one; see kafkarec.batches. Reads a batch's bytes when they are used."""
        check_option_names(options)
        decode_request = request(**{"control": True, **options}, errors=errors)
        return (
            batch for group in self.groups() for segment in group for batch in segment.record_batches(decode_request)
        )

    def transactions(self, *, hanging_after: timedelta = transactions.HANGING_AFTER) -> Any:
        """All transactions of the log, from batch headers and markers: a transactions.TransactionListing."""
        (group,) = self.groups()
        return transactions.listing(group, hanging_after=hanging_after)

    @property
    def last_stable_offset(self) -> int | None:
        """The offset at which a read_committed consumer stops: that of the first open transaction, else the log's
        end."""
        (group,) = self.groups()
        return isolation_rules.excluded(group).last_stable_offset

    def verify(self, **options: Any) -> Report:
        """Checks everything and reports damage, its position and the lost offsets: see kafkarec.verify."""
        from kafkarec.ops.verify import verify

        return verify(self, **options)

    def salvage(self, out: Any, **options: Any) -> SalvageReport:
        """Copies every good batch to a new folder: see kafkarec.salvage."""
        from kafkarec.ops.salvage import salvage

        return salvage(self, out, **options)

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """The offset of the first record at or after a timestamp (ms, or an aware datetime); None: there is none.

        Follows KafkaConsumer.offsetsForTimes, for which transaction markers are records too.
        """
        for piece in self.stream(start_timestamp=timestamp, columns=["offset"], control=True, batch_bytes=1):
            if len(piece):
                return int(piece.column("offset")[0])
        return None


class Segment(Readable):
    """A file of record batches. As a context manager it keeps the file open; otherwise each call opens it.

    .path, .name              as passed to `open`, and the file's name
    .topic, .partition        as passed by the caller, else from the folder's or the file's name; None: unknown
    .base_offset              from the file's name; None: unknown
    .size                     bytes, when it was first opened
    .later_segment            a later segment of the same log exists, so a cut batch at the end is damage
    .restore                  False: header fields are never restored, whatever the options of a call
    .begin, .end              the bytes that are read (see `between`); 0, None: the whole file
    """

    begin: int = 0
    end: int | None = None
    restore: bool = True

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
    ) -> None:
        self.path, self.name = path, name
        self.topic, self.partition = topic, partition
        self.later_segment = later_segment
        self.prepared: Callable[[], dict[tuple[int, int], bool]] = dict  # see MarkerInput
        self.base_offset = names.base_offset(name)
        self._folder, self._given = folder, source
        self._size = size
        self._known_size: int | None = None
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
    def folder(self) -> Folder | None:
        """The folder that the file is in; None: it was opened from a file object."""
        return self._folder

    @property
    def source(self) -> ByteSource:
        """The open file: see sources.files. It stays open until `close`."""
        self.hold_open()
        assert self._open is not None
        return self._open

    def hold_open(self) -> None:
        """Opens the file, which then stays open until `close`."""
        if self._open is None:
            self.__enter__()

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """A context manager with the Source for a Decoder. Closes the file after its last concurrent user."""
        with self._lock:
            if self._core is None:
                self._open = self._given if self._given is not None else self._opened_source()
                self._core = Source(file=self._open)
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
            raise ValueError(f"{self.path} was opened from a file object, which cannot be opened again")
        source = open_file(self._folder, self.name)
        if self._known_size is not None and isinstance(source, LocalFile):
            source.size = min(source.size, self._known_size)
        return source

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
        context = self.__dict__.pop("_held", None)
        if context is not None:
            context.__exit__(None, None, None)

    def raw(self, position: int, length: int) -> bytes:
        """Bytes of the file; fewer at its end."""
        with self.opened():
            assert self._open is not None
            return self._open.read_at(position, max(0, min(length, self._open.size - position)))

    def last_batch(self) -> dict[str, Any] | None:
        """The columns of the last batch, from the headers alone; None: there is none. OSError if it cannot be read."""
        last = None
        for table in self.scan_pieces(errors="skip"):
            last = table[-1] if len(table) else last
        return last

    def sidecar(self, suffix: str) -> bytes | None:
        """All bytes of the segment's side file with this suffix (".index", ...); None: there is none.

        The .snapshot is that of the segment's start. In tiered storage an object of this name is that of its end
        (RemoteLogManager.copyLogSegment), so there is none.
        """
        if self._folder is None or (suffix == producer_snapshot.SUFFIX and names.is_tiered(self.name)):
            return None
        return self._folder.read(names.sidecar(self.name, suffix))

    def marker_input(self) -> MarkerInput:
        """The input for matching markers to transactions: the batches, .txnindex and .snapshot of the segment."""
        return MarkerInput(
            self.opened,
            self.path,
            self._aborted,
            self._producers,
            self.later_segment,
            self._folder_snapshots,
            self._raw_or_nothing,
            self.facts,
            self.restore,
            self.prepared,
        )

    def _aborted(self) -> Sequence[AbortedTransaction] | None:
        data = self.sidecar(txn_index.SUFFIX)
        return None if data is None else txn_index.read(data, self.path)

    def _producers(self) -> Sequence[SnapshotEntry] | None:
        data = self.sidecar(producer_snapshot.SUFFIX)
        return None if data is None else producer_snapshot.read(data)

    def _folder_snapshots(self) -> list[tuple[int, Sequence[SnapshotEntry]]]:
        """The intact producer snapshots of the folder, by offset. Those that cannot be read are left out."""
        folder, found = self._folder, []
        if folder is None:
            return []
        with suppress(OSError):
            for entry in folder.entries():
                prefix, suffix = os.path.splitext(entry.name)
                if suffix == producer_snapshot.SUFFIX and prefix.isdecimal():
                    with suppress(OSError, KafkaRecordError):
                        found.append((int(prefix), producer_snapshot.read(folder.read(entry.name) or b"")))
        return sorted(found, key=lambda one: one[0])

    def _raw_or_nothing(self, position: int, length: int) -> bytes:
        try:
            return self.raw(position, length)
        except OSError:
            return b""

    def open_source(self, suffix: str | None = None) -> ByteSource | None:
        """Opens this file, or the segment's side file with this suffix. The caller closes it. None: there is none."""
        if suffix is None:
            return self._opened_source()
        try:
            return None if self._folder is None else open_file(self._folder, names.sidecar(self.name, suffix))
        except FileNotFoundError:
            return None

    def named(self, decode_request: DecodeRequest) -> DecodeRequest:
        """The request with this file's name, topic and partition for errors and columns."""
        named = {
            "file": self.display_path,
            "topic": self.topic,
            "partition": self.partition,
            "later_segment": self.later_segment,
            "facts": self.facts,
        }
        options = decode_request.options if self.restore else replace(decode_request.options, restore=False)
        return decode_request._replace(options=options, named=named)

    @property
    def display_path(self) -> str:
        """The path for messages: a URL without a signature in it."""
        return display_url(self.path) if "://" in self.path else self.path

    @property
    def facts(self) -> LogFacts:
        """What its name and the files beside it say, for restoring."""
        base = self.base_offset if self.name.split(".")[1:2] == ["log"] else None
        if base is None:
            return NO_FACTS
        beside = _FilesBeside(self, base)
        return LogFacts((base, base + MAX_OFFSETS), beside.last_offset, beside.next_name, beside.epoch_at)

    def part(self, decode_request: DecodeRequest, record_range: RecordRange, threads: int) -> PassResult:
        with self.opened() as source:
            return read_part(self.named(decode_request), source, self._start(record_range), self.end, threads)

    def parts(
        self, decode_request: DecodeRequest, record_range: RecordRange = EVERYTHING, threads: int = 1
    ) -> Generator[PassResult]:
        with self.opened() as source:
            yield from read_pieces(self.named(decode_request), source, self._start(record_range), self.end, threads)

    def headers(
        self, decode_request: DecodeRequest, record_range: RecordRange = EVERYTHING, check_crcs: bool = False
    ) -> Iterator[BatchTable]:
        ranged = decode_request._replace(options=replace(decode_request.options, offsets=record_range.offsets))
        with self.opened() as source:
            start = self._start(record_range)
            yield from scan_pieces(self.named(ranged), source, start, self.end, check_crcs=check_crcs)

    def position_of(self, offset: int) -> int:
        """The position (bytes) at which reading from an offset may begin: that of a batch with no record at or above
        `offset` before it, by the segment's .index. 0 without an index, or if it does not match the log."""
        return ranges.start_position(self, RecordRange.of(offset, None, None, None))

    def _start(self, record_range: RecordRange) -> int:
        return max(self.begin, ranges.start_position(self, record_range))

    def between(self, begin: int, end: int, *, has_grown: bool = False) -> Segment:
        """The bytes [begin, end) of this segment as a separate Segment, for one of several tasks. Both must be starts
        of batches or the file's end: see `splits`. Positions stay those in the file.

        has_grown: `end` was the end of the log: what a plain file on this machine has after it is not looked at, and an
        incomplete batch before it is no damage
        """
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"bytes {begin} to {end} of a file of {self.size}")
        part = self.copy()
        part.begin, part.end = begin, end
        if has_grown:
            part._size = part._known_size = end
        elif end < self.size:
            part.later_segment = True
        return part

    def copy(self) -> Segment:
        """Another Segment of the same bytes: what an operation sets on it is not set on this one."""
        other = Segment(
            self.path,
            self.name,
            folder=self._folder,
            source=self._given,
            topic=self.topic,
            partition=self.partition,
            size=self._size,
            later_segment=self.later_segment,
        )
        other.base_offset, other.begin, other.end = self.base_offset, self.begin, self.end
        other.restore, other.prepared, other._known_size = self.restore, self.prepared, self._known_size
        return other

    def splits(self, max_bytes: int) -> list[tuple[int, int]]:
        """Consecutive ranges [begin, end) of about `max_bytes` each, cut between two good batches of rising offsets.

        Reads the headers of the file, and the two batches at each cut. Does not cut within RESYNC_BYTES after broken
        framing, falling offsets or falling leader epochs, nor within offset_order.WINDOW batches before: so
        resynchronisation and restoring never need bytes of another range, and the ranges together have the same
        records and damage as the file.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes {max_bytes}: 1 or more")
        cuts, previous_position, next_offset, previous_epoch = [self.begin], self.begin, 0, -1
        recent: deque[int] = deque(maxlen=WINDOW)
        expected, cut_from = self.begin, self.begin
        end = self.size if self.end is None else self.end
        for table in self.between(self.begin, end).headers(request(errors="skip")):  # the file may grow meanwhile
            for position, size, last, following, epoch in zip(*map(table.column, _SPLIT_COLUMNS), strict=True):
                epoch = -1 if epoch is None else epoch
                if position != expected or last < next_offset or epoch < previous_epoch:
                    cut_from = position + RESYNC_BYTES
                    _drop_cuts(cuts, recent)
                may_cut = position - cuts[-1] >= max_bytes and position >= cut_from
                if may_cut and self._are_good_batches(previous_position, position, position + size):
                    cuts.append(position)
                previous_position, expected, next_offset, previous_epoch = position, position + size, following, epoch
                recent.append(position)
        if expected != end:
            _drop_cuts(cuts, recent)
        return [*pairwise(cuts), (cuts[-1], end)]

    def _are_good_batches(self, *positions: int) -> bool:
        """Whether there is exactly one good batch between each two consecutive ones of `positions`."""
        try:
            parts = [self.between(*ends).part(request(columns=[]), EVERYTHING, 1) for ends in pairwise(positions)]
        except KafkaRecordError:
            return False
        return all(sum(map(len, part.tables)) == 1 and not part.remaining for part in parts)

    def record_batches(
        self, decode_request: DecodeRequest, record_range: RecordRange = EVERYTHING
    ) -> Iterator[RecordBatch]:
        source = SegmentBytes(self, self.named(decode_request._replace(skip=False)))
        with self.opened():
            for table in self.headers(decode_request, record_range):
                for rows, row in places(table):
                    yield RecordBatch(rows, row, source)

    def slice(self, start_offset: int | range | None = None, end_offset: int | None = None) -> BatchSlice:
        """The unchanged bytes of the batches that may have offsets of a range, whose end is exclusive. Batches are not
        cut: the first one may begin below the range, the last one may end above it."""
        if isinstance(start_offset, range):
            end_offset, start_offset = start_offset.stop, start_offset.start
        every = request(control=True)
        batches = self.record_batches(every, RecordRange.of(start_offset, end_offset, None, None))
        return BatchSlice(SegmentBytes(self, every), list(batches))

    def _names(self) -> str:
        known = self.topic is not None and self.partition is not None
        return f"{self.topic}-{self.partition}/{self.name}" if known else self.path

    def __repr__(self) -> str:
        size = f"{self._size} bytes" if self._size is not None else "not opened yet"
        base = "unknown" if self.base_offset is None else self.base_offset
        return f"<Segment {self._names()}: {size}, base offset {base}>"


def _of_all(left_out: Sequence[isolation_rules.Excluded | None]) -> isolation_rules.Excluded | None:
    """What is left out of several logs: one last stable offset has no meaning for them."""
    if len(left_out) == 1:
        return left_out[0]
    undecided = tuple(one for excluded in left_out if excluded is not None for one in excluded.undecided)
    return isolation_rules.Excluded((), None, None, undecided)


def _drop_cuts(cuts: list[int], recent: Sequence[int]) -> None:
    """Removes the cuts at these batches, and later ones; the first one stays."""
    while len(cuts) > 1 and recent and cuts[-1] >= recent[0]:
        cuts.pop()


class _FilesBeside:
    """What the files beside a segment say of its batches: each is read when it is first needed, and what cannot be read
    says nothing. For restoring.LogFacts."""

    def __init__(self, segment: Segment, base: int) -> None:
        self._segment, self._base = segment, base

    @cached_property
    def _by_position(self) -> dict[int, int]:
        try:
            data = self._segment.sidecar(offset_index.SUFFIX)
            return {one.position: one.offset for one in offset_index.read(data or b"", self._base)}
        except (OSError, KafkaRecordError):
            return {}

    def last_offset(self, position: int) -> int | None:
        return self._by_position.get(position)

    @cached_property
    def _next_name(self) -> int | None:
        folder = self._segment.folder
        try:
            entries = () if folder is None else folder.entries()
        except OSError:
            return None
        own = names.segment(self._segment.name)
        of_log = own and (own.topic, own.partition, own.suffix)
        parsed = (names.segment(one.name) for one in entries if not one.is_dir and names.is_segment(one.name))
        bases = (one.base_offset for one in parsed if one and (one.topic, one.partition, one.suffix) == of_log)
        return min((base for base in bases if base > self._base), default=None)

    def next_name(self) -> int | None:
        return self._next_name

    @cached_property
    def _epochs(self) -> Sequence[leader_epochs.EpochEntry]:
        folder = self._segment.folder
        try:
            data = None if folder is None else folder.read(leader_epochs.NAME)
            return () if data is None else leader_epochs.read(data)
        except (OSError, KafkaRecordError):
            return ()

    def epoch_at(self, offset: int) -> int | None:
        return leader_epochs.epoch_at(self._epochs, offset)


def _in_range(group: Sequence[Segment], record_range: RecordRange) -> Sequence[Segment]:
    """The segments that may have offsets of the range, by the base offsets in their names."""
    chosen = []
    for number, segment in enumerate(group):
        next_base = group[number + 1].base_offset if number + 1 < len(group) else None
        first, end, base = record_range.first_offset, record_range.end_offset, segment.base_offset
        if first is not None and next_base is not None and base is not None and base < next_base <= first:
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
