"""Opens the logs that the paths of a command line name, in the order of the paths; copies a pipe to a temporary file,
for what is read twice or from its end."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO, TypeVar

import kafkarec
from kafkarec.logs import Log, LogDir, LogFinder, Segment, logs_of
from kafkarec.sources import remote
from kafkarec.sources.files import OpenFile
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import MISSING, is_of_one_file, read_failure
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage import first_bytes, globs, names
from kafkarec.storage.log_folders import LeftOut, by_base_offset
from kafkarec.storage.names_by_content import wrong_names
from kafkarec.storage.opening import is_archive
from kafkarec.storage.output_rules import STANDARD_INPUT, suggested_output
from kafkarec.support.command_line import command
from kafkarec.support.text_table import system_reason

from . import progress
from .shared_options import CouldNot, WrongUse, errors_named, value_errors_refused

_STEP = 1 << 20
T = TypeVar("T")


def input_path(log: Log) -> str:
    """The path by which a command names a log: - for standard input, that of a file which its folder leaves out, as its
    name is no segment's, else the folder's."""
    first = log.segments[0].path if log.segments else log.path
    if first == shown_name(STANDARD_INPUT):
        return STANDARD_INPUT
    return log.path if names.is_segment(os.path.basename(first)) else first


def wrong_names_text(log: Log) -> str | None:
    """What is wrong with the names of a log's segments, and the command to run next. None: nothing."""
    why = wrong_names(log.segments)
    salvage = command("salvage", [log.path], ("-o", suggested_output("rescued", [log.path])))
    return why and f"{why}. To name them by their batches: {salvage}"


def standard_input_pipe() -> BinaryIO:
    """Return standard input. CouldNot if it is closed."""
    if sys.stdin is None:
        raise CouldNot("standard input is closed")
    return sys.stdin.buffer


def shown_name(path: str) -> str:
    """Return the name of an input for messages."""
    return "standard input" if path == "-" else path


def copy_pipe(pipe: BinaryIO, spool: IO[bytes]) -> None:
    """Copy the rest of a pipe to a temporary file. CouldNot if that fails, as where its disk gets full."""
    where = f"copy of standard input in {tempfile.gettempdir()} (TMPDIR names another folder)"
    with errors_named(where), progress.show_byte_count("copying standard input") as tick:
        while block := pipe.read(_STEP):
            spool.write(block)
            tick(spool.tell())
        spool.flush()


def find(
    args: argparse.Namespace,
    *,
    any_file: bool = False,
    unread: list[str] | None = None,
    left_out: list[LeftOut] | None = None,
) -> list[Log]:
    """Return one log for each partition of the paths; segments of one folder that are named one by one become one log.

    any_file  also files of other types; without it they are WrongUse
    unread    gets a line for each folder that cannot be listed; without it, and left_out, one is CouldNot
    left_out  gets what is not there, cannot be listed or is no log; logs without segments count then
    """
    logs: list[Log | list[Segment]] = []
    by_log: dict[object, list[Segment]] = {}
    alone = len(args.paths) == 1
    for path in args.paths:
        is_there = alone or path == STANDARD_INPUT or remote.is_url(path)
        if left_out is not None and not is_there and not any(map(os.path.lexists, globs.expanded(path))):
            left_out.append(LeftOut(path, "no such file or directory", names.UNREADABLE, cause=MISSING))
            continue
        found: Segment | Log | LogDir
        try:
            found = open_input(path, args.topic, args.partition, any_file=any_file)
        except CouldNot as error:
            cause = error.__cause__
            may_go_on = isinstance(cause, Exception) and is_of_one_file(cause)
            if alone or not may_go_on or remote.is_url(path) or os.path.isdir(path):
                raise
            found = Segment(path, os.path.basename(path), folder=LocalFolder(os.path.dirname(path)))  # raises when read
        if not isinstance(found, Segment):
            if unread is not None:
                unread += unlisted_lines(found)
            elif left_out is None:
                for unlisted in unlisted_folders(found):  # whose records would be left out silently
                    where = os.path.join(path, unlisted.name)
                    raise CouldNot(f"{where}: {unlisted.why}; name the other folders to leave it out")
            if left_out is None:
                logs += _logs(path, found)
            else:
                logs += logs_of(found)
                left_out += [one._replace(name=os.path.join(path, one.name)) for one in found.left_out]
                if not logs_of(found) and not found.left_out:  # as in the mount point of a disk that is not mounted
                    why = "a folder without partitions"
                    left_out.append(LeftOut(path, why, names.UNREADABLE, is_folder=True, cause=MISSING))
            continue
        named = names.segment(found.name)
        log = (os.path.dirname(os.path.abspath(path)), named.topic, named.partition) if named else path
        if log not in by_log:
            logs.append(by_log.setdefault(log, []))
        by_log[log].append(found)
    made = []
    for one in logs:
        if isinstance(one, list):
            one.sort(key=by_base_offset)
            path = one[0].path
            folder = path if path == STANDARD_INPUT else os.path.dirname(path) or os.curdir
            one = Log(folder, one)
        made.append(one)
    return made


def name_of(log: Log) -> str:
    """Return topic-partition if both are known, else the path."""
    return log.path if log.topic is None or log.partition is None else f"{log.topic}-{log.partition}"


def segments(logs: Iterable[Log]) -> list[Segment]:
    return [segment for log in logs for segment in log.segments]


