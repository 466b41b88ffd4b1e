"""The run over all files: which is read how, in which order things are said, and what ends it

Kafka's tool dies with a stack trace of the first thing that it cannot read, and what stands in later files, or was
found so far that does not fit together, is never told. So here: KafkaRecordError or OSError leave in that place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple, Protocol

from kafkarec.errors import InvalidRecordError
from kafkarec.storage.names import PACKED_SUFFIXES

from . import state_file_text
from .batch_reader import DumpedFile
from .index_text import Checked, offset_index_text, time_index_text
from .java_text import INT_MAX, absolute_path, parse_long, shown_path
from .log_text import LogTextOptions, log_text
from .mismatches import Consecutive, Mismatches
from .record_lines import Cut, Decode, LineOptions

_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
STANDARD_INPUT = "-"
_BOOTSTRAP = "bootstrap.checkpoint"


class ClosableSource(DumpedFile, Protocol):
    """What opening a path gives."""

    def close(self) -> None: ...


Open = Callable[[str], ClosableSource]
Say = Callable[[str], None]


class DumpOptions(NamedTuple):
    """kafka-dump-log's flags, and one of our own.

    decode      prints keys and values in place of UTF-8 text; given, print_data holds
    cut         see `lines.Cut`
    limit       bytes that one batch may decompress to
    """

    print_data: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_index: bool = False
    index_sanity: bool = False
    max_message_size: int = 5 << 20
    max_bytes: int = INT_MAX
    decode: Decode | None = None
    cut: Cut | None = None
    limit: int = 128 << 20

    @property
    def style(self) -> LineOptions | None:
        """How records are told; None: not at all."""
        content = self.print_data or self.decode is not None
        return LineOptions(not self.skip_metadata, content, self.decode, self.cut) if content or self.deep else None


def dump(paths: list[str], options: DumpOptions, opened: Open, say: Say) -> Iterator[str]:
    """The text of files as Kafka 4.3's DumpLogSegments prints it, in pieces of no certain size.

    opened   gives a source for a path, OSError
    say      is called with each line for standard error

    KafkaRecordError and OSError where Kafka's tool ends with an exception, behind all that it prints in front of it.
    """
    complaints = Mismatches()
    for path in paths:
        shown = path if "://" in path else shown_path(path)
        yield f"Dumping {shown}\n"
        name = _unwrapped(shown.rsplit("/", 1)[-1])
        kind = _log if name == STANDARD_INPUT else _KINDS.get(name[name.rindex(".") :] if "." in name else "")
        if kind is None:
            say(f"Ignoring unknown file {shown}")
            continue
        yield from kind(_File(shown, name, options, opened, say), complaints)
    for line in complaints.lines():
        say(line)


def _unwrapped(name: str) -> str:
    """Without the .gz or .zst of a file that was packed as a whole; `opened` gives what is inside."""
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


class _File(NamedTuple):
    """A file of the command line."""

    shown: str
    name: str
    options: DumpOptions
    opened: Open
    say: Say

    @property
    def absolute(self) -> str:
        return absolute_path(self.shown)

    @property
    def base_offset(self) -> int:
        """Kafka takes what stands in front of the first dot."""
        return parse_long(self.name.split(".")[0])

    def neighbour(self, suffix: str) -> str:
        return os.path.join(os.path.dirname(self.shown), self.name.split(".")[0] + suffix)


def _log(file: _File, complaints: Mismatches) -> Iterator[str]:
    heading, note = _heading(file)
    yield heading
    options = file.options
    with closing(file.opened(file.shown)) as source:
        if note:
            file.say(f"note: {file.shown}: its name tells no {note}; Kafka's tool would refuse it")
        wishes = LogTextOptions(options.style, options.max_bytes, options.limit)
        yield from log_text(source, file.name, wishes, Consecutive(complaints, file.absolute))


def _heading(file: _File) -> tuple[str, str]:
    """The line in front of the batches, and what is missing in the file's name."""
    if file.name == STANDARD_INPUT:
        return "", ""
    if file.name == _BOOTSTRAP:
        return "KRaft bootstrap snapshot\n", ""
    if file.name.endswith(".checkpoint"):
        named = _CHECKPOINT.fullmatch(file.name)
        if named is None:
            return "", "offset and epoch"
        return f"Snapshot end offset: {int(named[1])}, epoch: {int(named[2])}\n", ""
    try:
        return f"Log starting offset: {file.base_offset}\n", ""
    except InvalidRecordError:
        return "", "offset"


def _offset_index(file: _File, complaints: Mismatches) -> Iterator[str]:
    base_offset = file.base_offset
    with closing(file.opened(file.neighbour(".log"))) as log, closing(file.opened(file.shown)) as source:
        checked = _checked(file, source, log, base_offset)
        yield from offset_index_text(checked, file.options.max_message_size, complaints)


def _time_index(file: _File, complaints: Mismatches) -> Iterator[str]:
    base_offset = file.base_offset
    with (
        closing(file.opened(file.neighbour(".log"))) as log,
        closing(file.opened(file.neighbour(".index"))) as index,
        closing(file.opened(file.shown)) as source,
    ):
        checked = _checked(file, source, log, base_offset)
        yield from time_index_text(checked, index, complaints, file.options.limit)


def _checked(file: _File, source: DumpedFile, log: DumpedFile, base_offset: int) -> Checked:
    options = file.options
    return Checked(
        source, log, file.shown, file.absolute, base_offset, options.index_sanity, options.verify_index
    )


def _snapshot(file: _File, complaints: Mismatches) -> Iterator[str]:
    with closing(file.opened(file.shown)) as source:
        try:
            yield from state_file_text.snapshot_text(source)
        except state_file_text.Complaint as complaint:
            file.say(str(complaint))


def _txn_index(file: _File, complaints: Mismatches) -> Iterator[str]:
    parse_long(file.name.split(".")[0])
    with closing(file.opened(file.shown)) as source:
        yield from state_file_text.txn_index_text(source)


_KINDS: dict[str, Callable[[_File, Mismatches], Iterator[str]]] = {
    ".log": _log,
    ".checkpoint": _log,
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".snapshot": _snapshot,
    ".txnindex": _txn_index,
}
