"""Messages as Kafka prints them.

JSON: the tree that Kafka's JsonConverters create, and the text that Jackson writes for the tree. Numbers stay numbers
(enums too), bytes are base64, uuids Kafka's 22 characters. A tagged field with its default value is left out. Jackson
escapes with upper-case hex digits, does not escape characters from U+007F on, and prints a double as Double.toString
does.

Records of `__remote_log_metadata`: the `toString` of its Java objects (KIP-405). The constructors of these objects
refuse some records that can be read. The same checks are made here, in the same order and with the same messages.

The key and payload texts of kafka-dump-log's decoder flags, as Kafka 4.4's DumpLogSegments prints them:

    key, payload = DECODERS["--offsets-decoder"](key, value, offset)

Both are texts or None; None is not printed. A tombstone's payload is `<DELETE>`. For bytes that Kafka's decoder refuses
the text is the line that Kafka prints, with the text of its exception. A coordinator's record without a key ends
Kafka's tool with an exception; here it raises MissingKey.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from math import isfinite, isnan
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from kafkarec.errors import KafkaRecordError, LimitExceededError
from kafkarec.format.message_schemas import MessageField, MessageStruct
from kafkarec.format.messages import MAX_OBJECTS, TAGGED, Cursor, MessageError, default_of, read_message, refuse

from .topics import CONSUMER_MESSAGES, TOPICS, DecodedMessage, Topic, UnknownMessage, read_framed, read_key, read_value


def value_tree(part: DecodedMessage, unknown: bool = False) -> dict[str, Any]:
    """A value as Kafka's tools print it, with decoded members of a classic group of protocol type "consumer".

    unknown: includes the tagged fields that are in no schema, which Kafka's tools leave out
    """
    result = struct_tree(part.type.value.struct, part.version, part.fields, unknown)
    if part.type.name == "GroupMetadata" and result["protocolType"] == "consumer":
        left = MAX_OBJECTS  # for all members together
        for member, stored in zip(result["members"], part.fields["members"], strict=True):
            for name, kind in _EMBEDDED.items():
                cursor = Cursor(stored[name], objects=left)
                with suppress(KafkaRecordError):  # other bytes than int16 version, then the message, stay bytes
                    version = cursor.int16()
                    message = read_message(kind.value, version, cursor)
                    member[name] = struct_tree(kind.value.struct, version, message)
                left = cursor.objects_left
    return result


_EMBEDDED = {
    "subscription": CONSUMER_MESSAGES["ConsumerProtocolSubscription"],
    "assignment": CONSUMER_MESSAGES["ConsumerProtocolAssignment"],
}


def struct_tree(of: MessageStruct, version: int, fields: dict[str, Any], unknown: bool = False) -> dict[str, Any]:
    """The fields of a message or of a struct in it, for `json_text` or `json.dumps`."""
    out: dict[str, Any] = {}
    for field in of.fields:
        if not field.is_in(version):
            continue
        value = fields[field.name]
        if field.tag is not None and value == default_of(field, version):
            continue
        if field.is_array and value is not None:
            out[field.name] = [_field_tree(field, version, each, unknown) for each in value]
        else:
            out[field.name] = _field_tree(field, version, value, unknown)
    if unknown and TAGGED in fields:
        out[TAGGED] = [{"tag": tag, "data": base64.b64encode(blob).decode()} for tag, blob in fields[TAGGED]]
    return out


def _field_tree(field: MessageField, version: int, value: Any, unknown: bool) -> Any:
    if value is None:
        return None
    if field.struct:
        return struct_tree(field.struct, version, value, unknown)
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


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda flag: "true" if flag else "false",
    int: str,
    float: lambda number: _double_text(number) if isfinite(number) else f'"{_double_text(number)}"',
    str: _quote,
    list: lambda nodes: "[" + ",".join([json_text(node) for node in nodes]) + "]",
    dict: lambda node: "{" + ",".join([f"{_name(name)}:{json_text(each)}" for name, each in node.items()]) + "}",
}


def json_text(node: Any) -> str:
    """Jackson's text of a tree. The depth is limited by the schema tables, not by the bytes."""
    return _TEXTS[type(node)](node)


_SEGMENT_STATES: tuple[str, ...] = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: tuple[str, ...] = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)


_NULL_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)


def _demand(holds: bool, message: str) -> None:
    if not holds:
        refuse(message, message)


def _check_epochs(fields: dict[str, Any]) -> None:
    _demand(bool(fields["segmentLeaderEpochs"]), "segmentLeaderEpochs can not be null or empty")


def _check_offsets(fields: dict[str, Any]) -> None:
    start, end = fields["startOffset"], fields["endOffset"]
    _demand(start >= 0, f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    _demand(
        end >= start,
        f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}",
    )


def _state_name(fields: dict[str, Any]) -> str:
    number: int | None = fields.get("remotePartitionDeleteState")
    states, message = _PARTITION_STATES, None
    if number is None:
        number = int(fields["remoteLogSegmentState"])
        states, message = _SEGMENT_STATES, "state can not be null"
    if not 0 <= number < len(states):
        refuse(message or "a state is not known", message)
    return states[number]


def _partition_text(fields: dict[str, Any]) -> str:
    topic = fields["topicIdPartition"]
    return f"{topic['id']}:{topic['name']}-{topic['partition']}"


