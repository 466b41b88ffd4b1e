"""`kafkarec reindex`: a log's indexes, producer snapshots and leader epochs rebuilt into a new folder."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX
from kafkarec.logs import Log
from kafkarec.report import Block, ColumnOf, Document, ReportTable
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, time_index, txn_index
from kafkarec.sources.read_failures import is_of_one_file
from kafkarec.state.index_builders import DEFAULT_INTERVAL
from kafkarec.storage import names
from kafkarec.storage.output_rules import STANDARD_INPUT
from kafkarec.storage.rebuild_folder import RebuiltSideFiles, rebuild_side_files
from kafkarec.storage.segment_file import size_or_zero
from kafkarec.support import durable
from kafkarec.support.command_line import as_operand, command, quoted
from kafkarec.support.text_table import counted

from . import COULD_NOT, DAMAGED, FINE, input_logs, output_files, progress, shared_options
from .problems import say
from .shared_options import FOLDER, CouldNot, WrongUse, add_option, errors_named, number_parser, output_path_parser

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
    """One file, as in JSON. file: its name; compared: a key of _SHOWN; preallocated: bytes of zeros at the end of the
    old file; written: its path."""

    file: str
    entries: int
    bytes: int
    compared: str
    preallocated: int
    written: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser, "partition folders, a broker's data folder, segments")
    help_ = "the new folder; it must be empty or not exist"
    add_option(parser, "-o DIR", help_, output_path_parser("-o", FOLDER), dest="output")
    add_option(parser, "--dry-run", "compare only, write nothing")
    add_option(
        parser,
        "--index-interval BYTES",
        f"the topic's index.interval.bytes (default {DEFAULT_INTERVAL})",
        number_parser(f"bytes from 0 to {INT_MAX}", most=INT_MAX),
        default=DEFAULT_INTERVAL,
    )
    add_option(parser, "--format text|json", "json: a line for each file")


def run(args: argparse.Namespace) -> int:
    if not args.dry_run and args.output is None:
        raise WrongUse("no output: name the new folder with -o DIR, or compare only with --dry-run")
    unread: list[str] = []
    logs = input_logs.find(args, unread=unread)
    status, unlisted = FINE, len(unread)
    path = None if args.dry_run else args.output
    with (
        output_files.new_folder(path) if path is not None else nullcontext() as new,
        durable.FileGroup() as files,  # its files are closed before the folder is removed, which needs descriptors
        progress.show_segments_read(input_logs.segments(logs)) as tick,
    ):
        report: list[tuple[Log, list[RebuiltFile]]] = []
        for log, name in zip(logs, _folder_names(logs), strict=True):
            rows: list[RebuiltFile] = []
            taken: set[str] = set()
            read, folder = len(unread), os.path.join(new, name) if new else ""
            for rebuilt in _rebuilt(log, args.index_interval, unread):
                if rebuilt.segment is not None:
                    tick(rebuilt.segment.path, size_or_zero(rebuilt.segment))
                for made in _compared_files(log, rebuilt):
                    if path is not None and made.compared != DROPPED:
                        whole = os.path.join(path, name, made.file)
                        if made.file in taken:  # of 0.log and 0.log.gz
                            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), whole)
                        with errors_named(path):
                            files.make_folder(folder)
                            files.write(folder, made.file, rebuilt.files[made.file])
                        made = made._replace(written=whole)
                    rows.append(made)
                    taken.add(made.file)
                if rebuilt.damage or rebuilt.problems:
                    status = DAMAGED if rebuilt.damage else status
                    _report(log, rebuilt)
            if len(unread) == read:
                report.append((log, rows))
            elif path is not None and name:
                with errors_named(path):
                    files.sync()
                shutil.rmtree(folder, ignore_errors=True)
        if len(unread) - unlisted == len(logs):
            raise CouldNot("; ".join(unread))
        if path is not None:
            with errors_named(path):
                files.sync()
    values = (
        {"path": log.path, "topic": log.topic, "partition": log.partition, **made._asdict()}
        for log, rows in report
        for made in rows
    )
    document = Document("reindex", list(_blocks(report, path, status == FINE and not unread)))
    with output_files.standard_output() as sink:
        output_files.write_rendered(sink, args.format, document, values)
    for line in unread:
        say(line)
    return COULD_NOT if unread else status


def _rebuilt(log: Log, index_interval: int, unread: list[str]) -> Iterator[RebuiltSideFiles]:
    """Yield the new files of a log. If a file of it cannot be read, they end, and `unread` gets a line; so does a log
    with segments of wrong names, in which the new files would be those of other segments."""
    if why := input_logs.wrong_names_text(log):
        unread.append(f"{log.path}: its log is left out, as {why}")
        return
    try:
        yield from rebuild_side_files(log, index_interval)
    except OSError as error:
        if not is_of_one_file(error):
            raise
        unread.append(f"{input_logs.failure_line(error, log.path)}; its log is left out")


def _folder_names(logs: list[Log]) -> list[str]:
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


def _compared_files(log: Log, rebuilt: RebuiltSideFiles) -> Iterator[RebuiltFile]:
    """Yield the new files, each compared with the old one."""
    segment = rebuilt.segment
    for name, data in rebuilt.files.items():
        suffix = name if name == leader_epochs.NAME else os.path.splitext(name)[1]
        old = _read_old(log.folder_file, name) if segment is None else _read_old(segment.sidecar, suffix)
        content = _CONTENTS[suffix]
        made, compared, preallocated = content(data), NEW, 0
        if old is not None:
            compared = EQUAL if data == old else DIFFERENT
            try:
                before = content(old)
                compared = EQUAL if before == made else DIFFERENT
                preallocated = getattr(before, "preallocated", 0)
            except KafkaRecordError:
                pass  # the old file is broken, so the new one is different
        yield RebuiltFile(name, len(made), len(data), compared, preallocated)
    old = None if segment is None else _read_old(segment.sidecar, txn_index.SUFFIX)
    if old and not any(name.endswith(txn_index.SUFFIX) for name in rebuilt.files):
        stem = next(iter(rebuilt.files)).partition(".")[0]
        yield RebuiltFile(stem + txn_index.SUFFIX, 0, 0, DROPPED, 0)


def _read_old(read: Callable[[str], bytes | None], name: str) -> bytes | None:
    """Return the content of the old file; a text that equals no file's content if it cannot be read."""
    try:
        return read(name)
    except OSError:
        return b"unreadable"


