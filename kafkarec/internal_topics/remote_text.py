"""Records of `__remote_log_metadata` as Kafka prints them: the `toString` of its Java objects, not JSON (KIP-405).

The constructors of these objects refuse some records that can be read. The same checks are made here, in the same
order and with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable
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
    return _TO_STRING[part.type.name](part.fields)


_NULL_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)


def _check(holds: bool, message: str | None) -> None:
    if not holds:
        refuse(message or "a state is not known", message)


def _state(states: tuple[str, ...], number: int, message: str | None) -> str:
    _check(0 <= number < len(states), message)
    return states[number]


def _java(**named: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in named.items())


def _partition(fields: dict[str, Any]) -> str:
    return f"{fields['id']}:{fields['name']}-{fields['partition']}"


def _segment_id(fields: dict[str, Any]) -> str:
    return f"RemoteLogSegmentId{{{_java(topicIdPartition=_partition(fields['topicIdPartition']), id=fields['id'])}}}"


def _custom(blob: bytes | None) -> str:
    return "Optional.empty" if blob is None else f"Optional[CustomMetadata{{{len(blob)} bytes}}]"


def _epochs(entries: list[dict[str, Any]]) -> str:
    """The text of a sorted map, with the last entry of each epoch."""
    last = {entry["leaderEpoch"]: entry["offset"] for entry in entries}
    return "{" + ", ".join(f"{epoch}={last[epoch]}" for epoch in sorted(last)) + "}"


def _check_offsets(fields: dict[str, Any]) -> None:
    start, end = fields["startOffset"], fields["endOffset"]
    _check(start >= 0, f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    _check(
        end >= start,
        f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}",
    )
    _check(bool(fields["segmentLeaderEpochs"]), "segmentLeaderEpochs can not be null or empty")


def _segment(fields: dict[str, Any]) -> str:
    _check_offsets(fields)
    members = _java(
        remoteLogSegmentId=_segment_id(fields["remoteLogSegmentId"]),
        startOffset=fields["startOffset"],
        endOffset=fields["endOffset"],
        brokerId=fields["brokerId"],
        maxTimestampMs=fields["maxTimestampMs"],
        eventTimestampMs=fields["eventTimestampMs"],
        segmentLeaderEpochs=_epochs(fields["segmentLeaderEpochs"]),
        segmentSizeInBytes=fields["segmentSizeInBytes"],
        customMetadata=_custom(fields["customMetadata"]),
        state=_state(_SEGMENT_STATES, fields["remoteLogSegmentState"], "state can not be null"),
        txnIdxEmpty=str(fields["txnIndexEmpty"]).lower(),
    )
    return f"RemoteLogSegmentMetadata{{{members}}}"


def _update(fields: dict[str, Any]) -> str:
    members = _java(
        remoteLogSegmentId=_segment_id(fields["remoteLogSegmentId"]),
        customMetadata=_custom(fields["customMetadata"]),
        state=_state(_SEGMENT_STATES, fields["remoteLogSegmentState"], "state can not be null"),
        eventTimestampMs=fields["eventTimestampMs"],
        brokerId=fields["brokerId"],
    )
    return f"RemoteLogSegmentMetadataUpdate{{{members}}}"


def _partition_delete(fields: dict[str, Any]) -> str:
    members = _java(
        topicPartition=_partition(fields["topicIdPartition"]),
        state=_state(_PARTITION_STATES, fields["remotePartitionDeleteState"], None),
        eventTimestampMs=fields["eventTimestampMs"],
        brokerId=fields["brokerId"],
    )
    return f"RemotePartitionDeleteMetadata{{{members}}}"


def _snapshot(fields: dict[str, Any]) -> str:
    state = _state(_SEGMENT_STATES, fields["remoteLogSegmentState"], "state can not be null")
    _check(bool(fields["segmentLeaderEpochs"]), "segmentLeaderEpochs can not be null or empty")
    members = _java(
        segmentId=fields["segmentId"],
        startOffset=fields["startOffset"],
        endOffset=fields["endOffset"],
        maxTimestampMs=fields["maxTimestampMs"],
        segmentLeaderEpochs=_epochs(fields["segmentLeaderEpochs"]),
        segmentSizeInBytes=fields["segmentSizeInBytes"],
        customMetadata=_custom(fields["customMetadata"]),
        state=state,
        txnIdxEmpty=str(fields["txnIndexEmpty"]).lower(),
    )
    return f"RemoteLogSegmentMetadataSnapshot{{{members}}}"


_TO_STRING: dict[str, Callable[[dict[str, Any]], str]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _partition_delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}
