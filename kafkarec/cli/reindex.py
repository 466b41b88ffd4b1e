"""`kafkarec reindex`: a log's indexes, producer snapshots and leader epochs rebuilt into a new folder."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX
from kafkarec.logs import Log
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, time_index, txn_index
from kafkarec.sources.read_failures import of_one_file
from kafkarec.state.index_builders import DEFAULT_INTERVAL
from kafkarec.storage import names
from kafkarec.storage.rebuild_folder import RebuiltSideFiles, rebuild_log
from kafkarec.support import durable, text_table
from kafkarec.support.command_line import as_operand, command, quoted
from kafkarec.support.text_table import system_reason

from . import COULD_NOT, DAMAGED, FINE, input_logs, output_files, progress
from .problems import say
from .shared_options import (
    FOLDER,
    CouldNot,
    InputPath,
    WrongUse,
    add_partition,
    errors_named,
    number_of,
    output_path,
)

DESCRIPTION = """Rebuilds .index, .timeindex, .txnindex, .snapshot and leader-epoch-checkpoint from a log's batches,
byte for byte as the recovery of Kafka 4.4 does, and reports how the old ones differ. Nothing is written to the log's
folder: the new files are in a new folder, to be copied while the broker is stopped. Checksums are verified."""
EXAMPLES = """examples:
  kafkarec reindex orders-0 --dry-run                        do the old files agree with the log?
  kafkarec reindex orders-0 -o /tmp/orders-0                 new files for one partition
  kafkarec reindex /kafka-logs -o /tmp/new                   for all partitions, a folder each
  kafkarec reindex orders-0 --index-interval 256 -o new      for a topic with index.interval.bytes=256

Exit status: 0 fine, 1 the log is damaged (the new indexes skip the damage), 2 wrong usage, 3 failed."""

EQUAL, DIFFERENT, NEW, DROPPED = "equal", "different", "new", "dropped"
_SHOWN = {
    EQUAL: "equal to the old one",
    DIFFERENT: "differs from the old one",
    NEW: "no old one",
    DROPPED: "not written: no aborted transactions; remove the old one",
}


_ABORTED_SIZE = txn_index.ENTRY_SIZE
# The entries of a kind of file, for comparison.
_CONTENTS: dict[str, Callable[[bytes], Sequence[object]]] = {
    offset_index.SUFFIX: lambda data: offset_index.read(data, 0),
    time_index.SUFFIX: lambda data: time_index.read(data, 0),
    txn_index.SUFFIX: lambda data: [data[at : at + _ABORTED_SIZE] for at in range(0, len(data), _ABORTED_SIZE)],
    producer_snapshot.SUFFIX: lambda data: sorted(producer_snapshot.read(data)),
    leader_epochs.NAME: leader_epochs.read,
}


class RebuiltFile(NamedTuple):
    """One file. compared: a key of _SHOWN; preallocated: bytes of zeros at the end of the old file."""

    name: str
    size: int
    entries: int
    compared: str
    preallocated: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "partition folders, a broker's data folder, segments"
    parser.add_argument("paths", type=InputPath, nargs="+", metavar="SRC", help=help_)
    help_ = "the new folder; it must be empty or not exist"
    parser.add_argument("-o", type=output_path("-o", FOLDER), metavar="DIR", dest="output", help=help_)
    parser.add_argument("--dry-run", action="store_true", help="compare only, write nothing")
    parser.add_argument(
        "--index-interval",
        type=number_of(f"bytes from 0 to {INT_MAX}", most=INT_MAX),
        default=DEFAULT_INTERVAL,
        metavar="BYTES",
        help=f"the topic's index.interval.bytes (default {DEFAULT_INTERVAL})",
    )
    add_partition(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: a line for each file")


def run(args: argparse.Namespace) -> int:
    if not args.dry_run and args.output is None:
        raise WrongUse("no output: name the new folder with -o DIR, or compare only with --dry-run")
    unread: list[str] = []
    logs = input_logs.find(args.paths, args.topic, args.partition, unread=unread)
    status, unlisted = FINE, len(unread)
    path = None if args.dry_run else args.output
    with (
        durable.FileGroup() as files,
        output_files.new_folder(args) if path is not None else nullcontext() as new,
        progress.shown(input_logs.segments(logs), progress.beside(sys.stdout)) as tick,
    ):
        report = (JsonReport if args.format == "json" else TextReport)(path, len(logs) > 1)
        for log, name in zip(logs, _names(logs), strict=True):
            rows: list[RebuiltFile] = []
            read, folder = len(unread), os.path.join(new.path, name) if new else ""
            for rebuilt in _rebuilt(log, args.index_interval, unread):
                if rebuilt.segment is not None:
                    tick(rebuilt.segment.path, progress.size_of(rebuilt.segment))
                for made in _files(log, rebuilt):
                    if path is not None and made.compared != DROPPED:
                        if any(made.name == other.name for other in rows):  # of 0.log and 0.log.gz
                            taken = os.path.join(path, name, made.name)
                            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), taken)
                        with errors_named(path):
                            files.make_folder(folder)
                            files.write(folder, made.name, rebuilt.files[made.name])
                    rows.append(made)
                if rebuilt.damage or rebuilt.problems:
                    status = DAMAGED if rebuilt.damage else status
                    _report(log, rebuilt)
            if len(unread) == read:
                report.add(log, name, rows)
            elif path is not None and name:
                with errors_named(path):
                    files.sync()
                shutil.rmtree(folder, ignore_errors=True)
        if len(unread) - unlisted == len(logs):
            raise CouldNot("; ".join(unread))
        if path is not None:
            with errors_named(path):
                files.sync()
    report.finish(status == FINE and not unread)
    for line in unread:
        say(line)
    return COULD_NOT if unread else status


def _rebuilt(log: Log, index_interval: int, unread: list[str]) -> Iterator[RebuiltSideFiles]:
    """Yield the new files of a log. If a file of it cannot be read, they end, and `unread` gets a line."""
    try:
        yield from rebuild_log(log, index_interval)
    except OSError as error:
        if not of_one_file(error):
            raise
        unread.append(f"{input_logs.failure(error, log.path)}; its log is left out")


def _names(logs: list[Log]) -> list[str]:
    """Return the name of each log's folder in DIR; empty for a single log, whose files are in DIR itself."""
    if any(len({os.path.dirname(segment.path) for segment in log.segments}) > 1 for log in logs):
        raise WrongUse("a log is in several folders; rebuild them one at a time, each with its own -o")
    if len(logs) == 1:
        return [""]
    named = [
        os.path.basename(log.path.rstrip("/")) if log.topic is None else f"{log.topic}-{log.partition}" for log in logs
    ]
    if len(set(named)) < len(named):
        raise WrongUse("two of the logs have the same name; rebuild them one at a time, each with its own -o")
    return named


