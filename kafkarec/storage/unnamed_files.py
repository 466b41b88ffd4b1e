"""Finds files with record batches that do not have Kafka's names: fsck's lost+found/#12345, a renamed copy.

Only the first header of local files is checked, so this is a hint; `kafkarec verify FILE` is a real check. A
bootstrap.checkpoint is not included, as it has Kafka's name.


    magic 2      base offset int64 | length int32 | partition leader epoch int32 | magic int8 | crc | attributes int16
                 | last offset delta int32 | ...
    magic 0, 1   offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | ...
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from kafkarec.format.layout import (
    BATCH_MAGIC,
    CODEC_MASK,
    LATEST_CODEC,
    LEAST_SIZES,
    LOG_OVERHEAD,
    MAGICS,
    MESSAGE_AT,
    V2_OVERHEAD,
    start_of,
    v2_header,
)

from . import names

_MAX_FILES = 200


def files_with_batches(path: str) -> Iterator[tuple[str, int]]:
    """Yields (path, first offset) of each file that begins with a batch: of `path` itself, or of the files directly in
    that folder."""
    if "://" in path:
        return
    try:
        file_names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    except OSError:
        return
    for name in file_names[:_MAX_FILES]:
        file = os.path.join(path, name) if name else path
        own = os.path.basename(file)
        if own.removesuffix(".tmp") in names.FILES or names.side_file_kind(own) is not None:
            continue
        base = _offset_of_first_batch(file)
        if base is not None:
            yield file, base


def _offset_of_first_batch(path: str) -> int | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            head = file.read(V2_OVERHEAD)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if len(head) < LEAST_SIZES[0]:
        return None
    start = start_of(head)
    if start.base_offset < 0 or start.magic not in MAGICS:
        return None
    if not LEAST_SIZES[start.magic] - LOG_OVERHEAD <= start.batch_length <= size:
        return None
    if start.magic < BATCH_MAGIC:
        return start.base_offset if head[MESSAGE_AT.attributes] & CODEC_MASK <= LATEST_CODEC else None
    if len(head) < V2_OVERHEAD:
        return None
    header = v2_header(head)
    known = header.attributes & CODEC_MASK <= LATEST_CODEC
    return header.base_offset if known and header.last_offset_delta >= 0 else None
