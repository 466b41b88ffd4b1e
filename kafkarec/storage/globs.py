"""Globs of files and folders of logs, on this machine and in buckets: * ? [a-z] {a,b}, and ** on this machine."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from kafkarec.sources import remote
from kafkarec.sources.files import FolderEntry

from . import names

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_LOG_FILE = re.compile(r".*\.log(\.gz|\.zst)?")
# The folder of files that a job of Hadoop or Spark is writing.
_STAGED = "_temporary"


def matches(path: str, options: dict[str, Any]) -> Iterator[str]:
    """The path or URL itself if it exists, else the matches of a glob: no folders that a broker has renamed, no staging
    folders of jobs, and only files with the name of a segment, unless the glob itself ends with a suffix."""
    local = remote.local_path(path)
    if local is None:
        yield from _remote_matches(path, options)
    elif os.path.exists(local):
        yield local.rstrip("/") or local
    elif wild := _WILD.search(local):
        every = (match for each in _without_braces(local) for match in glob.glob(each, recursive=True))
        found = {match for match in every if _STAGED not in match[wild.start() :].split(os.sep)}
        yield from (each for each in sorted(found) if _is_read(each, local, os.path.isdir(each)))


def is_glob(path: str) -> bool:
    return _WILD.search(path) is not None


def expanded(path: str) -> list[str]:
    """The matches of a glob on this machine, if there are any; any other path, and a URL, as it is."""
    local = remote.local_path(path)
    return [path] if local is None or os.path.lexists(local) else list(matches(path, {})) or [path]


def _remote_matches(url: str, options: dict[str, Any]) -> Iterator[str]:
    """With one listing for each folder that matches; the URL itself if it has no wildcard."""
    wild = _WILD.search(url)
    if wild is None or (url.startswith("http") and "?" in url):
        remote.stat(url, options)
        yield url
        return
    fixed = url[: wild.start()].count("/")
    for each in _without_braces(url):
        parts = each.rstrip("/").split("/")
        urls = ["/".join(parts[:fixed])]
        for number, part in enumerate(parts[fixed:], fixed + 1):
            is_last = number == len(parts)
            urls = [
                f"{one}/{entry.name}"
                for one in urls
                for entry in _listing(one, options)
                if fnmatch.fnmatchcase(entry.name, part)
                and entry.name != _STAGED
                and (_is_read(entry.name, part, entry.is_dir) if is_last else entry.is_dir)
            ]
        yield from urls


def _listing(url: str, options: dict[str, Any]) -> Iterable[FolderEntry]:
    try:
        return remote.listing(f"{url}/", options)
    except FileNotFoundError:
        return ()


def _without_braces(path: str) -> list[str]:
    """Expands {a,b}, which Hadoop's globs have and Python's do not."""
    match = _BRACES.search(path)
    if match is None:
        return [path]
    prefix, suffix = path[: match.start()], path[match.end() :]
    return [each for one in match[1].split(",") for each in _without_braces(f"{prefix}{one}{suffix}")]


def _is_read(match: str, pattern: str, is_folder: bool) -> bool:
    name = os.path.basename(match.rstrip("/"))
    if is_folder:
        named = names.folder(name)
        return named is None or not named.state
    return not pattern.endswith(("*", "?", "]", "}")) or _LOG_FILE.fullmatch(name) is not None
