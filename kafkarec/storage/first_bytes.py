"""Files by their first bytes: types that users take for logs, and batches in files that do not have Kafka's names.

Batches are in fsck's lost+found/#12345, or in a renamed copy. Only the first header of local files is checked, so this
is a hint; `kafkarec verify FILE` is a real check. A bootstrap.checkpoint is not included, as it has Kafka's name.

    magic 2      base offset int64 | length int32 | partition leader epoch int32 | magic int8 | crc | attributes int16
                 | last offset delta int32 | ...
    magic 0, 1   offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | ...
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import (
    BATCH_MAGIC,
    CODEC_MASK,
    LATEST_CODEC,
    LEAST_SIZES,
    MESSAGE_AT,
    V2_OVERHEAD,
    batch_header,
    batch_start,
)
from kafkarec.support.command_line import as_operand, quoted

from . import names

if TYPE_CHECKING:  # the help of the command line does not load the core
    from .segment_file import SegmentFile

_HEAD = 8
_MAX_FILES = 200
# The first 8 bytes of a type -> what it is, the command that prints its content (empty: that is no log, either).
_TYPES = {
    re.compile(rb"\x1f\x8b"): ("a gzip file", "zcat"),
    re.compile(rb"\x28\xb5\x2f\xfd"): ("a zstd file", "zstdcat"),
    re.compile(rb"\x04\x22\x4d\x18"): ("an lz4 file", "lz4cat"),
    re.compile(rb"PK\x03\x04"): ("a zip archive", "unzip -p"),
    re.compile(rb"PAR1"): ("a Parquet file, not a Kafka log", ""),
    re.compile(rb"ARROW1"): ("an Arrow file, not a Kafka log", ""),
    # the continuation marker and the size of the schema; a wiped block is ff in all its bytes
    re.compile(rb"\xff{4}..[\0-\x0f]\0", re.DOTALL): ("an Arrow stream, not a Kafka log", ""),
}


class OtherFileType(NamedTuple):
    """what: it is, in a sentence; unpack: the command that prints its content, empty if that is no log, either."""

    what: str
    unpack: str

    def sentence(self, path: str, verb: str) -> str:
        """What it looks like, and how `kafkarec VERB` reads its content. path: - for standard input."""
        file = "FILE" if path == "-" else quoted(as_operand(path))
        return f"looks like {self.what}" + (f": {self.unpack} {file} | kafkarec {verb} -" if self.unpack else "")


def type_by_head(head: bytes) -> OtherFileType | None:
    """The type of a file that begins with these bytes; None: it may be a log."""
    return next((OtherFileType(*known) for start, known in _TYPES.items() if start.match(head)), None)


def of_segment(segment: SegmentFile) -> OtherFileType | None:
    """The type of a file that was opened as a segment; None: it may be a log, or cannot be read."""
    with suppress(OSError, KafkaRecordError):
        return type_by_head(bytes(segment.raw(0, _HEAD)))
    return None


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
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            return None
        with open(path, "rb") as file:
            head = file.read(V2_OVERHEAD)
    except OSError:
        return None
    if len(head) < LEAST_SIZES[0]:
        return None
    start, header = batch_start(head), batch_header(head)
    if start is None or start.base_offset < 0 or start.batch_length > about.st_size:
        return None
    if header is None:
        attributes, is_batch = head[MESSAGE_AT.attributes], start.magic < BATCH_MAGIC
    else:
        attributes, is_batch = header.attributes, header.last_offset_delta >= 0
    return start.base_offset if is_batch and attributes & CODEC_MASK <= LATEST_CODEC else None
