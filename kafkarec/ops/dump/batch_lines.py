"""The line of one batch; for its bytes see kafkarec/format/layout.py"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from kafkarec.format import checksum, layout
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.java_integers import increment_sequence, wrapped
from kafkarec.format.layout import V2Header
from kafkarec.format.single_fields import FieldFault
from kafkarec.sources.files import ByteSource

from .batch_reader import FilePiece, Frame, refuse
from .java_text import optional_long

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
    def offset(self) -> int:
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
        refuse(self.source, self.position, fault, self.offset)


def batch_at(source: ByteSource, piece: FilePiece, frame: Frame) -> DumpedBatch:
    """The batch of a frame. KafkaRecordError if the file has no whole header there."""
    raw = piece.data[frame.at : frame.at + frame.size]
    position = piece.position + frame.at
    header: Any
    if frame.magic >= layout.BATCH_MAGIC:
        # Kafka reads the header from the file: if the batch is too small, it includes bytes after the batch.
        stored = raw if frame.size >= layout.V2_OVERHEAD else source.read_at(position, layout.V2_OVERHEAD)
        if len(stored) < layout.V2_OVERHEAD:
            fault = FieldFault("batch_too_small", layout.V2_OVERHEAD, frame.size)
            refuse(source, position, fault, frame.offset)
        header = layout.v2_header(stored)
    else:
        header = layout.message_header(raw)
    return DumpedBatch(source, position, raw, header)


def check(batch: DumpedBatch) -> int:
    """The codec. KafkaRecordError for a magic or codec for which Kafka's tool cannot print a line."""
    codec = batch.codec
    if batch.header.magic < 0:
        batch.refuse(FieldFault("unsupported_magic", layout.LATEST_MAGIC, batch.header.magic))
    if codec > layout.LATEST_CODEC:
        batch.refuse(FieldFault("unsupported_codec", layout.LATEST_CODEC, codec))
    return codec


def batch_line(batch: DumpedBatch) -> str:
    codec, header, raw = check(batch), batch.header, batch.raw
    if isinstance(header, V2Header):
        start, timestamp, magic = _start_of_line(header), header.max_timestamp, layout.BATCH_MAGIC
    else:
        start, timestamp, magic = f"offset: {header.offset}", header.timestamp, header.magic
    computed = checksum.checksum(raw[layout.CHECKED_FROM[magic] :], magic)
    valid = computed == header.crc and (magic < layout.BATCH_MAGIC or len(raw) >= layout.V2_OVERHEAD)
    return (
        f"{start} position: {batch.position} {batch.timestamp_type}: {timestamp} size: {len(raw)} "
        f"magic: {header.magic} compresscodec: {CODEC_NAMES[codec]} crc: {header.crc} isvalid: {BOOL[valid]}\n"
    )


def _start_of_line(header: V2Header) -> str:
    horizon = header.base_timestamp if header.attributes & layout.DELETE_HORIZON else None
    sequence = header.base_sequence
    return (
        f"baseOffset: {header.base_offset} lastOffset: {wrapped(header.base_offset + header.last_offset_delta, 64)} "
        f"count: {header.record_count} baseSequence: {sequence} "
        f"lastSequence: {-1 if sequence == -1 else increment_sequence(sequence, header.last_offset_delta)} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {BOOL[bool(header.attributes & layout.TRANSACTIONAL)]} "
        f"isControl: {BOOL[bool(header.attributes & layout.CONTROL)]} deleteHorizonMs: {optional_long(horizon)}"
    )
