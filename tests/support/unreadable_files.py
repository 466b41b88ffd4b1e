"""Puts something unreadable in the place of a segment: a link, a pipe, a device, a folder, errors of the system; and
folders that cannot be listed."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from failing_calls import before, failing, is_folder

Spoil = Callable[[Path, pytest.MonkeyPatch], None]


def dangling_link(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.unlink()
    path.symlink_to(path.parent / "gone")


def link_to_itself(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.unlink()
    path.symlink_to(path.name)


def pipe(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.unlink()
    path.mkdir()


def folder_of_tmpfs(path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder in which seeking fails, as on tmpfs; on other file systems reading does."""
    folder(path, monkeypatch)
    before(monkeypatch, os, "lseek", failing(errno.EINVAL, lambda descriptor, *_: is_folder(descriptor)))


def linked_device(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.unlink()
    path.symlink_to(os.devnull)


def listening_socket(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.unlink()
    monkeypatch.chdir(path.parent)  # the path of a socket has at most 107 bytes
    socket.socket(socket.AF_UNIX).bind(path.name)


def refused(code: int) -> Spoil:
    """The system refuses to open the file. Simulated, as root may read every file."""

    def spoil(path, monkeypatch):
        before(monkeypatch, os, "open", failing(code, lambda name, *_: os.path.abspath(os.fsdecode(name)) == str(path)))

    return spoil


# name -> (what is done, the cause that is reported, the words)
SPOILS: dict[str, tuple[Spoil, str, str]] = {
    "dangling link": (dangling_link, "missing", "a link to"),
    "link to itself": (link_to_itself, "missing", "which cannot be found"),
    "pipe": (pipe, "not_a_file", "a pipe, not a file"),
    "folder": (folder, "not_a_file", "a folder, not a file"),
    "folder of tmpfs": (folder_of_tmpfs, "not_a_file", "a folder, not a file"),
    "device": (linked_device, "not_a_file", "a character device, not a file"),
    "socket": (listening_socket, "not_a_file", "a socket, not a file"),
    "permission": (refused(errno.EACCES), "permission", "permission denied"),
    "vanished": (refused(errno.ENOENT), "missing", "no such file or directory"),
    "disk error": (refused(errno.EIO), "disk", "input/output error"),
    "stale handle": (refused(errno.ESTALE), "other", "stale file handle"),
}


def refuse_listing(monkeypatch: pytest.MonkeyPatch, ending: str, error: int):
    """Listing a folder whose path has this ending fails with the errno. Simulated, as root may list every folder."""
    before(monkeypatch, os, "scandir", failing(error, lambda path: str(path).endswith(ending)))
