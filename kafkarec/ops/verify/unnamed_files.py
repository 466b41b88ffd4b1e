"""Finds files with record batches that do not have Kafka's names: fsck's lost+found/#12345, a renamed copy.

Only their first header is checked, and on a local disk only: it is a hint, use `kafkarec verify FILE` for a check.
A bootstrap.checkpoint is not included, as it has Kafka's name.


    magic 2      base offset int64 | length int32 | partition leader epoch int32 | magic int8 | crc | attributes int16
                 | last offset delta int32 | ...
    magic 0, 1   offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | ...
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from struct import Struct

from kafkarec.storage import names

_MODERN = Struct(">qiibIhi")
_LEAST = {0: 14, 1: 22, 2: 49}
_KNOWN_CODECS = 4
_MOST_FILES = 200


def look(path: str) -> Iterator[tuple[str, int]]:
    """(path, first offset) of each file that begins with a batch: `path` itself, or the files directly in that
    folder."""
    if "://" in path:
        return
    try:
        inside = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    except OSError:
        return
    for name in inside[:_MOST_FILES]:
        file = os.path.join(path, name) if name else path
        base = None if os.path.basename(file) in names.FILES else _first_offset(file)
        if base is not None:
            yield file, base


def _first_offset(path: str) -> int | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            head = file.read(_MODERN.size)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if len(head) < _MODERN.size:
        return None
    base, length, _, magic, _, attributes, last = _MODERN.unpack(head)
    if base < 0 or magic not in _LEAST or not _LEAST[magic] <= length <= size:
        return None
    codec = attributes & 7 if magic == 2 else head[17] & 7
    return base if codec <= _KNOWN_CODECS and (magic < 2 or last >= 0) else None