def _files(log: Log, rebuilt: RebuiltSideFiles) -> Iterator[RebuiltFile]:
    """Yield the new files, each compared with the old one."""
    segment = rebuilt.segment
    for name, data in rebuilt.files.items():
        suffix = name if name == leader_epochs.NAME else os.path.splitext(name)[1]
        old = _old(log.folder_file, name) if segment is None else _old(segment.sidecar, suffix)
        yield _made(name, data, old, _CONTENTS[suffix])
    old = None if segment is None else _old(segment.sidecar, txn_index.SUFFIX)
    if old and not any(name.endswith(txn_index.SUFFIX) for name in rebuilt.files):
        stem = next(iter(rebuilt.files)).partition(".")[0]
        yield RebuiltFile(stem + txn_index.SUFFIX, 0, 0, DROPPED, 0)


def _old(read: Callable[[str], bytes | None], name: str) -> bytes | None:
    """Return the content of the old file; a text that equals no file's content if it cannot be read."""
    try:
        return read(name)
    except OSError:
        return b"unreadable"


def _made(name: str, data: bytes, old: bytes | None, content: Callable[[bytes], Sequence[object]]) -> RebuiltFile:
    made, compared, preallocated = content(data), NEW, 0
    if old is not None:
        compared = EQUAL if data == old else DIFFERENT
        try:
            before = content(old)
            compared = EQUAL if before == made else DIFFERENT
            preallocated = getattr(before, "preallocated", 0)
        except KafkaRecordError:
            pass  # the old file is broken, so the new one is different
    return RebuiltFile(name, len(data), len(made), compared, preallocated)


def _report(log: Log, rebuilt: RebuiltSideFiles) -> None:
    where = log.path if rebuilt.segment is None else rebuilt.segment.path
    for problem in rebuilt.problems:
        say(f"{where}: {problem}")
    for damage in rebuilt.damage[:5]:
        say(f"{damage.detail} [{damage.reason}]")
    if rebuilt.damage:
        count = "1 damaged range" if len(rebuilt.damage) == 1 else f"{len(rebuilt.damage)} damaged ranges, the first"
        say(
            f"{where}: {count} at byte {rebuilt.damage[0].position}. The new indexes skip the damage; a broker that "
            f"recovers this segment truncates it there. See {command('verify', [log.path])}"
        )


