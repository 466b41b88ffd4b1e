"""Messages as JSON: the tree that Kafka's JsonConverters make of one, and the text that Jackson makes of the tree.

Numbers stay numbers (enums too), bytes are base64, uuids Kafka's 22 characters. A tagged field is left out where it
has its default. Jackson escapes with upper-case hex digits, leaves everything from U+007F on as it is, and prints a
double as Java 17's Double.toString does.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any

from kafkarec.errors import KafkaRecordError

from . import java_double
from .protocol import MOST_OBJECTS, TAGGED, Cursor, default_of, read_message
from .schema_notation import MessageField, MessageSchema, Struct
from .topics import CONSUMER_MESSAGES, MessagePart


def tree(part: MessagePart, unknown: bool = False) -> dict[str, Any]:
    """A value as Kafka's tools show it: a classic group's members are opened where they speak the consumer protocol.

    unknown: also the tagged fields that no schema knows, which Kafka's tools leave out
    """
    found = fields_tree(part.type.value, part.version, part.fields, unknown)
    if part.type.name == "GroupMetadata" and found["protocolType"] == "consumer":
        left = MOST_OBJECTS  # for all members together
        for member, stored in zip(found["members"], part.fields["members"], strict=True):
            for name, kind in _EMBEDDED.items():
                cursor = Cursor(stored[name])
                cursor.objects_left = left
                opened = _embedded(kind.value, cursor)
                left = cursor.objects_left
                if opened is not None:
                    member[name] = opened
    return found


_EMBEDDED = {
    "subscription": CONSUMER_MESSAGES["ConsumerProtocolSubscription"],
    "assignment": CONSUMER_MESSAGES["ConsumerProtocolAssignment"],
}


def _embedded(schema: MessageSchema, cursor: Cursor) -> dict[str, Any] | None:
    """What a member of a classic group sent: int16 version, then the message. None for bytes that are not that."""
    try:
        version = cursor.int16()
        return fields_tree(schema, version, read_message(schema, version, cursor))
    except KafkaRecordError:
        return None


def fields_tree(schema: MessageSchema, version: int, fields: dict[str, Any], unknown: bool = False) -> dict[str, Any]:
    """The fields of one message, for `text` or `json.dumps`."""
    return _struct(schema.struct, version, fields, unknown)


def _struct(of: Struct, version: int, fields: dict[str, Any], unknown: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in of.fields:
        if not field.is_in(version):
            continue
        value = fields[field.name]
        if field.tag is None or value != default_of(field, version):
            out[field.name] = _value(field, version, value, unknown)
    if unknown and TAGGED in fields:
        out[TAGGED] = [{"tag": tag, "data": base64.b64encode(blob).decode()} for tag, blob in fields[TAGGED]]
    return out


def _value(field: MessageField, version: int, value: Any, unknown: bool) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_single(field, version, each, unknown) for each in value]
    return _single(field, version, value, unknown)


def _single(field: MessageField, version: int, value: Any, unknown: bool) -> Any:
    if field.struct:
        return _struct(field.struct, version, value, unknown)
    if isinstance(value, float) and not isfinite(value):
        return java_double.shown(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def _quote(text: str) -> str:
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}", text) + '"'


_name = lru_cache(maxsize=1024)(_quote)  # the names of fields: those of the tables, over and over


def _double(value: float) -> str:
    shown = java_double.shown(value)
    return shown if isfinite(value) else f'"{shown}"'


def _object(node: dict[str, Any]) -> str:
    return "{" + ",".join([f"{_name(name)}:{text(each)}" for name, each in node.items()]) + "}"


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda flag: "true" if flag else "false",
    int: str,
    float: _double,
    str: _quote,
    list: lambda nodes: "[" + ",".join([text(node) for node in nodes]) + "]",
    dict: _object,
}


def text(node: Any) -> str:
    """Jackson's text of a tree. Its depth is that of the tables, whatever the bytes were."""
    return _TEXTS[type(node)](node)
