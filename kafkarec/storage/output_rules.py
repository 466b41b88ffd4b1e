"""Refuses outputs that would replace an input or a file of a log, or be written into a folder that holds an input.

    Inputs(["data/orders-0"])              the inputs: files, folders, file:// URLs, - for standard input
        .demand_file(path, option, force)  raises Refused unless a file may be written at `path`
        .demand_apart(path, shown)         raises Refused if `path` is an input or in a folder that holds one
        .demand_stream(descriptor, shown)  raises Refused if an open descriptor is an input: `cat A >> A`
    suggested_output("rescued", ["orders-0"])   an output for a command that is printed, which these rules allow

Paths alone do not identify files: with symbolic links, hard links, bind mounts and file systems that ignore case one
file has several names. So files and folders are compared by device and inode, and all parent folders of an output are
checked, before and after links are resolved. An existing file with several names is never an output.

* A partition folder holds a file that a broker writes for segments (an index or a snapshot with 20 digits,
  leader-epoch-checkpoint, partition.metadata), or is named topic-partition and a .log or an index in it is read. So
  lab-1/rows.jsonl is rows in any folder.
* A data folder is an input, or has a broker's own files (meta.properties, its checkpoints, .kafka_cleanshutdown) around
  what is read. One that merely contains orders-0/ may be a working directory.

In the folder of any other input new names are allowed, but files that are read with it (a.index of a.log) are inputs.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count

from kafkarec.sources import remote

from . import globs, names

STANDARD_INPUT = STANDARD_OUTPUT = "-"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(\d+)(?:/task/\d+)?)/fd/(\d+)")
_LINKS_AT_MOST = 40  # as Linux follows
_OTHER_NAMES = "has other names (hard links), one of which may be an input"
_SUFFIXES = (".log", ".checkpoint", *names.SIDECARS)

Identity = tuple[int, int]


class Refused(ValueError):
    """An output that would replace an input or an existing file. One line: what, why, what to do instead."""


def identity(path: str) -> Identity | None:
    """Device and inode of a path, links resolved; None: it does not exist."""
    status = _stat(path)
    return status and (status.st_dev, status.st_ino)


def self_and_parents(path: str) -> Iterator[str]:
    """A folder and all its parents; they need not exist."""
    path = os.path.realpath(path)
    while True:
        yield path
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent


def descriptor_of(path: str | None) -> int | None:
    """The descriptor of this process that an output names (/dev/stdout, /dev/fd/3, a link to one; None, and -: standard
    output); None: it names none."""
    if path is None or path == STANDARD_OUTPUT:
        return 1
    for _ in range(_LINKS_AT_MOST):
        parent = os.path.realpath(os.path.dirname(path) or os.curdir)
        path = os.path.join(parent, os.path.basename(path))
        match = _DESCRIPTOR.fullmatch(path)
        if match is not None and match[1] in (None, str(os.getpid())):
            return int(match[2])
        if not os.path.islink(path):
            return None
        path = os.path.join(parent, os.readlink(path))
    return None


def is_stream(path: str | None) -> bool:
    """Whether the output is standard output, a descriptor, a pipe or a device: written at once, never renamed."""
    if path is None or descriptor_of(path) is not None:
        return True
    mode = _mode(path)
    return mode != 0 and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def demand_local(path: str, shown: str) -> None:
    """Raises Refused for a URL or an empty name."""
    if not path:
        raise Refused(f"{shown.strip()}: the name is empty; name a file")
    if remote.is_url(path):
        local = remote.local_path(path)
        advice = "name a local file, and upload it afterwards" if local is None else f"name it as a path: {local}"
        raise Refused(f"{shown} is a URL, and outputs are written on this machine only; {advice}")


def demand_different(outputs: Mapping[str, str | None]) -> None:
    """Raises Refused if two outputs are the same file. outputs: name for messages -> path."""
    seen: dict[tuple[object, ...], str] = {}
    for shown, path in outputs.items():
        key = _file_key(path)
        if key is not None and key in seen:
            raise Refused(f"{seen[key]} and {shown} are the same file; give each its own name")
        if key is not None:
            seen[key] = shown


def rename_into_place(part: str, place: str, force: bool) -> bool:
    """Renames the finished file `part` to `place`. False if that exists, unless `force`."""
    if not force:
        try:
            os.link(part, place)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if os.path.lexists(place):
                return False
        else:
            os.unlink(part)
            return True
    os.replace(part, place)
    return True


class Inputs:
    """The inputs of a run, and the folders in which nothing may be written because of them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._files: dict[Identity, str] = {}
        self._folders: dict[Identity, tuple[str, str]] = {}  # its name, what it is
        self._unguarded: list[str] = []  # input folders whose own folders are not guarded yet
        self._devices: dict[int, str] = {}
        self._checked_around: set[tuple[str, bool, bool]] = set()  # each folder once, also with a thousand files in it
        for path in paths:
            for each in globs.expanded(path):
                self._add(each)

    def demand_file(self, path: str, option: str, force: bool) -> None:
        """Raises Refused unless a file may be written at `path`. force: an existing file may be replaced, but none that
        by its name is one of Kafka's, in a partition folder or a data folder: a log is replaced as a whole."""
        shown = f"{option} {path}"
        demand_local(path, shown)
        descriptor, mode = descriptor_of(path), _mode(path)
        if descriptor is not None:
            self.demand_stream(descriptor, shown)
            return
        if is_stream(path):
            if identity(path) in self._files:
                raise Refused(f"{shown} is one of the inputs; choose another name")
            return
        self.demand_apart(path, shown)
        if os.path.basename(path) in ("", os.curdir, os.pardir) or stat.S_ISDIR(mode):
            raise Refused(f"{shown} is a folder; name a file")
        if stat.S_ISBLK(mode):
            raise Refused(f"{shown} is a block device, and its content would be lost; name a file")
        if os.path.islink(os.path.realpath(path)):
            raise Refused(f"{shown} is a symbolic link to itself; choose another name")
        if mode and _belongs_to_a_log(os.path.realpath(path)):
            raise Refused(f"{shown} is a file of a Kafka log, which is never replaced alone; choose another name")
        if mode and not force:
            raise Refused(f"{shown} exists already; --force replaces it")

    def demand_apart(self, path: str, shown: str) -> None:
        """Raises Refused if `path` is an input, is in a folder that is an input or holds one, or is a file with several
        names, any of which may be in such a folder."""
        bare = path.rstrip("/") or path
        real, parent = os.path.realpath(bare), os.path.realpath(os.path.dirname(bare) or os.curdir)
        resolved = f"{shown} is a link to {real}, which" if real != os.path.abspath(bare) else shown
        target = identity(bare)
        if target is not None and target in self._files:
            other, is_what = self._files[target], "is"
            if os.path.abspath(bare) != os.path.abspath(other):
                is_what = f"is a {'' if real == os.path.realpath(other) else 'hard '}link to {other},"
            raise Refused(f"{shown} {is_what} one of the inputs; choose another name")
        status = _stat(bare)
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            raise Refused(f"{shown} {_OTHER_NAMES}; choose another name")
        self._guard_folders_within()
        for start, begin in ((real, resolved), (parent, shown)):
            for folder in self_and_parents(start):
                who = identity(folder)
                if who in self._folders:
                    place, what = self._folders[who]
                    name = "the current folder" if place == os.curdir else place
                    is_or_in = f"is {what}" if folder == real else f"is in {name}, {what}"
                    raise Refused(f"{begin} {is_or_in}: nothing is written there; choose another path")
        device = os.stat(next(filter(os.path.isdir, self_and_parents(parent)))).st_dev
        if device in self._devices:
            raise Refused(
                f"{shown} is on the file system of {self._devices[device]}, which is read; choose another disk"
            )

    def demand_stream(self, descriptor: int, shown: str) -> None:
        """Raises Refused if an open descriptor is an input, which would grow while it is read, or is truncated now."""
        try:
            status = os.fstat(descriptor)
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode):
            return
        target = status.st_dev, status.st_ino
        read, name = self._files.get(target), os.path.basename(_path_of(descriptor))
        if read is None and (_has_kafkas_name(name) or name == str(descriptor)):
            self._guard_folders_within()
            for folder, _ in self._folders.values():
                with suppress(OSError), os.scandir(folder) as entries:
                    same = (
                        each.path for each in entries if _has_kafkas_name(each.name) and identity(each.path) == target
                    )
                    read = read or next(same, None)
        if read is not None:
            raise Refused(f"{shown} is written to {read}, which is read; choose another file")
        if status.st_nlink > 1:
            raise Refused(f"{shown} is written to a file that {_OTHER_NAMES}; choose another one")

    def _add(self, path: str) -> None:
        place = _path_of(0) if path == STANDARD_INPUT else remote.local_path(path) or ""
        status = _stat(place)
        if status is None:
            return
        shown = path if place == path else place.replace("/dev/fd/0", "standard input")
        if stat.S_ISDIR(status.st_mode):
            self._guard(place, "one of the inputs")
            self._unguarded.append(place)
        elif stat.S_ISBLK(status.st_mode):
            self._devices[status.st_rdev] = shown
        elif not stat.S_ISCHR(status.st_mode):
            self._files[status.st_dev, status.st_ino] = shown
        if stat.S_ISREG(status.st_mode):
            # its side files, or the segment of a side file, are read as well
            parent, name = _real_parent_and_name(place)
            for suffix in (".log", *names.SIDECARS) if _has_kafkas_suffix(name) else ():
                other = os.path.join(parent, names.side_file_name(name, suffix))
                target = identity(other)
                if target is not None:
                    self._files.setdefault(target, other)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            for real in {os.path.join(*_real_parent_and_name(place)), os.path.realpath(place)}:
                self._guard_folders_around(real, shown, is_file=stat.S_ISREG(status.st_mode))

    def _guard_folders_around(self, place: str, shown: str, is_file: bool) -> None:
        """Guards the partition folder of a file, and the data folder of a file or folder."""
        folder = os.path.dirname(place)
        about = folder, is_file, _has_kafkas_suffix(place)
        if about in self._checked_around:
            return
        self._checked_around.add(about)
        if is_file and (_has_partition_files(folder) or (_is_named_as_partition(folder) and about[-1])):
            self._guard(folder, f"the partition folder of {shown}")
        for each in (folder, os.path.dirname(folder)) if is_file else (folder,):
            if _holds_any(each, names.OF_A_BROKER):
                self._guard(each, f"the data folder that holds {shown}")

    def _guard_folders_within(self) -> None:
        """Guards the folders in input folders: by a link or a mount they may be on another disk, and not below these.
        Done for an output alone, as it is a stat for each partition."""
        while self._unguarded:
            place = self._unguarded.pop()
            with suppress(OSError), os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir():
                        self._guard(entry.path, f"in {place}, one of the inputs")

    def _guard(self, folder: str, what: str) -> None:
        target = identity(folder)
        if target is not None:
            self._folders.setdefault(target, (folder, what))


