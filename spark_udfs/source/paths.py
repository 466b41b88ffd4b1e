"""Paths, globs, folders and URLs to partitions and their segments: on the driver, from names and sizes alone.

    load("/kafka/data")                 a broker's data folder: every partition below it
    load("/kafka/data/orders-0")        one partition
    load(["/backup/{orders,payments}-*", "s3://bucket/kafka/orders-1"])
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException

from .options import Options

Key = tuple[str, int]
"""(topic, partition); (path, -1) for a file whose names tell neither."""

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SEGMENT = re.compile(r".*\.log(\.gz|\.zst)?")
_PACKED = (".gz", ".zst")
# What a broker renames a partition folder to that is no partition any more; read where it is named without a glob.
_GIVEN_UP = re.compile(r".+\.[^.\s]+-(delete|future|stray)")
# What a Spark job leaves in a folder that it writes to.
_OF_JOBS = re.compile(r"[_.].*")
_STAGED = "_temporary"


class SegmentPath(NamedTuple):
    """size: bytes when it was listed; None: known only when it is unpacked. base_offset: None where no name tells it.
    later_segment: a later segment of the same partition exists."""

    path: str
    size: int | None
    base_offset: int | None
    later_segment: bool


class PartitionPaths(NamedTuple):
    """One partition's segments in order. topic, partition: None where names tell neither."""

    topic: str | None
    partition: int | None
    segments: tuple[SegmentPath, ...]


def partitions(kafkarec: Any, options: Options) -> dict[Key, PartitionPaths]:
    """All partitions below `path` and `paths`, by topic and number; AnalysisException for a path that is not there,
    ValueError where one partition lies in two folders."""
    found: dict[Key, dict[str, Any]] = {}
    folders: dict[Key, str] = {}
    strange: list[str] = []
    for path in expanded(options):
        for log in _logs(kafkarec, _opened(kafkarec, path, options), path, strange):
            for segment in log.segments:
                key = _key(log, segment)
                folder = os.path.dirname(segment.path)
                if folders.setdefault(key, folder) != folder:
                    raise ValueError(
                        f"{key[0]}-{key[1]} is in {folders[key]} and in {folder}: load one of them, or one after the "
                        f"other (their offsets would be read twice)"
                    )
                found.setdefault(key, {})[segment.path] = segment
    if strange and not found:
        raise ValueError(strange[0])
    return {key: _paths(list(found[key].values())) for key in sorted(found)}


def _key(log: Any, segment: Any) -> Key:
    """A KRaft snapshot has offsets of its log, and is read by itself."""
    if log.topic is None or log.partition is None or segment.name.endswith(".checkpoint"):
        return segment.path, -1
    return log.topic, log.partition


def expanded(options: Options) -> list[str]:
    """The paths that are there, globs expanded, each once; AnalysisException in Spark's words for a missing one.
    kafkarec must be importable: bootstrap.load()."""
    given = [*([options["path"]] if options["path"] else []), *options["paths"]]
    if not given:
        raise ValueError('kafkarec needs a path: .load("/kafka/data/orders-0")')
    there: dict[str, None] = {}
    for path in given:
        matches = list(_matches(path, options))
        if not matches:
            raise not_found(path)
        there.update(dict.fromkeys(matches))
    return list(there)


def shown(path: str) -> str:
    """Of a URL without what may be a password or a signature: as rows, logs and messages name it."""
    if "://" not in path:
        return path
    from kafkarec.storage import remote_errors

    return remote_errors.display_url(path)


def not_found(path: str, why: str = "") -> AnalysisException:
    return AnalysisException(f"[PATH_NOT_FOUND] Path does not exist: {shown(path)}.{why} SQLSTATE: 42K03")


def _matches(path: str, options: Options) -> Iterator[str]:
    from kafkarec.storage import remote

    if remote.is_url(path):
        local = remote.local_path(path)
        if local is None:
            yield from _remote_matches(remote, path, options["storageOptions"])
            return
        path = local
    path = path.removeprefix("file:") if path.startswith("file:/") else path  # file:/x, as Hadoop writes it
    if os.path.exists(path):
        yield os.path.abspath(path)
    elif _WILD.search(path):
        found = {match for each in _alternatives(path) for match in _globbed(each)}
        yield from (os.path.abspath(each) for each in sorted(found) if _wanted(each, path, os.path.isdir(each)))


