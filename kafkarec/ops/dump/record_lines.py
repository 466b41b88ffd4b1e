"""The lines of records

    | offset: 7 CreateTime: 1700000000000 keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: k payload: value

A million lines should take about two seconds, so those of a batch are formatted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout
from kafkarec.format.java_integers import INT_MAX, increment_sequence, wrapped
from kafkarec.format.layout import V2Header
from kafkarec.format.messages import java_text

from .batch_lines import DumpedBatch
from .control_text import control_record_text

Blob = bytes | None
Decode = Callable[[Blob, Blob, int], tuple[str | None, str | None]]


class Records(NamedTuple):
    """Some records of one batch in columns. `header_names`: those of a record, joined by commas."""

    offsets: Sequence[int]
    timestamps: Sequence[int | None]
    keys: Sequence[Blob]
    values: Sequence[Blob]
    header_names: Sequence[str]


class LineOptions(NamedTuple):
    """The parts of a record's line: metadata, and content by its decoder (None: UTF-8)."""

    metadata: bool
    content: bool
    decode: Decode | None


def record_lines(batch: DumpedBatch, records: Records, style: LineOptions) -> Iterator[str]:
    """The lines of some records of a magic 2 batch, joined.

    KafkaRecordError, after the lines before it, for a record that its decoder refuses.
    """
    heads = _heads(batch, records) if style.metadata else [""] * len(records.offsets)
    contents = _contents(batch, records, style)
    if isinstance(contents, list):
        yield "".join([f"{head}{text}\n" for head, text in zip(heads, contents, strict=True)])
        return
    lines: list[str] = []
    try:
        for head, text in zip(heads, contents, strict=True):
            lines.append(f"{head}{text}\n")
    except KafkaRecordError:
        yield "".join(lines)
        raise
    yield "".join(lines)


def _heads(batch: DumpedBatch, records: Records) -> list[str]:
    kind = batch.timestamp_type
    sequences = _sequences(batch.header, records.offsets)
    timestamps = records.timestamps
    if None in timestamps:
        timestamps = [-1 if timestamp is None else timestamp for timestamp in timestamps]
    columns = records.offsets, timestamps, _sizes(records.keys), _sizes(records.values)
    return [
        f"| offset: {offset} {kind}: {timestamp} keySize: {key_size} valueSize: {value_size} "
        f"sequence: {sequence} headerKeys: [{names}]"
        for offset, timestamp, key_size, value_size, sequence, names in zip(
            *columns, sequences, records.header_names, strict=True
        )
    ]


def _sizes(blobs: Sequence[Blob]) -> Iterable[int]:
    return [-1 if blob is None else len(blob) for blob in blobs]


def _sequences(header: V2Header, offsets: Sequence[int]) -> Iterable[int]:
    """base sequence + offset delta (an int) of each record; 0 follows 2^31-1."""
    base, shift = header.base_sequence, header.base_sequence - header.base_offset
    if base < 0:
        return [-1] * len(offsets)
    if header.base_offset <= min(offsets) and max(offsets) + shift <= INT_MAX:
        return [offset + shift for offset in offsets]
    return [increment_sequence(base, wrapped(offset - header.base_offset, 32)) for offset in offsets]


def _contents(batch: DumpedBatch, records: Records, style: LineOptions) -> Iterable[str]:
    pairs = zip(records.keys, records.values, strict=True)
    if batch.header.attributes & layout.CONTROL and style.metadata:
        return (control_record_text(key, value) for key, value in pairs)
    if batch.header.attributes & layout.CONTROL or not style.content:
        return [""] * len(records.offsets)
    if style.decode or not style.metadata:
        return (content(key, value, offset, style) for (key, value), offset in zip(pairs, records.offsets, strict=True))
    try:
        return [
            f"{'' if key is None else f' key: {key.decode()}'}{'' if value is None else f' payload: {value.decode()}'}"
            for key, value in pairs
        ]
    except UnicodeDecodeError:
        columns = zip(records.keys, records.values, records.offsets, strict=True)
        return [content(key, value, offset, style) for key, value, offset in columns]


def content(key: Blob, value: Blob, offset: int, style: LineOptions) -> str:
    """Key and value of a line, after its metadata or, without metadata, after the bar."""
    key_text, payload = (style.decode or _as_text)(key, value, offset)
    words = f"{'' if key_text is None else f' key: {key_text}'}{'' if payload is None else f' payload: {payload}'}"
    return f"|{words}" if words and not style.metadata else words


def _as_text(key: Blob, value: Blob, offset: int) -> tuple[str | None, str | None]:
    """As Kafka's StringDecoder."""
    return None if key is None else java_text(key), None if value is None else java_text(value)
