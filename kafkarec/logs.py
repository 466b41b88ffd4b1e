"""Logs in files and folders, as users open them: a file, a partition folder, a broker's data folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kafkarec.format.enums import Isolation
from kafkarec.format.java_integers import number_or_none
from kafkarec.format.schema import DEFAULT_RECORD_COLUMNS
from kafkarec.read.decode_options import (
    CHUNK_BYTES,
    DecodeRequest,
    for_keys,
    request,
)
from kafkarec.state import HANGING_AFTER
from kafkarec.storage import log_reading, opening, ranges
from kafkarec.storage.finder import Finder
from kafkarec.storage.log_folders import DataFolderFiles, PartitionFiles
from kafkarec.storage.log_reading import Selection, splits
from kafkarec.storage.names_by_content import order_by_content
from kafkarec.storage.ranges import RecordRange
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns

if TYPE_CHECKING:
    from kafkarec.ops.salvage import SalvageReport
    from kafkarec.ops.verify import Report
    from kafkarec.storage.follower import Follower

_OF_SEVERAL_LOGS = ("topic", "partition", "file")


class Readable(ABC):
    """The methods that Segment, Log and LogDir share: `read`, `stream`, `scan`, `batches`, ..."""

    @abstractmethod
    def segments_by_log(self) -> Iterator[Sequence[Any]]:
        """The segments of each partition, in order."""

    @property
    def _default_columns(self) -> tuple[str, ...] | None:
        """The default columns; None: those of `decode`."""
        return None

    def _request(self, options: dict[str, Any]) -> DecodeRequest:
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
        return log_reading.read(self.segments_by_log(), Selection.of_locals(self._request(options), locals()))

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
        first: int | None = None,
        last: int | None = None,
        keys: Iterable[bytes | str] | None = None,
        threads: int = 1,
        **options: Any,
    ) -> Generator[RecordColumns]:
        """As read, in pieces of about `batch_bytes` of payload, each with its own batches and damage: constant memory.

        first, last: how many of the selected records at most, of the first or of the last ones, in the order of the
            logs; of both the first of the last ones. Where the last ones begin is found by headers; with keys, ranges,
            read_committed and errors="skip" by reading more and more of the end. What is before that is neither read
            nor checked
        keys: only records with one of these keys; a str is UTF-8
        threads: how many threads decode, the calling one included, up to 8 MiB of payload ahead for each; the pieces
            are the same
        With errors="raise" it yields everything before the damage, then raises. Closing the iterator closes the file.
        """
        first, last = _checked_counts(first, last)
        chosen = Selection.of_locals(self._request_for_pieces(batch_bytes, keys, options), locals())
        if first is None and last is None:
            return _without_segments(log_reading.pieces(self.segments_by_log(), chosen))
        from kafkarec.storage.first_and_last import last_pieces, limited

        every = log_reading.pieces if last is None else partial(last_pieces, count=last)
        return _without_segments(limited(every(self.segments_by_log(), chosen), first, last))

    def _request_for_pieces(
        self, batch_bytes: int, keys: Iterable[bytes | str] | None, options: dict[str, Any]
    ) -> DecodeRequest:
        if not isinstance(batch_bytes, int) or batch_bytes < 1:
            raise ValueError(f"batch_bytes {batch_bytes!r}: 1 or more")
        wanted = for_keys(self._request(options), keys)
        return wanted.with_options(chunk_bytes=min(batch_bytes, 2**62))

    def follow(
        self,
        *,
        start_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        first: int | None = None,
        last: int | None = None,
        keys: Iterable[bytes | str] | None = None,
        interval: float = 0.25,
        on_note: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Generator[RecordColumns]:
        """As stream, and then what is appended, as it arrives: an iterator without an end. Closing it closes the files.

        first: it ends after so many records
        last: of what each log has already, only so many records, the last ones
        interval: seconds between two polls, in which the iterator blocks
        on_note: called with a sentence when the log was truncated, or segments were deleted before they were read; by
            default a warning of the logger `kafkarec`
        Later segments of a Log are followed, too, and each log of a LogDir in turn; ValueError for what is not on this
        machine, FileNotFoundError when the folder, or the file that is followed alone, no longer exists. Incomplete
        batches and preallocated zeros at the end are waited for. Damage is raised, after the records before it, or with
        errors="skip" reported, when a good batch is behind it and it has been there for 2 seconds: what is written
        behind it meanwhile may tell more. With errors="skip" that holds as well for a batch at the end that does not
        continue the one before it by offset and leader epoch, as its header may have to be restored, and with
        read_committed for one that does not by offset: it is raised if a wrong one is proven, as `read` does.
        """
        if not interval >= 0:
            raise ValueError(f"interval {interval!r}: seconds, 0 or more")
        first, last = _checked_counts(first, last)
        polled = self.followers(
            start_offset=start_offset,
            start_timestamp=start_timestamp,
            isolation=isolation,
            batch_bytes=batch_bytes,
            last=last,
            keys=keys,
            on_note=on_note,
            **options,
        )
        from kafkarec.storage.first_and_last import limited
        from kafkarec.storage.follower import follow

        return _without_segments(limited(follow(polled, interval, last), first, None))

    def followers(
        self,
        *,
        start_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        last: int | None = None,
        keys: Iterable[bytes | str] | None = None,
        on_note: Callable[[str], object] | None = None,
        **options: Any,
    ) -> list[Follower]:
        """As follow, without blocking: a Follower of each log, whose `poll()` yields (segment, records) of what is new
        since the last one, and ends. last: the first one begins with a batch that has one of the last records."""
        from kafkarec.storage.follower import followers
        from kafkarec.support.package_logger import logger

        assert isinstance(self, opening.Opened)
        chosen = Selection.of_locals(self._request_for_pieces(batch_bytes, keys, options), locals())
        return followers(self, chosen, last, on_note or logger.warning)

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
        record_range = RecordRange.of(start_offset, end_offset)
        for group in self.segments_by_log():
            yield from log_reading.batch_tables(group, errors=errors, record_range=record_range, check_crcs=check_crcs)

    def batches(self, *, errors: str = "raise", **options: Any) -> Iterator[RecordBatch]:
        """The batches one by one; see kafkarec.batches. Reads a batch's bytes when they are used."""
        wanted = request(**{"control": True, **options}, errors=errors)
        segments = (segment for group in self.segments_by_log() for segment in group)
        return (batch for segment in segments for batch in log_reading.record_batches(segment, wanted))

    def transactions(self, *, hanging_after: timedelta = HANGING_AFTER) -> Any:
        """All transactions of the log, from batch headers and markers: a transactions.TransactionListing."""
        from kafkarec.state import transactions

        (group,) = self.segments_by_log()
        return transactions.listing(order_by_content(group), hanging_after=hanging_after)

    @property
    def last_stable_offset(self) -> int | None:
        """The offset at which a read_committed consumer stops: that of the first open transaction, else the log's
        end."""
        from kafkarec.read import isolation as isolation_rules

        (group,) = self.segments_by_log()
        return isolation_rules.excluded(order_by_content(group)).last_stable_offset

    def verify(self, **options: Any) -> Report:
        """Checks everything and reports damage, its position and the lost offsets: see kafkarec.verify."""
        # here and below: a program that only reads does not load the operation
        from kafkarec.ops.verify import verify

        return verify(self, **options)

    def salvage(self, out: Any, **options: Any) -> SalvageReport:
        """Copies every good batch to a new folder: see kafkarec.salvage."""
        from kafkarec.ops.salvage import salvage

        return salvage(self, out, **options)

    def offset_for_timestamp(
        self, timestamp: int | datetime, *, errors: str = "raise", restore: bool = True
    ) -> int | None:
        """The offset of the first record at or after a timestamp (ms, or an aware datetime); None: there is none.

        errors, restore: of decode; errors="skip": the first one outside of damage

        Follows KafkaConsumer.offsetsForTimes, for which transaction markers are records too.
        """
        if timestamp is None:
            raise ValueError("timestamp None: milliseconds (int) or an aware datetime")
        options: dict[str, Any] = {"columns": ["offset"], "control": True, "errors": errors, "restore": restore}
        for piece in self.stream(start_timestamp=timestamp, batch_bytes=1, **options):
            if len(piece):
                return int(piece.column("offset")[0])
        return None


