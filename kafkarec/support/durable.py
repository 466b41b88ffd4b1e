"""Writes files atomically and durably: a temporary .part file, fsync, rename, fsync of the folder.

    00000000000000000030.index.part   being written
    00000000000000000030.index        complete, and known to its folder once that is synced

Where an fsync fails nothing is known of what the disk holds: the kernel may have given up the pages, so that asking
again says that all is well. Nobody here asks twice.
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
        """OSError: as much as fitted is written, and counted in `size`."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self._descriptor, view, self.size)
            self.size += done
            view = view[done:]

    def cut(self, size: int) -> None:
        """Gives up what lies behind `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def commit(self) -> None:
        """Everything is on the disk, under its name. OSError: it is not, and the next start does it again."""
        os.ftruncate(self._descriptor, self.size)
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        os.replace(self._part, self.path)
        self._committed = True

    def drop(self) -> None:
        """Leaves nothing behind, as far as that is possible. Safe after commit."""
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
    """Makes what was created or renamed in a folder outlive a power failure. OSError where that fails."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """The folder and those above it, each made known to the one that holds it."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_folder(parent)
    with suppress(FileExistsError):  # somebody else made it just now
        os.mkdir(path)
    sync_folder(parent)
