"""Decodes records of internal topics: one at a time, as rows, or as named columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.message_schemas import MessageField
from kafkarec.format.messages import refuse
from kafkarec.tables.records import Record

from .dump_text import struct_tree, value_tree
from .topics import TOPICS, DecodedMessage, Topic, read_framed, read_key, read_value

_OF_EACH_RECORD = ("type", "version", "is_tombstone", "key", "value", "problem")  # attributes of InternalRecord


@dataclass(frozen=True, slots=True)
class InternalRecord:
    """One record of an internal topic.

    type: str | None       OffsetCommit, GroupMetadata, PartitionRecord, ...; None if unknown
    type_id: int | None    its number in the bytes
    version: int | None    the value's version; None for a tombstone
    key, value             the fields as a dict by Kafka's names, in Kafka's order; None if null or not decoded.
                           uuids are Kafka's 22 characters, enums their numbers, bytes are bytes. A field that the
                           version does not have is missing; a tagged field that was not sent has its default;
                           tagged fields that are in no schema are under "_tagged_fields": [(tag, bytes)]
    is_tombstone: bool     the value is null: the key is deleted
    problem: str | None    why `value` or `key` was not decoded
    raw_key, raw_value     the bytes
    """

    topic: str
    type: str | None
    type_id: int | None
    version: int | None
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    is_tombstone: bool
    problem: str | None = None
    raw_key: bytes | None = field(default=None, repr=False)
    raw_value: bytes | None = field(default=None, repr=False)

    def __hash__(self) -> int:
        return hash((self.topic, self.raw_key, self.raw_value))

    def as_json(self) -> dict[str, Any]:
        """`{"key": ..., "value": ...}` for `json.dumps`: the JSON that Kafka's tools print, each part with its type.

        A part that is null or was not decoded is None. Bytes are base64; the members of a classic group of protocol
        type "consumer" are decoded too; a tagged field with its default value is left out, an unknown one is kept.
        """
        kind = TOPICS[self.topic].types.get(self.type_id) if self.type_id is not None else None
        key = value = None
        if kind and kind.key and self.key is not None:
            data = struct_tree(kind.key.struct, kind.key.last, self.key, unknown=True)
            key = {"type": self.type, "data": data}
        if kind and self.value is not None and self.version is not None:
            data = value_tree(DecodedMessage(kind, self.version, self.value), unknown=True)
            value = {"type": self.type, "version": self.version, "data": data}
        return {"key": key, "value": value}


def read(topic: str, key: bytes | None, value: bytes | None, *, errors: str = "keep") -> InternalRecord:
    """Decodes one record of an internal topic.

    topic: a name of `TOPICS`; ValueError for any other name
    errors: for bytes that cannot be decoded, or of a type or version that Kafka 4.4 does not have:
            "keep": they stay bytes, and `.problem` is the reason;
            "raise": InvalidRecordError (reason message_invalid or message_unknown) or LimitExceededError (reason
            message_too_large)
    """
    known = _checked_topic(topic)
    if errors not in ("keep", "raise"):
        raise ValueError(f"errors {errors!r}: one of keep, raise")
    kind = version = problem = None
    key_fields: dict[str, Any] | None = None
    fields: dict[str, Any] | None = None
    try:  # what is decoded before a part that cannot be is kept
        if not known.has_keys:
            if value is not None:
                kind, version, fields = read_framed(known, value)
        elif key is None:
            refuse("the key, which has the record's type, is null", None)
        else:
            kind, _, key_fields = read_key(known, key)
            if value is not None:
                _, version, fields = read_value(kind, value)
    except KafkaRecordError as error:
        if errors == "raise":
            raise
        problem = str(error)
    name, number = (kind.name, kind.id) if kind else (None, None)
    return InternalRecord(topic, name, number, version, key_fields, fields, value is None, problem, key, value)


def _checked_topic(name: str) -> Topic:
    if name not in TOPICS:
        raise ValueError(f"{name!r} is no internal topic; give one of {', '.join(TOPICS)}")
    return TOPICS[name]


def _name_of_topic(records: Any, topic: str | None) -> str:
    """`topic`, by default that of the Log or Segment. ValueError if it is no internal topic, or not known."""
    name = topic or getattr(records, "topic", None)
    if name is None:
        raise ValueError(f"records without the name of their topic: pass topic=, one of {', '.join(TOPICS)}")
    return _checked_topic(name).name


class MessageColumn(NamedTuple):
    """A column of `columns(..., type=...)`, or a field inside of one.

    type: str            the field's type in Kafka's schemas: int32, string, uuid, ..., or the name of a struct; of an
                         array, the type of its elements
    is_array: bool
    versions: str        the versions of the value that have it: "3-4"
    nullable: bool       it may be null in a version that has it
    fields               the fields of a struct
    """

    name: str
    type: str
    is_array: bool
    versions: str
    nullable: bool
    fields: tuple[MessageColumn, ...]

    def __repr__(self) -> str:
        type_text = f"[{self.type}]" if self.is_array else self.type
        return f"<Column {self.name} {type_text}{'?' * self.nullable}, versions {self.versions}>"


def schema(topic: str, type: str) -> tuple[MessageColumn, ...]:
    """The columns of one record type, in addition to offset, timestamp, version, is_tombstone and problem.

    >>> from kafkarec import internal_topics
    >>> [column.name for column in internal_topics.schema("__transaction_state", "TransactionLog")][:3]
    ['key_transactionalId', 'value_producerId', 'value_previousProducerId']
    """
    kind = _checked_topic(topic).type_named(type)
    keys = [_column("key_", each, 0, 0) for each in kind.key.struct.fields] if kind.key else []
    first, last = kind.value.first, kind.value.last
    return (*keys, *(_column("value_", each, first, last) for each in kind.value.struct.fields))


def _column(prefix: str, of: MessageField, oldest: int, newest: int) -> MessageColumn:
    first, last = max(of.first, oldest), newest if of.last is None else of.last
    inner = tuple(_column("", each, first, last) for each in of.struct.fields) if of.struct else ()
    versions = str(first) if first == last else f"{first}-{last}"
    return MessageColumn(prefix + of.name, of.type, of.is_array, versions, of.nullable, inner)


def rows(
    records: Any, topic: str | None = None, *, type: str | None = None, errors: str = "keep"
) -> Iterator[dict[str, Any]]:
    """Yields one dict per record: offset, timestamp (ms), type, version, is_tombstone, key, value, problem.

    records: RecordColumns, any Record objects, or a Log or Segment of `kafkarec.open`, which is streamed. Control
             records are left out
    topic: a name of `TOPICS`; None: the topic of the Log or Segment
    type: only records of this type. Each field of `key` and `value` is then an item: `key_group`, `value_offset`, ...
          (`schema(topic, type)` lists them); None if the version does not have it, and in tombstones
    errors: as in `read`
    """
    topic = _name_of_topic(records, topic)
    names = _row_names(topic, type)
    if hasattr(records, "stream"):
        records = chain.from_iterable(records.stream(columns=["offset", "timestamp", "key", "value"]))
    return _rows(records, topic, type, names, errors)


def _row_names(topic: str, type: str | None) -> list[str]:
    if type is None:
        return ["offset", "timestamp", *_OF_EACH_RECORD]
    of_type = (column.name for column in schema(topic, type))
    return ["offset", "timestamp", "version", "is_tombstone", *of_type, "problem"]


def _rows(
    records: Iterable[Record], topic: str, type: str | None, names: list[str], errors: str
) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.is_control:
            continue
        decoded = read(topic, record.key, record.value, errors=errors)
        if type not in (None, decoded.type):
            continue
        row = {"offset": record.offset, "timestamp": record.timestamp}
        row |= {name: getattr(decoded, name) for name in _OF_EACH_RECORD}
        if type is not None:
            row |= {f"key_{name}": cell for name, cell in (decoded.key or {}).items()}
            row |= {f"value_{name}": cell for name, cell in (decoded.value or {}).items()}
        yield {name: row.get(name) for name in names}


def columns(
    records: Any, topic: str | None = None, *, type: str | None = None, errors: str = "keep"
) -> dict[str, list[Any]]:
    """The items of `rows` as a dict of lists, for `pyarrow.table`, `polars.DataFrame` or `pandas.DataFrame`.

    With `type`, all values of a column have one type. Without, `key` and `value` are dicts of different fields.
    """
    topic = _name_of_topic(records, topic)
    all_rows = list(rows(records, topic, type=type, errors=errors))
    return {name: [row[name] for row in all_rows] for name in _row_names(topic, type)}
