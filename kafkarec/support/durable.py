"""Writes files atomically and durably: a temporary .part file, fsync, rename, fsync of the folder.

    00000000000000000030.index.part   being written
    00000000000000000030.index        complete; the name is durable once the folder is synced

After a failed fsync it is unknown what is on the disk: the kernel may have dropped the dirty pages, and a second fsync
would then succeed. So a failed fsync is never repeated.

Some network filesystems and FUSE cannot sync a folder: they answer EINVAL, EBADF or "not supported". A name is then as
durable as they make it, and no call makes it more so. PostgreSQL (fsync_fname_ext) ignores EINVAL and EBADF of a
folder, SQLite (unixSync) every error; Kafka (Utils.flushDir) none, and does not work there. Any other error, EIO above
all, is one of the disk, and fatal.

Each fsync waits for the disk, and a disk completes many at once: `FileGroup` is for many small files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .text_table import system_reason

PART = ".part"
_NO_SYNC_OF_FOLDERS = {errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
_GROUP_FILES, _GROUP_BYTES = 96, 64 << 20  # each file of a group keeps its descriptor


def fsync(descriptor: int, path: str, what: str = "fsync") -> None:
    """Syncs an open file or folder. An OSError has its path, and names `what` failed."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"{what} failed: {system_reason(error)}", path) from error


class NewFile:
    """A new file, written as NAME.part and renamed when it is complete and synced. `size`: bytes so far."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        self.path = os.path.join(folder, name)
        self._part = self.path + PART
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self.size = 0
        self._committed, self._descriptor = False, -1
        try:
            self._descriptor = os.open(self._part, flags, 0o644)
        except KeyboardInterrupt:  # which comes when the file is there already
            self.drop()
            raise

    def append(self, data: bytes) -> None:
        """Appends `data`. After an OSError, the bytes that were written are counted in `size`."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self._descriptor, view, self.size)
            self.size += done
            view = view[done:]

    def cut(self, size: int) -> None:
        """Truncates the file to `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def commit(self) -> None:
        """Syncs the data and renames the file to its final name. After an OSError there is no file of that name, and
        the caller's next start repeats the work."""
        self.sync()
        self.rename()

    def sync(self) -> None:
        """The first half of `commit`."""
        os.ftruncate(self._descriptor, self.size)
        fsync(self._descriptor, self._part)

    def rename(self) -> None:
        """The second half of `commit`."""
        self._close()
        os.replace(self._part, self.path)
        self._committed = True

    def drop(self) -> None:
        """Closes and removes the .part file, as far as possible. Does nothing after `commit`."""
        with suppress(OSError):
            self._close()
        if not self._committed:
            with suppress(OSError):
                os.unlink(self._part)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)  # after an error, too, the number is free, and may soon be that of another file


def write_file(folder: str, name: str, data: bytes) -> None:
    """Writes a small file atomically, with fsync. The caller syncs the folder, once for many files."""
    out = NewFile(folder, name)
    try:
        out.append(data)
        out.commit()
    finally:
        out.drop()


def sync_folder(path: str) -> None:
    """Syncs a folder, so that files created or renamed in it survive a power failure. OSError if that fails, but not
    where folders cannot be synced."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(descriptor, path, "fsync of the folder")
    except OSError as error:
        if error.errno not in _NO_SYNC_OF_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def make_folder(path: str, sync: Callable[[str], Any] = sync_folder) -> None:
    """Creates the folder and its missing parents, and calls `sync` with the parent of each."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_folder(parent, sync)
    try:
        os.mkdir(path)
    except FileExistsError:  # another process created it meanwhile
        pass
    except FileNotFoundError:
        if os.path.lexists(parent):  # a link to nowhere
            raise
        make_folder(path, sync)  # another process removed the empty parent meanwhile
        return
    sync(parent)


class FileGroup:
    """New files that become durable together. Each has its final name, and is durable, after the next `sync`.

    `sync` syncs the files, renames them, and syncs their folders; the end of a `with` drops the rest. Not thread-safe.
    """

    def __init__(self) -> None:
        self._files: list[NewFile] = []
        self._folders: dict[str, None] = {}  # whose names are to be synced, in order

    @property
    def is_full(self) -> bool:
        """Whether there is so much to sync that waiting for more saves nothing."""
        return len(self._files) >= _GROUP_FILES or sum(file.size for file in self._files) >= _GROUP_BYTES

    def add(self, file: NewFile, data: bytes = b"") -> None:
        """Adds a file that is complete with `data`, and belongs to the group from here on. Syncs the others first if
        they are many."""
        try:
            file.append(data)
            if self.is_full:
                self.sync()
        except BaseException:
            file.drop()
            raise
        self._files.append(file)
        self._folders.setdefault(file.folder)

    def write(self, folder: str, name: str, data: bytes) -> None:
        """Adds a small file."""
        self.add(NewFile(folder, name), data)

    def make_folder(self, path: str) -> None:
        """Creates a folder and its missing parents."""
        make_folder(path, self._folders.setdefault)

    def sync(self) -> None:
        """Makes all files durable under their final names. After an OSError none of those whose folders were not
        synced is."""
        for file in self._files:
            file.sync()
        for file in self._files:
            file.rename()
        self._files = []
        for folder in self._folders:
            sync_folder(folder)
        self._folders = {}

    def __enter__(self) -> FileGroup:
        return self

    def __exit__(self, *failure: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Removes what was added since the last `sync`."""
        for file in self._files:
            file.drop()
        self._files = []
