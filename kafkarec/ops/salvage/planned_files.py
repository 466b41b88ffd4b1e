"""Files that are to be written, as parts of the sources: a plan is read like the folder that it becomes

OUT/orders-0/00000000000000000030.log
    source 0, bytes 0 to 5924          copied
    new bytes                          the first bytes of a batch whose header is restored
    source 0, bytes 8135 to 9120       copied
    new bytes                          a marker

A range was read and checked just before it is copied, so its bytes are usually in the page cache. If reading fails now,
Unreadable is raised; if writing fails, OSError.
"""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from kafkarec._core import hash_of_batch
from kafkarec.format.layout import LOG_OVERHEAD, V2, V2_OVERHEAD, V2Header
from kafkarec.sources.files import ByteSource, FileObject, FolderEntry
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import partial_read_failure
from kafkarec.storage.good_batches import SetAsideBatch
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.log_reading import batch_tables
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import PART, NewFile

from .salvaged_partition import OutputFile, SalvagedPartition, SetAsideRange

_PIECE = 1 << 20


class Unreadable(Exception):
    """The source could not be read a second time."""


def _read_range(segment: SegmentFile, position: int, length: int) -> Iterator[bytes]:
    """Yields a range of a source, and does not keep it open: there may be many. Raises Unreadable."""
    try:
        with segment.opened():
            while length:
                data = segment.raw(position, min(length, _PIECE))
                if not data:
                    raise Unreadable
                yield data
                position += len(data)
                length -= len(data)
    except OSError as error:
        raise Unreadable from error


class Spool:
    """Batches that are copied to a temporary file while they are planned, since a source may not be readable again.

    from_start   whether all are; False: from when on a source could not be read
    """

    def __init__(self, folder: str, name: str, from_start: bool) -> None:
        self.from_start = from_start
        self._folder, self._name = folder, name
        self._output: NewFile | None = None
        self._segment: SegmentFile | None = None

    def keep(self, segment: SegmentFile, position: int, length: int) -> tuple[SegmentFile, int]:
        """Copies a range: the file that has it, and where. Raises Unreadable, and keeps nothing of it then."""
        if self._output is None:
            self._output = NewFile(self._folder, self._name)
            folder = LocalFolder(self._folder)
            self._segment = SegmentFile(self._output.path + PART, self._name + PART, folder=folder)
        assert self._segment is not None
        at = self._output.size
        try:
            for data in _read_range(segment, position, length):
                self._output.append(data)
        except Unreadable:
            self._output.cut(at)
            raise
        return self._segment, at

    def drop(self) -> None:
        """Removes the file."""
        if self._output is not None:
            self._output.drop()


SET_ASIDE = "set-aside"


class Change(NamedTuple):
    """A batch of magic 2 of the segment `name`, at `position`, that is removed, inserted, or gets another header.

    old, new   the headers of the batch before and after; None: there is no batch
    reason     why a removed batch is set aside; empty: it is not kept
    inserted   the bytes of an inserted batch
    """

    name: str
    position: int
    old: V2Header | None
    new: V2Header | None
    reason: str = ""
    inserted: bytes = b""


def batch_size(header: V2Header) -> int:
    return header.batch_length + LOG_OVERHEAD


def last_offset(header: V2Header) -> int:
    return header.base_offset + header.last_offset_delta


def _hash_of(header: V2Header | None) -> int:
    return 0 if header is None else hash_of_batch(last_offset(header), header.crc, batch_size(header))