def _epochs_text(fields: dict[str, Any]) -> str:
    """The text of a sorted map, with the last entry of each epoch."""
    last = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    return "{" + ", ".join(f"{epoch}={last[epoch]}" for epoch in sorted(last)) + "}"


# Members whose text is not that of the field of the same name.
_MEMBER_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "remoteLogSegmentId": lambda fields: (
        f"RemoteLogSegmentId{{topicIdPartition={_partition_text(fields['remoteLogSegmentId'])}, "
        f"id={fields['remoteLogSegmentId']['id']}}}"
    ),
    "topicPartition": _partition_text,
    "segmentLeaderEpochs": _epochs_text,
    "customMetadata": lambda fields: (
        "Optional.empty"
        if fields["customMetadata"] is None
        else f"Optional[CustomMetadata{{{len(fields['customMetadata'])} bytes}}]"
    ),
    "state": _state_name,
    "txnIdxEmpty": lambda fields: str(fields["txnIndexEmpty"]).lower(),
}
# Java's class -> the checks of its constructor, and its members in the order of its text.
_MEMBERS: dict[str, tuple[tuple[Callable[[dict[str, Any]], object], ...], str]] = {
    "RemoteLogSegmentMetadata": (
        (_check_offsets, _check_epochs),
        "remoteLogSegmentId startOffset endOffset brokerId maxTimestampMs eventTimestampMs segmentLeaderEpochs "
        "segmentSizeInBytes customMetadata state txnIdxEmpty",
    ),
    "RemoteLogSegmentMetadataUpdate": (
        (_state_name,),
        "remoteLogSegmentId customMetadata state eventTimestampMs brokerId",
    ),
    "RemotePartitionDeleteMetadata": ((_state_name,), "topicPartition state eventTimestampMs brokerId"),
    "RemoteLogSegmentMetadataSnapshot": (
        (_state_name, _check_epochs),
        "segmentId startOffset endOffset maxTimestampMs segmentLeaderEpochs segmentSizeInBytes customMetadata state "
        "txnIdxEmpty",
    ),
}


Texts = tuple[str | None, str | None]
Decoder = Callable[[bytes | None, bytes | None, int], Texts]


class MissingKey(MessageError):
    """A coordinator's record without a key; the message is that of the exception that ends Kafka's tool."""


def _kafka_message(error: KafkaRecordError) -> str:
    """The text of `e.getMessage()` in Kafka; this library's own text where Kafka would run out of memory."""
    if isinstance(error, LimitExceededError):
        return str(error)
    return str(getattr(error, "kafka", None) or "null")


def _coordinator_decoder(topic: Topic) -> Decoder:
    def texts(key: bytes | None, value: bytes | None, offset: int) -> Texts:
        if key is None:
            raise MissingKey(
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)",
                reason="message_invalid",
            )
        try:
            kind = read_key(topic, key)
            part = None if value is None else read_value(kind.type, value)
        except UnknownMessage as error:
            if error.kafka is None:  # an unknown record type; for an unknown version there is a text
                number = int.from_bytes(key[:2], "big", signed=True)
                return f"Unknown record type {number} at offset {offset}, skipping.", None
            return f"Error at offset {offset}, skipping. {error.kafka}", None
        except KafkaRecordError as error:
            return f"Error at offset {offset}, skipping. {_kafka_message(error)}", None
        schema = kind.type.key
        assert schema is not None
        data = struct_tree(schema.struct, schema.last, kind.fields)
        key_text = json_text({"type": str(kind.type.id), "data": data})
        if part is None:
            return key_text, "<DELETE>"
        return key_text, json_text({"version": str(part.version), "data": value_tree(part)})

    return texts


def _cluster_metadata_texts(key: bytes | None, value: bytes | None, offset: int) -> Texts:
    try:
        part = read_framed(TOPICS["__cluster_metadata"], value or b"", any_version=True)
    except KafkaRecordError as error:
        return None, f"Error at {offset}, skipping. {_kafka_message(error)}"
    tree = {"type": part.type.constant, "version": part.version, "data": value_tree(part)}
    return None, json_text(tree)


def _remote_log_metadata_texts(key: bytes | None, value: bytes | None, offset: int) -> Texts:
    try:
        if value is None:
            refuse("the value is null", _NULL_VALUE)
        part = read_framed(TOPICS["__remote_log_metadata"], value, any_version=True)
        of = part.type.name.removesuffix("Record")
        checks, members = _MEMBERS[of]
        for check in checks:
            check(part.fields)
        texts = (f"{name}={_MEMBER_TEXTS.get(name, itemgetter(name))(part.fields)}" for name in members.split())
        return None, f"{of}{{{', '.join(texts)}}}"
    except KafkaRecordError as error:
        return None, f"Error at offset {offset}, skipping. {_kafka_message(error)}"


DECODERS: Mapping[str, Decoder] = MappingProxyType(
    {
        "--offsets-decoder": _coordinator_decoder(TOPICS["__consumer_offsets"]),
        "--transaction-log-decoder": _coordinator_decoder(TOPICS["__transaction_state"]),
        "--cluster-metadata-decoder": _cluster_metadata_texts,
        "--remote-log-metadata-decoder": _remote_log_metadata_texts,
        "--share-group-state-decoder": _coordinator_decoder(TOPICS["__share_group_state"]),
    }
)
