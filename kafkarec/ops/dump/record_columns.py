"""Records of magic 2 in columns: decoded as whole batches, or one at a time if a batch is damaged

Kafka's tool reads an uncompressed batch record by record and prints those before an unreadable one; of a compressed
batch it prints all or none (DefaultRecordBatch.iterator). The decoder returns whole batches only, so an uncompressed
batch that it refuses is read again here.


    record: length varint | attributes int8 | timestamp delta varlong | offset delta varint
            | key | value | header count varint | per header: key, value
    key, value: length varint (below 0: null) | bytes
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import sub
from typing import NoReturn

from kafkarec._core import Chunk
from kafkarec.damage import relocated
from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import BATCH_MAGICS, LATEST_MAGIC, LEAST_SIZES, V2_AT
from kafkarec.format.messages import java_text
from kafkarec.format.varints import VARINT_BYTES, VARLONG_BYTES, BadVarint, read_signed
from kafkarec.read import reader
from kafkarec.sources.files import ByteSource
from kafkarec.tables.records import RecordColumns

from .batch_lines import DumpedBatch
from .batch_reader import refuse
from .record_lines import NumberTexts, RecordTexts

_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_NUMBERS = NumberTexts()


class RecordReader:
    """The records of consecutive batches, some at a time.

    data    bytes, not a memoryview: an exception would keep a view exported
    texts   whether to return keys and values as text
    raw     whether to return them as bytes
    """

    def __init__(self, data: bytes, limit: int, texts: bool, raw: bool) -> None:
        self._pieces = reader.stream(
            data,
            columns=_COLUMNS,
            control=True,
            check_crcs=False,
            timestamp_unit="int64",
            max_decompressed_bytes=limit,
        )
        self._texts, self._raw = texts, raw
        self._rows_left = RecordTexts((), (), (), (), None, (), (), None)
        self._at = 0

    def take(self, count: int) -> Iterator[RecordTexts]:
        """The next `count` records. An error in any of them is raised before the first one."""
        while count:
            if self._at == len(self._rows_left.offsets):
                self._rows_left, self._at = self._rows(next(self._pieces)), 0
            some = min(count, len(self._rows_left.offsets) - self._at)
            if some:
                yield _cut(self._rows_left, self._at, self._at + some)
            self._at += some
            count -= some

    def _rows(self, records: RecordColumns) -> RecordTexts:
        timestamps = records.column("timestamp")
        if None in timestamps:
            timestamps = [-1 if value is None else value for value in timestamps]
        keys, values = _BinaryColumn(records, "key"), _BinaryColumn(records, "value")
        return RecordTexts(
            records.column("offset"),
            timestamps,
            keys.sizes(),
            values.sizes(),
            _header_names(records),
            keys.texts() if self._texts else (),
            values.texts() if self._texts else (),
            (keys.bytes(), values.bytes()) if self._raw else None,
        )


def _cut(rows: RecordTexts, start: int, stop: int) -> RecordTexts:
    if start == 0 and stop == len(rows.offsets):
        return rows
    return RecordTexts(
        rows.offsets[start:stop],
        rows.timestamps[start:stop],
        rows.key_sizes[start:stop],
        rows.value_sizes[start:stop],
        None if rows.headers is None else rows.headers[start:stop],
        rows.keys[start:stop],
        rows.values[start:stop],
        None if rows.raw is None else (rows.raw[0][start:stop], rows.raw[1][start:stop]),
    )


def _header_names(records: RecordColumns) -> list[str] | None:
    """Each record's header keys, joined by commas; None if there are no headers."""
    index = _COLUMNS.index("headers")
    found: list[str] = []
    for chunk, start, stop in records._pieces:
        _, lists, _ = chunk.column(index, 0)
        ends = lists.cast("i")[start : stop + 1].tolist()
        key_offsets, key_data, _, _, _ = chunk.headers()
        borders = key_offsets.cast("i")[ends[0] : ends[-1] + 1].tolist()
        blob = bytes(key_data or b"")
        keys = [blob[a:b].decode() for a, b in pairwise(borders)]
        first = ends[0]
        found += [keys[a - first] if b - a == 1 else ",".join(keys[a - first : b - first]) for a, b in pairwise(ends)]
    return found if any(found) else None


def _part(chunk: Chunk, column: int, start: int, stop: int) -> tuple[list[int], bytes, list[int]]:
    """(offsets of the values in the bytes, the bytes, rows that are null)."""
    validity, borders, data = chunk.column(column, 0)
    ends = borders.cast("i")[start : stop + 1].tolist()
    blob = b"" if data is None else bytes(data[ends[0] : ends[-1]])
    if ends[0]:
        ends = [end - ends[0] for end in ends]
    nulls: list[int] = []
    if validity is not None:
        nulls = [row - start for row in range(start, stop) if not validity[row >> 3] >> (row & 7) & 1]
    return ends, blob, nulls


