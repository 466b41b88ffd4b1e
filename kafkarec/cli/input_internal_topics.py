"""Converts objects of internal topics (`__consumer_offsets`, ...), as `cat` prints them, to bytes for `build`.

    {"type": "OffsetCommit", "data": {"group": "g", ...}}                    a key
    {"type": "OffsetCommit", "version": 4, "data": {"offset": 10, ...}}      a value

The bytes are parsed again and compared; an object that differs is refused. The members of a classic group do not have
the version of their subscription and assignment: the newest version that yields the same object is used.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.format.message_schemas import MessageField, MessageSchema, Struct
from kafkarec.format.message_writer import write_message
from kafkarec.format.messages import TAGGED, Cursor, default_of, read_message
from kafkarec.internal_topics import json_view
from kafkarec.internal_topics.topics import (
    CONSUMER_MESSAGES,
    TOPICS,
    MessagePart,
    Topic,
    read_framed,
    read_key,
    read_value,
    write_key,
    write_value,
)

_EMBEDDED = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def is_internal(topic: Any) -> bool:
    return topic in TOPICS


def message_bytes(topic: str, column: str, node: Mapping[str, Any]) -> bytes:
    """Return the bytes of a key or value of an internal topic. ValueError names invalid fields, not values."""
    known = TOPICS[topic]
    write: Callable[[Topic, Mapping[str, Any]], bytes] = _key if column == "key" else _value
    try:
        return write(known, node)
    except (KeyError, TypeError, AttributeError, OverflowError, KafkaRecordError):
        raise ValueError("it is not an object as kafkarec cat prints them") from None


def _key(topic: Topic, node: Mapping[str, Any]) -> bytes:
    kind = topic.type_named(node["type"])
    if kind.key is None:
        raise ValueError(f"{kind.name} has no key")
    data = write_key(kind, _fields(kind.key.struct, kind.key.last, node["data"]))
    _demand_same(json_view.fields_tree(kind.key, kind.key.last, read_key(topic, data).fields, unknown=True), node)
    return data


def _value(topic: Topic, node: Mapping[str, Any]) -> bytes:
    kind, version = topic.type_named(node["type"]), node["version"]
    shown = node["data"]
    if kind.name == "GroupMetadata":
        shown = {**shown, "members": [_member_with_bytes(member) for member in shown["members"]]}
    data = write_value(topic, kind, version, _fields(kind.value.struct, version, shown))
    part: MessagePart = read_value(kind, data) if topic.has_keys else read_framed(topic, data)
    _demand_same(json_view.tree(part, unknown=True), node)
    return data


def _demand_same(tree: Mapping[str, Any], node: Mapping[str, Any]) -> None:
    if tree != node["data"]:
        raise ValueError("its fields cannot be encoded unchanged; kafkarec cat --raw keeps the bytes")


def _member_with_bytes(member: Mapping[str, Any]) -> dict[str, Any]:
    """Return a member with its subscription and assignment as bytes."""
    packed = {
        name: base64.b64encode(_encode_embedded(CONSUMER_MESSAGES[schema].value, member[name])).decode()
        for name, schema in _EMBEDDED.items()
        if isinstance(member.get(name), dict)
    }
    return {**member, **packed}


def _encode_embedded(schema: MessageSchema, node: Mapping[str, Any]) -> bytes:
    for version in range(schema.last, schema.first - 1, -1):
        try:
            body = write_message(schema, version, _fields(schema.struct, version, node))
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        if json_view.fields_tree(schema, version, read_message(schema, version, Cursor(body))) == node:
            return version.to_bytes(2, "big") + body
    raise ValueError(f"no version of {schema.name} has these fields")


# ---- JSON objects to fields, the inverse of json_view


def _fields(of: Struct, version: int, node: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in of.fields:
        if not field.is_in(version):
            continue
        if field.name in node:
            out[field.name] = _field(field, version, node[field.name])
        elif field.tag is None:
            raise ValueError(f"the field {field.name} of {of.name} is missing")
        else:
            out[field.name] = default_of(field, version)
    if TAGGED in node:
        out[TAGGED] = [(each["tag"], base64.b64decode(each["data"], validate=True)) for each in node[TAGGED]]
    if unknown := sorted(node.keys() - out.keys()):
        known = ", ".join(field.name for field in of.fields if field.is_in(version))
        raise ValueError(f"{of.name} has the fields {known} in version {version}, found {len(unknown)} other")
    return out


def _field(field: MessageField, version: int, node: Any) -> Any:
    if node is None:
        return None
    return [_one(field, version, each) for each in node] if field.is_array else _one(field, version, node)


def _one(field: MessageField, version: int, node: Any) -> Any:
    if field.struct:
        return _fields(field.struct, version, node)
    if field.type == "bytes":
        return base64.b64decode(node, validate=True)
    return _FLOATS.get(node, node) if field.type == "float64" else node
