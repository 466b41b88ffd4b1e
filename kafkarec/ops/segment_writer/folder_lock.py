"""One writer in a partition folder, and no broker beside it

    <folder>/.kafkarec.lock   flock, removed at the end; one that a killed writer left behind is taken over
    <folder>/../.lock         a broker's, in its data folder: held in shared mode meanwhile, so that none starts there
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress

NAME, BROKERS = ".kafkarec.lock", ".lock"
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
# struct flock on 64-bit Linux: type, whence, start, length (0: to the end), pid. A lock of the open file and not of the
# process, since closing any other descriptor of that file would give up a process's lock.
_SHARED = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


class FolderLock:
    """Taken when made. BlockingIOError where another writer, or a broker, has the folder."""

    def __init__(self, folder: str) -> None:
        self._path, self._process = os.path.join(folder, NAME), os.getpid()
        self._broker = _hold_off_brokers(os.path.join(os.path.dirname(os.path.abspath(folder)), BROKERS))
        try:
            self._descriptor = self._taken(folder)
        except BaseException:
            self._let_go_of_brokers()
            raise

    def _taken(self, folder: str) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):  # removed by the one who had it, between our open and our lock
                    if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                        return descriptor
                os.close(descriptor)
            except OSError as error:
                os.close(descriptor)
                if error.errno in _BUSY:
                    text = "another writer is at work in this folder"
                    raise BlockingIOError(errno.EWOULDBLOCK, text, folder) from None
                raise

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that took it, and no fork of it."""
        return self._process == os.getpid()

    def release(self) -> None:
        """Safe to call twice. A forked child gives up its copy alone."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if self.is_ours:
                with suppress(OSError):
                    os.unlink(self._path)
            os.close(descriptor)
        self._let_go_of_brokers()

    def _let_go_of_brokers(self) -> None:
        if self._broker >= 0:
            os.close(self._broker)
            self._broker = -1


def _hold_off_brokers(path: str) -> int:
    """A descriptor with a shared lock of a data folder's .lock; -1: it is none, or this system has no such lock."""
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
