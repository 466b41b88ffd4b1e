"""On the driver: from paths, globs, folders and URLs to partitions and their segments, by names and sizes alone.

load("/kafka/data")                 a broker's data folder: every partition below it
load("/kafka/data/orders-0")        one partition
load(["/backup/{orders,payments}-*", "s3://bucket/kafka/orders-1"])
load("/archive")                    folders such as date=2026-11-01/orders-0: key_folders

Folders of one partition are one log if their offsets do not overlap: folder_borders.
"""

from __future__ import annotations

import difflib
import errno
import fnmatch
import glob
import logging
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import AnalysisException

from . import key_conditions, key_folders
from .key_folders import Keys, KeyTypes
from .options import SourceOptions

if TYPE_CHECKING:
    import kafkarec
    from kafkarec.distributed import FolderEntry

logger = logging.getLogger("spark_udfs")

TopicPartition = tuple[str, int]
"""(topic, partition); (path, -1) for a file whose path has neither."""

OffsetRange = tuple[int | None, int | None]
"""(start, end) offsets, the end exclusive; None: no bound."""

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
_LISTINGS_AT_ONCE = 8


class CutPoint(NamedTuple):
    """A border between two pieces of a segment, at byte `position`.

    offset: records before the border have lower offsets, records after it this one or higher ones; None: unknown
    proven: `offset` is from the batches on both sides; otherwise it only follows from rising offsets
    """

    position: int
    offset: int | None
    proven: bool = False


class SegmentPath(NamedTuple):
    """One segment of a listing.

    size: bytes when it was listed; None: unknown, as the file is compressed
    base_offset: from its name; None: the name has none
    later_segment: a later segment of the same partition exists
    keys: of the folders key=value above it
    followed_by: (path, base offset) of the segment of another folder that follows it, if the planning cannot know that
        their offsets do not overlap; None: it does
    begin, end: where reading it begins and ends; None: at the file's start, at its end
    """

    path: str
    size: int | None
    base_offset: int | None
    later_segment: bool
    keys: Keys = ()
    followed_by: tuple[str, int] | None = None
    begin: CutPoint | None = None
    end: CutPoint | None = None

    @property
    def length(self) -> int | None:
        """The bytes to read; None: unknown."""
        end = self.size if self.end is None else self.end.position
        return None if end is None else end - (self.begin.position if self.begin else 0)


