"""Writes the new log of `build`, `convert` and `compact`: a file, standard output, a partition folder or several.

    -o new.log       a file of batches, like a segment; it appears when it is complete
    -o orders-0      a partition folder, recognised by its name: segments, indexes, snapshots, epochs
    -o new/          a folder (its name ends in / or it exists) of partition folders: new/orders-0, new/orders-1, ...
    -o -, no -o      standard output: raw batches

A folder is created under a temporary name in the same parent folder, and renamed when all are complete. An existing
file is replaced only with --force, a folder never unless it is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

from kafkarec import codecs
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.logs import Log
from kafkarec.ops.segment_writer import AppendRefused, SegmentWriter
from kafkarec.report import jsonable
from kafkarec.sidecars import partition_metadata
from kafkarec.storage import globs, names
from kafkarec.storage.output_rules import STANDARD_INPUT, STANDARD_OUTPUT, is_stream
from kafkarec.support.text_table import byte_size, counted, safe

from . import DAMAGED, input_logs, output_files, progress, shared_options
from .problems import exit_status, higher_limit_option, rerun_command, say
from .shared_options import WrongUse, add_option

_APPEND = 1 << 20

TopicPartition = tuple[str | None, int | None]  # topic, partition
Result = TypeVar("Result", bound=Any)


class BadInput(KafkaRecordError):
    """The content of an input cannot be written. Printed in one line; exit status 1."""


def add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    add_option(
        group,
        "-o OUT",
        "NAME.log: a file; orders-0: a partition folder; DIR/: a folder of those; default, and -: standard output",
        shared_options.output_path_parser("-o", shared_options.LOG),
        dest="output",
    )
    add_option(group, "--force", "replace an existing file, but never an input")
    add_option(
        group,
        "--segment-bytes SIZE",
        "for folders: the largest size of a segment (default 1g)",
        shared_options.size,
        default=1 << 30,
    )
    add_option(
        group,
        "--index-interval SIZE",
        "for folders: the topic's index.interval.bytes (default 4096)",
        shared_options.size,
        default=4096,
    )
    add_option(group, "--topic-id ID", "for folders: write partition.metadata with this topic id (22 characters)")


_LEVELED = [codec for codec in codecs.CODECS if codec.default_level is not None]


def add_compression(group: argparse._ArgumentGroup, default: str) -> None:
    add_option(group, f"--compression {'|'.join(CODEC_NAMES)}", f"the codec (default: {default})", default=None)
    add_option(
        group,
        "--level N",
        "; ".join(f"{one.name} {one.min_level} to {one.max_level} (default {one.default_level})" for one in _LEVELED),
        int,
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--format text|json", "format of the summary on standard error (default: text)")


def demand_level(compression: str | None, level: int | None) -> None:
    """Raise WrongUse for a level that the codec does not have."""
    if level is None:
        return
    if compression is None or codecs.BY_NAME[compression] not in _LEVELED:
        raise WrongUse(f"--level needs --compression with one of {', '.join(one.name for one in _LEVELED)}")
    with shared_options.value_errors_refused("--level: "):
        codecs.compress(codecs.BY_NAME[compression].id, b"", level, 2)


class PartitionFolderWriter:
    """Writes one partition. path: the new folder, which appears at the end of `outputs`."""

    def __init__(self, path: str, args: argparse.Namespace, outputs: ExitStack) -> None:
        self.name, self._args = path, args
        self._folder = outputs.enter_context(output_files.new_folder(path))
        self._writer: SegmentWriter | None = None
        outputs.callback(self._close_files)
        self._end = 0  # the least log end offset
        self._source: Log | None = None
        self._pending: list[bytes | memoryview] = []
        self._pending_bytes = 0

    def begin(self, source: Log | None) -> None:
        """Create the writer, if it is not there yet. Start offset and topic id are those of `source`, if known, and the
        end offset if an empty segment names it, as `salvage --keep-end` writes one."""
        if self._writer is not None:
            return
        self._source = source
        if source is not None and not source.segments[-1].size:
            self._end = source.segments[-1].base_offset or 0
        with shared_options.value_errors_refused():
            self._writer = SegmentWriter(
                self._folder,
                segment_bytes=self._args.segment_bytes,
                index_interval_bytes=self._args.index_interval,
                start_offset=None if source is None else source.start_offset,
                topic_id=self._args.topic_id or (None if source is None else _topic_id(source)),
                check_all=False,
            )

    def write(self, batches: bytes | memoryview) -> None:
        self._pending.append(batches)
        self._pending_bytes += len(batches)
        if self._pending_bytes >= _APPEND:
            self._append()

    def _append(self) -> None:
        pending, self._pending, self._pending_bytes = b"".join(self._pending), [], 0
        if pending and self._writer:
            try:
                self._writer.append(pending)
            except AppendRefused as error:
                if error.size is not None:
                    needed = f"the batch of base offset {error.base_offset} needs --segment-bytes {error.size} or more"
                    raise WrongUse(f"{self.name}: {needed}; nothing was written") from error
                # not at byte `position`, which counts from the start of this append
                refused = f"the batch of base offset {error.base_offset} was refused and nothing was written"
                wrong = None if self._source is None else input_logs.wrong_names_text(self._source)
                raise BadInput(f"{self.name}: {refused}: {error.why}" + (f"; {wrong}" if wrong else "")) from error

    def finish(self) -> None:
        self._append()
        if self._writer:
            self._writer.roll_to(self._end)
            self._writer.close()
            self._writer = None

    def _close_files(self) -> None:
        """Close those of a log that stays incomplete: removing its folder needs descriptors."""
        with suppress(OSError):
            if self._writer:
                self._writer.close()


class NewLog:
    """A log that is being written: `begin` for each partition, then `write` with its whole batches, in order.

    path      of the output, for messages
    outputs   at whose end they get their names, or are removed after an error
    only      the output, if it is for one partition; None: each partition gets a folder in `path`
    size      bytes of all batches so far
    """

    def __init__(
        self,
        path: str,
        args: argparse.Namespace,
        outputs: ExitStack,
        only: output_files.Sink | PartitionFolderWriter | None,
    ) -> None:
        self._path, self._args, self._outputs, self._only = path, args, outputs, only
        self.is_folder = not isinstance(only, output_files.Sink)
        self.size = 0
        self.made: dict[TopicPartition, output_files.Sink | PartitionFolderWriter] = {}

    def prepare(self, place: TopicPartition, where: str) -> None:
        """Prepare the output of a partition. Raise WrongUse or Refused if it cannot be written; `where`: position in
        the input."""
        if place in self.made:
            return
        if self._only is not None and self.made:
            raise WrongUse(
                f"{where}: a second partition, and {self._path} is for one (-o DIR/ makes a folder for each)"
            )
        if self._only is not None:
            self.made[place] = self._only
            return
        topic, partition = place
        if topic is None or partition is None:
            raise WrongUse(
                f"{where}: topic and partition, the name of the folder in {self._path}, are unknown; "
                f"name it: -o {os.path.join(self._path, 'orders-0')}"
            )
        named = names.folder(f"{topic}-{partition}")
        if named is None or (named.topic, named.partition) != place or "/" in topic:
            raise WrongUse(
                f"{where}: the topic or the partition is not valid in Kafka, so no folder can be named after it"
            )
        path = os.path.join(self._path, f"{topic}-{partition}")
        if os.path.lexists(path):  # a new one is where its parent folder is, which was checked
            self._args.inputs_read.demand_apart(path, f"-o {path}")
        self.made[place] = PartitionFolderWriter(path, self._args, self._outputs)

    def begin(self, place: TopicPartition, where: str, source: Log | None = None) -> None:
        """Check a partition and prepare its output; a second call does nothing. source: what it is made of"""
        self.prepare(place, where)
        writer = self.made[place]
        if isinstance(writer, PartitionFolderWriter):
            writer.begin(source)

    def write(self, place: TopicPartition, batches: bytes | memoryview) -> None:
        self.made[place].write(batches)
        self.size += len(batches)

    def complete(self, place: TopicPartition) -> None:
        """End a partition before the others, of which there may be more than a process may have files open."""
        writer = self.made[place]
        if isinstance(writer, PartitionFolderWriter):
            writer.finish()

    def finish(self) -> None:
        """Complete all partitions, before the first one gets its name: no disk gets full between two of them."""
        if self._only is not None and not self.made:
            self.begin((None, None), self._path)
        for place in self.made:
            self.complete(place)

    @property
    def description(self) -> str:
        """The name of the whole output, for messages."""
        if self._only is not None:
            return self._path
        made = sorted(os.path.basename(each.name) for each in self.made.values())
        return os.path.join(self._path, made[0]) if len(made) == 1 else f"{len(made)} folders in {self._path}"


def report_damage(
    error: KafkaRecordError,
    args: argparse.Namespace,
    next_command: str,
    purpose: str = "To leave damage out",
) -> int:
    """Report the error that ended the run and the next command; return the exit status. No file was written."""
    if error.reason is None:
        say(str(error))
        return DAMAGED
    if error.reason == "limit_exceeded":
        next_command = rerun_command(args.argv, higher_limit_option(args.max_decompressed_bytes))
        purpose = "With a higher limit"
    written = "everything before it" if is_stream(args.output) else "nothing"
    say(f"{error} [{error.reason}]; {written} is written. {purpose}: {next_command}")
    return exit_status(error.reason)


def _topic_id(log: Log) -> str | None:
    """Return the topic id that a log's folder has."""
    data = log.folder_file(partition_metadata.NAME)
    try:
        return None if data is None else partition_metadata.read(data).topic_id
    except KafkaRecordError:
        return None


