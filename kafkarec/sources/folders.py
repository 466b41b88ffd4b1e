"""Folders on a disk or in an object store: lists them, reads small files whole, opens large ones as sources."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Protocol, TypeVar

from kafkarec.support.threads import run_in_threads

from . import remote
from .files import ByteSource, FolderEntry, LocalFile
from .remote_errors import RemoteError, RemoteNotFoundError

S = TypeVar("S")
T = TypeVar("T")
_REQUESTS_AT_ONCE = 16
_MOST_READINGS = 10
_SMALL_FILE = 64 << 20  # a larger object is no index or checkpoint


class Folder(Protocol):
    """path: as error messages show it; entries: sorted by name; names: those of a remote folder may be the ones of its
    last listing; read: a whole file, None if it does not exist; open: disk: a block device is read, too."""

    path: str

    def entries(self) -> list[FolderEntry]: ...
    def names(self) -> list[str]: ...
    def join(self, name: str) -> str: ...
    def below(self, name: str) -> Folder: ...
    def read(self, name: str) -> bytes | None: ...
    def open(self, name: str, disk: bool = False) -> ByteSource: ...


class LocalFolder:
    def __init__(self, path: str) -> None:
        self.path = path

    def entries(self) -> list[FolderEntry]:
        """The folder's entries; an entry whose stat fails (a failing disk) is listed as an empty file. A folder that is
        replaced meanwhile, as by an overwrite of Spark's, is listed again: of the old one some files may be gone."""
        path = self.path or os.curdir  # of a file that was named alone
        while True:
            entries, listed = [], os.stat(path)
            with os.scandir(path) as listing:
                for entry in listing:
                    try:
                        entries.append(FolderEntry(entry.name, entry.stat().st_size, entry.is_dir()))
                    except OSError:
                        entries.append(FolderEntry(entry.name, 0, False))
            if os.path.samestat(listed, os.stat(path)):
                return sorted(entries)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path or "."))

    def join(self, name: str) -> str:
        return os.path.join(self.path, name)

    def below(self, name: str) -> LocalFolder:
        return LocalFolder(self.join(name))

    def read(self, name: str) -> bytes | None:
        try:
            for _ in range(_MOST_READINGS):  # again if a broker trims or extends it meanwhile
                with closing(LocalFile(self.join(name))) as file:
                    data = file.read_at(0, file.size)
                    if len(data) == file.size and not file.read_at(file.size, 1):
                        break
            return data
        except (FileNotFoundError, IsADirectoryError):
            return None

    def open(self, name: str, disk: bool = False) -> ByteSource:
        return LocalFile(self.join(name), disk)


class RemoteFolder:
    """A prefix in a bucket, or a folder of any other filesystem with URLs. fetch_counter: counts the bytes fetched."""

    def __init__(self, url: str, options: dict[str, Any], fetch_counter: FetchCounter | None = None) -> None:
        self.path = url.rstrip("/")
        if "://" not in self.path:
            raise RemoteNotFoundError(f"{url}: names no bucket or folder", url, "not_found")
        self._options = options
        self.fetch_counter = fetch_counter or FetchCounter()
        self._sizes: dict[str, int] | None = None  # of files, from the listing: saves a request for each

    def entries(self) -> list[FolderEntry]:
        listed = remote.listing(self.path + "/", self._options)
        self._sizes = {entry.name: entry.size for entry in listed if not entry.is_dir}
        return listed

    def names(self) -> list[str]:
        return list(self._sizes) if self._sizes is not None else [entry.name for entry in self.entries()]

    def join(self, name: str) -> str:
        return f"{self.path}/{name}"

    def below(self, name: str) -> RemoteFolder:
        return RemoteFolder(self.join(name), self._options, self.fetch_counter)

    def read(self, name: str) -> bytes | None:
        try:
            with closing(self._opened(name)) as source:  # whose size may no longer be that of the listing
                if source.size > _SMALL_FILE:
                    text = f"{source.name}: {source.size} bytes are too many for a file of its kind"
                    raise RemoteError(text, source.name)
                return source.read_at(0, source.size)
        except FileNotFoundError:
            return None

    def open(self, name: str, disk: bool = False) -> ByteSource:
        return self._opened(name, (self._sizes or {}).get(name))

    def _opened(self, name: str, size: int | None = None) -> remote.RemoteSource:
        if self._sizes is not None and name not in self._sizes:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.join(name))
        source = remote.open_source(self.join(name), self._options, size=size)
        self.fetch_counter.sources.append(source)
        return source


def full_path(path: str) -> str:
    """The absolute path; a URL as it is."""
    return path if "://" in path else os.path.abspath(path)


def map_requests(function: Callable[[S], T], items: Iterable[S], are_remote: bool) -> Iterator[T]:
    """Yields the results of `function` for items, in order; if they are remote, up to 16 threads work."""
    return run_in_threads((partial(function, item) for item in items), _REQUESTS_AT_ONCE if are_remote else 1)


class FetchCounter:
    """Counts the bytes fetched over the network, for all folders below one URL."""

    def __init__(self) -> None:
        self.sources: list[remote.RemoteSource] = []

    @property
    def fetched(self) -> int:
        return sum(source.fetched for source in self.sources)
