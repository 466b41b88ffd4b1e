"""Why a file or folder cannot be read: a word for programs, a sentence for people, and what to do about it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError, MissingCodecError
from kafkarec.support.text_table import system_reason

from .files import non_file_kind
from .remote_errors import RemoteError

MISSING, PERMISSION, NOT_A_FILE, DISK, ENCODED, LIMIT, OTHER = (
    "missing",
    "permission",
    "not_a_file",
    "disk",
    "encoded",
    "limit",
    "other",
)

REMEDIES: dict[str, str] = {
    MISSING: "a file is gone: copy it again, or mount the disk that its link leads to",
    PERMISSION: "permission is denied: run the command as the owner of the files, or as root",
    NOT_A_FILE: "a folder, a pipe, a socket or a device has the name of a segment: look for the segment elsewhere",
    DISK: "the disk is failing: copy it with ddrescue first, then work on the copy",
    ENCODED: "a file is no plain log: its line says how to get one",
    LIMIT: "a search of damaged bytes ended at its limit of work: copy them into their own file (dd), and salvage that",
    OTHER: "a file could not be read for the reason in its line: run the command again when that is corrected",
}
"""Cause -> what to do."""

DISK_ERRORS = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENXIO, errno.ENODATA})
_CAUSES = {
    **dict.fromkeys(DISK_ERRORS, DISK),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ELOOP), MISSING),
    **dict.fromkeys((errno.EACCES, errno.EPERM), PERMISSION),
    **dict.fromkeys((errno.EISDIR, errno.ESPIPE), NOT_A_FILE),
}
# Errors of this process or of its output, not of the file: no later file could be read either.
_OF_THE_PROCESS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS}


class ReadFailure(NamedTuple):
    """path: the file or folder; cause: a key of REMEDIES; why: the end of a sentence about it."""

    path: str
    cause: str
    why: str


def is_of_one_file(error: Exception) -> bool:
    """Whether an error of reading is about one file, so that others can be read nevertheless."""
    if isinstance(error, KafkaRecordError):
        return not isinstance(error, MissingCodecError)
    return isinstance(error, OSError) and not isinstance(error, RemoteError) and error.errno not in _OF_THE_PROCESS


def read_failure(error: Exception, path: str) -> ReadFailure:
    """The failure for an error with which a file or folder could not be opened or read."""
    if not isinstance(error, OSError):
        return ReadFailure(path, ENCODED, str(error))
    if isinstance(error, RemoteError):
        return ReadFailure(path, OTHER, str(error))
    cause = _CAUSES.get(error.errno or 0, OTHER)
    what = None
    if cause == NOT_A_FILE:
        with suppress(OSError):
            what = non_file_kind(path)
    if what is not None:
        return ReadFailure(path, cause, f"{what}, not a file")
    text = system_reason(error)
    if cause == MISSING:
        is_link = os.path.islink(path)
        text = f"a link to {os.readlink(path)}, which cannot be found" if is_link else "no such file or directory"
    return ReadFailure(path, cause, text)


def is_gone(error: Exception, path: str) -> bool:
    """Whether nothing has the name any more: the file was removed or renamed after its folder was listed."""
    return isinstance(error, FileNotFoundError) and "://" not in path and not os.path.lexists(path)


def partial_read_failure(path: str) -> ReadFailure:
    """The failure of a file that has unreadable bytes, reported as damage, between others."""
    return ReadFailure(path, DISK, "a part of it cannot be read")


def unsearched_failure(path: str, position: int, length: int) -> ReadFailure:
    """The failure of a file of which these damaged bytes were not searched to their end."""
    return ReadFailure(path, LIMIT, f"bytes {position} to {position + length - 1} were not searched to their end")
