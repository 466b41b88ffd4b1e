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
from typing import Any

from .._core import Source
from ..passes import Part, read_part, read_pieces, scan_pieces
from ..records import BatchTable, RecordBatch
from ..request import Request, request
from . import names, ranges
from .folders import Folder
from .passing import BatchSlice, Stretch, send
from .ranges import EVERYTHING, Range
from .readable import Readable
from .sources import ByteSource, core_source


class Segment(Readable):
    """A file of record batches. A context manager: within it the file stays open, otherwise each call opens it.

    .path, .name              as given, and the file's name
    .topic, .partition        what folder or name tell, or the caller; None: unknown
    .base_offset              what the name tells; None: unknown
    .size                     bytes, when it was opened first
    .followed                 a later segment of the same log exists: nothing may be missing at this one's end
    """

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
        followed: bool = False,
        mapped: bool = False,
    ) -> None:
        self.path, self.name = path, name
        self.topic, self.partition = topic, partition
        self.followed = followed
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
        named = {"file": self.path, "topic": self.topic, "partition": self.partition, "followed": self.followed}
        return asked._replace(named=named)

    def part(self, asked: Request, wanted: Range, threads: int) -> Part:
        with self.opened() as source:
            return read_part(self.named(asked), source, ranges.start_position(self, wanted), threads=threads)

    def parts(self, asked: Request, wanted: Range) -> Generator[Part]:
        with self.opened() as source:
            yield from read_pieces(self.named(asked), source, ranges.start_position(self, wanted))

    def headers(self, asked: Request, wanted: Range = EVERYTHING) -> Iterator[BatchTable]:
        ranged = asked._replace(options=replace(asked.options, offsets=wanted.offsets))
        with self.opened() as source:
            yield from scan_pieces(self.named(ranged), source, ranges.start_position(self, wanted))

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
