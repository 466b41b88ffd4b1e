"""What listings and open objects of remote storage are, whichever library reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

WINDOW = 2 << 20  # bytes of a range request


class FolderEntry(NamedTuple):
    """One entry of a listing. size: bytes; 0 for a folder, and if the server does not report it."""

    name: str
    size: int
    is_dir: bool


class RemoteObject(NamedTuple):
    """One open object. read(start, stop): may be called by several threads at once."""

    size: int
    read: Callable[[int, int], bytes]
    close: Callable[[], object] = lambda: None
