"""Lists the partitions below the paths while brokers write to them: consistent names, current sizes.

Each folder is listed for itself; folders of one partition are joined at the end (folder_borders).

    1  names of all folders
    2  partitions of all folders, sizes of their files
    3  names of all folders: a folder with other names than in step 1 is listed again

A segment that is followed by another one no longer grows: its size in step 2 is final if the other existed in step 1.
Segments that appear between 1 and 3 are left to the next listing. While the log cleaner replaces a segment, A.log does
not exist between the renames A.log -> A.log.deleted and A.log.swap -> A.log: the listing waits for the second one.

A repeated listing of a folder with unchanged names costs one listing of its names and one `stat` of its last segment.
It does not see a segment that was replaced by a file of the same name: who opens it does, and makes a new Listing.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import AnalysisException

from . import key_conditions, key_folders, paths
from .folder_borders import FolderBorders
from .options import SourceOptions
from .paths import FolderPieces, PartitionPaths, SegmentPath, TopicPartition

if TYPE_CHECKING:
    import kafkarec

logger = logging.getLogger("spark_udfs")

# Enough for a busy broker: two changes during one listing are rare, and the cleaner replaces a segment in milliseconds.
_TRIES = 12
_LONGEST_PAUSE = 0.25
_SWAP = ".swap"
# Tiered layouts have a folder per topic, and below it one per partition. Folders key=value are not counted.
_DEEPEST = 2

_Names = dict[str, frozenset[str]]
_T = TypeVar("_T")


class DataLoss(RuntimeError):
    """Offsets that the query should read no longer exist; with failOnDataLoss=false it continues without them."""


def retry(call: Callable[[], _T]) -> _T:
    """The result of `call`, which is repeated while files that it listed are removed or replaced before it opens them.
    It has to make a new Listing each time: after a replacement the folder may have the same names as before."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return call()
    return call()


class Listing:
    """`current()` returns the partitions that exist now; remote folders are listed only once per call."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._roots: list[str] = []
        self._names: _Names = {}
        self._keys: dict[str, list[TopicPartition]] = {}
        self._found: FolderPieces = {}
        self._borders = FolderBorders(options)
        self._strict = bool(options["failOnDataLoss"])
        self._reported: dict[str, frozenset[str]] = {}

    def current(self) -> dict[TopicPartition, PartitionPaths]:
        """The partitions now. AnalysisException where a path does not exist, ValueError where two folders have the same
        offsets of a partition, DataLoss where the replacement of a segment was interrupted."""
        if not paths.are_remote(self._options):
            return self._borders.joined(self._pieces())
        listed: dict[str, kafkarec.Segment] = {}
        return self._borders.joined(paths.pieces(self._options, listed), listed)

    def _pieces(self) -> FolderPieces:
        roots = [path for path, _ in paths.roots(self._options)]
        for _ in range(_TRIES):
            names = _names_below(roots, self._options)
            if roots != self._roots or names.keys() != self._names.keys() or not self._relist_changed(names):
                self._list_all(roots, names)
            pieces = self._with_sizes()
            if pieces is not None:
                return pieces
        return self._found

    def _list_all(self, roots: list[str], before: _Names) -> None:
        pieces = paths.pieces(self._options)
        self._roots, self._names, self._found, self._keys = roots, {}, {}, {}
        for folder, key in pieces:
            self._keys.setdefault(folder, []).append(key)
        after = _names_below(roots, self._options)
        self._found = {at: _with_known_sizes(piece) for at, piece in pieces.items()}
        for folder, names in after.items():
            if (before.get(folder) != names or _interrupted_replacements(names)) and folder in self._keys:
                self._relist(folder, names)
            else:
                self._names[folder] = names
        self._forget([folder for folder in self._keys if folder in before and folder not in after])

    def _relist_changed(self, names: _Names) -> bool:
        """Lists the folders again whose names have changed. False: partitions were added or removed, so list
        everything."""
        for folder, now in names.items():
            same = now == self._names[folder] and (
                not _interrupted_replacements(now) or self._reported.get(folder) == now
            )
            if not same and not (folder in self._keys and self._relist(folder, now)):
                return False
        return True

    def _relist(self, folder: str, before: frozenset[str]) -> bool:
        """Lists one folder until its names stay the same, except for segments added at the end. False: other
        partitions."""
        options = paths.options_for(folder, self._options)
        keys = sorted(self._keys[folder])
        folder_keys = self._found[folder, keys[0]].segments[0].keys
        pieces: FolderPieces = {}
        for tries in range(_TRIES):
            if tries:
                time.sleep(min(0.001 * 2**tries, _LONGEST_PAUSE))
            try:
                pieces = paths.pieces(options)
            except (ValueError, OSError, AnalysisException):
                pieces = {}  # the folder is gone, or no longer has any segment
            pieces = {at: _with_known_sizes(each) for at, each in pieces.items() if at[0] == folder}
            after = _names_in(folder, self._options)
            if before <= after and not _interrupted_replacements(after):
                break
            before = after
        else:
            self._report_broken_replacement(folder, after)
        if sorted(key for _, key in pieces) != keys:
            return False
        self._found |= {at: _with_keys(_up_to(each, before), folder_keys) for at, each in pieces.items()}
        self._names[folder] = before
        return True

    def _report_broken_replacement(self, folder: str, names: frozenset[str]) -> None:
        swaps = _interrupted_replacements(names)
        if not swaps:
            return  # a folder whose names change all the time: the last listing is used
        problem = (
            f"{folder} has {swaps[0]} and no {swaps[0].removesuffix(_SWAP)}: the replacement of that segment was "
            f"interrupted, and only that file has its offsets. A broker that starts there completes the renaming"
        )
        if self._options["failOnDataLoss"]:
            raise DataLoss(f"{problem}; failOnDataLoss=false reads the rest")
        logger.warning("%s; failOnDataLoss is false", problem)
        self._reported[folder] = names

    def _forget(self, folders: list[str]) -> None:
        for folder in folders:
            self._names.pop(folder, None)
            for key in self._keys.pop(folder):
                self._found.pop((folder, key), None)

    def _with_sizes(self) -> FolderPieces | None:
        """The folders' segments with the current sizes of the last ones; None if one of these no longer exists."""
        for key, partition in self._found.items():
            last = partition.segments[-1]
            if last.size is None:
                continue
            try:
                size = os.stat(last.path).st_size
            except FileNotFoundError:
                self._names.pop(os.path.dirname(last.path), None)
                return None
            if size != last.size:
                grown = (*partition.segments[:-1], last._replace(size=size))
                self._found[key] = partition._replace(segments=grown)
        return dict(self._found)