def _report(log: Log, rebuilt: RebuiltSideFiles) -> None:
    where = log.path if rebuilt.segment is None else rebuilt.segment.path
    for problem in rebuilt.problems:
        say(f"{where}: {problem}")
    for damage in rebuilt.damage[:5]:
        say(f"{damage.detail} [{damage.reason}]")
    if rebuilt.damage:
        count = "1 damaged range" if len(rebuilt.damage) == 1 else f"{len(rebuilt.damage)} damaged ranges, the first"
        # the folder has more to tell of a segment, but leaves a file of another name out
        is_named = rebuilt.segment is not None and names.segment(rebuilt.segment.name) is None
        say(
            f"{where}: {count} at byte {rebuilt.damage[0].position}. The new indexes skip the damage; a broker that "
            f"recovers this segment truncates it there. See {command('verify', [where if is_named else log.path])}"
        )


# ---- the report


def _blocks(report: Sequence[tuple[Log, list[RebuiltFile]]], folder: str | None, is_whole: bool) -> Iterator[Block]:
    """A table for each log, and a line of totals. Of several logs, one without differences gets one line.

    is_whole   no log is damaged; beside a damaged one the old files stay, as they may say what is lost
    """
    several = len(report) > 1
    for log, rows in report:
        if several and all(made.compared == EQUAL for made in rows):
            yield f"{log.path}: all {len(rows)} files are equal to the old ones"
        else:
            yield input_logs.shown_name(log.path)
            yield ReportTable.of(rows, _COLUMNS)
        yield ""
    counts = Counter(made.compared for _, rows in report for made in rows)
    made = counts.total() - counts[DROPPED]
    said = ", ".join(f"{counts[name]} {name}" for name in _SHOWN if counts[name])
    where = "nothing is written (--dry-run)" if folder is None else f"written to {folder}"
    yield f"{counted(made, 'file')} ({said}), {where}"
    to = report[0][0].path if report else ""
    named = names.folder(os.path.basename(os.path.abspath(to))) if to else None
    # by a broker; not the folder of a deleted partition
    is_served = to != STANDARD_INPUT and (named is None or not named.state)
    if folder is not None and counts[EQUAL] < made and is_whole and (is_served or several):
        new, old = f"{quoted(as_operand(folder))}/*", quoted(as_operand(os.path.join(to, "")))
        yield "With the broker stopped: cp " + (f"-r {new} to the logs' folders" if several else f"{new} {old}")
    if any(one.compared == DIFFERENT and one.file.endswith(offset_index.SUFFIX) for _, rows in report for one in rows):
        yield (
            "An .index that differs is not an error by itself: the topic may have another index.interval.bytes "
            "(--index-interval), and brokers before 4.1 wrote fewer entries. verify says which entries are wrong."
        )


_COLUMNS: dict[str, ColumnOf[RebuiltFile]] = {
    "file": "file",
    "entries": "entries",
    "bytes": "bytes",
    "compared": lambda made: (
        _SHOWN[made.compared]
        + (
            f" without its {made.preallocated} preallocated zero bytes"
            * (made.compared == EQUAL and made.preallocated > 0)
        )
    ),
}