class Segment(SegmentFile, Readable):
    """A file of record batches. As a context manager it keeps the file open; otherwise each call opens it.

    .path, .name              as passed to `open`, and the file's name
    .topic, .partition        as passed by the caller, else from the folder's or the file's name; None: unknown
    .base_offset              from the file's name; None: unknown
    .size                     bytes, when it was first opened
    .keys                     name -> value of the folders key=value above it, outermost first, if `find` has found it
    .later_segment            a later segment of the same log exists, so a cut batch at the end is damage
    .restore                  False: header fields are never restored, whatever the options of a call
    .begin, .end              the bytes that are read (see `between`); 0, None: the whole file
    """

    def segments_by_log(self) -> Iterator[Sequence[Segment]]:
        yield (self,)

    def position_of(self, offset: int) -> int:
        """The position (bytes) at which reading from an offset may begin: that of a batch with no record at or above
        `offset` before it, by the segment's .index. 0 without an index, or if it does not match the log."""
        return ranges.start_position(self, RecordRange.of(offset))

    def splits(self, max_bytes: int) -> list[tuple[int, int]]:
        """Consecutive ranges [begin, end) of about `max_bytes` each, cut between two good batches of rising offsets.

        Reads the headers of the file, and the two batches at each cut. The ranges together have the same records and
        damage as the file.
        """
        return splits(self, max_bytes)


