"""Files that are no logs, by their first bytes: users take them for one."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.support.command_line import as_operand, quoted

if TYPE_CHECKING:  # the help of the command line does not load the core
    from .segment_file import SegmentFile

_HEAD = 8
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


def by_head(head: bytes) -> OtherFileType | None:
    """The type of a file that begins with these bytes; None: it may be a log."""
    return next((OtherFileType(*known) for start, known in _TYPES.items() if start.match(head)), None)


def of_segment(segment: SegmentFile) -> OtherFileType | None:
    """The type of a file that was opened as a segment; None: it may be a log, or cannot be read."""
    with suppress(OSError, KafkaRecordError):
        return by_head(bytes(segment.raw(0, _HEAD)))
    return None
