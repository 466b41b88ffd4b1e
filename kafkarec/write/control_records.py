"""Serializes control records; `kafkarec.format.control` parses them.

    key     version: int16 = 0 | type: int16
    value   version: int16 = 0 | the fields of the type's message

Versions are those that Kafka 4.4's MemoryRecordsBuilder writes, 0 everywhere: LEADER_CHANGE has a version 1 with
directory ids (KIP-853), which the builder does not write and ControlRecordUtils does not read.
"""

from __future__ import annotations

from kafkarec.format.control import (
    CLASSES,
    ControlRecord,
    ControlRecordType,
    LeaderChangeRecord,
    value_bytes,
)

MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
VERSION = 0


def type_of(control_type: ControlRecordType | str | int) -> ControlRecordType:
    """The member of that name, lower or upper case, or id; ValueError lists the names."""
    try:
        if isinstance(control_type, str):
            return ControlRecordType[control_type.upper()]
        return ControlRecordType(control_type)
    except (KeyError, ValueError):
        names = ", ".join(name.lower() for name in ControlRecordType.__members__)
        raise ValueError(f"control type {control_type!r}: one of {names}") from None


def key_of(control_type: ControlRecordType) -> bytes:
    """The key of a control record of this type; UNKNOWN has none, as in ControlRecordType.recordKey."""
    if control_type == ControlRecordType.UNKNOWN:
        raise ValueError("a control record of type UNKNOWN cannot be written: it has no id")
    return VERSION.to_bytes(2, "big") + control_type.to_bytes(2, "big")


def value_of(record: ControlRecord) -> bytes:
    """The value of a typed control record; ValueError for a version other than 0, or a field that does not fit or has
    another type."""
    of = CLASSES.get(record.type)
    if of is None or type(record) is not of:
        raise ValueError(f"{type(record).__name__} is not the class of a control record {record.type.name}")
    if record.version != VERSION:
        raise ValueError(f"{record.type.name} is written in version {VERSION} only, not {record.version}")
    try:
        voters = (*record.voters, *record.granting_voters) if isinstance(record, LeaderChangeRecord) else ()
        if any(voter.voter_directory_id is not None and voter.voter_directory_id.int for voter in voters):
            raise ValueError("LEADER_CHANGE is written in version 0, which has no field for a voter's directory id")
        return value_bytes(record)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{record.type.name} has a field of another type: {error}") from None
