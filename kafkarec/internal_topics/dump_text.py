"""The key and payload texts of kafka-dump-log's decoder flags, as Kafka 4.4's DumpLogSegments prints them.

    key, payload = DECODERS["--offsets-decoder"](key, value, offset)

Both are texts or None; None is not printed. A tombstone's payload is `<DELETE>`. For bytes that Kafka's decoder refuses
the text is the line that Kafka prints, with the text of its exception. A coordinator's record without a key ends
Kafka's tool with an exception; here it raises MissingKey.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kafkarec.errors import KafkaRecordError, LimitExceededError
from kafkarec.format.messages import MessageError

from . import json_view, remote_text
from .topics import TOPICS, Topic, UnknownMessage, read_framed, read_key, read_value

Texts = tuple[str | None, str | None]
Decoder = Callable[[bytes | None, bytes | None, int], Texts]


class MissingKey(MessageError):
    """A coordinator's record without a key; the message is that of the exception that ends Kafka's tool."""


def _reason(error: KafkaRecordError) -> str:
    """The text of `e.getMessage()` in Kafka; this library's own text where Kafka would run out of memory."""
    if isinstance(error, LimitExceededError):
        return str(error)
    return str(getattr(error, "kafka", None) or "null")


def _coordinator(topic: Topic) -> Decoder:
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
            return f"Error at offset {offset}, skipping. {_reason(error)}", None
        schema = kind.type.key
        assert schema is not None
        data = json_view.fields_tree(schema, schema.last, kind.fields)
        key_text = json_view.text({"type": str(kind.type.id), "data": data})
        if part is None:
            return key_text, "<DELETE>"
        return key_text, json_view.text({"version": str(part.version), "data": json_view.tree(part)})

    return texts


def _cluster_metadata(key: bytes | None, value: bytes | None, offset: int) -> Texts:
    try:
        part = read_framed(TOPICS["__cluster_metadata"], value or b"", any_version=True)
    except KafkaRecordError as error:
        return None, f"Error at {offset}, skipping. {_reason(error)}"
    tree = {"type": part.type.constant, "version": part.version, "data": json_view.tree(part)}
    return None, json_view.text(tree)


def _remote_log_metadata(key: bytes | None, value: bytes | None, offset: int) -> Texts:
    try:
        return None, remote_text.to_string(value)
    except KafkaRecordError as error:
        return None, f"Error at offset {offset}, skipping. {_reason(error)}"


DECODERS: Mapping[str, Decoder] = MappingProxyType(
    {
        "--offsets-decoder": _coordinator(TOPICS["__consumer_offsets"]),
        "--transaction-log-decoder": _coordinator(TOPICS["__transaction_state"]),
        "--cluster-metadata-decoder": _cluster_metadata,
        "--remote-log-metadata-decoder": _remote_log_metadata,
        "--share-group-state-decoder": _coordinator(TOPICS["__share_group_state"]),
    }
)
