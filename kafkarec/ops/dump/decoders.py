"""Decoders of keys and payloads: kafka-dump-log's decoder flags, and the Java classes that are supported here

A flag for an internal topic overrides the classes; of several flags the first in DECODERS is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from struct import Struct

from kafkarec.errors import InvalidRecordError
from kafkarec.format.messages import java_text
from kafkarec.internal_topics.dump_text import DECODERS

from .record_lines import Decode

FLAGS = tuple(DECODERS)
"""In order of precedence."""

TextOf = Callable[[bytes], str]


def _number_decoder(layout: str, java_type: str) -> TextOf:
    """Prints a number as ByteBuffer.getInt or getLong reads it; further bytes are ignored."""
    number = Struct(layout)

    def number_text(data: bytes) -> str:
        if len(data) < number.size:
            raise InvalidRecordError(
                f"{len(data)} bytes are too few for the type {java_type}, which has {number.size}",
                reason="message_truncated",
                expected=number.size,
                found=len(data),
            )
        return str(number.unpack_from(data)[0])

    return number_text


_TEXT, _INTEGER, _LONG = java_text, _number_decoder(">i", "int"), _number_decoder(">q", "long")
STRING_CLASS = "org.apache.kafka.tools.api.StringDecoder"
# Kafka's Decoder classes, by their package since 3.7 and the one before; and the deserializers, which Kafka's tool
# refuses because they are not a Decoder.
CLASSES: dict[str, TextOf] = {
    STRING_CLASS: _TEXT,
    "org.apache.kafka.tools.api.IntegerDecoder": _INTEGER,
    "org.apache.kafka.tools.api.LongDecoder": _LONG,
    "kafka.serializer.StringDecoder": _TEXT,
    "kafka.serializer.IntegerDecoder": _INTEGER,
    "kafka.serializer.LongDecoder": _LONG,
    "org.apache.kafka.common.serialization.StringDeserializer": _TEXT,
    "org.apache.kafka.common.serialization.IntegerDeserializer": _INTEGER,
    "org.apache.kafka.common.serialization.LongDeserializer": _LONG,
}


class UnknownClass(ValueError):
    """A Java class that is not supported. The message, one line, names the alternatives."""


def decoder_of_options(
    flags: Collection[str], key_class: str | None = None, value_class: str | None = None
) -> Decode | None:
    """The decoder that the options select; None: UTF-8 text, the default."""
    for flag, decode in DECODERS.items():
        if flag in flags:
            return decode
    key_text, value_text = _decoder_of_class(key_class), _decoder_of_class(value_class)
    if key_text is _TEXT and value_text is _TEXT:
        return None

    def by_classes(key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        return None if key is None else key_text(key), None if value is None else value_text(value)

    return by_classes


def _decoder_of_class(name: str | None) -> TextOf:
    known = CLASSES.get(name or STRING_CLASS)
    if known is None:
        simple = ", ".join(sorted({full.rpartition(".")[2] for full in CLASSES if "tools.api" in full}))
        raise UnknownClass(
            f"{name} is a Java class, which kafkarec cannot run; supported: {simple}. "
            "kafkarec cat --key-as/--value-as base64|hex|int32|int64|json prints other formats"
        )
    return known
