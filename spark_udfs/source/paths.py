"""On the driver: from paths, globs, folders and URLs to partitions and their segments, by names and sizes alone.

load("/kafka/data")                 a broker's data folder: every partition below it
load("/kafka/data/orders-0")        one partition
load(["/backup/{orders,payments}-*", "s3://bucket/kafka/orders-1"])
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import AnalysisException

from .options import SourceOptions

if TYPE_CHECKING:
    import kafkarec
    from kafkarec.storage import remote

TopicPartition = tuple[str, int]
"""(topic, partition); (path, -1) for a file whose path has neither."""

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SEGMENT = re.compile(r".*\.log(\.gz|\.zst)?")
_COMPRESSED = (".gz", ".zst")
_HADOOP_PATH = re.compile(r"(?!file:)([a-z][a-z0-9+.-]+):/(?!/)")
FOLDERS = (
    "It reads and writes folders that the driver and all executors share (dbfs:/x is /dbfs/x), s3://, gs:// and abfs://"
)
# Names of folders that a broker has renamed and no longer uses; read only if named without a glob.
_RENAMED = re.compile(r".+\.[^.\s]+-(delete|future|stray)")
# Names of files that a Spark job writes to its output folder.
_JOB_NAMES = re.compile(r"[_.].*")
_STAGED = "_temporary"


class SegmentPath(NamedTuple):
    """One segment of a listing.

    size: bytes when it was listed; None: unknown, as the file is compressed
    base_offset: from its name; None: the name has none
    later_segment: a later segment of the same partition exists
    """

    path: str
    size: int | None
    base_offset: int | None
    later_segment: bool


class PartitionPaths(NamedTuple):
    """One partition's segments in order. topic, partition: None if no name contains them."""

    topic: str | None
    partition: int | None
    segments: tuple[SegmentPath, ...]


def partitions(options: SourceOptions) -> dict[TopicPartition, PartitionPaths]:
    """All partitions below `path` and `paths`, by topic and number. AnalysisException for a path that does not exist,
    ValueError where one partition is in two folders."""
    segments: dict[TopicPartition, dict[str, kafkarec.Segment]] = {}
    folders: dict[TopicPartition, str] = {}
    problems: list[str] = []
    for path in existing(options):
        for log in _logs_of(_open(path, options), path, problems):
            for segment in log.segments:
                key = _key_of(log, segment)
                folder = os.path.dirname(segment.path)
                if folders.setdefault(key, folder) != folder:
                    raise ValueError(
                        f"{key[0]}-{key[1]} is in {folders[key]} and in {folder}: load one of them, or one after the "
                        f"other (their offsets would be read twice)"
                    )
                segments.setdefault(key, {})[segment.path] = segment
    if problems and not segments:
        raise ValueError(problems[0])
    return {key: _partition_paths(list(segments[key].values())) for key in sorted(segments)}


def _key_of(log: kafkarec.Log, segment: kafkarec.Segment) -> TopicPartition:
    """The key of a segment. A KRaft snapshot is a partition of its own: its offsets are those of its log."""
    if log.topic is None or log.partition is None or segment.name.endswith(".checkpoint"):
        return segment.path, -1
    return log.topic, log.partition


def existing(options: SourceOptions) -> list[str]:
    """The existing paths, globs expanded, each once; AnalysisException with Spark's message for a missing one.
    kafkarec must be importable: bootstrap.load()."""
    given = [*([options["path"]] if options["path"] else []), *options["paths"]]
    if not given:
        raise ValueError('kafkarec needs a path: .load("/kafka/data/orders-0")')
    unique: dict[str, None] = {}
    for path in given:
        matches = _all_matches(path, options)
        if not matches:
            raise not_found(path)
        unique.update(dict.fromkeys(matches))
    return list(unique)


def _all_matches(path: str, options: SourceOptions) -> list[str]:
    """The matches of a path; ValueError for a scheme that nothing here reads, with what does."""
    from kafkarec.storage import remote

    scheme = hadoop_scheme(path)
    try:
        matches = list(_matches(path, options))
        if matches or scheme is None:
            return matches
        why = f"{scheme}: is no scheme that it knows"
    except remote.RemoteError as error:
        if error.kind not in ("missing", "no_hadoop"):
            raise
        why = str(error).removeprefix(f"{shown(path)}: ")
    raise ValueError(
        f"kafkarec cannot read {shown(path)}: {why}. {FOLDERS}. A path of any scheme that Spark itself reads: "
        f'kafka_explode(spark.read.format("binaryFile").load({shown(path)!r}), "content"), for files below 2 GiB'
    )


def hadoop_scheme(path: str) -> str | None:
    """The scheme of a path such as dbfs:/mnt/x, which is neither a URL with :// nor a file of this machine."""
    match = _HADOOP_PATH.match(path)
    return match and match[1]


def shown(path: str) -> str:
    """A path for rows, logs and messages: a URL without what may be a password or a signature."""
    if "://" not in path:
        return path
    from kafkarec.storage import remote

    return remote.display_url(path)


def not_found(path: str, why: str = "") -> AnalysisException:
    return AnalysisException(f"[PATH_NOT_FOUND] Path does not exist: {shown(path)}.{why} SQLSTATE: 42K03")


