"""Records of `__remote_log_metadata` as Kafka prints them: the `toString` of its Java objects, not JSON (KIP-405).

The constructors of these objects refuse some records that can be read. The same checks are made here, in the same
order and with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from kafkarec.format.messages import refuse

from .topics import TOPICS, read_framed

_SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def to_string(value: bytes | None) -> str:
    """The text of a record's value; MessageError, with the message of Kafka's exception, for one that Kafka refuses."""
    if value is None:
        refuse("the value is null", _NULL_VALUE)
    part = read_framed(TOPICS["__remote_log_metadata"], value, any_version=True)
    of = part.type.name.removesuffix("Record")
    check, members = _MEMBERS[of]
    check(part.fields)
    texts = (f"{name}={_TEXTS.get(name, itemgetter(name))(part.fields)}" for name in members.split())
    return f"{of}{{{', '.join(texts)}}}"


_NULL_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)


def _check(holds: bool, message: str) -> None:
    if not holds:
        refuse(message, message)


def _check_epochs(fields: dict[str, Any]) -> None:
    _check(bool(fields["segmentLeaderEpochs"]), "segmentLeaderEpochs can not be null or empty")


def _check_segment(fields: dict[str, Any]) -> None:
    start, end = fields["startOffset"], fields["endOffset"]
    _check(start >= 0, f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    _check(
        end >= start,
        f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}",
    )
    _check_epochs(fields)


def _check_snapshot(fields: dict[str, Any]) -> None:
    _state(fields)
    _check_epochs(fields)


def _state(fields: dict[str, Any]) -> str:
    if "remotePartitionDeleteState" in fields:
        return _one_of(_PARTITION_STATES, fields["remotePartitionDeleteState"], None)
    return _one_of(_SEGMENT_STATES, fields["remoteLogSegmentState"], "state can not be null")


def _one_of(states: tuple[str, ...], number: int, message: str | None) -> str:
    if not 0 <= number < len(states):
        refuse(message or "a state is not known", message)
    return states[number]


def _partition(fields: dict[str, Any]) -> str:
    topic = fields["topicIdPartition"]
    return f"{topic['id']}:{topic['name']}-{topic['partition']}"


def _segment_id(fields: dict[str, Any]) -> str:
    segment = fields["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(segment)}, id={segment['id']}}}"


def _custom(fields: dict[str, Any]) -> str:
    blob = fields["customMetadata"]
    return "Optional.empty" if blob is None else f"Optional[CustomMetadata{{{len(blob)} bytes}}]"


def _epochs(fields: dict[str, Any]) -> str:
    """The text of a sorted map, with the last entry of each epoch."""
    last = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    return "{" + ", ".join(f"{epoch}={last[epoch]}" for epoch in sorted(last)) + "}"


# Members whose text is not that of the field of the same name.
_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "remoteLogSegmentId": _segment_id,
    "topicPartition": _partition,
    "segmentLeaderEpochs": _epochs,
    "customMetadata": _custom,
    "state": _state,
    "txnIdxEmpty": lambda fields: str(fields["txnIndexEmpty"]).lower(),
}
# Java's class -> the checks of its constructor, and its members in the order of its text.
_MEMBERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "RemoteLogSegmentMetadata": (
        _check_segment,
        "remoteLogSegmentId startOffset endOffset brokerId maxTimestampMs eventTimestampMs segmentLeaderEpochs "
        "segmentSizeInBytes customMetadata state txnIdxEmpty",
    ),
    "RemoteLogSegmentMetadataUpdate": (_state, "remoteLogSegmentId customMetadata state eventTimestampMs brokerId"),
    "RemotePartitionDeleteMetadata": (_state, "topicPartition state eventTimestampMs brokerId"),
    "RemoteLogSegmentMetadataSnapshot": (
        _check_snapshot,
        "segmentId startOffset endOffset maxTimestampMs segmentLeaderEpochs segmentSizeInBytes customMetadata state "
        "txnIdxEmpty",
    ),
}
