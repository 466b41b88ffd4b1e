"""Where `build`, `convert` and `compact` put a log: a file, standard output, a partition folder, a folder of those.

    -o new.log       a file of batches, as a segment is; it appears when it is complete
    -o orders-0      a partition folder, recognised by its name: segments, indexes, snapshots, epochs
    -o new/          a folder (it ends in / or is there) of partition folders: new/orders-0, new/orders-1, ...
    -o -, nothing    standard output: raw batches

A folder is made under another name beside its own, and renamed when it is complete. Existing files are replaced
only with --force, and only those of a log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import Compression
from kafkarec.ops.segment_writer import AppendRefused, SegmentWriter
from kafkarec.ops.verify.report_text import amount
from kafkarec.sidecars import partition_metadata
from kafkarec.storage import Log, names
from kafkarec.storage.output_rules import Inputs, is_stream
from kafkarec.support import durable
from kafkarec.support.text_table import safe

from . import inputs, output, shared_options
from .problems import DAMAGED, command, exit_status, say
from .shared_options import CouldNot, WrongUse

STANDARD_OUTPUT = "-"
CODECS = tuple(codec.name.lower() for codec in Compression)
_APPEND = 1 << 20
# Files of a partition folder other than those of segments.
_BESIDE = ("leader-epoch-checkpoint", "partition.metadata", "salvage.json")

Place = tuple[str | None, int | None]  # topic, partition


class BadInput(KafkaRecordError):
    """The input's content is refused: one line, exit 1."""


def add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where to")
    group.add_argument(
        "-o",
        metavar="OUT",
        dest="output",
        help="NAME.log: a file; orders-0: a partition folder; DIR/: a folder of those; - or nothing: standard output",
    )
    group.add_argument("--force", action="store_true", help="replace a log that is there; never an input")
    group.add_argument(
        "--segment-bytes",
        type=shared_options.size,
        default=1 << 30,
        metavar="SIZE",
        help="of a folder: begin a new segment before it gets larger (default 1g)",
    )
    group.add_argument(
        "--index-interval",
        type=shared_options.size,
        default=4096,
        metavar="SIZE",
        help="of a folder: the topic's index.interval.bytes (default 4096)",
    )
    group.add_argument(
        "--topic-id", metavar="ID", help="of a folder: write partition.metadata with this id (22 characters)"
    )


def add_compression(group: argparse._ArgumentGroup, default: str) -> None:
    group.add_argument("--compression", choices=CODECS, help=f"the codec (default: {default})")
    group.add_argument(
        "--level",
        type=_level,
        metavar="N",
        help="gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22 (default: Kafka's, -1, 9 and 3)",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="of the summary on standard error (default: text)"
    )


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def demand_level(compression: str | None, level: int | None) -> None:
    """Raises WrongUse for a level that the codec does not have."""
    if level is None:
        return
    if compression not in ("gzip", "lz4", "zstd"):
        raise WrongUse("--level goes with --compression gzip, lz4 or zstd")
    try:
        codecs.compress(CODECS.index(compression), b"", level, 2)
    except KafkaRecordError:
        raise
    except ValueError as error:
        raise WrongUse(f"--level: {error}") from error


class FolderSettings(NamedTuple):
    """How partition folders are written."""

    segment_bytes: int
    index_interval: int
    topic_id: str | None


class Origin(NamedTuple):
    """What a partition folder takes over from the source folder. None: nothing."""

    start_offset: int | None = None
    topic_id: str | None = None


class NewLog:
    """A log that is being written: `begin` for each partition, then `write` with its whole batches, in order."""

    is_folder = False
    size = 0  # bytes of all batches so far

    def check(self, place: Place, where: str) -> None:
        """Raises WrongUse or Refused for a partition this output cannot hold; `where`: the position in the input."""
        raise AssertionError

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        """Checks a partition and prepares its output; a second call does nothing."""
        raise AssertionError

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        raise AssertionError

    def shown(self, place: Place) -> str:
        """The output of this partition, for messages."""
        raise AssertionError

    def finish(self) -> None:
        """Renames the output to its final name after all batches are written."""

    def drop(self) -> None:
        """Removes unfinished output."""

    @property
    def description(self) -> str:
        """The whole output, for messages."""
        raise AssertionError