def _up_to(partition: PartitionPaths, names: frozenset[str]) -> PartitionPaths:
    """The partition without segments after the last of these names: between newer segments one may still be missing."""
    known = [number for number, each in enumerate(partition.segments) if os.path.basename(each.path) in names]
    if not known or known[-1] == len(partition.segments) - 1:
        return partition
    kept = partition.segments[: known[-1] + 1]
    return partition._replace(segments=(*kept[:-1], kept[-1]._replace(later_segment=False)))


def _with_known_sizes(partition: PartitionPaths) -> PartitionPaths:
    """Replaces size 0 by the file's size, or by None (unknown): a listing has 0 for a file whose `stat` failed, too."""
    if all(each.size != 0 for each in partition.segments):
        return partition
    return partition._replace(segments=tuple(_known_size(each) for each in partition.segments))


def _known_size(segment: SegmentPath) -> SegmentPath:
    if segment.size != 0:
        return segment
    try:
        return segment._replace(size=os.stat(segment.path).st_size)
    except OSError:
        return segment._replace(size=None)


def _with_keys(partition: PartitionPaths, keys: key_folders.Keys) -> PartitionPaths:
    return partition._replace(segments=tuple(each._replace(keys=keys) for each in partition.segments))


def _interrupted_replacements(names: frozenset[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(_SWAP) and name.removesuffix(_SWAP) not in names)


def _names_below(roots: list[str], options: SourceOptions) -> _Names:
    """Folder -> relevant names in it, for each root, the partition folders below it and the key folders that `where`
    allows. OSError for a folder that cannot be listed, which the listing of the folder above would leave out, unless
    failOnDataLoss is false."""
    names: _Names = {}
    waiting = [(root, 0) for root in roots if os.path.isdir(root)]
    while waiting:
        folder, depth = waiting.pop()
        if folder not in names:
            names[folder] = _names_in(folder, options)
            for name in names[folder]:
                below = depth if "=" in name else depth + 1
                if name[-1] == "/" and below <= _DEEPEST:
                    waiting.append((os.path.join(folder, name[:-1]), below))
    return names


def _names_in(folder: str, options: SourceOptions) -> frozenset[str]:
    """The names of segments and of their replacements, and those of partition and key folders, with a slash at the
    end."""
    from kafkarec import distributed

    own = os.path.basename(folder)
    names, folders = [], []
    try:
        with os.scandir(folder) as listing:
            for each in listing:
                name = each.name
                if each.is_dir():
                    folders.append(name)
                elif ".log" in name or name.endswith(".checkpoint"):
                    names.append(name)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        if options["failOnDataLoss"]:
            error.add_note("failOnDataLoss=false reads the other folders")
            raise
        logger.warning("%s: left out; failOnDataLoss is false", error)
    keyed = key_conditions.read_folders(folders, options["where"], folder)
    names += [f"{name}/" for name in folders if name in keyed or distributed.is_log_folder(name, own)]
    return frozenset(names)
