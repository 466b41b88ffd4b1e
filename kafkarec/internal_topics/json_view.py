"""Messages as JSON: the tree that Kafka's JsonConverters create, and the text that Jackson writes for the tree.

Numbers stay numbers (enums too), bytes are base64, uuids Kafka's 22 characters. A tagged field with its default value
is left out. Jackson escapes with upper-case hex digits, does not escape characters from U+007F on, and prints a double
as Double.toString does.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from math import isfinite, isnan
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.format.message_schemas import MessageField, MessageSchema, Struct
from kafkarec.format.messages import MAX_OBJECTS, TAGGED, Cursor, default_of, read_message

from .topics import CONSUMER_MESSAGES, MessagePart


def tree(part: MessagePart, unknown: bool = False) -> dict[str, Any]:
    """A value as Kafka's tools print it, with decoded members of a classic group of protocol type "consumer".

    unknown: includes the tagged fields that are in no schema, which Kafka's tools leave out
    """
    result = fields_tree(part.type.value, part.version, part.fields, unknown)
    if part.type.name == "GroupMetadata" and result["protocolType"] == "consumer":
        left = MAX_OBJECTS  # for all members together
        for member, stored in zip(result["members"], part.fields["members"], strict=True):
            for name, kind in _EMBEDDED.items():
                cursor = Cursor(stored[name], objects=left)
                message = _embedded(kind.value, cursor)
                left = cursor.objects_left
                if message is not None:
                    member[name] = message
    return result


_EMBEDDED = {
    "subscription": CONSUMER_MESSAGES["ConsumerProtocolSubscription"],
    "assignment": CONSUMER_MESSAGES["ConsumerProtocolAssignment"],
}


def _embedded(schema: MessageSchema, cursor: Cursor) -> dict[str, Any] | None:
    """The message of a member of a classic group: int16 version, then the message. None for any other bytes."""
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
        return _double_text(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def _quote(text: str) -> str:
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return '"' + _ESCAPED.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", text) + '"'


_name = lru_cache(maxsize=1024)(_quote)  # field names: only those of the tables occur, again and again


def _double(value: float) -> str:
    text = _double_text(value)
    return text if isfinite(value) else f'"{text}"'


def _double_text(value: float) -> str:
    """As Double.toString, with the shortest digits that give the same number, as from JDK 19 on."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    minus = "-" if sign else ""
    if not isinstance(exponent, int):
        return "NaN" if isnan(value) else f"{minus}Infinity"
    text = "".join(map(str, digits))
    point = len(text) + exponent if value else 1  # 0.DIGITS * 10^point
    if -3 < point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    if 0 < point < 8:
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


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
    """Jackson's text of a tree. The depth is limited by the schema tables, not by the bytes."""
    return _TEXTS[type(node)](node)
