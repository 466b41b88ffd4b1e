"""One file of record batches: a .log, a .checkpoint, or any blob.

00000000000000000030.log         batches, from base offset 30 on; .log.gz, .log.zst: their content is read
00000000000000000030.index       positions of offsets; this and the next one are read for ranges
00000000000000000030.timeindex   offsets of timestamps
00000000000000000030.txnindex    aborted transactions
00000000000000000030.snapshot    producers at its start
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, Self
from weakref import WeakSet

from kafkarec._core import Source
from kafkarec._lazy import cached_property
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import LOG_OVERHEAD, MAX_SIZE, UP_TO_MAGIC, V2_OVERHEAD, batch_header, batch_start
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.read.decode_options import DecodeRequest
from kafkarec.recover.header_proofs import NO_FACTS, FileFacts
from kafkarec.recover.marker_evidence import TransactionEvidence
from kafkarec.recover.offset_order import Offsets
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, txn_index
from kafkarec.sources import packed
from kafkarec.sources.files import ByteSource, FolderEntry, LocalFile
from kafkarec.sources.folders import FetchCounter, Folder
from kafkarec.sources.remote_errors import display_url

from . import names, tiered

MAX_OFFSETS = 2**31  # in one segment: an .index has offsets of 4 bytes, relative to the base offset


_locks: WeakSet[Any] = WeakSet()  # of the segments that have been opened


def _free_locks() -> None:
    for lock in _locks:
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_locks)  # threads of the parent that hold one are not in a forked process


def open_file(folder: Folder, name: str) -> ByteSource:
    """The source of a file; of a .gz or .zst file that of its content. A block device may have any name but one of a
    segment or its side files.

    OSError if it cannot be opened; UnsupportedCompressionError for compressed or encrypted objects of tiered storage.
    """
    source = folder.open(name, disk=names.segment(name) is None)
    try:
        if names.is_packed(name):
            # Positions in a segment are int32; fewer bytes than a frame's start would be a tail and not damage.
            return packed.unpacked(source, MAX_SIZE, UP_TO_MAGIC)
        tiered.demand_plain_segment(source, name, folder.read)
    except BaseException:
        source.close()
        raise
    return source


class InFolder:
    """What was opened in a folder."""

    _folder: Folder | None

    @property
    def fetch_counter(self) -> FetchCounter | None:
        """Counts the bytes fetched for everything opened by the same call of `open`; None: not remote."""
        counter: FetchCounter | None = getattr(self._folder, "fetch_counter", None)
        return counter

    @property
    def fetched(self) -> int | None:
        """Bytes fetched so far for everything opened by the same call of `open`; None: not remote."""
        return None if self.fetch_counter is None else self.fetch_counter.fetched


class SegmentFile(InFolder):
    """A file of record batches, without the methods that read records; its attributes: see `kafkarec.logs.Segment`."""

    base_offset: int | None = None
    # copies may have others
    begin, one_log = 0, True
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
        restore: bool = True,
        prepared: Callable[[SegmentFile], dict[tuple[int, int], bool]] = lambda segment: {},
    ) -> None:
        self.path, self.name, self._folder = path, name, folder
        self.topic, self.partition = topic, partition
        self.later_segment, self.restore = later_segment, restore
        self.base_offset = names.offset_in_name(name)
        self.keys: dict[str, str | None] = {}
        self._prepared, self._given, self._size = prepared, source, size
        self._size_limit: int | None = None
        self._set_closed()

    def _set_closed(self) -> None:
        self._open: ByteSource | None = None
        self._core: Source | None = None
        self._users, self._lock = 0, threading.Lock()

    @property
    def size(self) -> int:
        if self._size is None:
            with self.opened() as source:
                self._size = int(source.size)
        return self._size

    @size.setter
    def size(self, size: int | None) -> None:
        self._size = size

    @property
    def listed_size(self) -> int | None:
        """The size, if it is known without reading the file; None: it is compressed as a whole, or cannot be opened."""
        try:
            return None if names.is_packed(self.name) else self.size
        except OSError:
            return None

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
        if self._core is None:
            _locks.add(self._lock)
        with self._lock:
            if self._core is None:
                file = self._given
                if file is None:
                    if self._folder is None:
                        raise ValueError(f"{self.path} was opened from a file object, which cannot be opened again")
                    file = open_file(self._folder, self.name)
                    if self._size_limit is not None and isinstance(file, LocalFile):
                        file.size = min(file.size, self._size_limit)
                self._open, self._core = file, Source(file=file)
            self._users += 1
            core = self._core
        try:
            yield core
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    opened, self._open, self._core = self._open, None, None
                    if opened is not None and opened is not self._given:
                        opened.close()

    def __enter__(self) -> Self:
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
            source = self.source
            return source.read_at(position, max(0, min(length, source.size - position)))

    def sidecar(self, suffix: str) -> bytes | None:
        """All bytes of the segment's side file with this suffix (".index", ...); None: there is none.

        The .snapshot is that of the segment's start. In tiered storage an object of this name is that of its end
        (RemoteLogManager.copyLogSegment), so there is none.
        """
        parsed = names.segment(self.name) if suffix == producer_snapshot.SUFFIX else None
        if self._folder is None or (parsed and parsed.segment_id):
            return None
        return self._folder.read(names.side_file_name(self.name, suffix))

    @cached_property
    def transaction_evidence(self) -> TransactionEvidence:
        """What the files beside it say of its transactions."""
        aborted = partial(self._parsed_sidecar, txn_index, self.path)
        snapshot = names.side_file_name(self.name, producer_snapshot.SUFFIX)
        producers = partial(self._parsed_sidecar, producer_snapshot, snapshot)
        return TransactionEvidence(aborted, producers, self._folder_snapshots, partial(self._prepared, self))

    def _parsed_sidecar(self, module: Any, *details: Any) -> Any:
        """What the side file of a module of kafkarec.sidecars says; None: there is none. details: for its `read`"""
        data = self.sidecar(module.SUFFIX)
        return None if data is None else module.read(data, *details)

    def index_entries(self, module: Any) -> Sequence[Any]:
        """The entries of its index; none if that cannot be read, which verify reports. module: offset_index or
        time_index of kafkarec.sidecars"""
        try:
            return self._parsed_sidecar(module, self.base_offset or 0) or ()
        except (OSError, KafkaRecordError):
            return ()

    def _folder_snapshots(self) -> list[tuple[int, Sequence[SnapshotEntry]]]:
        """The intact producer snapshots of the folder, by offset. Those that cannot be read are left out."""
        folder, found = self._folder, []
        for entry in _entries(folder):
            prefix, suffix = os.path.splitext(entry.name)
            if folder is not None and suffix == producer_snapshot.SUFFIX and prefix.isdecimal():
                with suppress(OSError, KafkaRecordError):
                    found.append((int(prefix), producer_snapshot.read(folder.read(entry.name) or b"")))
        return sorted(found, key=lambda one: one[0])

    def open_sidecar(self, suffix: str) -> ByteSource | None:
        """Opens the segment's side file with this suffix. The caller closes it. None: there is none."""
        try:
            return None if self._folder is None else open_file(self._folder, names.side_file_name(self.name, suffix))
        except FileNotFoundError:
            return None

    def named_request(self, decode_request: DecodeRequest) -> DecodeRequest:
        """The request with this file's name, topic and partition for errors and columns."""
        named = {
            "file": self.display_path,
            "topic": self.topic,
            "partition": self.partition,
            "later_segment": self.later_segment,
            "facts": self.facts,
        }
        asked = decode_request if self.restore else decode_request.with_options(restore=False)
        return asked._replace(named=named)

    @property
    def display_path(self) -> str:
        """The path for messages: a URL without a signature in it."""
        return display_url(self.path)

    @property
    def facts(self) -> FileFacts:
        """What its name and the files beside it say, for restoring."""
        base = self.base_offset if self.one_log and self.name.split(".")[1:2] == ["log"] else None
        if base is None:
            return NO_FACTS._replace(one_log=self.one_log)
        # each file is read when it is first needed
        offsets = cache(lambda: {one.position: one.offset for one in self.index_entries(offset_index)})
        epochs = cache(partial(epoch_entries, self._folder))
        return FileFacts(
            (base, base + MAX_OFFSETS),
            lambda position: offsets().get(position),
            cache(self._next_batches),
            lambda offset: leader_epochs.epoch_at(epochs(), offset),
        )

    def _next_batches(self) -> Sequence[Offsets]:
        """FileFacts.next_batches, by the folder; empty also if it cannot be listed."""
        low, listed = self.base_offset or 0, (one.name for one in _entries(self._folder) if not one.is_dir)
        of_log = names.files_of_log(listed, names.segment(self.name))
        later = [one for one in of_log if one.suffix == ".log" and one.base_offset > low]
        if not later:
            return ()
        following = min(later, key=lambda one: (one.base_offset, one.packed_suffix))
        name = following.stem + following.suffix + following.packed_suffix
        found, position, first = list[Offsets](), 0, following.base_offset
        segment = SegmentFile(name, name, folder=self._folder)
        with suppress(OSError, KafkaRecordError), segment.opened():
            while len(found) < 2 and batch_start(head := segment.raw(position, V2_OVERHEAD)):
                if not (header := batch_header(head)):
                    break
                first = header.base_offset if found else first
                behind = header.base_offset + header.last_offset_delta + 1
                found.append(Offsets(first, behind, header.partition_leader_epoch, header.crc))
                position += LOG_OVERHEAD + header.batch_length
        return found or [Offsets(first, first)]

    def between(self, begin: int, end: int, *, has_grown: bool = False) -> Self:
        """The bytes [begin, end) of this segment as a separate Segment, for one of several tasks. Both must be starts
        of batches or the file's end: see `splits`. Positions stay those in the file.

        has_grown: `end` was the end of the log: what a plain file on this machine has after it is not looked at, and an
        incomplete batch before it is no damage
        """
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"bytes {begin} to {end} of a file of {self.size}")
        if not has_grown:
            return self.copy(begin=begin, end=end, later_segment=self.later_segment or end < self.size)
        part = self.copy(begin=begin, end=end, size=end)
        part._size_limit = end
        return part

    def copy(self, **changes: Any) -> Self:
        """Another Segment of the same bytes. changes: attributes that differ."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other._set_closed()
        for name in ("_held", "transaction_evidence"):
            vars(other).pop(name, None)
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def __repr__(self) -> str:
        known = self.topic is not None and self.partition is not None
        shown = f"{self.topic}-{self.partition}/{self.name}" if known else self.path
        size = f"{self._size} bytes" if self._size is not None else "not opened yet"
        base = "unknown" if self.base_offset is None else self.base_offset
        return f"<{type(self).__name__} {shown}: {size}, base offset {base}>"


def _entries(folder: Folder | None) -> Sequence[FolderEntry]:
    """A folder's entries; none if it cannot be listed."""
    try:
        return () if folder is None else folder.entries()
    except OSError:
        return ()


def epoch_entries(folder: Folder | None) -> tuple[leader_epochs.EpochEntry, ...]:
    """The leader epochs of the log in a folder; empty also if they cannot be read, which verify reports."""
    try:
        return () if folder is None else leader_epochs.read(folder.read(leader_epochs.NAME) or b"")
    except (OSError, KafkaRecordError):
        return ()


def size_or_zero(segment: SegmentFile) -> int:
    """The size of a file; 0 if it cannot be opened to learn it."""
    try:
        return segment.size
    except (OSError, KafkaRecordError):
        return 0