class OneLog(NewLog):
    """Output that holds a single partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._place: Place | None = None

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        self.check(place, where)

    def check(self, place: Place, where: str) -> None:
        if self._place is None:
            self._place = place
        elif self._place != place:
            raise WrongUse(
                f"{where}: another partition than before, and {self.name} holds one (-o DIR/ makes a folder for each)"
            )

    def shown(self, place: Place) -> str:
        return self.name

    @property
    def description(self) -> str:
        return self.name


class FileLog(OneLog):
    """A file of batches, or standard output."""

    def __init__(self, sink: output.Sink, name: str) -> None:
        super().__init__(name)
        self._sink = sink

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        self.size += self._sink.write(batches)

    def finish(self) -> None:
        self._sink.flush()


class PartitionFolder(OneLog):
    """One partition. `path`: the folder that appears when it is finished."""

    is_folder = True

    def __init__(self, path: str, folder: FolderSettings, force: bool, reads: Inputs) -> None:
        super().__init__(path)
        reads.demand_apart(path, f"-o {path}")
        self._path = os.path.realpath(path.rstrip("/") or path)
        self._folder = folder
        self._replaces = demand_free(self._path, path, force)
        if self._replaces:
            reads.demand_none_in(self._path, f"-o {path}")
        above, name = os.path.split(self._path)
        self._part = os.path.join(above, f".{name}.{os.getpid()}.part")
        self._writer: SegmentWriter | None = None
        self._waiting: list[bytes | memoryview] = []
        self._waits = 0

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        super().begin(place, where, origin)
        if self._writer is None:
            self._writer = self._begun(origin)

    def _begun(self, origin: Origin) -> SegmentWriter:
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
        self._waiting.append(batches)
        self._waits += len(batches)
        self.size += len(batches)
        if self._waits >= _APPEND:
            self._append()

    def _append(self) -> None:
        waiting, self._waiting, self._waits = b"".join(self._waiting), [], 0
        if waiting and self._writer:
            try:
                self._writer.append(waiting)
            except AppendRefused as error:
                place = f"at byte {error.position} (base offset {error.base_offset})"  # a byte of this append alone
                message = str(error).replace(place, f"of base offset {error.base_offset}")
                raise BadInput(f"{self.name}: {message}") from error

    def finish(self) -> None:
        if self._writer is None:
            self.begin((None, None), self.name)
        self._append()
        if self._writer:
            self._writer.close()
        aside = self._part.removesuffix(".part") + ".old"
        replaces = demand_free(self._path, self.name, self._replaces)
        if replaces:
            os.rename(self._path, aside)
        else:
            with suppress(FileNotFoundError):
                os.rmdir(self._path)  # an empty one
        os.rename(self._part, self._path)
        durable.sync_folder(os.path.dirname(self._path))
        if replaces:
            shutil.rmtree(aside)

    def drop(self) -> None:
        if os.path.isdir(self._part):
            with suppress(OSError):
                if self._writer:
                    self._writer.close()
            shutil.rmtree(self._part, ignore_errors=True)


class PartitionFolders(NewLog):
    """A folder of partition folders, each made when its first batch comes."""

    is_folder = True

    def __init__(self, path: str, folder: FolderSettings, force: bool, reads: Inputs) -> None:
        self._path, self._folder, self._force, self._reads = path, folder, force, reads
        self._made: dict[Place, PartitionFolder] = {}

    def check(self, place: Place, where: str) -> None:
        topic, partition = place
        if topic is None or partition is None:
            raise WrongUse(
                f"{where}: no topic and partition is told, which name the folder in {self._path}; "
                f"name it: -o {os.path.join(self._path, 'orders-0')}"
            )
        if names.folder(f"{topic}-{partition}") is None or "/" in topic:
            raise WrongUse(f"{where}: the topic and the partition are none of Kafka's: no folder can have the name")
        if place not in self._made:
            path = os.path.join(self._path, f"{topic}-{partition}")
            self._made[place] = PartitionFolder(path, self._folder, self._force, self._reads)

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

    def drop(self) -> None:
        for each in self._made.values():
            each.drop()

    @property
    def description(self) -> str:
        made = sorted(os.path.basename(each.name) for each in self._made.values())
        return os.path.join(self._path, made[0]) if len(made) == 1 else f"{len(made)} folders in {self._path}"


def demand_free(path: str, shown: str, force: bool) -> bool:
    """Whether a log exists that --force replaces; raises WrongUse for anything else that exists."""
    if not os.path.lexists(path):
        return False
    if not os.path.isdir(path):
        raise WrongUse(f"-o {shown} is a file, and a partition is a folder")
    held = os.listdir(path)
    if not held:
        return False
    strange = [name for name in held if names.segment(name) is None and name not in _BESIDE]
    if strange:
        raise WrongUse(f"-o {shown} holds {sorted(strange)[0]}, which is no file of a partition; choose a new folder")
    if not force:
        raise WrongUse(f"-o {shown} is there and not empty; --force replaces it")
    return True


def refused(error: KafkaRecordError, args: argparse.Namespace, way: str) -> int:
    """Reports the error that ended the work and the next command; returns the exit status. No output was created."""
    if error.reason is None:
        say(str(error))
        return DAMAGED
    if error.reason == "limit_exceeded":
        larger = f"{max(8 * args.max_decompressed_bytes, 1 << 30) >> 20}m"
        way = command(args.argv, "--max-decompressed-bytes", larger)
    done = "everything in front of it" if is_stream(args.output) else "nothing"
    say(f"{error} [{error.reason}]; {done} is written. Go on with: {way}")
    return exit_status(error.reason)


def origin_of(log: Log) -> Origin:
    """What the new folder takes over from a log's."""
    data = log.folder_file(partition_metadata.NAME)
    try:
        topic_id = None if data is None else partition_metadata.read(data).topic_id
    except KafkaRecordError:
        topic_id = None
    return Origin(log.start_offset, topic_id)