def fetched_bytes(segments: Iterable[Segment]) -> int | None:
    """Return the bytes received from remote stores; None: no input is remote."""
    counters = {id(counter): counter for segment in segments if (counter := segment.fetch_counter) is not None}
    return sum(counter.fetched for counter in counters.values()) if counters else None


def open_input(
    path: str, topic: str | None = None, partition: int | None = None, *, any_file: bool = False
) -> Segment | Log | LogDir:
    """Open a path; - is standard input. CouldNot with a line about it if that fails, WrongUse if by its name, or its
    first bytes (any_file: no matter which), it has no batches."""
    if path == STANDARD_INPUT:
        return standard_input_segment(topic, partition, any_file=any_file)
    try:
        with value_errors_refused():
            found = open_path(path, topic, partition)
            if not any_file:
                demand_log(found)
            return found
    except OSError as error:
        raise CouldNot(error_line(error, path)) from error


def one_log(path: str, opened: Segment | Log | LogDir) -> Log:
    """Return the log that a path names. WrongUse if there are several partitions or none, CouldNot if it has no
    segments."""
    logs = logs_of(opened)
    if len(logs) != 1:
        what = f"{len(logs)} partitions; name one of their folders" if logs else "no partition; name a file in it"
        raise WrongUse(f"{path} has {what}")
    if not logs[0].segments:
        raise CouldNot(f"{path}: a folder without .log files")
    return logs[0]


def open_path(path: str, topic: str | None, partition: int | None) -> Segment | Log | LogDir:
    """Return what is at a path. Of a glob, and of a folder that has folders key=value and no segments of its own, those
    that kafkarec.find finds: several folders of one partition are one log."""
    left_out: list[LeftOut] = []
    try:
        found = LogFinder.opener.open(path, topic=topic, partition=partition)
    except FileNotFoundError:
        if not globs.is_glob(path):
            raise
    else:
        assert isinstance(found, Segment | Log | LogDir)
        if isinstance(found, Segment) or not is_archive(found):
            return found
        left_out = [each for each in found.left_out if "=" not in each.name]
    logs = kafkarec.find(path)
    return logs[0] if len(logs) == 1 and not left_out else LogDir(path, logs, left_out)


def demand_log(opened: Segment | Log | LogDir) -> None:
    """Raise WrongUse for a file of another type, by its first bytes. A segment's name has precedence: it may be
    damaged."""
    if not isinstance(opened, Segment) or names.segment(opened.name) is not None:
        return
    other = first_bytes.of_segment(opened)
    if other is not None:
        name = opened.name if opened.path == STANDARD_INPUT else opened.path
        raise WrongUse(f"{name} {other.sentence(opened.path, 'cat')}")


def error_line(error: OSError, path: str) -> str:
    """Return a line about a file that cannot be opened or read."""
    if isinstance(error, RemoteError):
        return str(error)
    return f"{error.filename or path}: {system_reason(error)}" if error.strerror else str(error)


def unlisted_folders(opened: Segment | Log | LogDir) -> list[LeftOut]:
    """Return the folders of partitions that could not be listed."""
    return [one for one in opened.left_out if one.kind == names.UNREADABLE] if isinstance(opened, LogDir) else []


def unlisted_lines(opened: Log | LogDir) -> list[str]:
    """Return a line for each file or folder that could not be listed."""
    return [f"{one.name} is left out: {one.why}" for one in opened.left_out if one.cause]


def failure_line(error: OSError, path: str) -> str:
    """Return which file of a log cannot be read, and why."""
    file = str(error.filename or path)
    return error_line(error, path) if remote.is_url(file) else f"{file}: {read_failure(error, file).why}"


def read_errors_named(pieces: Iterable[T], path: str) -> Iterator[T]:
    """Yield what is made of a log; CouldNot, with the file's name, if it cannot be read. What the caller writes
    meanwhile is not meant."""
    try:
        yield from pieces
    except OSError as error:
        raise CouldNot(error_line(error, path)) from error


_NOT_IN_USE = ("-delete", "-stray", "-future", ".deleted", ".swap")


def _logs(path: str, opened: Log | LogDir) -> list[Log]:
    """Return the logs of a folder that have segments; CouldNot if there are none."""
    logs = [log for log in logs_of(opened) if log.segments]
    if not logs:
        left = [one for one in opened.left_out if one.name.endswith(_NOT_IN_USE)]
        hint = f"; {left[0].name} is {left[0].why}" if left else ""
        raise CouldNot(f"{path}: a folder without .log files{hint}")
    return logs


def standard_input_segment(topic: str | None, partition: int | None, *, any_file: bool = False) -> Segment:
    """Return standard input as a segment. A pipe is copied to an unnamed file first, as damaged ranges are read
    twice. any_file: see `find`."""
    name, descriptor = "standard input", os.dup(standard_input_pipe().fileno())
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.lseek(descriptor, 0, os.SEEK_CUR):
        with os.fdopen(descriptor, "rb") as pipe, tempfile.TemporaryFile(prefix="kafkarec-") as copied:
            copy_pipe(pipe, copied)
            descriptor = os.dup(copied.fileno())
    found = Segment(STANDARD_INPUT, name, source=OpenFile(descriptor, name), topic=topic, partition=partition)
    if not any_file:
        demand_log(found)
    return found