class _BinaryColumn:
    """One binary column of a piece, as sizes, text or bytes."""

    def __init__(self, records: RecordColumns, name: str) -> None:
        index = _COLUMNS.index(name)
        self._parts = [_part(chunk, index, start, stop) for chunk, start, stop in records._pieces]

    def sizes(self) -> list[str]:
        found: list[str] = []
        for ends, _, nulls in self._parts:
            sizes = list(map(_NUMBERS.__getitem__, map(sub, ends[1:], ends)))
            for row in nulls:
                sizes[row] = "-1"
            found += sizes
        return found

    def texts(self) -> list[str | None]:
        found: list[str | None] = []
        for ends, blob, nulls in self._parts:
            texts: list[str | None]
            if blob.isascii():
                whole = blob.decode("ascii")
                stops = ends[1:]
                texts = [whole[a:b] for a, b in zip(ends[:-1], stops, strict=True)]  # faster than pairwise
            else:
                try:
                    texts = [blob[a:b].decode() for a, b in pairwise(ends)]
                except UnicodeDecodeError:
                    texts = [java_text(blob[a:b]) for a, b in pairwise(ends)]
            for row in nulls:
                texts[row] = None
            found += texts
        return found

    def bytes(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        for ends, blob, nulls in self._parts:
            blobs: list[bytes | None] = [blob[a:b] for a, b in pairwise(ends)]
            for row in nulls:
                blobs[row] = None
            found += blobs
        return found


class _Cursor:
    """A read position in the payload of an uncompressed batch."""

    def __init__(self, source: ByteSource, batch: DumpedBatch) -> None:
        self.source, self.batch = source, batch
        self.data = batch.raw
        self.at = LEAST_SIZES[min(batch.magic, LATEST_MAGIC)]
        self.record = 0

    def refuse(self, reason: str, **sides: int) -> NoReturn:
        place = {"offset": self.batch.offset, "record": self.record}
        refuse(reason, self.source, self.batch.position, "", **place, **sides)

    def varint(self, longest: int = VARINT_BYTES) -> int:
        """ByteUtils.readVarint (longest 5) and readVarlong (10): excess bits are dropped."""
        try:
            value, self.at = read_signed(self.data, self.at, len(self.data), longest)
        except BadVarint as bad:
            self.refuse("records_missing" if bad.cut else "varint_too_long")
        return value

    def sized(self, reason: str, null: bool = True) -> bytes | None:
        """Reads a length and its bytes. A field may end after its record but not after the batch, as in Kafka."""
        length = self.varint()
        if length < 0 and null:
            return None
        if length < 0 or length > len(self.data) - self.at:
            self.refuse(reason, expected=len(self.data) - self.at, found=length)
        start = self.at
        self.at += length
        return bytes(self.data[start : self.at])


def one_by_one(source: ByteSource, batch: DumpedBatch) -> Iterator[RecordTexts]:
    """The records of an uncompressed batch as Kafka's iterator returns them, up to the one that it refuses.

    The last record is refused if bytes follow it.
    """
    cursor = _Cursor(source, batch)
    if batch.record_count < 0:
        cursor.refuse("record_count_negative", expected=0, found=batch.record_count)
    for record in range(batch.record_count):
        cursor.record = record
        row = _one(cursor)
        left = len(cursor.data) - cursor.at
        if record == batch.record_count - 1 and left:
            cursor.refuse("records_left_over", expected=batch.record_count, found=left)
        yield row


def _one(cursor: _Cursor) -> RecordTexts:
    batch, data = cursor.batch, cursor.data
    length = cursor.varint()
    start = cursor.at
    if length > len(data) - start:
        cursor.refuse("record_length_invalid", expected=len(data) - start, found=length)
    cursor.at += 1  # attributes, without a meaning yet
    if start == len(data):
        cursor.refuse("records_missing")
    timestamp = wrapped(batch.base_timestamp + cursor.varint(VARLONG_BYTES), 64)
    if batch.timestamp_type == "LogAppendTime":
        timestamp = batch.max_timestamp
    offset = wrapped(batch.offset + cursor.varint(), 64)
    key, value = cursor.sized("key_length_invalid"), cursor.sized("value_length_invalid")
    count = cursor.varint()
    if not 0 <= count <= len(data) - cursor.at:
        cursor.refuse("header_count_invalid", expected=len(data) - cursor.at, found=count)
    names = []
    for _ in range(count):
        names.append(java_text(cursor.sized("header_key_invalid", null=False) or b""))
        cursor.sized("header_value_invalid")
    if cursor.at - start != length:
        cursor.refuse("record_structure_invalid", expected=length, found=cursor.at - start)
    sizes = (str(-1 if blob is None else len(blob)) for blob in (key, value))
    return RecordTexts(
        (offset,),
        (timestamp,),
        (next(sizes),),
        (next(sizes),),
        (",".join(names),),
        (None if key is None else java_text(key),),
        (None if value is None else java_text(value),),
        ((key,), (value,)),
    )


def records_of(source: ByteSource, batch: DumpedBatch, limit: int) -> Iterator[RecordTexts]:
    """The records of one batch that the decoder refused, or that Kafka's tool reads differently."""
    if batch.record_count < 0:
        refuse(
            "record_count_negative", source, batch.position, offset=batch.offset, expected=0, found=batch.record_count
        )
    if batch.codec == 0:
        yield from one_by_one(source, batch)
        return
    raw = bytearray(batch.raw)
    if batch.magic not in BATCH_MAGICS:
        raw[V2_AT.magic] = LATEST_MAGIC  # as which Kafka reads later ones; the checksum does not cover the magic
    try:
        yield from RecordReader(bytes(raw), limit, texts=True, raw=True).take(batch.record_count)
    except KafkaRecordError as fault:
        raise relocated(fault, position=batch.position, file=source.name) from None


def whole_batch(source: ByteSource, batch: DumpedBatch, limit: int) -> Iterator[RecordTexts]:
    """The records of one batch without keys and values."""
    if batch.magic in BATCH_MAGICS and batch.record_count > 0:
        try:
            yield from RecordReader(bytes(batch.raw), limit, texts=False, raw=False).take(batch.record_count)
        except KafkaRecordError:
            pass
        else:
            return
    yield from records_of(source, batch, limit)
