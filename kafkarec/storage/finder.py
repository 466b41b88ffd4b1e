"""From paths, globs, folders and URLs to logs, by names and sizes, and by the last batches where two folders meet.

Folders of one partition are one log: its segments in order of offsets, which may not overlap.

    arch/date=2026-11-01/ev-0/00000000000000000000.log      offsets 0 to 499: known from its last batches
    arch/date=2026-11-02/ev-0/00000000000000000500.log      begins at 500, so this follows; at 400 it would be refused

Where one folder follows another, the last batches of the earlier segment are read, and nothing of the later one. As
between segments of one folder, offsets that no segment has are no error: retention and the log cleaner leave such gaps.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.sources.folders import LocalFolder, RemoteFolder, full_path, map_requests
from kafkarec.sources.remote_errors import display_url

from . import names, opening
from .globs import matches
from .key_folders import (
    FolderFilter,
    Keys,
    KeyValues,
    ParameterError,
    keys_below,
    topic_partition_of_keys,
    values_by_key,
    with_key,
)
from .log_folders import DataFolderFiles, FolderFiles, LeftOut, PartitionFiles, by_base_offset
from .segment_file import SegmentFile
from .segment_summary import next_offset


def _raise(error: OSError) -> None:
    raise error


# Names that a job of Hadoop or Spark gives to what is no data begin with one of these.
_NO_DATA = "_."
_SHOWN = 5


def overlap(name: str, first: tuple[str, str], second: tuple[str, str], condition: str = "") -> ValueError:
    """The error for two files in two folders that have the same offsets of a partition.

    name: "orders-0". first, second: the file's path, and its offsets as text
    condition: of `where`, which leaves the second one out; "": their keys are the same
    """
    copy = " Both have the same ones: is one a copy?" if first[1] == second[1] else ""
    what = (
        f"{name}: {first[0]} has offsets {first[1]}, and {second[0]} has offsets {second[1]}: they overlap, so records "
        f"would be read twice.{copy} "
    )
    if condition:
        return ParameterError("where", "", condition, before=f"{what}Leave one folder out: ")
    return ValueError(f"{what}Load one of the two folders: {os.path.dirname(first[0])} or {os.path.dirname(second[0])}")


class Finder:
    """Finds the logs below paths, again while they grow: see kafkarec.find.

    unreadable   called with the PermissionError of a folder, of a key or a partition, that cannot be listed, which is
                 then left out
    left_out     folders directly below the paths whose names are those of no partition and no key, of the last call
    unchecked    path -> (path, base offset) of the segment of another folder that follows it and may have offsets of
                 it, too: where it ends is unknown, as it is compressed as a whole or cannot be read
    """

    opener = opening.Opener()

    def __init__(
        self,
        paths: Any,
        base_path: Any = None,
        where: str | None = None,
        storage_options: dict[str, Any] | None = None,
        unreadable: Callable[[OSError], object] = _raise,
    ) -> None:
        self._paths = [os.fsdecode(one) for one in (paths if isinstance(paths, list | tuple) else [paths])]
        if not self._paths:
            raise ValueError("an empty list of paths")
        self.is_remote = any("://" in path for path in self._paths)
        self._base = None if base_path is None else full_path(os.fsdecode(base_path))
        self.where = FolderFilter(where)
        self._options = storage_options or {}
        self.unreadable = unreadable
        self._ends: dict[tuple[str, int | None], int | None] = {}
        self.left_out: list[str] = []
        self.unchecked: dict[str, tuple[str, int]] = {}

    def find(self) -> list[PartitionFiles]:
        """The logs, one for each partition."""
        return self.joined(self.logs())

    def roots(self) -> dict[str, Keys]:
        """The existing paths, globs expanded, each once, with the keys of their own folders below `base_path`, if
        `where` allows them. FileNotFoundError for a path or glob of nothing."""
        found: dict[str, str] = {}
        for path in self._paths:
            existing = {full_path(match): match for match in matches(path, self._options)}
            if not existing:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), display_url(path))
            found = existing | found
        keyed = {path: {} if self._base is None else keys_below(full, self._base) for full, path in found.items()}
        return {path: keys for path, keys in keyed.items() if self.where.allows_keys(keys, path)}

    # ---- folders

    def logs(self) -> list[PartitionFiles]:
        """The logs, one for each folder and partition, not yet joined. ValueError for a condition on a key that no
        folder has, and for folders without any name that is known, which are probably the wrong ones."""
        found: dict[tuple[str, str, int], list[PartitionFiles]] = {}
        wrong: list[tuple[str, list[LeftOut]]] = []
        self.left_out = []
        waiting, are_roots = self.roots(), True
        while waiting:
            open_one = partial(self._open, is_root=are_roots)
            opened = map_requests(open_one, list(waiting), self.is_remote)
            below: dict[str, Keys] = {}
            for (path, keys), one in zip(waiting.items(), opened, strict=True):
                logs = [] if one is None else self.opener.logs(one)
                for log in logs:
                    _set_keys_and_partition(log, keys)
                    if log.segments:
                        folder = os.path.dirname(full_path(log.segments[0].path))
                        found.setdefault((folder, *_topic_partition(log)), []).append(log)
                    below |= self._key_folders(log, keys)
                if isinstance(one, DataFolderFiles):
                    below |= self._key_folders(one, keys)
                    unlisted = (each.name for each in one.left_out if each.kind == names.UNREADABLE)
                    below |= {os.path.join(path, name): keys for name in unlisted}  # once more, for the error
                    unknown = [left for left in one.left_out if "=" not in left.name and left.name[0] not in _NO_DATA]
                    wrong += [(path, unknown)] if unknown and not logs else []
                    if are_roots:
                        aliens = (left.name for left in unknown if left.is_folder and left.kind == names.FOREIGN)
                        self.left_out += [os.path.join(path, name) for name in aliens]
            waiting, are_roots = below, False
        if not found:
            self.key_values()
        self.where.check_names()
        if wrong and not found:
            path, unknown = wrong[0]
            shown = ", ".join(sorted(each.name for each in unknown)[:_SHOWN])
            raise ValueError(
                f"{path} holds no segments and no partition folders, but {shown}. Name the folders above the segments, "
                f"such as {path.rstrip('/')}/*"
            )
        merged = []
        for logs in found.values():  # the segments of a folder may have been named one by one and twice
            segments = {full_path(segment.path): segment for log in logs for segment in log.segments}
            in_order = sorted(segments.values(), key=by_base_offset)
            merged.append(logs[0] if len(logs) == 1 else self._log_of_segments(in_order))
        return merged

    def _key_folders(self, folder: FolderFiles, keys: Keys) -> dict[str, Keys]:
        """The key folders in a folder, each with its keys."""
        above = folder.path.rstrip("/")
        allowed = self.where.allowed([each.name for each in folder.left_out if each.is_folder], above)
        return {f"{above}/{name}": with_key(keys, key, f"{above}/{name}") for name, key in allowed.items()}

    def _open(self, path: str, *, is_root: bool) -> opening.Opened | None:
        """What is at a path. None: a folder below the roots that cannot be listed."""
        try:
            # the slash says that it is a folder, without a request
            is_url = "://" in path and not is_root
            return self.opener.open(f"{path}/" if is_url else path, storage_options=self._options)
        except PermissionError as error:
            if is_root:
                raise
            self.unreadable(error)
            return None

    def _log_of_segments(self, segments: list[SegmentFile]) -> PartitionFiles:
        last = segments[-1].copy(later_segment=False)
        # not commonpath, which takes no URLs; dirname cuts the prefix at a folder
        path = os.path.dirname(os.path.commonprefix([each.path for each in segments]))  # noqa: RUF071
        return self.opener.log_type(path or os.curdir, [*segments[:-1], last])

    # ---- the keys alone

    def key_values(self) -> KeyValues:
        """The keys of the first log that is found, each with the values in the folders seen on the way to it; where
        there is no log, of the deepest folder. Lists as few folders as that needs."""
        roots = self.roots()
        values = values_by_key(key for keys in roots.values() for key in keys.items())
        return self._keys_to_first_log({path: {name: values[name] for name in keys} for path, keys in roots.items()})[0]

    def _keys_to_first_log(self, ways: dict[str, KeyValues]) -> tuple[KeyValues, bool]:
        """The keys on the way to the first log, and whether there is one. ways: folder -> its own key"""
        deepest: KeyValues = {}
        for folder, own in ways.items():
            inside, is_log = self._folders_in(folder)
            keyed = FolderFilter().allowed(inside, folder)
            values = values_by_key(keyed.values())
            taken = self.where.allowed(inside, folder) or keyed
            above = folder.rstrip("/")
            below: dict[str, KeyValues] = {f"{above}/{name}": {key: values[key]} for name, (key, _) in taken.items()}
            below |= {f"{above}/{name}": {} for name in inside if names.is_log_folder(name, os.path.basename(above))}
            further, is_log = ({}, True) if is_log else self._keys_to_first_log(below)
            if is_log:
                return own | further, True
            deepest = max(deepest, own | further, key=len)
        return deepest, False

    def _folders_in(self, path: str) -> tuple[list[str], bool]:
        """The names of the folders in a folder, and whether there is a segment, or the path is one. What cannot be
        listed is empty here."""
        if names.is_segment(os.path.basename(path)):
            return [], True
        try:
            entries = (RemoteFolder(path, self._options) if "://" in path else LocalFolder(path)).entries()
        except OSError:
            return [], False
        is_log = any(not each.is_dir and names.is_segment(each.name) for each in entries)
        return [each.name for each in entries if each.is_dir], is_log

    # ---- several folders of one partition

    def joined(self, logs: Iterable[PartitionFiles]) -> list[PartitionFiles]:
        """One log for each partition, in their order. ValueError where two folders have the same offsets of one.
        Ends of segments are remembered, so that the next call reads only new ones."""
        parts: dict[tuple[str, int], list[PartitionFiles]] = {}
        for log in logs:
            parts.setdefault(_topic_partition(log), []).append(log)
        several: dict[tuple[str, int], list[SegmentFile]] = {}
        borders: list[tuple[SegmentFile, SegmentFile]] = []  # segments that follow each other and are in two folders
        for key, of_one in parts.items():
            if len(of_one) > 1:
                segments = [segment for log in of_one for segment in log.segments]
                # of two with one base offset first the empty one, which a roll has made
                segments.sort(key=lambda each: (each.base_offset or 0, each.listed_size != 0, each.path))
                pairs = pairwise(each for each in segments if each.listed_size != 0)  # empty ones have no offsets
                borders += [each for each in pairs if os.path.dirname(each[0].path) != os.path.dirname(each[1].path)]
                several[key] = segments
        new = [first for first, _ in borders if (first.path, first.listed_size) not in self._ends]
        ends = map_requests(self._end_offset, new, self.is_remote)
        self._ends.update({(each.path, each.listed_size): end for each, end in zip(new, ends, strict=True)})
        self.unchecked = {}
        for first, second in borders:
            base, end = second.base_offset or 0, self._ends[first.path, first.listed_size]
            if first.base_offset == second.base_offset or (end is not None and end > base):
                values = ((name, value, first.keys.get(name)) for name, value in second.keys.items())
                # a comparison leaves nulls out, too
                differing = ((name, one) for name, one, other in values if one != other and None not in (one, other))
                condition = next(("{} <> '{}'".format(*one) for one in differing), "")
                name, copy = f"{first.topic}-{first.partition}", self._path_and_offsets(second)
                raise overlap(name, self._path_and_offsets(first), copy, condition)
            if end is None:
                self.unchecked[first.path] = second.path, base
        return [self._log_of_segments(several[key]) if key in several else parts[key][0] for key in sorted(parts)]

    def _path_and_offsets(self, segment: SegmentFile) -> tuple[str, str]:
        base, end = segment.base_offset, self._end_offset(segment)
        return segment.display_path, f"from {base} on" if end is None else f"{base} to {end - 1}"

    def _end_offset(self, segment: SegmentFile) -> int | None:
        """The offset after a segment's last batch; None: unknown before all of it is read, as it is compressed or
        cannot be read, which who reads it reports."""
        if segment.listed_size is None:
            return None
        try:
            end = next_offset(segment)
        except FileNotFoundError:
            raise  # removed since it was listed
        except (KafkaRecordError, OSError):
            return None
        return segment.base_offset if end is None else end


def _topic_partition(log: PartitionFiles) -> tuple[str, int]:
    """(topic, partition) of a log; (path, -1) of one whose path has neither, and of a KRaft snapshot that is named
    itself: its offsets are those of its log."""
    first = log.segments[0]
    if log.topic is None or log.partition is None or first.name.endswith(".checkpoint"):
        return full_path(first.path), -1
    return log.topic, log.partition


def _set_keys_and_partition(log: PartitionFiles, keys: Keys) -> None:
    """Sets the keys of a log, and topic and partition of one that has them from folders topic=... and partition=....
    ValueError where two folders contradict each other."""
    path = full_path(log.path)
    by_keys = topic_partition_of_keys(path)
    if log.topic is None and any(segment.base_offset is not None for segment in log.segments):
        log.topic, log.partition = by_keys
    for segment in log.segments:
        segment.keys, segment.topic, segment.partition = keys, log.topic, log.partition
    for key, named, wanted in zip(("topic", "partition"), (log.topic, log.partition), by_keys, strict=True):
        if None not in (named, wanted) and named != wanted:
            raise ValueError(f"{display_url(path)} is in a folder {key}={wanted}, and its log is of {key} {named}")
