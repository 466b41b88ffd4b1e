"""A .log or .checkpoint file as text

Records come from the engine, which reads whole batches. Kafka's tool reads an uncompressed batch record by record and
prints those before an unreadable one; of a compressed batch it prints all or none (DefaultRecordBatch.iterator). So of
an uncompressed batch that the engine refuses the records are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any

from kafkarec.damage import relocated
from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout, single_fields
from kafkarec.format.java_integers import INT_MAX, increment_sequence, wrapped
from kafkarec.format.layout import V2Header
from kafkarec.format.messages import java_text
from kafkarec.format.single_fields import FieldFault
from kafkarec.read import reader
from kafkarec.sources.files import ByteSource

from .batch_lines import DumpedBatch, batch_line, dumped_batches
from .record_lines import ConsecutiveCheck, DumpOptions, Row, message_lines, record_lines


def log_text(
    source: ByteSource,
    name: str,
    options: DumpOptions,
    consecutive: ConsecutiveCheck,
    progress: Callable[[int], object],
) -> Iterator[str]:
    """The text after the file's heading. KafkaRecordError at what Kafka's tool cannot read, after the whole lines
    before it. `progress`: called with the position up to which the text is complete."""
    whole = options.max_bytes == INT_MAX  # the whole file, even above 2 GiB, which Kafka's tool refuses
    end = source.size if whole else min(source.size, options.max_bytes)
    position = 0
    for batches in dumped_batches(source, 0, end):
        records = _PieceRecords(batches, options.max_decompressed_bytes)
        for number, batch in enumerate(batches):
            yield batch_line(batch)
            if not (options.decoder or options.deep_iteration):
                continue
            if not isinstance(batch.header, V2Header):
                yield from message_lines(batch, options, consecutive)
                continue
            yield from record_lines(batch, records.of(number, batch), options, consecutive)
        position = batch.position + len(batch.raw)
        progress(position)
    if whole and end > position:
        yield f"Found {end - position} invalid bytes at the end of {name}\n"


class _PieceRecords:
    """The records of consecutive batches. Those that the engine reads as Kafka does are decoded together."""

    def __init__(self, batches: Sequence[DumpedBatch], limit: int) -> None:
        self._batches, self._limit = batches, limit
        self._decoded: Iterator[Row] = iter(())
        self._end = 0  # the batch at which they end

    def of(self, number: int, batch: DumpedBatch) -> Iterable[Row]:
        """The records of the batch with this index. The batches are asked for in order."""
        if number >= self._end:
            rest = map(self._batches.__getitem__, range(number, len(self._batches)))
            run = list(takewhile(_engine_reads_alike, rest))
            if not run:
                return records_of(batch, self._limit)
            self._end = number + len(run)
            self._decoded = _decoded(b"".join(one.raw for one in run), self._limit)
        try:
            return list(islice(self._decoded, batch.header.record_count))
        except KafkaRecordError:
            self._end = 0
            return records_of(batch, self._limit)


def _engine_reads_alike(batch: DumpedBatch) -> bool:
    """Whether the engine reads a batch as Kafka's tool does: of a known magic and codec, with records or without bytes
    of any."""
    header, size = batch.header, len(batch.raw)
    if header.magic not in layout.BATCH_MAGICS or size < layout.V2_OVERHEAD:
        return False
    is_read = header.record_count > 0 or (header.record_count == 0 and size == layout.V2_OVERHEAD)
    return is_read and header.attributes & layout.CODEC_MASK <= layout.LATEST_CODEC


def _decoded(data: bytes, limit: int) -> Iterator[Row]:
    """The records of consecutive batches. `data`: no memoryview, which an exception would keep exported."""
    columns = ("offset", "timestamp", "key", "value", "sequence", "headers")
    limits: dict[str, Any] = {"check_crcs": False, "max_decompressed_bytes": limit}
    for piece in reader.stream(data, columns=columns, control=True, timestamp_unit="int64", **limits):
        yield from piece.zip_columns(*columns)


def records_of(batch: DumpedBatch, limit: int) -> Iterator[Row]:
    """The records of one batch of magic 2, whatever it is. KafkaRecordError after those that can be read."""
    header, raw = batch.header, bytearray(batch.raw)
    if len(raw) < layout.V2_OVERHEAD:
        batch.refuse(FieldFault("batch_too_small", layout.V2_OVERHEAD, len(raw)))
    if header.record_count < 0:
        batch.refuse(FieldFault("record_count_negative", 0, header.record_count))
    if header.record_count == 0:
        return  # Kafka ignores the payload
    raw[layout.V2_AT.magic] = layout.LATEST_MAGIC  # as which Kafka reads later ones; it is outside of the checksum
    try:
        yield from list(_decoded(bytes(raw), limit))
    except KafkaRecordError as error:
        if not batch.codec:
            yield from _records_before_fault(batch)
        raise relocated(error, position=batch.position, file=batch.source.name) from None


def _records_before_fault(batch: DumpedBatch) -> Iterator[Row]:
    """The records of an uncompressed batch up to the first one that cannot be read, each alone. The last one is not
    read if bytes follow it."""
    header, at, stop = batch.header, layout.V2_OVERHEAD, len(batch.raw)
    for index in range(header.record_count):
        read = single_fields.record(batch.raw, at, stop)
        is_last = index == header.record_count - 1
        if read.fault or read.stop is None or (is_last and read.stop < stop):
            return
        values = read.values()
        delta, base = values["offset_delta"], header.base_sequence
        timestamp = wrapped(header.base_timestamp + values["timestamp_delta"], 64)
        if batch.timestamp_type == "LogAppendTime":
            timestamp = header.max_timestamp
        yield (
            wrapped(header.base_offset + delta, 64),
            timestamp,
            values.get("key"),
            values.get("value"),
            None if base < 0 else increment_sequence(base, delta),
            [(java_text(value), None) for name, value in values.items() if name.endswith("].key")],
        )
        at = read.stop