class FilePlan:
    """A file that is to be written, which begins with `data`. read_at reads it from the sources, which stay open until
    `close`.

    size      bytes
    hash_sum    the sum of `hash_of_batch` of the batches of a log: what is written is compared with it
    """

    def __init__(self, name: str, data: bytes = b"") -> None:
        self.name, self.size, self.hash_sum = name, 0, 0
        self._sources: list[SegmentFile | bytes] = []
        # a part: where it begins in this file, which source it is of, where it begins there
        self._begins, self._source, self._positions = array("q"), array("l"), array("q")
        self.append(data)

    def append(self, data: bytes) -> None:
        if data:
            self._add_part(data, 0, len(data))

    def copy(self, segment: SegmentFile, position: int, length: int) -> None:
        """Appends a range of a source, which is not read. Adjacent ranges are one part."""
        is_adjacent = self._sources and self._sources[-1] is segment
        if is_adjacent and self._positions[-1] + self.size - self._begins[-1] == position:
            self.size += length
        else:
            self._add_part(segment, position, length)

    def _add_part(self, source: SegmentFile | bytes, position: int, length: int) -> None:
        if not self._sources or self._sources[-1] is not source:
            self._sources.append(source)
        self._begins.append(self.size)
        self._source.append(len(self._sources) - 1)
        self._positions.append(position)
        self.size += length

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes [position, position + length); fewer at the end. Raises Unreadable."""
        pieces = []
        for source, first, count in self._source_ranges(position, min(length, self.size - position)):
            try:
                piece = (
                    source[first : first + count] if isinstance(source, bytes) else source.source.read_at(first, count)
                )
            except OSError as error:
                raise Unreadable from error
            if len(piece) < count:
                raise Unreadable
            pieces.append(piece)
        return b"".join(pieces)

    def _source_ranges(self, position: int, length: int) -> list[tuple[SegmentFile | bytes, int, int]]:
        """(source, position in it, length) of these bytes."""
        found = []
        at = bisect_right(self._begins, position) - 1
        while length > 0:
            inside = position - self._begins[at]
            end = self._begins[at + 1] if at + 1 < len(self._begins) else self.size
            count = min(length, end - position)
            found.append((self._sources[self._source[at]], self._positions[at] + inside, count))
            position, length, at = position + count, length - count, at + 1
        return found

    def origin(self, position: int, length: int) -> tuple[str, int]:
        """The source, and the position in it, of a batch with these bytes, of which the first may be new."""
        new = 0
        for source, first, count in self._source_ranges(position, length):
            if isinstance(source, SegmentFile):
                return source.path, first - new
            new += count
        return self.name, position

    def content(self) -> Iterator[bytes]:
        """Yields all of it, in pieces, without keeping a source open. Raises Unreadable."""
        for source, first, count in self._source_ranges(0, self.size):
            yield from (source,) if isinstance(source, bytes) else _read_range(source, first, count)

    def copy_to(self, target: FilePlan, position: int, length: int) -> None:
        """Appends a range to another file."""
        for source, first, count in self._source_ranges(position, length):
            if isinstance(source, bytes):
                target.append(source[first : first + count])
            else:
                target.copy(source, first, count)

    def changed(self, changes: Sequence[Change]) -> FilePlan:
        """The file with the changes, which are in the order of their positions."""
        new, at = FilePlan(self.name), 0
        new.hash_sum = self.hash_sum
        for one in changes:
            self.copy_to(new, at, one.position - at)
            new.hash_sum += _hash_of(one.new) - _hash_of(one.old)
            at = one.position
            if one.old is None:
                new.append(one.inserted)
            elif one.new is None:
                at += batch_size(one.old)
            else:
                new.append(V2.pack(*one.new))
                at += V2_OVERHEAD
        self.copy_to(new, at, self.size - at)
        return new

    def close(self) -> None:
        for source in self._sources:
            if isinstance(source, SegmentFile):
                source.close()


class PlannedFolder:
    """A partition folder that is to be written, as a storage Folder, and what the report says of it.

    path        of the folder
    files       its logs, snapshots and small files, by name
    set_aside   the files of the batches that are not in the log, by their paths in the output
    proofs      (first, last) of the report's `missing` -> why these offsets are lost; others may be compacted
    spool       see Spool; None: sources are read when the files are written
    """

    def __init__(self, report: SalvagedPartition, out: str, spool: Spool | None) -> None:
        self.report, self.path, self._spool = report, os.path.join(out, report.folder), spool
        self.files: dict[str, FilePlan] = {}
        self.set_aside: dict[str, FilePlan] = {}
        self.proofs: dict[tuple[int, int], str] = {}

    def add(self, file: FilePlan) -> FilePlan:
        self.files[file.name] = file
        return file

    def add_segment(self, base: int) -> FilePlan:
        """A new segment, with no batch so far."""
        name = filename_prefix(base) + ".log"
        self.report.files.append(OutputFile(name, 0, "", 0, 0, None, None))
        return self.add(FilePlan(name))

    def add_empty_segment(self, base: int) -> None:
        """A segment that stays empty: its name has the log end offset."""
        self.add_segment(base)
        self.report.start_offset = base if self.report.start_offset is None else self.report.start_offset
        self.report.next_offset = base

    def _set_aside_file(
        self, name: str, file: str, position: int, size: int, base: Any, last: Any, reason: str
    ) -> FilePlan:
        """The file `name` of batches that are set aside. The report gets the batch that is to be appended."""
        path = f"{SET_ASIDE}/{self.report.folder}/{name}"
        self.report.set_aside.append(SetAsideRange(file, position, size, base, last, reason, path))
        return self.set_aside.setdefault(path, FilePlan(name))

    def keep_aside(self, batch: SetAsideBatch, suffix: str = ".log") -> None:
        """Adds a batch to a file outside of the log, named by reason and source, and to the report."""
        try:
            segment, position = self.keep_range(batch.segment, batch.position, batch.size)
        except Unreadable:
            self.report.unread.append(partial_read_failure(batch.segment.path))
            return
        place = batch.segment.path, batch.position, batch.size, batch.base, batch.last, batch.reason
        self._set_aside_file(f"{batch.reason}-{batch.source}{suffix}", *place).copy(segment, position, batch.size)

    def join_aside(self, first: int = 0) -> None:
        """Joins adjacent batches that are set aside, of those that the report has from `first` on."""
        joined: list[SetAsideRange] = []
        found = sorted(self.report.set_aside[first:], key=lambda one: (one.file, one.position))
        for one in found:
            last = joined[-1] if joined else None
            if last and (last.saved_as, last.file, last.position + last.size) == (one.saved_as, one.file, one.position):
                last.size += one.size
                last.batches += one.batches
                last.last_offset = one.last_offset
            else:
                joined.append(one)
        self.report.set_aside[first:] = joined

    def keep_range(self, segment: SegmentFile, position: int, size: int) -> tuple[SegmentFile, int]:
        """Where these bytes of a source are read when they are written: there, or in the spool. Raises Unreadable."""
        if self._spool is None or not (self._spool.from_start or self.report.unread):
            return segment, position
        return self._spool.keep(segment, position, size)

    def log(self) -> PartitionFiles:
        """The log that it becomes."""
        return PartitionFiles.of(self)

    def apply_changes(self, changes: Sequence[Change]) -> None:
        """Changes the logs, and the report. Batches that are removed for a reason are set aside."""
        report, moved = self.report, set[str]()
        for name, group in groupby(sorted(changes, key=lambda one: one[:2]), key=lambda one: one.name):
            in_file, old = list(group), self.files[name]
            for one in in_file:
                if one.reason and one.old:
                    size, offsets = batch_size(one.old), (one.old.base_offset, last_offset(one.old))
                    place = *old.origin(one.position, size), size, *offsets, one.reason
                    old.copy_to(self._set_aside_file(f"{one.reason}-0.log", *place), one.position, size)
                if not (one.old and one.new):  # another header counts as before
                    moved.add(name)
            self.add(old.changed(in_file))
        if not moved:
            return
        for file in (file for file in report.files if file.name in moved):
            segment = SegmentFile(self.join(file.name), file.name, folder=self)
            found = [table for table in batch_tables([segment]) if len(table)]
            counts = [count for table in found for count in table.column("record_count")]
            file.batches, file.size = len(counts), self.files[file.name].size
            file.records = sum(1 if count is None else count for count in counts)
            file.last_offset = found[-1].column("last_offset")[-1] if found else None
            first = found[0].column("base_offset")[0] if found else None
            if first is not None or not found:  # a wrapper message has none: the first batch is then the same as before
                file.first_offset = first
        for emptied in [file for file in report.files[:-1] if not file.batches]:  # only the last one has the log's end
            report.files.remove(emptied)
            del self.files[emptied.name]
        counted = ((file.batches, file.records, file.size) for file in report.files)
        report.batches, report.records, report.size = map(sum, zip(*counted, strict=True))
        named = [file.base_offset for file in report.files]  # an empty segment's name has the log's end
        begins = [file.first_offset for file in report.files if file.first_offset is not None]
        ends = [file.last_offset + 1 for file in report.files if file.last_offset is not None]
        report.start_offset, report.next_offset = min(begins or named), max([*named, *ends])

    def outputs(self) -> Iterator[tuple[str, FilePlan]]:
        """Yields its files by their paths in the output."""
        for name, file in self.files.items():
            yield f"{self.report.folder}/{name}", file
        yield from self.set_aside.items()

    def entries(self) -> list[FolderEntry]:
        return [FolderEntry(name, self.files[name].size, False) for name in self.names()]

    def names(self) -> list[str]:
        return sorted(self.files)

    def join(self, name: str) -> str:
        return os.path.join(self.path, name)

    def below(self, name: str) -> LocalFolder:
        return LocalFolder(self.join(name))

    def read(self, name: str) -> bytes | None:
        file = self.files.get(name)
        return None if file is None else file.read_at(0, file.size)

    def open(self, name: str, disk: bool = False) -> ByteSource:
        file = self.files.get(name)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.join(name))
        return PlannedSource(file, self.join(name))

    def close(self) -> None:
        for _, file in self.outputs():
            file.close()


class PlannedSource(FileObject):
    """A planned file as a source of bytes."""

    def close(self) -> None:
        self._file.close()