class Log(PartitionFiles, Readable):
    """All segments of a partition as one log.

    .segments          in order of base offsets
    .checkpoints       KRaft snapshots in the same folder; not read with the log
    .left_out          files that are not part of the log, each with the reason
    .topic, .partition as passed by the caller, else from the folder's name; None: unknown
    .keys              name -> value (None: null) of the folders key=value below which `find` has found it, outermost
                       first; of several folders the keys of equal values. Empty elsewhere
    """

    segments: tuple[Segment, ...]
    checkpoints: tuple[Segment, ...]

    def segments_by_log(self) -> Iterator[Sequence[Segment]]:
        yield self.segments

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)


class LogDir(DataFolderFiles, Readable):
    """The logs of a data folder, by topic and partition. `[topic, partition]` is a Log; iterating yields all Logs.

    .left_out   folders and files that are not logs, each with the reason
    """

    log_type = Log
    logs: tuple[Log, ...]

    def segments_by_log(self) -> Iterator[Sequence[Segment]]:
        for log in self.logs:
            yield log.segments

    def __iter__(self) -> Iterator[Log]:
        return iter(self.logs)

    def __getitem__(self, key: tuple[str, int]) -> Log:
        for log in self.logs:
            if (log.topic, log.partition) == key:
                return log
        raise KeyError(key)

    @property
    def _default_columns(self) -> tuple[str, ...] | None:
        return (*DEFAULT_RECORD_COLUMNS, *_OF_SEVERAL_LOGS) if len(self) > 1 else None

    def transactions(self, **options: Any) -> dict[tuple[str | None, int | None], Any]:
        """(topic, partition) -> the TransactionListing of that log."""
        return {(log.topic, log.partition): log.transactions(**options) for log in self}

    def offset_for_timestamp(  # type: ignore[override]
        self, timestamp: int | datetime, **options: Any
    ) -> dict[tuple[str | None, int | None], int | None]:
        """(topic, partition) -> the offset of the first record of that log at or after a timestamp."""
        return {(log.topic, log.partition): log.offset_for_timestamp(timestamp, **options) for log in self}

    @property
    def last_stable_offset(self) -> None:
        """Always None: each log of a data folder has its own."""
        return