class PartitionPaths(NamedTuple):
    """One partition's segments in order. topic, partition: None if no name contains them."""

    topic: str | None
    partition: int | None
    segments: tuple[SegmentPath, ...]

    def next_base(self, number: int) -> int | None:
        """The base offset of the segment after this one; None: there is none, or its name has none."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else None

    def in_range(self, start: int | None, end: int | None) -> list[int]:
        """The numbers of the segments that may have offsets of a range, by the base offsets in their names."""
        chosen = []
        for number, segment in enumerate(self.segments):
            base, later = segment.base_offset, self.next_base(number)
            if start is not None and later is not None and (base or 0) < later <= start:
                continue
            if end is None or base is None or base < end or not number:
                chosen.append(number)
        return chosen


FolderPieces = dict[tuple[str, TopicPartition], PartitionPaths]
"""(folder, key) -> the segments that one folder has of one partition."""


def pieces(options: SourceOptions, listed: dict[str, kafkarec.Segment] | None = None) -> FolderPieces:
    """The segments below `path` and `paths`, by folder and partition. AnalysisException for a path that does not exist,
    ValueError for an option `where` that does not fit the folders.

    listed: gets each segment by its path, as the listing opened it: reading it needs fewer requests
    """
    segments: dict[tuple[str, TopicPartition], dict[str, kafkarec.Segment]] = {}
    keys_of: dict[str, Keys] = {}
    problems: list[str] = []
    seen: set[str] = set()
    for log, keys in _logs_below(roots(options), options, problems, seen):
        for segment in log.segments:
            folder = os.path.dirname(segment.path)
            keys_of[folder] = keys
            segments.setdefault((folder, _key_of(log, segment)), {})[segment.path] = segment
    if options["where"]:
        _check_conditions(options, seen if segments else {name for name, _ in key_types(options)})
    if problems and not segments:
        raise ValueError(problems[0])
    if listed is not None:
        listed.update({path: segment for each in segments.values() for path, segment in each.items()})
    return {at: _partition_paths(list(each.values()), keys_of[at[0]], options) for at, each in segments.items()}


def _key_of(log: kafkarec.Log, segment: kafkarec.Segment) -> TopicPartition:
    """The key of a segment. A KRaft snapshot is a partition of its own: its offsets are those of its log."""
    if log.topic is None or log.partition is None or segment.name.endswith(".checkpoint"):
        return segment.path, -1
    return log.topic, log.partition


def roots(options: SourceOptions) -> list[tuple[str, Keys]]:
    """The existing paths with the keys of their own folders, below the option basePath, if `where` allows them."""
    base = options["basePath"] and _base(options["basePath"])
    with_keys = [(path, key_folders.of_path(path, base)) for path in existing(options)]
    return [
        (path, keys)
        for path, keys in with_keys
        if all(key_conditions.allows(options["where"], *key, path) for key in keys)
    ]


def _base(given: str) -> str:
    """The option basePath as `existing` writes paths."""
    from kafkarec import distributed

    local = distributed.local_path(given)
    return given if local is None else os.path.abspath(_without_scheme(local))


def are_remote(options: SourceOptions) -> bool:
    """Whether one of the paths is a URL of another machine."""
    from kafkarec import distributed

    given = [*([options["path"]] if options["path"] else []), *options["paths"]]
    return any(distributed.local_path(each) is None for each in given)


def _without_scheme(path: str) -> str:
    """/x of file:/x, as Hadoop writes it."""
    return path.removeprefix("file:") if path.startswith("file:/") else path


def _logs_below(
    given: list[tuple[str, Keys]], options: SourceOptions, problems: list[str], seen: set[str]
) -> Iterator[tuple[kafkarec.Log, Keys]]:
    """The logs of the given paths and of the key folders below them that `where` allows, each with its keys. Adds the
    names of all keys to `seen`."""
    waiting, is_root = given, True
    while waiting:
        opened = _each_opened([path for path, _ in waiting], options, is_root)
        below: list[tuple[str, Keys]] = []
        for (path, keys), one in zip(waiting, opened, strict=True):
            seen.update(name for name, _ in keys)
            if one is None:
                continue
            logs = _logs_of(one, path, problems)
            for log in logs:
                _name(log)
                yield log, keys
            for each in {id(each): each for each in (one, *logs)}.values():
                below += _key_folders_of(each, keys, options, seen)
        waiting, is_root = below, False


def _each_opened(
    paths: list[str], options: SourceOptions, are_roots: bool
) -> list[kafkarec.Segment | kafkarec.Log | kafkarec.LogDir | None]:
    """Opens paths, those of a bucket several at once. None: a folder that cannot be listed, failOnDataLoss is false."""
    if len(paths) < 2 or "://" not in paths[0]:
        return [_open(path, options, are_roots) for path in paths]
    with ThreadPoolExecutor(_LISTINGS_AT_ONCE) as pool:
        return list(pool.map(lambda path: _open(path, options, are_roots), paths))


def _key_folders_of(
    opened: kafkarec.Segment | kafkarec.Log | kafkarec.LogDir, keys: Keys, options: SourceOptions, seen: set[str]
) -> Iterator[tuple[str, Keys]]:
    """The key folders in a folder, each with its keys."""
    import kafkarec

    if isinstance(opened, kafkarec.Segment):
        return
    above = opened.path.rstrip("/")
    names = [each.name for each in opened.left_out if each.is_folder]
    seen.update(key[0] for name in names if (key := key_folders.parse(name)))
    for name, key in key_conditions.read_folders(names, options["where"], above).items():
        path = f"{above}/{name}"
        key_folders.check_names((each for each, _ in (*keys, key)), path)
        yield path, (*keys, key)


def _name(log: kafkarec.Log) -> None:
    """Sets topic and partition of a log that has them not from its own folder, but from one above its key folders, or
    from folders topic=... and partition=.... ValueError where two folders contradict each other."""
    from kafkarec import distributed

    if "=" not in log.path:
        return
    by_keys = key_folders.log_name(log.path)
    segments = [segment for segment in log.segments if segment.base_offset is not None]
    if log.topic is None and segments:
        folder = key_folders.without_keys(os.path.dirname(segments[0].path))
        topic, partition, _ = distributed.folder_owner(folder.split("/"))
        log.topic, log.partition = topic or by_keys[0], by_keys[1] if partition is None else partition
        for segment in segments:
            segment.topic, segment.partition = log.topic, log.partition
    for key, found, wanted in zip(("topic", "partition"), (log.topic, log.partition), by_keys, strict=True):
        if None not in (found, wanted) and found != wanted:
            raise ValueError(f"{shown(log.path)} is in a folder {key}={wanted}, and its log is of {key} {found}")


def _check_conditions(options: SourceOptions, keys: Iterable[str]) -> None:
    """ValueError for a condition of the option `where` on a key that no folder has."""
    known = sorted(set(keys))
    for condition in options["where"]:
        if any(map(condition.is_for, known)):
            continue
        if not known:
            raise ValueError(
                f"option where: no folder {condition.name}=... is below the path. It chooses folders; for records "
                f"there are subscribe, assign, startingOffsets, startingTimestamp and their ends"
            )
        near = difflib.get_close_matches(condition.name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"option where: no folder has the key {condition.name!r}{hint}; there are: {', '.join(known)}")


# ---- the keys alone, for the schema ------------------------------------------------------------------------------


def checked_key_types(options: SourceOptions) -> KeyTypes:
    """As `key_types`; ValueError if the option `where` names another key."""
    found = key_types(options)
    _check_conditions(options, (name for name, _ in found))
    return found


def key_types(options: SourceOptions) -> KeyTypes:
    """The keys of the first log that is found, and the type that the values of each have in the folders seen on the way
    to it; where there is no log, of the deepest folder. Lists as few folders as that needs."""
    given = roots(options)
    found: KeyTypes = ()
    for path, keys in given:
        types = tuple(
            (name, key_folders.inferred(value for _, each in given for other, value in each if other == name))
            for name, _ in keys
        )
        below, is_log = _first_keys(path, options, root=True)
        key_folders.check_names((name for name, _ in types + below), path)
        if is_log or len(types) + len(below) > len(found):
            found = types + below
        if is_log:
            break
    return found


def _first_keys(folder: str, options: SourceOptions, *, root: bool = False) -> tuple[KeyTypes, bool]:
    """The keys below a folder on the way to its first log, and whether there is a log."""
    from kafkarec import distributed

    if root and distributed.is_segment(os.path.basename(folder)):
        return (), True
    inside, is_log = _names_in(folder, options)
    if is_log:
        return (), True
    keyed = key_conditions.read_folders(inside, (), folder)
    deepest: KeyTypes = ()
    for name, (key, _) in (key_conditions.read_folders(inside, options["where"], folder) or keyed).items():
        kind = key_folders.inferred(value for other, value in keyed.values() if other == key)
        below, is_log = _first_keys(f"{folder}/{name}", options)
        found = ((key, kind), *below)
        if is_log:
            return found, True
        deepest = max(deepest, found, key=len)
    above = os.path.basename(folder.rstrip("/"))
    for name in inside:
        if name not in keyed and distributed.is_log_folder(name, above):
            found, is_log = _first_keys(f"{folder}/{name}", options)
            if is_log:
                return found, True
            deepest = max(deepest, found, key=len)
    return deepest, False


def unread_folders(options: SourceOptions) -> list[str]:
    """Folders directly below the paths that hold segments and are not read: their names are not those of partitions or
    keys. Not of URLs, whose folders are listed only once."""
    from kafkarec import distributed

    found = []
    for root, _ in roots(options):
        inside, is_log = ([], True) if "://" in root else _names_in(root, options)
        for name in inside if not is_log else ():
            known = "=" in name or _JOB_NAMES.fullmatch(name) or _RENAMED.fullmatch(name)
            if not known and not distributed.is_log_folder(name, os.path.basename(root)):
                found += [f"{root}/{name}"] if _names_in(f"{root}/{name}", options)[1] else []
    return found


def _names_in(folder: str, options: SourceOptions) -> tuple[list[str], bool]:
    """The names of the folders in a folder, and whether there is a segment. What cannot be listed is empty here."""
    from kafkarec import distributed

    listed: list[tuple[str, bool]] = []
    with suppress(OSError):
        if "://" in folder:
            listed = [(each.name, each.is_dir) for each in _listing(folder.rstrip("/"), options["storageOptions"])]
        else:
            with os.scandir(folder) as entries:
                listed = sorted((each.name, each.is_dir()) for each in entries)
    is_log = any(not is_folder and distributed.is_segment(name) for name, is_folder in listed)
    return [name for name, is_folder in listed if is_folder], is_log


# ---- paths and globs ---------------------------------------------------------------------------------------------


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
    import kafkarec

    scheme = hadoop_scheme(path)
    try:
        matches = list(_matches(path, options))
        if matches or scheme is None:
            return matches
        why = f"{scheme}: is no scheme that it knows"
    except kafkarec.RemoteError as error:
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
    from kafkarec import distributed

    return distributed.display_url(path)


def not_found(path: str, why: str = "") -> AnalysisException:
    return AnalysisException(f"[PATH_NOT_FOUND] Path does not exist: {shown(path)}.{why} SQLSTATE: 42K03")


def _matches(path: str, options: SourceOptions) -> Iterator[str]:
    from kafkarec import distributed

    local = distributed.local_path(path)
    if local is None:
        yield from _remote_matches(path, options["storageOptions"])
        return
    path = _without_scheme(local)
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
    from kafkarec import distributed

    if not _WILD.search(url) or (url.startswith("http") and "?" in url):
        try:
            distributed.stat(url, storage)
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


def _listing(url: str, storage: dict[str, Any]) -> Iterable[FolderEntry]:
    from kafkarec import distributed

    try:
        return distributed.listing(f"{url}/", storage)
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


def _open(path: str, options: SourceOptions, is_root: bool) -> kafkarec.Segment | kafkarec.Log | kafkarec.LogDir | None:
    """What is at a path. None: a key folder that cannot be listed, and failOnDataLoss is false. A key folder that was
    removed meanwhile is a FileNotFoundError: the caller lists again."""
    import kafkarec

    storage = options["storageOptions"]
    if is_root:
        try:
            return kafkarec.open(path, storage_options=storage)
        except FileNotFoundError as error:
            raise not_found(path, f" {error}.") from None
    try:
        # the slash says that it is a folder, without a request
        return kafkarec.open(f"{path}/" if "://" in path else path, storage_options=storage)
    except PermissionError as error:
        if options["failOnDataLoss"]:
            error.add_note("failOnDataLoss=false reads the other folders")
            raise
        logger.warning("%s: left out; failOnDataLoss is false", error)
        return None


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
    unknown = [each.name for each in opened.left_out if not _JOB_NAMES.fullmatch(each.name) and "=" not in each.name]
    if not len(opened) and unknown:
        problems.append(
            f"{path} holds no segments and no partition folders, but {', '.join(sorted(unknown)[:5])}. Name the "
            f"folders above the segments, such as {path.rstrip('/')}/*"
        )
    return list(opened)


def _partition_paths(segments: list[kafkarec.Segment], keys: Keys, options: SourceOptions) -> PartitionPaths:
    segments.sort(key=lambda segment: (segment.base_offset or 0, segment.name))
    last = len(segments) - 1
    segment_paths = (
        SegmentPath(
            segment.path,
            None if segment.name.endswith(_COMPRESSED) else segment.size,
            segment.base_offset,
            number < last,
            keys,
        )
        for number, segment in enumerate(segments)
    )
    topic = options["topic"] if segments[0].topic is None else segments[0].topic
    return PartitionPaths(topic, segments[0].partition, tuple(segment_paths))


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
    """The partition as a kafkarec.Log, segments in order, of each the bytes to read."""
    import kafkarec

    segments = [
        _to_read(each, open_segment(each.path, options, partition.topic, partition.partition))
        for each in partition.segments
    ]
    return kafkarec.Log(segments[0].path, segments, topic=partition.topic, partition=partition.partition)


def _to_read(segment: SegmentPath, opened: kafkarec.Segment) -> kafkarec.Segment:
    if segment.begin is None and segment.end is None:
        return opened
    end = opened.size if segment.end is None else min(segment.end.position, opened.size)
    return opened.between(min(segment.begin.position, end) if segment.begin else 0, end)
