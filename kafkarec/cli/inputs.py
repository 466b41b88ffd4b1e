"""From the paths of a command line to buffers of record batches."""

from __future__ import annotations

import mmap
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, BinaryIO

from .options import CouldNot, WrongUse

# topic-7, and what a broker renames a folder to: topic-7.<32 hex digits>-delete (-future, -stray)
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})(\.[0-9a-f]{32}-(delete|future|stray))?")
# Only Kafka's own file names let a folder speak for them; backup-2024/x.bin is no partition 2024.
_SEGMENT = re.compile(r"\d{20}(-\d{10})?\.(log|checkpoint)")
_NO_LOGS = {
    ".index": "an offset index",
    ".timeindex": "a time index",
    ".txnindex": "a transaction index",
    ".snapshot": "a producer snapshot",
}
_SPOOL_STEP = 1 << 20


@dataclass(frozen=True)
class Source:
    """One input: `path` as given or found ("-" for standard input), and the partition that it belongs to.

    log          segments with the same `log` are one log, in order
    next_path    the later segment of the same folder, where there is one
    spool        what a pipe delivered, kept in an unnamed file: it can be read once only
    """

    path: str
    topic: str | None
    partition: int | None
    log: str
    next_path: str | None = None
    spool: list[IO[bytes]] = field(default_factory=list, compare=False)

    @property
    def name(self) -> str:
        """How messages call it."""
        return "standard input" if self.path == "-" else self.path


def find(paths: Sequence[str], topic: str | None, partition: int | None) -> list[Source]:
    """The sources in the order of the command line, a folder's segments by base offset."""
    if paths.count("-") > 1:
        raise WrongUse("standard input (-) can be read once only")
    sources: list[Source] = []
    for path in paths:
        if path != "-" and os.path.isdir(path):
            sources += _segments(path)
        else:
            sources.append(_file(path))
    for at, (source, later) in enumerate(pairwise(sources)):
        if source.log == later.log and _base_offset(source.path) < _base_offset(later.path):
            sources[at] = replace(source, next_path=later.path)
    given = {"topic": topic, "partition": partition}
    told = {name: value for name, value in given.items() if value is not None}
    return [replace(source, **told) for source in sources] if told else sources  # type: ignore[arg-type]


def _file(path: str) -> Source:
    folder, name = os.path.split(os.path.abspath(path))
    if name.endswith(tuple(_NO_LOGS)):
        what = _NO_LOGS[os.path.splitext(name)[1]]
        raise WrongUse(f"{path} is {what} and holds no records; name the .log beside it")
    if not _SEGMENT.fullmatch(name):
        return Source(path, None, None, log=path)
    named = _FOLDER.fullmatch(os.path.basename(folder))
    if named is None:
        return Source(path, None, None, log=folder)
    return Source(path, named["topic"], int(named["partition"]), log=folder)


def _segments(folder: str) -> list[Source]:
    try:
        entries = sorted(os.listdir(folder))
    except OSError as error:
        raise CouldNot(f"{folder}: {_reason(error)}") from error
    segments = [name for name in entries if name.endswith(".log")]
    if not segments:
        partitions = [name for name in entries if _FOLDER.fullmatch(name) and Path(folder, name).is_dir()]
        hint = f"; name a partition folder in it, such as {Path(folder, partitions[0])}" if partitions else ""
        raise CouldNot(f"{folder}: a folder without .log files{hint}")
    paths = [os.path.join(folder, name) for name in sorted(segments, key=_base_offset)]
    return [replace(_file(path), log=os.path.abspath(folder)) for path in paths]


def _base_offset(path: str) -> tuple[int, str]:
    name = os.path.basename(path)
    digits = name.removesuffix(".log")
    return (int(digits) if digits.isdecimal() else sys.maxsize), name


@contextmanager
def opened(source: Source) -> Iterator[memoryview]:
    """The bytes of a source. A file is mapped, so its size costs no memory; a pipe is copied to a file."""
    try:
        mapped = _map(source)
    except OSError as error:
        raise CouldNot(f"{source.name}: {_reason(error)}") from error
    if mapped is None:
        yield memoryview(b"")
        return
    view = memoryview(mapped)
    try:
        yield view
    finally:
        # Something of the last piece may still look into the map; then the map goes when that goes.
        with suppress(BufferError):
            view.release()
            mapped.close()


def forget(view: memoryview) -> None:
    """Give the mapped pages that were read back to the page cache: they count as our memory until then."""
    if isinstance(view.obj, mmap.mmap):
        view.obj.madvise(mmap.MADV_DONTNEED)


def _open(path: str) -> BinaryIO:
    if path != "-":
        return open(path, "rb")
    if sys.stdin is None:
        raise CouldNot("standard input is closed")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _map(source: Source) -> mmap.mmap | None:
    if source.spool:
        return _map_whole(source.spool[0])
    with _open(source.path) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not file.tell():
            return _map_whole(file)
        # A pipe: what it delivers goes to a file first, as the decoder wants all of its input at hand.
        spool = tempfile.TemporaryFile(prefix="kafkarec-")  # noqa: SIM115  kept as long as the source
        source.spool.append(spool)
        while block := file.read(_SPOOL_STEP):
            spool.write(block)
        spool.flush()
    return _map_whole(spool)


def _map_whole(file: IO[bytes]) -> mmap.mmap | None:
    if not os.fstat(file.fileno()).st_size:
        return None  # an empty file cannot be mapped
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