def source_name(log: Log, paths: Sequence[str]) -> str:
    """Return the name of a source for messages: the file's if it was one of the paths, else the folder's."""
    first = log.segments[0].path
    if first == STANDARD_INPUT:
        return "standard input"
    return first if first in paths and len(log.segments) == 1 else log.path


def amount_text(records: int, batches: int, size: int, before: int | None = None) -> str:
    """Return text such as `293 records in 149 batches, 17.6 KiB`; before: the old size in bytes, for a percentage."""
    share = f" ({100 * size / before:.1f} %)" if before else ""
    return f"{counted(records, 'record')} in {counted(batches, 'batch')}, {byte_size(size)}{share}"


def change_text(source: str, output: str, before: tuple[int, int, int], after: tuple[int, int, int]) -> str:
    """Return the line about a log and what was made of it: records, batches and bytes of both."""
    return f"{source}: {amount_text(*before)} -> {output}: {amount_text(*after, before[2])}"


def print_summary(
    form: str,
    done: Sequence[tuple[str, str, Result]],
    lines: Callable[[str, str, Any], Iterable[str]],
) -> None:
    """Print the summary of what `rewrite` returns to standard error, as the log itself may be on standard output."""
    objects = ({"source": source, "output": output, **jsonable(made.stats)} for source, output, made in done)
    as_text = (safe(line) for source, output, made in done for line in lines(source, output, made.stats))
    with suppress(OSError, ValueError, AttributeError):  # standard error is closed
        for line in map(json.dumps, objects) if form == "json" else as_text:
            print(line, file=sys.stderr, flush=True)


