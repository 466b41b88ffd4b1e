"""The batches of a file as Kafka's FileLogInputStream reads them, in pieces of some megabytes, and the line of one

A batch is read only if more than 17 bytes (see kafkarec/format/layout.py) are left; one whose size is above the bytes
left ends the log without an error. A magic of 2 or more is read as 2, one below 2 as a message of magic 0 and 1. The
Java behaviour that texts depend on comes first: optional numbers, java.io.File's paths, Long.parseLong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from kafkarec.damage import error
from kafkarec.errors import InvalidRecordError
from kafkarec.format import checksum, layout
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.java_integers import increment_sequence, wrapped
from kafkarec.format.layout import LOG_OVERHEAD, MESSAGE_OVERHEAD, START, UP_TO_MAGIC, V2Header
from kafkarec.format.single_fields import FieldFault
from kafkarec.sources.files import ByteSource


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def java_path(path: str) -> str:
    """java.io.File.toString on a Unix system: no repeated and no trailing slash."""
    short = re.sub("/+", "/", path)
    return short.rstrip("/") if len(short) > 1 else short


def java_absolute_path(path: str) -> str:
    """java.io.File.getAbsolutePath: `..` and links stay as they are."""
    display_path = java_path(path)
    return display_path if display_path.startswith("/") else f"{os.getcwd().rstrip('/')}/{display_path}"


def parse_long(text: str) -> int:
    """Long.parseLong, which takes the digits of any script that are one UTF-16 unit; InvalidRecordError for its
    NumberFormatException."""
    if re.fullmatch(r"[+-]?\d+", text) and max(text) <= "\uffff":
        value = int(text)
        if value == wrapped(value, 64):
            return value
    raise InvalidRecordError(f"the file's name does not begin with an offset: {text[:40]!r}")


LEAST_SIZE = MESSAGE_OVERHEAD[0]
WINDOW = 4 << 20
_SHORTER = FieldFault("unreadable", detail="the file is shorter now than when it was opened")


def refuse(source: ByteSource, position: int, fault: FieldFault, offset: int | None = None) -> NoReturn:
    """Raises a fault as an error, where Kafka's tool ends with an exception. `offset`: of the batch."""
    raise error(fault.reason, fault._asdict() | {"file": source.name, "position": position, "base_offset": offset})


BOOL = ("false", "true")


class DumpedBatch(NamedTuple):
    """A batch of magic 2 or an outer message, of the bytes `raw` at a position of the file.

    header   V2Header, or MessageHeader: with timestamp -1 in magic 0
    """

    source: ByteSource
    position: int
    raw: memoryview
    header: Any

    @property
    def stored_offset(self) -> int:
        return int(self.header[0])

    @property
    def codec(self) -> int:
        return int(self.header.attributes & layout.CODEC_MASK)

    @property
    def timestamp_type(self) -> str:
        if not self.header.magic:
            return "NoTimestampType"
        return "LogAppendTime" if self.header.attributes & layout.LOG_APPEND_TIME else "CreateTime"

    def refuse(self, fault: FieldFault) -> NoReturn:
        refuse(self.source, self.position, fault, self.stored_offset)


def dumped_batches(source: ByteSource, start: int, end: int, window: int = WINDOW) -> Iterator[list[DumpedBatch]]:
    """All batches between two bytes of a file, some at a time. KafkaRecordError, after the good batches, for a size
    below 14, and for a header that the file does not have as a whole."""
    position = start
    while position < end - UP_TO_MAGIC:
        data = source.read_at(position, min(window, end - position))
        if len(data) < UP_TO_MAGIC:
            refuse(source, position, _SHORTER)
        batches, at, needed = _batches(source, position, data, end - position)
        if needed and not batches:
            data = source.read_at(position, needed)
            if len(data) < needed:
                refuse(source, position, _SHORTER)
            batches, at, _ = _batches(source, position, data, end - position)
        if batches:
            yield batches
        position += at
        if not needed and position < end - UP_TO_MAGIC:
            offset, size, _, _ = START.unpack_from(data, at)
            if size < LEAST_SIZE:
                refuse(source, position, FieldFault("size_too_small", LEAST_SIZE, size), offset)
            if position + LOG_OVERHEAD + size <= end:
                refuse(source, position, FieldFault("batch_too_small", layout.V2_OVERHEAD, LOG_OVERHEAD + size), offset)
            return


def _batches(source: ByteSource, position: int, data: bytes, left: int) -> tuple[list[DumpedBatch], int, int]:
    """(batches, their total size, bytes that the next one needs if it is cut off by the end of `data`, else 0). data:
    the bytes from `position` on, at which `left` bytes are left"""
    batches: list[DumpedBatch] = []
    at, have, view = 0, len(data), memoryview(data)
    while left - at > UP_TO_MAGIC:
        if at + UP_TO_MAGIC > have:
            return batches, at, UP_TO_MAGIC
        _, size, _, magic = START.unpack_from(data, at)
        if size < LEAST_SIZE or size > left - at - LOG_OVERHEAD:
            break
        size += LOG_OVERHEAD
        if at + size > have:
            return batches, at, size
        raw = stored = view[at : at + size]
        if magic >= layout.BATCH_MAGIC and size < layout.V2_OVERHEAD:
            # Kafka reads the header from the file: if the batch is too small, it includes bytes after the batch.
            stored = memoryview(source.read_at(position + at, layout.V2_OVERHEAD))
            if len(stored) < layout.V2_OVERHEAD:
                break
        header = layout.v2_header(stored) if magic >= layout.BATCH_MAGIC else layout.message_header(raw)
        batches.append(DumpedBatch(source, position + at, raw, header))
        at += size
    return batches, at, 0


def checked_codec(batch: DumpedBatch) -> int:
    """The codec. KafkaRecordError for a magic or codec for which Kafka's tool cannot print a line."""
    codec = batch.codec
    if batch.header.magic < 0:
        batch.refuse(FieldFault("unsupported_magic", layout.LATEST_MAGIC, batch.header.magic))
    if codec > layout.LATEST_CODEC:
        batch.refuse(FieldFault("unsupported_codec", layout.LATEST_CODEC, codec))
    return codec


def batch_line(batch: DumpedBatch) -> str:
    codec, header, raw = checked_codec(batch), batch.header, batch.raw
    if isinstance(header, V2Header):
        timestamp, magic, sequence = header.max_timestamp, layout.BATCH_MAGIC, header.base_sequence
        horizon = header.base_timestamp if header.attributes & layout.DELETE_HORIZON else None
        last = wrapped(header.base_offset + header.last_offset_delta, 64)
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {last} count: {header.record_count} "
            f"baseSequence: {sequence} "
            f"lastSequence: {-1 if sequence == -1 else increment_sequence(sequence, header.last_offset_delta)} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {BOOL[bool(header.attributes & layout.TRANSACTIONAL)]} "
            f"isControl: {BOOL[bool(header.attributes & layout.CONTROL)]} deleteHorizonMs: {optional_long(horizon)}"
        )
    else:
        start, timestamp, magic = f"offset: {header.offset}", header.timestamp, header.magic
    computed = checksum.checksum(raw[layout.CHECKED_FROM[magic] :], magic)
    valid = computed == header.crc and (magic < layout.BATCH_MAGIC or len(raw) >= layout.V2_OVERHEAD)
    return (
        f"{start} position: {batch.position} {batch.timestamp_type}: {timestamp} size: {len(raw)} "
        f"magic: {header.magic} compresscodec: {CODEC_NAMES[codec]} crc: {header.crc} isvalid: {BOOL[valid]}\n"
    )
