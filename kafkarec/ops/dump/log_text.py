"""A .log or .checkpoint file as text

Records come from the engine, which reads whole batches. Kafka's tool reads an uncompressed batch record by record and
prints those before an unreadable one; of a compressed batch it prints all or none (DefaultRecordBatch.iterator). So of
an uncompressed batch that the engine refuses the records are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise, takewhile
from operator import sub
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
from kafkarec.tables.records import RecordColumns

from .batch_lines import DumpedBatch, FilePiece, Frame, batch_at, batch_line, pieces
from .record_lines import ConsecutiveCheck, DumpOptions, Records, message_lines, record_lines


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
    for piece in pieces(source, 0, end):
        records = _PieceRecords(piece, options.limit)
        for number, frame in enumerate(piece.frames):
            batch = batch_at(source, piece, frame)
            yield batch_line(batch)
            if not (options.shows_content or options.deep):
                continue
            if not isinstance(batch.header, V2Header):
                yield from message_lines(batch, options, consecutive)
                continue
            with_content = options.shows_content or bool(batch.header.attributes & layout.CONTROL)
            for some in records.of(number, batch, with_content):
                consecutive.check(some.offsets)
                yield from record_lines(batch, some, options)
        position = batch.position + len(batch.raw)
        progress(position)
    if whole and end > position:
        yield f"Found {end - position} invalid bytes at the end of {name}\n"


class _PieceRecords:
    """The records of one piece of a file. Batches that the engine reads as Kafka does are decoded together."""

    def __init__(self, piece: FilePiece, limit: int) -> None:
        self._piece, self._limit = piece, limit
        self._decoder = _Decoder(b"", limit)
        self._end = 0  # the frame at which the decoder ends

    def of(self, number: int, batch: DumpedBatch, with_content: bool) -> Iterable[Records]:
        """The records of the batch in this frame. The frames are asked for in order."""
        data, frames = self._piece.data, self._piece.frames
        if number >= self._end:
            rest = map(frames.__getitem__, range(number, len(frames)))
            run = list(takewhile(partial(_engine_reads_alike, data), rest))
            if not run:
                return records_of(batch, self._limit)
            start, self._end = run[0].at, number + len(run)
            self._decoder = _Decoder(bytes(data[start : start + sum(frame.size for frame in run)]), self._limit)
        try:
            return list(self._decoder.take(batch.header.record_count, with_content))
        except KafkaRecordError:
            self._end = 0
            return records_of(batch, self._limit)


def _engine_reads_alike(data: memoryview, frame: Frame) -> bool:
    """Whether the engine reads a batch as Kafka's tool does: of a known magic and codec, with records or without bytes
    of any."""
    if frame.magic not in layout.BATCH_MAGICS or frame.size < layout.V2_OVERHEAD:
        return False
    header = layout.v2_header(data, frame.at)
    is_read = header.record_count > 0 or (header.record_count == 0 and frame.size == layout.V2_OVERHEAD)
    return is_read and header.attributes & layout.CODEC_MASK <= layout.LATEST_CODEC


class _Decoder:
    """The records of consecutive batches, some at a time.

    data   bytes, not a memoryview: an exception would keep a view exported
    """

    COLUMNS = ("offset", "timestamp", "key", "value", "sequence", "headers")

    def __init__(self, data: bytes, limit: int) -> None:
        self._pieces = reader.stream(
            data,
            columns=self.COLUMNS,
            control=True,
            check_crcs=False,
            timestamp_unit="int64",
            max_decompressed_bytes=limit,
        )
        self._columns: list[Sequence[Any]] = [()]  # those of Records, of one piece
        self._at = 0

    def take(self, count: int, with_content: bool) -> Iterator[Records]:
        """The next `count` records, with their keys and values or without. An error in any of them is raised before the
        first one."""
        while count:
            if self._at == len(self._columns[0]):
                self._piece, self._at = next(self._pieces), 0
                numbers = [self._piece.column(name) for name in ("offset", "timestamp", "sequence")]
                numbers = [[-1 if one is None else one for one in each] if None in each else each for each in numbers]
                sizes = (_sizes(self._piece, self.COLUMNS.index(name)) for name in ("key", "value"))
                offsets, timestamps, sequences = numbers
                self._columns = [offsets, timestamps, *sizes, sequences, _header_names(self._piece)]
            if with_content and len(self._columns) < len(Records._fields):
                self._columns += map(self._piece.column, ("key", "value"))
            stop = min(self._at + count, len(self._columns[0]))
            if stop > self._at:
                yield Records(*[column[self._at : stop] for column in self._columns])
            count -= stop - self._at
            self._at = stop


def _sizes(piece: RecordColumns, column: int) -> list[int]:
    """The size of each key or value, -1 for null: without the bytes, which `piece.column` would copy."""
    found: list[int] = []
    for chunk in piece._found.chunks:
        validity, borders, _ = chunk.column(column, 0)
        ends = borders.cast("i").tolist()
        sizes: Iterable[int] = map(sub, ends[1:], ends)
        if validity is not None:
            sizes = [size or (validity[row >> 3] >> (row & 7) & 1) - 1 for row, size in enumerate(sizes)]
        found += sizes
    return found


def _header_names(piece: RecordColumns) -> list[str]:
    """The header keys of each record, joined by commas: without the values, which `piece.column` would copy."""
    found: list[str] = []
    for chunk in piece._found.chunks:
        ends = chunk.column(_Decoder.COLUMNS.index("headers"), 0)[1].cast("i").tolist()
        if not ends[-1]:
            found += [""] * len(chunk)
            continue
        key_ends, keys, *_ = chunk.header_buffers()
        blob = bytes(keys or b"")
        names = [blob[a:b].decode() for a, b in pairwise(key_ends.cast("i").tolist())]
        found += [names[a] if b - a == 1 else ",".join(names[a:b]) for a, b in pairwise(ends)]
    return found


def records_of(batch: DumpedBatch, limit: int) -> Iterator[Records]:
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
        yield from list(_Decoder(bytes(raw), limit).take(header.record_count, True))
    except KafkaRecordError as error:
        if not batch.codec:
            yield from _records_before_fault(batch)
        raise relocated(error, position=batch.position, file=batch.source.name) from None


def _records_before_fault(batch: DumpedBatch) -> Iterator[Records]:
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
        columns = (
            wrapped(header.base_offset + delta, 64),
            timestamp,
            max(-1, values["key_length"]),
            max(-1, values["value_length"]),
            -1 if base < 0 else increment_sequence(base, delta),
            ",".join([java_text(value) for name, value in values.items() if name.endswith("].key")]),
            values.get("key"),
            values.get("value"),
        )
        yield Records._make([one] for one in columns)
        at = read.stop
