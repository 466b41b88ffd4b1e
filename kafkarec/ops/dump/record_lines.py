"""The lines of a batch's records

    | offset: 7 CreateTime: 1700000000000 keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: k payload: value

A million lines should take less than a second, so they are formatted from whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX, increment_sequence, wrapped
from kafkarec.format.messages import java_text

from . import control_text
from .batch_lines import DumpedBatch

Decode = Callable[[bytes | None, bytes | None, int], tuple[str | None, str | None]]
Texts = Sequence[str | None]


class RecordTexts(NamedTuple):
    """Some records of one batch in columns. Sizes are strings; null has size "-1".

    headers         each record's header keys, joined by commas; None: no record has any
    keys, values    as text; empty if no line needs them
    raw             (keys, values) as bytes, if a decoder needs them or the batch is a control batch
    """

    offsets: Sequence[int]
    timestamps: Sequence[int]
    key_sizes: Sequence[str]
    value_sizes: Sequence[str]
    headers: Sequence[str] | None
    keys: Texts
    values: Texts
    raw: tuple[Sequence[bytes | None], Sequence[bytes | None]] | None


class NumberTexts(dict[int, str]):
    """A bounded cache of numbers as strings."""

    def __missing__(self, number: int) -> str:
        if len(self) > 1 << 16:
            self.clear()
        text = self[number] = str(number)
        return text


class TruncatedMessageText(NamedTuple):
    """The text that the decoder of an internal topic prints for a message of magic 0 or 1 that ends inside its key or
    value, from its offset and Java's exception message. With other decoders Kafka's tool ends with an exception.

    with_key    whether the decoder reads the key
    """

    texts: Callable[[int, str], tuple[str | None, str | None]]
    with_key: bool


class LineOptions(NamedTuple):
    """The parts of a record's line: metadata, content, the decoder of the content, the text for cut messages."""

    metadata: bool
    content: bool
    decode: Decode | None
    truncated: TruncatedMessageText | None = None


def record_lines(batch: DumpedBatch, rows: RecordTexts, style: LineOptions) -> Iterator[str]:
    """The lines of some records of a magic 2 batch, joined.

    Where Kafka's tool ends with an exception within a line, yields the part before it and raises InvalidRecordError.
    """
    if batch.is_control:
        yield from _control_lines(batch, rows, style)
    elif not style.content:
        yield "".join([f"{head}\n" for head in _heads(batch, rows)]) if style.metadata else "\n" * len(rows.offsets)
    elif style.decode is not None:
        yield from _decoded_lines(batch, rows, style)
    elif not style.metadata:
        pairs = zip(rows.keys, rows.values, strict=True)
        yield "".join([f"{content(key, value, False)}\n" for key, value in pairs])
    elif None in rows.keys or None in rows.values:
        keys, values = _words(" key: ", rows.keys), _words(" payload: ", rows.values)
        columns = zip(_heads(batch, rows), keys, values, strict=True)
        yield "".join([f"{head}{key}{value}\n" for head, key, value in columns])
    else:
        yield _common(batch, rows)


def _words(label: str, texts: Texts) -> list[str]:
    if texts.count(None) == len(texts):
        return [""] * len(texts)
    return ["" if text is None else label + text for text in texts]


def _common(batch: DumpedBatch, rows: RecordTexts) -> str:
    """The lines of records that all have a key and a value, the usual case."""
    kind = batch.timestamp_type
    sequences = _sequences(batch, rows.offsets)
    headers = rows.headers or [""] * len(rows.offsets)
    return "".join(
        [
            f"| offset: {offset} {kind}: {timestamp} keySize: {key_size} valueSize: {value_size} "
            f"sequence: {sequence} headerKeys: [{names}] key: {key} payload: {value}\n"
            for offset, timestamp, key_size, value_size, sequence, names, key, value in zip(
                rows.offsets,
                rows.timestamps,
                rows.key_sizes,
                rows.value_sizes,
                sequences,
                headers,
                rows.keys,
                rows.values,
                strict=True,
            )
        ]
    )


def _heads(batch: DumpedBatch, rows: RecordTexts) -> list[str]:
    kind = batch.timestamp_type
    headers = rows.headers or [""] * len(rows.offsets)
    return [
        f"| offset: {offset} {kind}: {timestamp} keySize: {key_size} valueSize: {value_size} "
        f"sequence: {sequence} headerKeys: [{keys}]"
        for offset, timestamp, key_size, value_size, sequence, keys in zip(
            rows.offsets,
            rows.timestamps,
            rows.key_sizes,
            rows.value_sizes,
            _sequences(batch, rows.offsets),
            headers,
            strict=True,
        )
    ]


def content(key: str | None, value: str | None, metadata: bool) -> str:
    """Key and value of a line, after its metadata or, without metadata, after the bar."""
    words = [f"key: {key}"] if key is not None else []
    if value is not None:
        words.append(f"payload: {value}")
    bar = " " if metadata else "| "
    return bar + " ".join(words) if words else ""


def _decoded_lines(batch: DumpedBatch, rows: RecordTexts, style: LineOptions) -> Iterator[str]:
    assert rows.raw is not None
    assert style.decode is not None
    heads = _heads(batch, rows) if style.metadata else [""] * len(rows.offsets)
    for head, offset, key, value in zip(heads, rows.offsets, *rows.raw, strict=True):
        try:
            texts = style.decode(key, value, offset)
        except KafkaRecordError:
            yield head
            raise
        yield f"{head}{content(*texts, style.metadata)}\n"


def _control_lines(batch: DumpedBatch, rows: RecordTexts, style: LineOptions) -> Iterator[str]:
    if not style.metadata:
        yield "\n" * len(rows.offsets)
        return
    assert rows.raw is not None
    for head, key, value in zip(_heads(batch, rows), *rows.raw, strict=True):
        try:
            text = control_text.control_record_text(key, value)
        except KafkaRecordError:
            yield head
            raise
        yield f"{head}{text}\n"


def _sequences(batch: DumpedBatch, offsets: Sequence[int]) -> Iterable[object]:
    """base sequence + offset delta (an int) of each record; 0 follows 2^31-1."""
    if batch.base_sequence < 0:
        return ["-1"] * len(offsets)
    first, last = min(offsets) - batch.offset, max(offsets) - batch.offset
    if first >= 0 and batch.base_sequence + last <= INT_MAX:
        shift = batch.base_sequence - batch.offset
        return [offset + shift for offset in offsets]
    return [increment_sequence(batch.base_sequence, wrapped(offset - batch.offset, 32)) for offset in offsets]


def as_text(key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
    """Key and value as Kafka's StringDecoder prints them."""
    return tuple(None if data is None else java_text(data) for data in (key, value))  # type: ignore[return-value]