# ---- the report


class _StandardOutput:
    """Standard output. If its reader closes the pipe (`| head`), the run still completes its files before it ends."""

    def __init__(self) -> None:
        self._closed = False

    def line(self, text: str) -> None:
        try:
            if not self._closed:
                if sys.stdout is not None and sys.stdout.isatty():
                    progress.erase()
                print(text, flush=True)
        except BrokenPipeError:
            self._closed = True
        except OSError as error:
            raise CouldNot(f"standard output: {system_reason(error)}") from error

    def finish(self) -> None:
        if self._closed:
            raise BrokenPipeError


class JsonReport:
    """Prints a JSON object for each file."""

    def __init__(self, folder: str | None, several: bool) -> None:
        self._folder = folder
        self._out = _StandardOutput()

    def add(self, log: Log, name: str, rows: list[RebuiltFile]) -> None:
        for made in rows:
            written = None
            if self._folder is not None and made.compared != DROPPED:
                written = os.path.join(self._folder, name, made.name)
            row = {
                "path": log.path,
                "topic": log.topic,
                "partition": log.partition,
                "file": made.name,
                "entries": made.entries,
                "bytes": made.size,
                "compared": made.compared,
                "preallocated": made.preallocated,
                "written": written,
            }
            self._out.line(json.dumps(row))

    def finish(self, is_whole: bool) -> None:
        self._out.finish()


class TextReport:
    """Prints a table for each log and a line of totals. Of several logs, one without differences gets one line."""

    def __init__(self, folder: str | None, several: bool) -> None:
        self._several = several
        self._folder = folder
        self._out = _StandardOutput()
        self._counts = dict.fromkeys(_SHOWN, 0)
        self._titles: list[str] = []
        self._index_differs = False

    def add(self, log: Log, name: str, rows: list[RebuiltFile]) -> None:
        self._titles.append(log.path)
        for made in rows:
            self._counts[made.compared] += 1
            self._index_differs |= made.compared == DIFFERENT and made.name.endswith(offset_index.SUFFIX)
        if self._several and all(made.compared == EQUAL for made in rows):
            self._out.line(f"{text_table.safe(self._titles[-1])}: all {len(rows)} files are equal to the old ones\n")
            return
        columns = [
            ("file", [made.name for made in rows]),
            ("entries", [str(made.entries) for made in rows]),
            ("bytes", [str(made.size) for made in rows]),
            ("compared", [_remark(made) for made in rows]),
        ]
        self._out.line(f"{text_table.safe(self._titles[-1])}\n{text_table.render(columns)}")

    def finish(self, is_whole: bool) -> None:
        """Print totals and what to do next. `is_whole`: no log is damaged; beside a damaged one the old files stay,
        as they may say what is lost."""
        made = sum(self._counts.values()) - self._counts[DROPPED]
        counts = ", ".join(f"{count} {name}" for name, count in self._counts.items() if count)
        where = "nothing is written (--dry-run)"
        if self._folder is not None:
            where = f"written to {text_table.safe(self._folder)}"
        self._out.line(f"{text_table.counted(made, 'file')} ({counts}), {where}")
        named = names.folder(os.path.basename(os.path.abspath(self._titles[0]))) if self._titles else None
        is_served = named is None or not named.state  # by a broker; not the folder of a deleted partition
        if self._folder is not None and self._counts[EQUAL] < made and is_whole and (is_served or self._several):
            source = f"{quoted(as_operand(self._folder))}/*"
            to = quoted(as_operand(os.path.join(self._titles[0], "")))
            files = f"-r {source} to the logs' folders" if self._several else f"{source} {to}"
            self._out.line(f"With the broker stopped: cp {files}")
        if self._index_differs:
            self._out.line(
                "An .index that differs is not an error by itself: the topic may have another index.interval.bytes "
                "(--index-interval), and brokers before 4.1 wrote fewer entries. verify says which entries are wrong."
            )
        self._out.finish()


def _remark(made: RebuiltFile) -> str:
    if made.compared == EQUAL and made.preallocated:
        return f"{_SHOWN[EQUAL]} without its {made.preallocated} preallocated zero bytes"
    return _SHOWN[made.compared]
