"""The text of a control record in its line"""

from __future__ import annotations

from kafkarec.format import control
from kafkarec.format.message_schemas import ZERO_UUID
from kafkarec.internal_topics.dump_text import json_text


def control_record_text(key: bytes | None, value: bytes | None) -> str:
    """The text with a leading space; InvalidRecordError if Kafka's classes refuse the record."""
    kind = control.type_id(key)
    if kind not in control.CLASSES:
        return f" controlType: UNKNOWN({kind})"
    name = control.DUMP_NAMES[kind]
    if control.CLASSES[kind] is not control.EndTxnMarker:
        return f" {name} {_message(key, value)}"
    marker = control.parse(key, value)
    assert isinstance(marker, control.EndTxnMarker)
    return f" {name} {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"


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
                voter["voterDirectoryId"] = ZERO_UUID
    return json_text(fields)
