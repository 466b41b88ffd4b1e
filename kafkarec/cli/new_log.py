"""Writes the new log of `build`, `convert` and `compact`: a file, standard output, a partition folder or several.

    -o new.log       a file of batches, like a segment; it appears when it is complete
    -o orders-0      a partition folder, recognised by its name: segments, indexes, snapshots, epochs
    -o new/          a folder (its name ends in / or it exists) of partition folders: new/orders-0, new/orders-1, ...
    -o -, no -o      standard output: raw batches

A folder is created under a temporary name in the same parent folder, and renamed when it is complete. Existing files
are replaced only with --force, and only those of a log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.logs import Log
from kafkarec.ops.segment_writer import AppendRefused, SegmentWriter
from kafkarec.report import jsonable
from kafkarec.sidecars import partition_metadata
from kafkarec.storage import names
from kafkarec.storage.output_rules import Inputs, is_stream
from kafkarec.support import durable, text_table
from kafkarec.support.text_table import byte_size, safe, system_reason

from . import input_logs, output_files, shared_options
from .problems import DAMAGED, exit_status, repeated, say
from .shared_options import CouldNot, WrongUse

STANDARD_OUTPUT = "-"
_APPEND = 1 << 20
# Files of a partition folder other than those of segments.
_FOLDER_FILES = ("leader-epoch-checkpoint", "partition.metadata", "salvage.json")

Place = tuple[str | None, int | None]  # topic, partition


class BadInput(KafkaRecordError):
    """The content of an input cannot be written. Printed in one line; exit status 1."""


def add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        metavar="OUT",
        dest="output",
        help="NAME.log: a file; orders-0: a partition folder; DIR/: a folder of those; default, and -: standard output",
    )
    group.add_argument("--force", action="store_true", help="replace an existing log, but never an input")
    group.add_argument(
        "--segment-bytes",
        type=shared_options.size,
        default=1 << 30,
        metavar="SIZE",
        help="for folders: the largest size of a segment (default 1g)",
    )
    group.add_argument(
        "--index-interval",
        type=shared_options.size,
        default=4096,
        metavar="SIZE",
        help="for folders: the topic's index.interval.bytes (default 4096)",
    )
    group.add_argument(
        "--topic-id", metavar="ID", help="for folders: write partition.metadata with this topic id (22 characters)"
    )


_LEVELED = [codec for codec in codecs.CODECS if codec.default_level is not None]


def add_compression(group: argparse._ArgumentGroup, default: str) -> None:
    group.add_argument("--compression", choices=CODEC_NAMES, help=f"the codec (default: {default})")
    group.add_argument(
        "--level",
        type=_level,
        metavar="N",
        help="; ".join(f"{one.name} {one.min_level} to {one.max_level} (default {_default(one)})" for one in _LEVELED),
    )


def _default(codec: codecs.Codec) -> str:
    """Return the default level. gzip's -1, which is Kafka's default too, is none of its levels."""
    level, least = codec.default_level, codec.min_level
    return f"{level}: the library's own" if level is not None and least is not None and level < least else str(level)


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="format of the summary on standard error (default: text)",
    )


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def demand_level(compression: str | None, level: int | None) -> None:
    """Raise WrongUse for a level that the codec does not have."""
    if level is None:
        return
    if compression is None or codecs.BY_NAME[compression] not in _LEVELED:
        raise WrongUse(f"--level needs --compression with one of {', '.join(one.name for one in _LEVELED)}")
    try:
        codecs.compress(codecs.BY_NAME[compression].id, b"", level, 2)
    except KafkaRecordError:
        raise
    except ValueError as error:
        raise WrongUse(f"--level: {error}") from error


class FolderSettings(NamedTuple):
    """Settings of the partition folders to write."""

    segment_bytes: int
    index_interval: int
    topic_id: str | None


class Origin(NamedTuple):
    """Values that a new partition folder has in common with the source folder. None: unknown."""

    start_offset: int | None = None
    topic_id: str | None = None


class NewLog:
    """A log that is being written: `begin` for each partition, then `write` with its whole batches, in order."""

    is_folder = False
    size = 0  # bytes of all batches so far

    def check(self, place: Place, where: str) -> None:
        """Raise WrongUse or Refused for a partition that cannot be written; `where`: position in the input."""
        raise AssertionError

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        """Check a partition and prepare its output; a second call does nothing."""
        raise AssertionError

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        raise AssertionError

    def shown(self, place: Place) -> str:
        """Return the name of this partition's output, for messages."""
        raise AssertionError

    def finish(self) -> None:
        """Complete the output and rename it to its final name."""

    def drop(self) -> None:
        """Remove incomplete output."""

    @property
    def after_interrupt(self) -> str | None:
        """What Ctrl-C has left of the output; None: nothing."""
        return None

    @property
    def description(self) -> str:
        """The name of the whole output, for messages."""
        raise AssertionError