@contextmanager
def opened(args: argparse.Namespace, from_folder: bool = False) -> Iterator[NewLog]:
    """Yield the new log. `from_folder`: an input is a folder, so the output is one unless its name ends in .log."""
    path: str = args.output or STANDARD_OUTPUT
    bare = path.rstrip("/")
    is_partition = names.folder(os.path.basename(os.path.abspath(path))) is not None
    is_folder = is_partition or bare != path or os.path.isdir(path) or (from_folder and not bare.endswith(".log"))
    with ExitStack() as outputs:
        if not is_stream(path) and is_folder:
            with shared_options.errors_named(path):
                yield NewLog(path, args, outputs, PartitionFolderWriter(path, args, outputs) if is_partition else None)
            return
        if not is_stream(path):
            args.inputs_read.demand_file(path, "-o", args.force)
            if args.topic_id is not None:
                raise WrongUse("--topic-id needs a partition folder: -o orders-0")
        sink = outputs.enter_context(output_files.opened(args))
        if sink.is_terminal:
            raise WrongUse("batches are binary and cannot be printed on a terminal; add -o NAME.log or a pipe")
        yield NewLog(sink.name, args, outputs, sink)


def rewrite(
    args: argparse.Namespace,
    logs: Sequence[Log],
    make: Callable[..., Result],
    after: Callable[[Log, Result], None] | None = None,
    *,
    passes: int = 1,
) -> list[tuple[str, str, Result]]:
    """Write what `make` makes of each log: iterables of batches with `stats`. Return each with the names of source and
    output. All partitions are checked before the first one is written.

    after     called with each log and what was made of it, when it is written
    passes    how often `make` reads a log
    """
    done = []
    from_folder = any(os.path.isdir(each) for path in args.paths for each in globs.expanded(path))
    with (
        opened(args, from_folder) as out,
        progress.show_segments_read(input_logs.segments(logs), progress.when_writing(args.output), passes) as tick,
    ):
        places = [(log.topic, log.partition) for log in logs]
        for place, log in zip(places, logs, strict=True):
            out.prepare(place, log.path)
        waiting = Counter(places)
        for place, log in zip(places, logs, strict=True):
            out.begin(place, log.path, log)
            made = make(log, progress=tick)
            for batches in input_logs.read_errors_named(made, log.path):
                out.write(place, batches)
            waiting[place] -= 1
            if not waiting[place]:
                out.complete(place)
            if after is not None:
                after(log, made)
            done.append((source_name(log, args.paths), out.made[place].name, made))
        out.finish()
    return done
