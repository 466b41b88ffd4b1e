"""The run over all files: each is read by its suffix, mismatches are printed at the end

Kafka's tool ends with a stack trace at the first thing that it cannot read, without the later files and without the
mismatches found so far. KafkaRecordError or OSError is raised at the same point here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

from kafkarec.errors import InvalidRecordError
from kafkarec.sources.files import ByteSource
from kafkarec.storage import names

from .batch_lines import absolute_path, java_path, parse_long
from .log_text import log_text
from .record_lines import Consecutive, DumpOptions, Mismatches
from .side_file_text import Checked, SnapshotError, offset_index_text, snapshot_text, time_index_text, txn_index_text

_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
STANDARD_INPUT = "-"
_BOOTSTRAP = "bootstrap.checkpoint"


Open = Callable[[str], ByteSource]
Say = Callable[[str], None]


def dump(
    paths: list[str],
    options: DumpOptions,
    opened: Open,
    say: Say,
    note: Say,
    progress: Callable[[str, int], object] = lambda path, end: None,
) -> Iterator[str]:
    """The text of files as Kafka 4.3's DumpLogSegments prints it, in pieces of any size.

    opened     opens a path; raises OSError
    say        called with each line that Kafka's tool prints to standard error
    note       called with each remark that Kafka's tool does not have
    progress   called with the path of a log and the position up to which it is printed

    KafkaRecordError and OSError where Kafka's tool ends with an exception, after the text that it prints before.
    """
    mismatches = Mismatches()
    for path in paths:
        display_path = path if "://" in path else java_path(path)
        yield f"Dumping {display_path}\n"
        name = names.unpacked(display_path.rsplit("/", 1)[-1])
        kind = _log if name == STANDARD_INPUT else _KINDS.get(name[name.rindex(".") :] if "." in name else "")
        if kind is None:
            say(f"Ignoring unknown file {display_path}")
            continue
        yield from kind(_File(display_path, name, options, opened, say, note, progress), mismatches)
    for line in mismatches.lines():
        say(line)


class _File(NamedTuple):
    """A file of the command line."""

    display_path: str
    name: str
    options: DumpOptions
    opened: Open
    say: Say
    note: Say
    progress: Callable[[str, int], object]

    @property
    def absolute(self) -> str:
        return absolute_path(self.display_path)

    @property
    def base_offset(self) -> int:
        """The part of the name before the first dot, as in Kafka."""
        return parse_long(self.name.split(".")[0])

    def neighbour(self, suffix: str) -> str:
        return os.path.join(os.path.dirname(self.display_path), self.name.split(".")[0] + suffix)


Kind = Callable[[_File, Mismatches], Iterator[str]]


def _log(file: _File, mismatches: Mismatches) -> Iterator[str]:
    heading, missing = _heading(file)
    yield heading
    with closing(file.opened(file.display_path)) as source:
        if missing:
            file.note(f"{file.display_path}: its name has no {missing}; Kafka's tool would refuse it")
        progress = partial(file.progress, file.display_path)
        yield from log_text(source, file.name, file.options, Consecutive(mismatches, file.absolute), progress)


def _heading(file: _File) -> tuple[str, str]:
    """(the line before the batches, what the file's name lacks)."""
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


def _index(text: Callable[..., Iterator[str]], *suffixes: str) -> Kind:
    """An index whose text needs these files of its segment, the .log first."""

    def lines(file: _File, mismatches: Mismatches) -> Iterator[str]:
        base_offset = file.base_offset
        with ExitStack() as files:
            paths = *map(file.neighbour, suffixes), file.display_path
            log, *others, source = (files.enter_context(closing(file.opened(path))) for path in paths)
            checked = Checked(source, log, file.display_path, file.absolute, base_offset, file.options)
            yield from text(checked, *others, mismatches)

    return lines


def _snapshot(file: _File, mismatches: Mismatches) -> Iterator[str]:
    with closing(file.opened(file.display_path)) as source:
        try:
            yield snapshot_text(source)
        except SnapshotError as complaint:
            file.say(str(complaint))


def _txn_index(file: _File, mismatches: Mismatches) -> Iterator[str]:
    parse_long(file.name.split(".")[0])
    with closing(file.opened(file.display_path)) as source:
        yield txn_index_text(source)


_KINDS: dict[str, Kind] = {
    ".log": _log,
    ".checkpoint": _log,
    ".index": _index(offset_index_text, ".log"),
    ".timeindex": _index(time_index_text, ".log", ".index"),
    ".snapshot": _snapshot,
    ".txnindex": _txn_index,
}
