"""The lock of a partition folder against other writers and a running broker

<folder>/.kafkarec.lock   locked by flock, removed at the end; the file of a killed writer is reused
<folder>/../.lock         the broker's lock of its data folder: locked in shared mode, so that no broker starts there
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress

NAME, BROKER_NAME = ".kafkarec.lock", ".lock"
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
# struct flock on 64-bit Linux: type, whence, start, length (0: to the end), pid. An open file description lock is
# used, as a process's lock would be released when the process closes any other descriptor of that file.
_SHARED = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


class FolderLock:
    """Locks the folder when created. Raises BlockingIOError if another writer or a broker has locked it."""

    def __init__(self, folder: str) -> None:
        self._path, self._process = os.path.join(folder, NAME), os.getpid()
        self._broker = _lock_out_brokers(os.path.join(os.path.dirname(os.path.abspath(folder)), BROKER_NAME))
        try:
            self._descriptor = self._open_and_lock(folder)
        except BaseException:
            self._release_broker_lock()
            raise

    def _open_and_lock(self, folder: str) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):  # removed by the previous owner between open and flock
                    if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                        return descriptor
                os.close(descriptor)
            except OSError as error:
                os.close(descriptor)
                if error.errno in _BUSY:
                    text = "another writer is using this folder"
                    raise BlockingIOError(errno.EWOULDBLOCK, text, folder) from None
                raise

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that created the lock, not a fork of it."""
        return self._process == os.getpid()

    def release(self) -> None:
        """Releases the lock. May be called twice. In a forked child it closes the child's descriptors only."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if self.is_ours:
                with suppress(OSError):
                    os.unlink(self._path)
            os.close(descriptor)
        self._release_broker_lock()

    def _release_broker_lock(self) -> None:
        if self._broker >= 0:
            os.close(self._broker)
            self._broker = -1


def _lock_out_brokers(path: str) -> int:
    """A descriptor with a shared lock on a data folder's .lock; -1: there is no such file, or the system has no such
    locks."""
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:
        return -1
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return -1
    try:
        fcntl.fcntl(descriptor, command, _SHARED)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _BUSY:
            text = "a broker is running on this data folder"
            raise BlockingIOError(errno.EWOULDBLOCK, text, os.path.dirname(path)) from None
        return -1
    return descriptor
