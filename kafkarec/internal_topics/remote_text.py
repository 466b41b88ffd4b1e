"""Records of `__remote_log_metadata` as Kafka prints them: the `toString` of its Java objects, no JSON (KIP-405).

Kafka makes an object of a record before it prints it, and the object's constructor refuses some that could be read:
those checks are here too, in its order and with its sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .protocol import refuse
from .topics import TOPICS, read_framed

_SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def shown(value: bytes | None) -> str:
    """The record's text; MessageError, with Kafka's sentence, for what Kafka refuses."""
    if value is None:
        refuse("the value is null", _NULL_VALUE)
    part = read_framed(TOPICS["__remote_log_metadata"], value, any_version=True)
    return _SHOWN[part.type.name](part.fields)


_NULL_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)


def _check(holds: bool, sentence: str | None) -> None:
    if not holds:
        refuse(sentence or "a state is not known", sentence)


def _state(states: tuple[str, ...], number: int, sentence: str | None) -> str:
    _check(0 <= number < len(states), sentence)
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
    """A sorted map: the last entry of an epoch counts."""
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
    said = _java(
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
    return f"RemoteLogSegmentMetadata{{{said}}}"


def _update(fields: dict[str, Any]) -> str:
    said = _java(
        remoteLogSegmentId=_segment_id(fields["remoteLogSegmentId"]),
        customMetadata=_custom(fields["customMetadata"]),
        state=_state(_SEGMENT_STATES, fields["remoteLogSegmentState"], "state can not be null"),
        eventTimestampMs=fields["eventTimestampMs"],
        brokerId=fields["brokerId"],
    )
    return f"RemoteLogSegmentMetadataUpdate{{{said}}}"


def _partition_delete(fields: dict[str, Any]) -> str:
    said = _java(
        topicPartition=_partition(fields["topicIdPartition"]),
        state=_state(_PARTITION_STATES, fields["remotePartitionDeleteState"], None),
        eventTimestampMs=fields["eventTimestampMs"],
        brokerId=fields["brokerId"],
    )
    return f"RemotePartitionDeleteMetadata{{{said}}}"


def _snapshot(fields: dict[str, Any]) -> str:
    state = _state(_SEGMENT_STATES, fields["remoteLogSegmentState"], "state can not be null")
    _check(bool(fields["segmentLeaderEpochs"]), "segmentLeaderEpochs can not be null or empty")
    said = _java(
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
    return f"RemoteLogSegmentMetadataSnapshot{{{said}}}"


_SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _partition_delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}
