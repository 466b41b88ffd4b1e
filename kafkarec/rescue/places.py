"""Where the output of a salvage may go: never in or under what is being salvaged.

A path is not enough to tell: a symbolic link or a bind mount leads to the same folder under another name. So folders
are compared by device and inode, and every folder in which the output would lie is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kafkarec.storage import names

_ROOM_FOR_INDEXES = 64  # one byte of indexes for so many bytes of log, at the default interval
_SPARE = 1 << 20


class Refused(ValueError):
    """What was asked for would endanger the source, or the output of an earlier run."""


class NoRoom(Refused):
    """The file system of the output is too small."""


Identity = tuple[int, int]


def identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def above(path: str) -> Iterator[str]:
    """A folder and all folders it lies in; those that do not exist yet included."""
    path = os.path.realpath(path)
    while True:
        yield path
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent


def folders_of(source: str) -> Iterator[str]:
    """The folders that belong to a source: itself and everything below; of a file the partition folder around it."""
    if os.path.isdir(source):
        yield source
        for root, folders, _ in os.walk(source):
            yield from (os.path.join(root, folder) for folder in folders)
        return
    around = os.path.dirname(os.path.realpath(source))
    if names.folder(os.path.basename(around)) is not None:
        yield around


def check_apart(out: str, sources: Iterable[str]) -> None:
    """Refused when `out` is a source, lies in one, or is one under another name."""
    places = {identity(place): place for place in above(out)}
    places.pop(None, None)
    for source in sources:
        if identity(source) in places:
            raise Refused(f"{out} is {source} or lies in it: nothing is ever written there; choose another folder")
        for folder in folders_of(source):
            if identity(folder) in places:
                raise Refused(f"{out} lies in {folder}, which is being salvaged; choose another folder")


def check_space(out: str, needed: int) -> None:
    """NoRoom when the file system of `out` has less room than `needed` bytes of log and its indexes take."""
    place = next(place for place in above(out) if os.path.isdir(place))
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    wanted = needed + needed // _ROOM_FOR_INDEXES + _SPARE
    if free < wanted:
        raise NoRoom(
            f"{out} has {free} bytes free, and up to {wanted} may be needed; --dry-run tells how many it will be "
            "(--ignore-space goes ahead)"
        )


def is_empty(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None