def demand_apart(inputs: Iterable[str], path: str, shown: str) -> None:
    """Raises ValueError if a local path is an input, or in a folder that is one or holds one. inputs: files, folders,
    globs, file:// URLs; shown: the path for the message."""
    Inputs(inputs).demand_apart(path, shown)


def suggested_output(name: str, sources: Sequence[str]) -> str:
    """A path of this name, or with a number, that does not exist: in the working directory, else in the folder above,
    else in that of temporary files; the first where a run that reads `sources` may write it, and never in the folder
    around a partition's."""
    local = (os.path.realpath(source) for source in sources if not remote.is_url(source))
    folders = (real if os.path.isdir(real) else os.path.dirname(real) for real in local)
    around = [os.path.dirname(folder) for folder in folders if _is_named_as_partition(folder)]
    inputs, (stem, suffix) = Inputs([*sources, *around]), os.path.splitext(name)
    for place in ("", os.pardir, tempfile.gettempdir()):
        plain = os.path.join(place, stem)
        numbered = (f"{plain}-{number}{suffix}" for number in count(2))
        path = next(each for each in chain((plain + suffix,), numbered) if not os.path.lexists(each))
        with suppress(Refused):
            inputs.demand_apart(path, path)
            if os.access(place or os.curdir, os.W_OK | os.X_OK):
                break
    return path


