"""Writes files atomically and durably: a temporary .part file, fsync, rename, fsync of the folder.

    00000000000000000030.index.part   being written
    00000000000000000030.index        complete; the name is durable once the folder is synced

After a failed fsync it is unknown what is on the disk: the kernel may have dropped the dirty pages, and a second fsync
would then succeed. So a failed fsync is never repeated.
"""

from __future__ import annotations

import os
from contextlib import suppress

PART = ".part"


class NewFile:
    """A new file, written as NAME.part and renamed when it is complete and synced. `size`: bytes so far."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        self.path = os.path.join(folder, name)
        self._part = self.path + PART
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._part, flags, 0o644)
        self.size = 0
        self._committed = False

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
        os.ftruncate(self._descriptor, self.size)
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        os.replace(self._part, self.path)
        self._committed = True

    def drop(self) -> None:
        """Closes and removes the .part file, as far as possible. Does nothing after `commit`."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if not self._committed:
            with suppress(OSError):
                os.unlink(self._part)


def write_file(folder: str, name: str, data: bytes) -> None:
    """Writes a small file atomically, with fsync. The caller syncs the folder, once for many files."""
    out = NewFile(folder, name)
    try:
        out.append(data)
        out.commit()
    finally:
        out.drop()


def sync_folder(path: str) -> None:
    """Syncs a folder, so that files created or renamed in it survive a power failure. OSError if that fails."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """Creates the folder and its missing parents, and syncs the parent of each."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_folder(parent)
    with suppress(FileExistsError):  # another process created it meanwhile
        os.mkdir(path)
    sync_folder(parent)