def _globbed(pattern: str) -> Iterator[str]:
    """What a glob matches but for what a job has staged and not published, unless it begins below there."""
    wild = _WILD.search(pattern)
    fixed = pattern[: wild.start()] if wild else pattern
    for match in glob.glob(pattern, recursive=True):
        if _STAGED not in match[len(fixed) :].split(os.sep):
            yield match


def _remote_matches(remote: Any, url: str, storage: dict[str, Any]) -> Iterator[str]:
    """A URL's glob, one listing per folder that its front part matches. Without one the URL as it is."""
    if not _WILD.search(url) or (url.startswith("http") and "?" in url):
        try:
            remote.stat(url, storage)
        except FileNotFoundError as error:
            raise not_found(url, f" {error}.") from None
        yield url
        return
    for each in _alternatives(url):
        root, _, rest = each.partition("://")
        bucket, *parts = rest.strip("/").split("/")
        found = [f"{root}://{bucket}"]
        for number, part in enumerate(parts):
            last = number + 1 == len(parts)
            if len(found) == 1 and not _WILD.search("".join(parts[: number + 1])):
                found = [f"{one}/{part}" for one in found]
                continue
            found = [
                f"{one}/{entry.name}"
                for one in found
                for entry in _listing(remote, one, storage)
                if fnmatch.fnmatchcase(entry.name, part) and (entry.is_dir or last) and entry.name != _STAGED
                and (not last or _wanted(entry.name, part, entry.is_dir))
            ]  # fmt: skip
        yield from found


def _listing(remote: Any, url: str, storage: dict[str, Any]) -> Iterable[Any]:
    try:
        entries: Iterable[Any] = remote.listing(f"{url}/", storage)
        return entries
    except FileNotFoundError:
        return ()


def _alternatives(path: str) -> list[str]:
    """{a,b} is Hadoop's; Python's glob has none."""
    match = _BRACES.search(path)
    if match is None:
        return [path]
    front, back = path[: match.start()], path[match.end() :]
    return [each for one in match[1].split(",") for each in _alternatives(f"{front}{one}{back}")]


def _wanted(match: str, pattern: str, is_folder: bool) -> bool:
    """Of what a glob matches: no folder that a broker has given up, and files that hold batches by their names, unless
    the pattern itself ends with a suffix."""
    name = os.path.basename(match.rstrip("/"))
    if is_folder:
        return not _GIVEN_UP.fullmatch(name)
    return not pattern.endswith(("*", "?", "]", "}")) or _SEGMENT.fullmatch(name) is not None


def _opened(kafkarec: Any, path: str, options: Options) -> Any:
    try:
        return kafkarec.open(path, storage_options=options["storageOptions"])
    except FileNotFoundError as error:
        raise not_found(path, f" {error}.") from None


def _logs(kafkarec: Any, opened: Any, path: str, strange: list[str]) -> list[Any]:
    """A segment alone is a log of one. A folder in which nothing is known is most likely the wrong one: `strange` gets
    a sentence."""
    if isinstance(opened, kafkarec.Segment):
        return [kafkarec.Log(opened.path, [opened], topic=opened.topic, partition=opened.partition)]
    if isinstance(opened, kafkarec.Log):
        return [opened]
    unknown = [each.name for each in opened.left_out if not _OF_JOBS.fullmatch(each.name)]
    if not len(opened) and unknown:
        strange.append(
            f"{path} holds no segments and no partition folders, but {', '.join(sorted(unknown)[:5])}. Name the "
            f"folders above the segments, such as {path.rstrip('/')}/*"
        )
    return list(opened)


def _paths(segments: list[Any]) -> PartitionPaths:
    segments.sort(key=lambda segment: (segment.base_offset or 0, segment.name))
    last = len(segments) - 1
    found = (
        SegmentPath(
            segment.path,
            None if segment.name.endswith(_PACKED) else segment.size,
            segment.base_offset,
            number < last,
        )
        for number, segment in enumerate(segments)
    )
    return PartitionPaths(segments[0].topic, segments[0].partition, tuple(found))


def log_of(kafkarec: Any, partition: PartitionPaths, options: Options) -> Any:
    """The partition as a kafkarec.Log, segments in order."""
    storage = options["storageOptions"]
    segments = [
        kafkarec.open(each.path, topic=partition.topic, partition=partition.partition, storage_options=storage)
        for each in partition.segments
    ]
    return kafkarec.Log(segments[0].path, segments, topic=partition.topic, partition=partition.partition)
