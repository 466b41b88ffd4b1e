"""On the driver: from the options that name files to partitions and their segments, by names and sizes alone.

load("/kafka/data")                 a broker's data folder: every partition below it
load("/kafka/data/orders-0")        one partition
load(["/backup/{orders,payments}-*", "s3://bucket/kafka/orders-1"])
load("/archive")                    folders such as date=2026-11-01/orders-0

What is found there, and how folders of one partition become one log: kafkarec.find.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException

from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import logger

from .options import ReadOptions

TopicPartition = tuple[str, int]
"""(topic, partition); (path, -1) for a file whose path has neither."""

Keys = tuple[tuple[str, str | None], ...]
"""(name, value) of each folder key=value of a path, outermost first; None: null."""

KeyTypes = tuple[tuple[str, str], ...]
"""(name, SQL type) of each key, outermost first."""

OffsetRange = tuple[int | None, int | None]
"""(start, end) offsets, the end exclusive; None: no bound."""

_HADOOP_PATH = re.compile(r"(?!file:)([a-z][a-z0-9+.-]+):/(?!/)")
FOLDERS = (
    "It reads and writes folders that the driver and all executors share (dbfs:/x is /dbfs/x), s3://, gs:// and abfs://"
)
# Parameters of kafkarec.find, as options.
_OPTIONS = {"where": "where", "base_path": "basePath"}
_OF_RECORDS = "for records there are subscribe, assign, startingOffsets, startingTimestamp and their ends"


NO_END = (1 << 63) - 1


class Uncommitted(NamedTuple):
    """The records of a partition that read_committed leaves out: those from the last stable offset on, and those of
    aborted transactions, as (producer id, first offset, marker's offset).

    last_stable_offset: where the first open transaction begins; NO_END: none is open
    is_damaged: whether damage has decided anything, so that offsets do not tell which segment has the aborted records
    undecided: sentences about transactions whose marker may be lost; they count as aborted
    """

    aborted: tuple[tuple[int, int, int], ...]
    last_stable_offset: int
    is_damaged: bool = False
    undecided: tuple[str, ...] = ()


class PartitionLog(NamedTuple):
    """One partition's log as it was listed, or the bytes of it between two borders of batches.

    topic, partition: None if no name contains them; topic: that of the option, too
    segments: in order, with their sizes at that time; reading begins at `begin` of the first one, and ends at `end` of
        the last one
    followed_by: path of a segment -> (path, base offset) of the one of another folder that follows it, if the planning
        cannot know that their offsets do not overlap
    first_offset: of the bytes between two borders: no record in these has a lower one; None: they are no such bytes
    wanted: the offsets to read
    context: the position in the first segment from which batches are read for what they prove; None: there is no need
    uncommitted: of these bytes, for read_committed; None: not known yet
    """

    topic: str | None
    partition: int | None
    segments: tuple[kafkarec.Segment, ...]
    followed_by: Mapping[str, tuple[str, int]]
    first_offset: int | None = None
    wanted: OffsetRange = (None, None)
    context: int | None = None
    uncommitted: Uncommitted | None = None

    @property
    def log(self) -> kafkarec.Log:
        """The bytes to read as a log, with those before them that prove something about these."""
        parts = [*self.segments]
        if self.context is not None:
            parts[0] = parts[0].copy(begin=self.context)
        for number, part in enumerate(parts):
            if part.begin or part.end is not None:
                part = part.copy(size=None)  # it may have grown
                stop = part.size if part.end is None else min(part.end, part.size)
                parts[number] = part.between(min(part.begin, stop), stop)
        return kafkarec.Log(self.segments[0].path, parts, topic=self.topic, partition=self.partition)

    def next_base_offset(self, number: int) -> int | None:
        """The base offset of the segment after this one; None: there is none, or its name has none."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else None

    def segments_in_range(self, start: int | None, end: int | None) -> list[int]:
        """The numbers of the segments that may have offsets of a range, by the base offsets in their names."""
        return distributed.segments_in_range([each.base_offset for each in self.segments], start, end)


Partitions = dict[TopicPartition, PartitionLog]


def read_length(segment: kafkarec.Segment) -> int | None:
    """The bytes to read of a segment; None: unknown."""
    stop = segment.listed_size if segment.end is None else segment.end
    return None if stop is None else stop - segment.begin


# ---- what kafkarec.find finds ------------------------------------------------------------------------------------


def given_paths(options: ReadOptions) -> list[str]:
    """The options path and paths, those of this machine absolute."""
    given = [*([options.path] if options.path else []), *options.paths]
    if not given:
        raise ValueError('kafkarec needs a path: .load("/kafka/data/orders-0")')
    return list(map(absolute_path, given))


def absolute_path(path: str) -> str:
    """The absolute path of a file of this machine, which may be file:/x, as Hadoop writes it; any other as it is."""
    local = distributed.local_path(path)
    if local is None or hadoop_scheme(path) is not None:
        return path
    return os.path.abspath(local.removeprefix("file:") if local.startswith("file:/") else local)


def finder(options: ReadOptions) -> distributed.LogFinder:
    """What finds the logs. A folder that cannot be listed is an error, unless failOnDataLoss is false."""

    def unreadable(error: OSError) -> None:
        if options.failOnDataLoss:
            error.add_note("failOnDataLoss=false reads the other folders")
            raise error
        logger.warning("%s: left out; failOnDataLoss is false", error)

    base = options.basePath
    with errors_as_spark(options):
        return distributed.LogFinder(
            given_paths(options),
            base and absolute_path(base),
            options.where,
            options.storageOptions,
            unreadable=unreadable,
        )


@contextmanager
def errors_as_spark(options: ReadOptions) -> Iterator[None]:
    """Errors of a Finder as Spark's, and with the names of options. AnalysisException for a path that does not exist,
    ValueError for a scheme that nothing here reads, with what does; FileNotFoundError for what is removed meanwhile."""
    try:
        yield
    except OSError as error:
        given = [*map(display_url, given_paths(options))]
        path, kind = error.filename or given[0], getattr(error, "kind", "")
        scheme = hadoop_scheme(path)
        if kind in ("missing", "no_hadoop"):
            why = str(error).removeprefix(f"{path}: ")
        elif not isinstance(error, FileNotFoundError) or path not in given:
            raise
        elif scheme is not None:
            why = f"{scheme}: is no scheme that it knows"
        else:
            why = f" {error}." if kind else ""
            text = f"[PATH_NOT_FOUND] Path does not exist: {path}.{why} SQLSTATE: 42K03"
            raise AnalysisException(text) from None
        raise ValueError(
            f"kafkarec cannot read {path}: {why}. {FOLDERS}. A path of any scheme that Spark itself reads: "
            f'kafka_explode(spark.read.format("binaryFile").load({path!r}), "content"), for files below 2 GiB'
        ) from None
    except distributed.ParameterError as error:
        name = _OPTIONS[error.parameter]
        shown = display_url(error.value) if error.value and error.parameter == "base_path" else error.value
        value = "" if shown is None else f"={shown!r}"
        option = f'.option("{name}", "{shown}")' if error.before else f"option {name}{value}"
        more = f"; {_OF_RECORDS}" if isinstance(error, distributed.UnknownKeyError) else ""
        raise ValueError(f"{error.before}{option}{error.after}{more}") from None


def hadoop_scheme(path: str) -> str | None:
    """The scheme of a path such as dbfs:/mnt/x, which is neither a URL with :// nor a file of this machine."""
    match = _HADOOP_PATH.match(path)
    return match and match[1]


def display_url(path: str) -> str:
    """A path, or a URL without what may be a password or a signature, for rows, logs and messages. Made without
    kafkarec, which a client of Spark Connect may not have."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return path
    host, slash, below = rest.partition("/")
    below = below.partition("?")[0] if scheme.startswith("http") else below  # elsewhere ? is a wildcard
    if scheme not in ("abfs", "abfss"):  # there the container is before the @
        host = host.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{below}"


def has_segments(folder: str) -> bool:
    """Whether a folder of this machine has segments, or partition folders with segments; one that cannot be listed has
    none."""
    try:
        inside, own = os.listdir(folder), os.path.basename(folder)
    except OSError:
        return False
    below = (os.path.join(folder, name) for name in inside if distributed.is_log_folder(name, own))
    return any(map(distributed.is_segment, inside)) or any(map(has_segments, below))


def key_types(options: ReadOptions) -> KeyTypes:
    """The keys of the first log that is found, and the type that the values of each have in the folders seen on the way
    to it; where there is no log, of the deepest folder. ValueError if the option `where` names another key."""
    found = finder(options)
    with errors_as_spark(options):
        values = found.key_values()
        found.where.check_names()
    return tuple((name, distributed.inferred_type(each)) for name, each in values.items())


def partitions(options: ReadOptions, found: distributed.LogFinder, logs: Iterable[Any]) -> Partitions:
    """The partitions of logs that a Finder has found, by topic and number. ValueError where two folders have the same
    offsets of a partition, or other keys."""
    folders: dict[str, str] = {}
    for log in logs:
        folders.setdefault(", ".join(log.keys) or "none", os.path.dirname(display_url(log.segments[0].path)))
    if len(folders) > 1:
        has = [f"{folder} has {names}" for names, folder in folders.items()]
        raise ValueError(
            f"all folders of one load must have the same keys: {has[0]}, and {has[1]}. Load them one by one, or those "
            f"of one kind by a glob such as archive/date=*/ with the option basePath"
        )
    with errors_as_spark(options):
        joined: list[Any] = found.joined(logs)
    partitions: Partitions = {}
    for log in joined:
        if log.topic is None or log.partition is None or log.segments[0].name.endswith(".checkpoint"):
            parts = {(each.path, -1): (each.copy(later_segment=False),) for each in log.segments}
        else:
            parts = {(log.topic, log.partition): log.segments}
        topic = options.topic if log.topic is None else log.topic
        partitions |= {key: PartitionLog(topic, log.partition, each, found.unchecked) for key, each in parts.items()}
    return partitions


def open_segment(
    path: str, storage: Mapping[str, Any], topic: str | None = None, partition: int | None = None
) -> kafkarec.Segment:
    """A file by its path or URL. FileNotFoundError if it is a folder now: a task reports that as loss of data."""
    opened = kafkarec.open(path, topic=topic, partition=partition, storage_options=dict(storage))
    if not isinstance(opened, kafkarec.Segment):
        raise FileNotFoundError(f"{display_url(path)} is a folder now, and no segment")
    return opened
