"""The lines of records

    | offset: 7 CreateTime: 1700000000000 keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: k payload: value

A million lines should take about two seconds, so those of a batch are formatted by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout
from kafkarec.format.java_integers import INT_MAX
from kafkarec.format.messages import java_text
from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES

from .batch_lines import DumpedBatch
from .control_text import control_record_text

Blob = bytes | None
Decode = Callable[[Blob, Blob, int], tuple[str | None, str | None]]
Format = tuple[str, tuple[Iterable[object], ...]]
"""A line with %s in it, and for each %s a column."""


class Records(NamedTuple):
    """Some records of one batch in columns, in the order of a line.

    timestamps, sequences   -1 for none
    key_sizes, value_sizes  -1 for null
    header_names            those of a record, joined by commas
    keys, values            empty if no line shows them
    """

    offsets: Sequence[int]
    timestamps: Sequence[int]
    key_sizes: Sequence[int]
    value_sizes: Sequence[int]
    sequences: Sequence[int]
    header_names: Sequence[str]
    keys: Sequence[Blob] = ()
    values: Sequence[Blob] = ()


class LineOptions(NamedTuple):
    """The parts of a record's line: metadata, and content by its decoder (None: UTF-8)."""

    metadata: bool
    content: bool
    decode: Decode | None


class DumpOptions(NamedTuple):
    """kafka-dump-log's flags, and `limit`.

    decode      decoder of keys and values in place of UTF-8 text; implies print_data
    max_bytes   reads only batches that end within this many bytes
    limit       max decompressed bytes of a batch
    """

    print_data: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_index: bool = False
    index_sanity: bool = False
    max_message_size: int = 5 << 20
    max_bytes: int = INT_MAX
    decode: Decode | None = None
    limit: int = MAX_DECOMPRESSED_BYTES

    @property
    def style(self) -> LineOptions | None:
        """The parts of a record's line; None: records are not printed."""
        content = self.print_data or self.decode is not None
        return LineOptions(not self.skip_metadata, content, self.decode) if content or self.deep else None


def record_lines(batch: DumpedBatch, records: Records, style: LineOptions) -> Iterator[str]:
    """The lines of some records of a magic 2 batch, joined.

    KafkaRecordError, after the lines before it, for a record that its decoder refuses.
    """
    line, columns = _contents(batch, records, style)
    if style.metadata:
        line = f"| offset: %s {batch.timestamp_type}: %s keySize: %s valueSize: %s sequence: %s headerKeys: [%s]{line}"
        columns = (*records[:-2], *columns)
    cells: list[object] = []
    refused = None
    try:
        cells.extend(chain.from_iterable(zip(*columns, strict=True)))
    except KafkaRecordError as error:
        refused = error
    yield f"{line}\n" * (len(cells) // len(columns)) % tuple(cells)
    if refused:
        raise refused


def _contents(batch: DumpedBatch, records: Records, style: LineOptions) -> Format:
    is_control = batch.header.attributes & layout.CONTROL
    if is_control and style.metadata:
        return "%s", (map(control_record_text, records.keys, records.values),)
    if is_control or not style.content:
        return "%s", ([""] * len(records.offsets),)
    return contents(records.keys, records.values, records.offsets, style)


def contents(keys: Sequence[Blob], values: Sequence[Blob], offsets: Sequence[int], style: LineOptions) -> Format:
    """Keys and values of lines, after their metadata or, without metadata, after a bar."""
    columns: tuple[Iterable[object], ...]
    if style.decode:
        decoded = map(style.decode, keys, values, offsets)
        words = (
            f"{'' if key is None else f' key: {key}'}{'' if value is None else f' payload: {value}'}"
            for key, value in decoded
        )
        line, columns = "%s", (words,)
    else:
        (key_format, key_texts), (value_format, value_texts) = _texts(" key: ", keys), _texts(" payload: ", values)
        line, columns = key_format + value_format, (key_texts, value_texts)
    if style.metadata:
        return line, columns
    if ":" in line:  # all have a key, or all have a value
        return f"|{line}", columns
    return "%s", ((f"|{text}" if text else "" for text in map(line.__mod__, zip(*columns, strict=True))),)


def _texts(label: str, blobs: Sequence[Blob]) -> tuple[str, Sequence[str | None]]:
    """As Kafka's StringDecoder, each after a label; nothing for null."""
    try:
        texts = [None if blob is None else blob.decode() for blob in blobs]
    except UnicodeDecodeError:
        texts = [None if blob is None else java_text(blob) for blob in blobs]
    if all(texts):
        return f"{label}%s", texts
    return "%s", ["" if text is None else label + text for text in texts]
