"""Chooses the folder of this node that holds the unpacked wheels; each candidate is checked before it is used.

Another user who can write to a folder of shared libraries can run code as this user. So the wheels are unpacked to a
folder of this user with mode 0700, in a folder that belongs to this user or to root, below folders that only their
owners can write to (or that have the sticky bit). Neither a home folder nor a passwd entry is needed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping

# Tried in this order; each with the separator of its entries. Spark deletes the executor's local folders when the
# application ends; the folder of KAFKAREC_CACHE stays.
ROOT_VARIABLES = (
    ("KAFKAREC_CACHE", None),
    ("SPARK_EXECUTOR_DIRS", os.pathsep),
    ("SPARK_LOCAL_DIRS", ","),
    ("LOCAL_DIRS", ","),  # YARN
)


class RootRefused(Exception):
    """This root cannot be used; the message is the reason, which is shown if no root can be used."""


def candidates(environ: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str]]:
    """(where it comes from, absolute path), in the order of preference, each path once."""
    named = [
        (variable, entry.strip())
        for variable, separator in ROOT_VARIABLES
        for entry in environ.get(variable, "").split(separator or "\0")
    ]
    named += [("the working folder", _working_folder()), ("the temporary folder", _temporary_folder())]
    seen: set[str] = set()
    for source, entry in named:
        path = os.path.abspath(entry) if entry else ""
        if path and path not in seen:
            seen.add(path)
            yield source, path


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed while this process uses it
        return ""


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # FileNotFoundError: no usable temporary folder at all
        return ""


def own_folder(root: str) -> str:
    """Checks `root` and returns the folder of mode 0700 in it, created if it is missing. Raises RootRefused."""
    try:
        _check_root(root)
        folder = os.path.join(root, f"kafkarec-cache-{os.geteuid()}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        _check_own(folder)
        return folder
    except OSError as error:
        raise RootRefused(error.strerror or str(error)) from None


def _check_root(root: str) -> None:
    _check_ancestors(root)
    if not os.path.lexists(root):
        os.makedirs(root, 0o700, exist_ok=True)  # other processes may do the same at this moment
    status = os.lstat(root)
    if stat.S_ISLNK(status.st_mode):
        raise RootRefused("is a symlink")
    if not stat.S_ISDIR(status.st_mode):
        raise RootRefused("is not a folder")
    if status.st_uid not in (0, os.geteuid()):
        raise RootRefused(f"belongs to user id {status.st_uid}, and this process is {os.geteuid()}")
    if not os.access(root, os.W_OK | os.X_OK):
        raise RootRefused("is not writable")


def _check_ancestors(root: str) -> None:
    """RootRefused where another user may rename a folder above ours, and so replace it."""
    folder = os.path.realpath(root)
    while True:
        mode = os.stat(folder).st_mode if os.path.exists(folder) else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            what = "it" if folder == root else folder
            raise RootRefused(f"{what} is writable by everybody, with no sticky bit")
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _check_own(folder: str) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise RootRefused(f"{folder} is a symlink or a file")
    if status.st_uid != os.geteuid():
        raise RootRefused(f"{folder} belongs to user id {status.st_uid}")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise RootRefused(f"{folder} is open to others (mode {stat.S_IMODE(status.st_mode):04o})")


def can_load(library: str) -> None:
    """Raises RootRefused if the dynamic loader refuses a library in this place (noexec mounts, seccomp)."""
    try:
        import _ctypes
        import ctypes
    except ImportError:  # an interpreter built without libffi: importing kafkarec shows whether it works
        return
    try:
        handle = ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_LOCAL)._handle
    except OSError as error:
        raise RootRefused(f"a shared library cannot be loaded from it: {error}") from None
    _ctypes.dlclose(handle)