def open(  # the name that users call: kafkarec.open
    path: Any,
    *,
    topic: str | None = None,
    partition: int | None = None,
    restore: bool = True,
    storage_options: dict[str, Any] | None = None,
) -> Segment | Log | LogDir:
    """Opens files and folders of record batches. Reads names and sizes only.

    path: a file (.log, .checkpoint, any blob, also .gz and .zst): a Segment
          a partition folder: a Log; a broker's data folder: a LogDir
          a URL such as s3://bucket/kafka-backup/orders-0: the same, by range reads (pip install 'kafkarec[remote]')
          an open binary file, any object with read and seek, or a sources.files.ByteSource: a Segment
          a list of these: one Log if all are segments of one partition, else a LogDir
    topic, partition: override those in the names of files and folders
    restore: False: reading, verify and salvage restore no header fields (see decode); such batches are damage
    storage_options: for a URL, those of fsspec's filesystem

    Raises the system's FileNotFoundError, PermissionError and other OSErrors; ValueError for files that have no batches
    according to their names, such as an .index, and for a folder whose segments are in folders key=value, which `find`
    reads; UnsupportedCompressionError (reason tiered_object) for a store of a tiered-storage plugin, which is not read
    yet.
    """
    opener = opening.Opener(LogDir, Segment, restore)
    opened = opener.open(path, topic=topic, partition=partition, storage_options=storage_options)
    opening.demand_no_archive(opened)
    assert isinstance(opened, Segment | Log | LogDir)
    return opened


def find(
    paths: Any, *, base_path: Any = None, where: str | None = None, storage_options: dict[str, Any] | None = None
) -> list[Log]:
    """Finds logs below folders, in buckets and by globs: one for each partition, by topic and partition. Reads names
    and sizes, and where a partition is in several folders, their last batches.

    paths: one or a list of: a file, a partition folder, a broker's data folder, a folder of folders key=value (in which
        these may be above and below the partitions' folders), a URL of these, a glob with * ? [a-z] {a,b} and, on this
        machine, **. A glob gives files with the name of a segment only, unless it ends with a suffix
    base_path: keys of a path's own folders below this one count, too; without it only those below the paths do
    where: which folders key=value are read: comparisons = <> < <= > >= of keys with literals, joined by AND, as in
        "date >= '2026-11-01' AND hour < 12". Whole numbers and dates are compared as such, all else as text; a null
        fulfils none. Folders that it excludes are not listed
    storage_options: as for `open`

    Folders of one partition are one Log, in order of offsets; its segments have their own `.keys`. Folders topic=...
    and partition=... name logs whose own folder does not. Left out are partition folders without segments or that a
    broker has renamed, and folders `_temporary` of jobs.

    Raises FileNotFoundError for a path or glob of nothing, and other OSErrors of the system; ValueError where two
    folders have the same offsets of a partition (as copies have; the end of a segment that is compressed as a whole is
    not known), for a wrong `where`, for a path outside of `base_path`, and for a folder in which nothing has a known
    name, if nothing else is found: it may be the wrong one.
    """
    return cast(list[Log], LogFinder(paths, base_path, where, storage_options).find())


class LogFinder(Finder):
    """As find, step by step: `logs()`, one for each folder and partition, then `joined(logs)`."""

    opener = opening.Opener(LogDir, Segment)


def logs_of(opened: Segment | Log | LogDir) -> list[Log]:
    """The logs of what was opened; a Segment alone becomes a Log of one segment."""
    return cast(list[Log], LogFinder.opener.logs(opened))


def _checked_counts(first: int | None, last: int | None) -> tuple[int | None, int | None]:
    """The checked options."""
    return number_or_none("first", first, "0 or more", 0), number_or_none("last", last, "0 or more", 0)


def _without_segments(pieces: Generator[tuple[Any, RecordColumns]]) -> Generator[RecordColumns]:
    with closing(pieces):
        for _, piece in pieces:
            yield piece