def shown(log: Log, paths: Sequence[str]) -> str:
    """A source's name: the file's, where it was one of the paths."""
    first = log.segments[0].path
    if first == inputs.STANDARD_INPUT:
        return "standard input"
    return first if first in paths and len(log.segments) == 1 else log.path


def contents(records: int, batches: int, size: int, before: int | None = None) -> str:
    """`293 records in 149 batches, 17.6 KiB`; before: the size to compare with, in bytes."""
    share = f" ({100 * size / before:.1f} %)" if before else ""
    return f"{records} record{'s' * (records != 1)} in {batches} batch{'es' * (batches != 1)}, {amount(size)}{share}"


def report(form: str, objects: Iterable[dict[str, Any]], lines: Iterable[str]) -> None:
    """The summary, on standard error: the log itself may go to standard output."""
    try:
        for line in map(json.dumps, objects) if form == "json" else map(safe, lines):
            print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return  # a closed standard error is no reason to fail


@contextmanager
def opened(args: argparse.Namespace, from_folder: bool = False) -> Iterator[NewLog]:
    """The new log of `args`. `from_folder`: a folder is read, so one is made, too."""
    path = args.output
    if path is None or is_stream(path):
        with output.opened(args) as sink:
            if sink.is_terminal:
                raise WrongUse("batches are binary and would garble the terminal; add -o NAME.log or pipe them on")
            yield FileLog(sink, "standard output" if path in (None, STANDARD_OUTPUT) else path)
        return
    bare = path.rstrip("/")
    is_partition = names.folder(os.path.basename(os.path.abspath(path))) is not None
    if not (is_partition or bare != path or os.path.isdir(path) or (from_folder and not bare.endswith(".log"))):
        args.reads.demand_file(path, "-o", args.force)
        if args.topic_id is not None:
            raise WrongUse("--topic-id goes with a partition folder: -o orders-0")
        with output.opened(args) as sink:
            yield FileLog(sink, path)
        return
    folder = FolderSettings(args.segment_bytes, args.index_interval, args.topic_id)
    log = (PartitionFolder if is_partition else PartitionFolders)(path, folder, args.force, args.reads)
    try:
        yield log
    except OSError as error:
        raise CouldNot(f"{path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        log.drop()