def _stat(path: str) -> os.stat_result | None:
    """The file that is at a path, or would be replaced there: of missing/../a.log it is a.log, where it is written. An
    empty path is that of what has none on this machine."""
    for each in (path, path and os.path.realpath(path)):
        with suppress(OSError):
            return os.stat(each)
    return None


def _mode(path: str) -> int:
    """The type of a file with its permissions; 0: it does not exist."""
    status = _stat(path)
    return status.st_mode if status else 0


def _file_key(path: str | None) -> tuple[object, ...] | None:
    """A key that is equal for all paths of one file; None for what is not a file."""
    descriptor = descriptor_of(path)
    try:
        status = _stat(path or "") if descriptor is None else os.fstat(descriptor)
    except OSError:
        return None
    if status is None:
        parent, name = os.path.split(os.path.realpath(path or ""))
        return identity(parent) or parent, name
    if stat.S_ISCHR(status.st_mode) or (descriptor is not None and not stat.S_ISREG(status.st_mode)):
        return None
    return status.st_dev, status.st_ino


def _real_parent_and_name(path: str) -> tuple[str, str]:
    """The real path of the parent folder, and the name in it, which may be a link."""
    bare = path.rstrip("/") or path
    name = os.path.basename(bare)
    if name in ("", os.curdir, os.pardir):
        return os.path.split(os.path.realpath(bare))
    return os.path.realpath(os.path.dirname(bare) or os.curdir), name


def _path_of(descriptor: int) -> str:
    """The path of the file of a descriptor; /dev/fd/N if that is unknown, or the file was removed."""
    with suppress(OSError):
        status = os.fstat(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if identity(path) == (status.st_dev, status.st_ino):
            return path
    return f"/dev/fd/{descriptor}"


def _has_kafkas_suffix(name: str) -> bool:
    return names.unpacked_name(name).endswith(_SUFFIXES)


def _has_kafkas_name(name: str) -> bool:
    return name in names.FILES or names.segment(name) is not None


def _belongs_to_a_log(path: str) -> bool:
    """Whether a file has one of Kafka's names, and is in a partition folder or a data folder."""
    folder, name = os.path.split(path)
    if not _has_kafkas_name(name):
        return False
    in_data_folder = name in names.OF_A_BROKER or _holds_any(folder, names.OF_A_BROKER)
    return in_data_folder or _is_named_as_partition(folder) or _has_partition_files(folder)


def _holds_any(folder: str, files: Iterable[str]) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in files)


def _has_partition_files(folder: str) -> bool:
    """Whether the folder has files that only brokers write next to segments. A segment alone may be a copy."""
    if _holds_any(folder, names.OF_A_PARTITION):
        return True
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            parsed = names.segment(entry.name)
            if parsed is not None and parsed.topic is None and parsed.suffix in names.SIDECARS:
                return True
    return False


def _is_named_as_partition(folder: str) -> bool:
    return names.folder_owner(folder.split("/"))[1] is not None
