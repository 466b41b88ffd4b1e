"""One file of record batches: a .log, a .checkpoint, or any blob.

    00000000000000000030.log         batches, from base offset 30 on
    00000000000000000030.index       beside it: where offsets are       (read when a range is asked for)
    00000000000000000030.timeindex   beside it: where times are
    00000000000000000030.txnindex    beside it: which transactions were aborted
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

from .._core import Source
from ..errors import KafkaRecordError
from ..passes import Part, read_part, read_pieces, scan_pieces
from ..records import BatchTable, RecordBatch
from ..remotefaults import shown
from ..request import Request, request
from . import names, ranges
from .folders import Folder
from .passing import BatchSlice, Stretch, send
from .ranges import EVERYTHING, Range
from .readable import Readable
from .sources import ByteSource, core_source

LOOKED_AHEAD = 4 << 20  # bytes: as far as resynchronisation looks (MOST_LOOKED_AHEAD of _c/resync.pxd)


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

    def open_source(self, suffix: str | None = None) -> ByteSource | None:
        """The bytes of this file, or of the one beside it (None: there is none), for those who need only some of them.
        Yours to close."""
        if suffix is None:
            return self._opened_source()
        try:
            return None if self._folder is None else self._folder.open(names.sidecar(self.name, suffix))
        except FileNotFoundError:
            return None

    def named(self, asked: Request) -> Request:
        """A request for this file: errors and columns tell its name, topic and partition."""
        file = shown(self.path) if "://" in self.path else self.path  # without a signature in it
        named = {"file": file, "topic": self.topic, "partition": self.partition, "later_segment": self.later_segment}
        return asked._replace(named=named)

    def part(self, asked: Request, wanted: Range, threads: int) -> Part:
        with self.opened() as source:
            return read_part(self.named(asked), source, self._start(wanted), self.end, threads)

    def parts(self, asked: Request, wanted: Range) -> Generator[Part]:
        with self.opened() as source:
            yield from read_pieces(self.named(asked), source, self._start(wanted), self.end)

    def headers(self, asked: Request, wanted: Range = EVERYTHING) -> Iterator[BatchTable]:
        ranged = asked._replace(options=replace(asked.options, offsets=wanted.offsets))
        with self.opened() as source:
            yield from scan_pieces(self.named(ranged), source, self._start(wanted), self.end)

    def _start(self, wanted: Range) -> int:
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

    def record_batches(self, asked: Request, wanted: Range = EVERYTHING) -> Iterator[RecordBatch]:
        one = self.named(asked._replace(skip=False))
        with self.opened():
            for table in self.headers(asked, wanted):
                for fields in table:
                    yield RecordBatch(fields, Stretch(self, one, fields["position"], fields["size_in_bytes"]))

    def slice(self, start_offset: int | range | None = None, end_offset: int | None = None) -> BatchSlice:
        """The whole batches that may hold offsets from the first to the second, which is exclusive (or of a range), as
        they lie there. Batches are not cut: the first one may begin below, the last one may end above."""
        if isinstance(start_offset, range):
            wanted = Range.of(start_offset.start, start_offset.stop, None, None)
        else:
            wanted = Range.of(start_offset, end_offset, None, None)
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
