"""The text of a control record in its line"""

from __future__ import annotations

from kafkarec.format import control
from kafkarec.format.control import ControlRecordType
from kafkarec.internal_topics import json_view

# The label before each message's JSON.
_LABELS = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}
_NO_DIRECTORY = "A" * 22  # Uuid.ZERO_UUID


def control_record_text(key: bytes | None, value: bytes | None) -> str:
    """The text with a leading space; InvalidRecordError if Kafka's classes refuse the record."""
    kind = control.type_id(key)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = control.parse(key, value)
        assert isinstance(marker, control.EndTxnMarker)
        return f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    label = next((label for known, label in _LABELS.items() if known == kind), None)
    if label is None:
        return f" controlType: UNKNOWN({kind})"
    return f" {label} {_message(key, value)}"


def _message(key: bytes | None, value: bytes | None) -> str:
    """The message as JSON. ControlRecordUtils reads every version as 0; the JSON then has the stored version's
    fields."""
    if value is None or len(value) < 2:
        control.parse(key, value)  # refuses it
        raise AssertionError("a message begins with its version")
    stored = int.from_bytes(value[:2], "big", signed=True)
    fields = control.as_json(control.parse(key, bytes(2) + value[2:]))
    del fields["type"], fields["typeId"]
    fields["version"] = stored
    if stored >= 1:
        for voters in ("voters", "grantingVoters"):
            for voter in fields.get(voters, ()) if "leaderId" in fields else ():
                voter["voterDirectoryId"] = _NO_DIRECTORY
    return json_view.text(fields)