def _matches(path: str, options: SourceOptions) -> Iterator[str]:
    from kafkarec.storage import remote

    if remote.is_url(path):
        local = remote.local_path(path)
        if local is None:
            yield from _remote_matches(path, options["storageOptions"])
            return
        path = local
    path = path.removeprefix("file:") if path.startswith("file:/") else path  # file:/x, as Hadoop writes it
    if os.path.exists(path):
        yield os.path.abspath(path)
    elif _WILD.search(path):
        matches = {match for each in _expand_braces(path) for match in _glob(each)}
        yield from (os.path.abspath(each) for each in sorted(matches) if _is_read(each, path, os.path.isdir(each)))


def _glob(pattern: str) -> Iterator[str]:
    """The matches of a glob, without staging folders of jobs, unless the part before its first wildcard is in one."""
    wild = _WILD.search(pattern)
    fixed = pattern[: wild.start()] if wild else pattern
    for match in glob.glob(pattern, recursive=True):
        if _STAGED not in match[len(fixed) :].split(os.sep):
            yield match


def _remote_matches(url: str, storage: dict[str, Any]) -> Iterator[str]:
    """The matches of a URL's glob, with one listing per matching folder; the URL itself if it has no wildcard."""
    from kafkarec.storage import remote

    if not _WILD.search(url) or (url.startswith("http") and "?" in url):
        try:
            remote.stat(url, storage)
        except FileNotFoundError as error:
            raise not_found(url, f" {error}.") from None
        yield url
        return
    for each in _expand_braces(url):
        root, _, rest = each.partition("://")
        bucket, *parts = rest.strip("/").split("/")
        urls = [f"{root}://{bucket}"]
        for number, part in enumerate(parts):
            last = number + 1 == len(parts)
            if len(urls) == 1 and not _WILD.search("".join(parts[: number + 1])):
                urls = [f"{one}/{part}" for one in urls]
                continue
            urls = [
                f"{one}/{entry.name}"
                for one in urls
                for entry in _listing(one, storage)
                if fnmatch.fnmatchcase(entry.name, part)
                and (entry.is_dir or last)
                and entry.name != _STAGED
                and (not last or _is_read(entry.name, part, entry.is_dir))
            ]
        yield from urls


def _listing(url: str, storage: dict[str, Any]) -> Iterable[remote.RemoteEntry]:
    from kafkarec.storage import remote

    try:
        return remote.listing(f"{url}/", storage)
    except FileNotFoundError:
        return ()


def _expand_braces(path: str) -> list[str]:
    """Expands {a,b}, which Hadoop's globs have and Python's do not."""
    match = _BRACES.search(path)
    if match is None:
        return [path]
    prefix, suffix = path[: match.start()], path[match.end() :]
    return [each for one in match[1].split(",") for each in _expand_braces(f"{prefix}{one}{suffix}")]


def _is_read(match: str, pattern: str, is_folder: bool) -> bool:
    """Whether a match of a glob is read: not a folder that a broker has renamed, and only files with the name of a
    segment, unless the pattern itself ends with a suffix."""
    name = os.path.basename(match.rstrip("/"))
    if is_folder:
        return not _RENAMED.fullmatch(name)
    return not pattern.endswith(("*", "?", "]", "}")) or _SEGMENT.fullmatch(name) is not None


def _open(path: str, options: SourceOptions) -> kafkarec.Segment | kafkarec.Log | kafkarec.LogDir:
    import kafkarec

    try:
        return kafkarec.open(path, storage_options=options["storageOptions"])
    except FileNotFoundError as error:
        raise not_found(path, f" {error}.") from None


def _logs_of(
    opened: kafkarec.Segment | kafkarec.Log | kafkarec.LogDir, path: str, problems: list[str]
) -> list[kafkarec.Log]:
    """The logs of what was opened; a single segment is a log of one. A folder without any known name is probably the
    wrong one: then a message is appended to `problems`."""
    import kafkarec

    if isinstance(opened, kafkarec.Segment):
        return [kafkarec.Log(opened.path, [opened], topic=opened.topic, partition=opened.partition)]
    if isinstance(opened, kafkarec.Log):
        return [opened]
    unknown = [each.name for each in opened.left_out if not _JOB_NAMES.fullmatch(each.name)]
    if not len(opened) and unknown:
        problems.append(
            f"{path} holds no segments and no partition folders, but {', '.join(sorted(unknown)[:5])}. Name the "
            f"folders above the segments, such as {path.rstrip('/')}/*"
        )
    return list(opened)


def _partition_paths(segments: list[kafkarec.Segment]) -> PartitionPaths:
    segments.sort(key=lambda segment: (segment.base_offset or 0, segment.name))
    last = len(segments) - 1
    segment_paths = (
        SegmentPath(
            segment.path,
            None if segment.name.endswith(_COMPRESSED) else segment.size,
            segment.base_offset,
            number < last,
        )
        for number, segment in enumerate(segments)
    )
    return PartitionPaths(segments[0].topic, segments[0].partition, tuple(segment_paths))


def open_segment(
    path: str, options: SourceOptions, topic: str | None = None, partition: int | None = None
) -> kafkarec.Segment:
    """A file by its path or URL; IsADirectoryError if it is a folder now."""
    import kafkarec

    opened = kafkarec.open(path, topic=topic, partition=partition, storage_options=options["storageOptions"])
    if not isinstance(opened, kafkarec.Segment):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown(path))
    return opened


def log_of(partition: PartitionPaths, options: SourceOptions) -> kafkarec.Log:
    """The partition as a kafkarec.Log, segments in order."""
    import kafkarec

    segments = [open_segment(each.path, options, partition.topic, partition.partition) for each in partition.segments]
    return kafkarec.Log(segments[0].path, segments, topic=partition.topic, partition=partition.partition)