class OneLog(NewLog):
    """Output of a single partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._place: Place | None = None

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        self.check(place, where)

    def check(self, place: Place, where: str) -> None:
        if self._place is None:
            self._place = place
        elif self._place != place:
            raise WrongUse(f"{where}: a second partition, and {self.name} is for one (-o DIR/ makes a folder for each)")

    def shown(self, place: Place) -> str:
        return self.name

    @property
    def description(self) -> str:
        return self.name


class FileLog(OneLog):
    """Writes a file of batches, or to standard output."""

    def __init__(self, sink: output_files.Sink, name: str) -> None:
        super().__init__(name)
        self._sink = sink

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        self.size += self._sink.write(batches)

    def finish(self) -> None:
        self._sink.flush()


class PartitionFolder(OneLog):
    """Writes one partition. path: the folder, which appears when it is complete."""

    is_folder = True

    def __init__(self, path: str, folder: FolderSettings, force: bool, inputs_read: Inputs) -> None:
        super().__init__(path)
        self._path = os.path.realpath(path.rstrip("/") or path)
        self._folder = folder
        self._replaces = replaces_log(self._path, path, force)
        if self._replaces:
            inputs_read.demand_none_in(self._path, f"-o {path}")
        above, name = os.path.split(self._path)
        self._part = os.path.join(above, f".{name}.{os.getpid()}.part")
        self._writer: SegmentWriter | None = None
        self._pending: list[bytes | memoryview] = []
        self._pending_bytes = 0

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        super().begin(place, where, origin)
        if self._writer is None:
            self._writer = self._new_writer(origin)

    def _new_writer(self, origin: Origin) -> SegmentWriter:
        durable.make_folder(os.path.dirname(self._part))
        os.mkdir(self._part)
        settings = self._folder
        try:
            return SegmentWriter(
                self._part,
                segment_bytes=settings.segment_bytes,
                index_interval_bytes=settings.index_interval,
                start_offset=origin.start_offset,
                topic_id=settings.topic_id or origin.topic_id,
                check_all=False,
            )
        except ValueError as error:
            raise WrongUse(str(error)) from error

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        self._pending.append(batches)
        self._pending_bytes += len(batches)
        self.size += len(batches)
        if self._pending_bytes >= _APPEND:
            self._append()

    def _append(self) -> None:
        pending, self._pending, self._pending_bytes = b"".join(self._pending), [], 0
        if pending and self._writer:
            try:
                self._writer.append(pending)
            except AppendRefused as error:
                # not at byte `position`, which counts from the start of this append
                refused = f"the batch of base offset {error.base_offset} was refused and nothing was written"
                raise BadInput(f"{self.name}: {refused}: {error.why}") from error

    def finish(self) -> None:
        if self._writer is None:
            self.begin((None, None), self.name)
        self._append()
        if self._writer:
            self._writer.close()
        old_folder = self._part.removesuffix(".part") + ".old"
        replaces = replaces_log(self._path, self.name, self._replaces)
        if replaces:
            os.rename(self._path, old_folder)
        else:
            with suppress(FileNotFoundError):
                os.rmdir(self._path)  # an empty one
        os.rename(self._part, self._path)
        durable.sync_folder(os.path.dirname(self._path))
        if replaces:
            shutil.rmtree(old_folder)

    def drop(self) -> None:
        if os.path.isdir(self._part):
            with suppress(OSError):
                if self._writer:
                    self._writer.close()
            shutil.rmtree(self._part, ignore_errors=True)


class PartitionFolders(NewLog):
    """Writes a folder of partition folders; each is created at its first batch."""

    is_folder = True

    def __init__(self, path: str, folder: FolderSettings, force: bool, inputs_read: Inputs) -> None:
        self._path, self._folder, self._force, self._inputs_read = path, folder, force, inputs_read
        self._made: dict[Place, PartitionFolder] = {}
        self._finished = 0
        self._is_new = not os.path.lexists(path)

    def check(self, place: Place, where: str) -> None:
        topic, partition = place
        if topic is None or partition is None:
            raise WrongUse(
                f"{where}: topic and partition, the name of the folder in {self._path}, are unknown; "
                f"name it: -o {os.path.join(self._path, 'orders-0')}"
            )
        if names.folder(f"{topic}-{partition}") is None or "/" in topic:
            raise WrongUse(
                f"{where}: the topic or the partition is not valid in Kafka, so no folder can be named after it"
            )
        if place not in self._made:
            path = os.path.join(self._path, f"{topic}-{partition}")
            if os.path.lexists(path):  # a new one is where its parent folder is, which was checked
                self._inputs_read.demand_apart(path, f"-o {path}")
            self._made[place] = PartitionFolder(path, self._folder, self._force, self._inputs_read)

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        self.check(place, where)
        self._made[place].begin(place, where, origin)

    def shown(self, place: Place) -> str:
        return self._made[place].name

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        self._made[place].write(place, batches)
        self.size += len(batches)

    def finish(self) -> None:
        for each in self._made.values():
            each.finish()
            self._finished += 1

    def drop(self) -> None:
        for each in self._made.values():
            each.drop()
        if self._is_new and not self._finished:
            with suppress(OSError):
                os.rmdir(self._path)

    @property
    def after_interrupt(self) -> str | None:
        if not self._finished:
            return None
        count = f"{self._finished} of {text_table.counted(len(self._made), 'partition')}"
        return f"{count} are complete in {self._path}; the same command with --force writes all of them again"

    @property
    def description(self) -> str:
        made = sorted(os.path.basename(each.name) for each in self._made.values())
        return os.path.join(self._path, made[0]) if len(made) == 1 else f"{len(made)} folders in {self._path}"


def replaces_log(path: str, shown: str, force: bool) -> bool:
    """Return whether a log exists that --force replaces. Raise WrongUse for anything else that exists."""
    if not os.path.lexists(path):
        return False
    if not os.path.isdir(path):
        raise WrongUse(f"-o {shown} is a file; a partition is a folder")
    present = os.listdir(path)
    if not present:
        return False
    foreign = [name for name in present if names.segment(name) is None and name not in _FOLDER_FILES]
    if foreign:
        raise WrongUse(
            f"-o {shown} contains {sorted(foreign)[0]}, which is not a file of a partition; choose a new folder"
        )
    if not force:
        raise WrongUse(f"-o {shown} exists and is not empty; --force replaces it")
    return True


def report_damage(
    error: KafkaRecordError,
    args: argparse.Namespace,
    next_command: str,
    purpose: str = "To leave damage out",
    *,
    whole: bool = False,
) -> int:
    """Report the error that ended the run and the next command; return the exit status. No file was written. `whole`:
    as for `opened`."""
    if error.reason is None:
        say(str(error))
        return DAMAGED
    if error.reason == "limit_exceeded":
        larger = f"{max(8 * args.max_decompressed_bytes, 1 << 30) >> 20}m"
        next_command, purpose = repeated(args.argv, {"--max-decompressed-bytes": larger}), "With a higher limit"
    written = "everything before it" if is_stream(args.output) and not whole else "nothing"
    say(f"{error} [{error.reason}]; {written} is written. {purpose}: {next_command}")
    return exit_status(error.reason)


def origin_of(log: Log) -> Origin:
    """Return start offset and topic id of a log, for the new folder."""
    data = log.folder_file(partition_metadata.NAME)
    try:
        topic_id = None if data is None else partition_metadata.read(data).topic_id
    except KafkaRecordError:
        topic_id = None
    return Origin(log.start_offset, topic_id)


def shown(log: Log, paths: Sequence[str]) -> str:
    """Return the name of a source for messages: the file's if it was one of the paths, else the folder's."""
    first = log.segments[0].path
    if first == input_logs.STANDARD_INPUT:
        return "standard input"
    return first if first in paths and len(log.segments) == 1 else log.path


def contents(records: int, batches: int, size: int, before: int | None = None) -> str:
    """Return text such as `293 records in 149 batches, 17.6 KiB`; before: the old size in bytes, for a percentage."""
    share = f" ({100 * size / before:.1f} %)" if before else ""
    return f"{records} record{'s' * (records != 1)} in {batches} batch{'es' * (batches != 1)}, {byte_size(size)}{share}"


def report(form: str, objects: Iterable[dict[str, Any]], lines: Iterable[str]) -> None:
    """Print the summary to standard error, as the log itself may be on standard output."""
    try:
        as_json = (json.dumps(jsonable(one)) for one in objects)
        for line in as_json if form == "json" else map(safe, lines):
            print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return  # standard error is closed


@contextmanager
def opened(args: argparse.Namespace, from_folder: bool = False, *, whole: bool = False) -> Iterator[NewLog]:
    """Yield the new log. `from_folder`: an input is a folder, so the output is one unless its name ends in .log.
    `whole`: standard output gets nothing, as a file does, before the log is complete."""
    path = args.output
    if path is None or is_stream(path):
        with output_files.opened(args) as sink:
            if sink.is_terminal:
                raise WrongUse("batches are binary and cannot be printed on a terminal; add -o NAME.log or a pipe")
            with output_files.spooled(sink) if whole else nullcontext(sink) as target:
                yield FileLog(target, "standard output" if path in (None, STANDARD_OUTPUT) else path)
        return
    bare = path.rstrip("/")
    is_partition = names.folder(os.path.basename(os.path.abspath(path))) is not None
    if not (is_partition or bare != path or os.path.isdir(path) or (from_folder and not bare.endswith(".log"))):
        args.inputs_read.demand_file(path, "-o", args.force)
        if args.topic_id is not None:
            raise WrongUse("--topic-id needs a partition folder: -o orders-0")
        with output_files.opened(args) as sink:
            yield FileLog(sink, path)
        return
    folder = FolderSettings(args.segment_bytes, args.index_interval, args.topic_id)
    log = (PartitionFolder if is_partition else PartitionFolders)(path, folder, args.force, args.inputs_read)
    try:
        yield log
    except OSError as error:
        raise CouldNot(f"{path}: {system_reason(error)}") from error
    except KeyboardInterrupt:
        args.after_interrupt = log.after_interrupt
        raise
    finally:
        log.drop()
