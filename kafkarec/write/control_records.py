"""Serializes control records; `kafkarec.format.control` parses them.

    key     version: int16 = 0 | type: int16
    value   version: int16 = 0 | the fields of the type's message

Versions are those that Kafka 4.4's MemoryRecordsBuilder writes, 0 everywhere: LEADER_CHANGE has a version 1 with
directory ids (KIP-853), which the builder does not write and ControlRecordUtils does not read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from kafkarec.format.control import (
    CLASSES,
    ControlRecord,
    ControlRecordType,
    KRaftVoter,
    LeaderChangeRecord,
    LeaderChangeVoter,
    value_bytes,
)
from kafkarec.write.fields import Timestamp

MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
_VERSION = 0


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
    return _VERSION.to_bytes(2, "big") + control_type.to_bytes(2, "big")


def value_of(record: ControlRecord) -> bytes:
    """The value of a typed control record; ValueError for a version other than 0 or a field that does not fit."""
    of = CLASSES.get(record.type)
    if of is None or type(record) is not of:
        raise ValueError(f"{type(record).__name__} is not the class of a control record {record.type.name}")
    if record.version != _VERSION:
        raise ValueError(f"{record.type.name} is written in version {_VERSION} only, not {record.version}")
    if isinstance(record, LeaderChangeRecord):
        for voter in (*record.voters, *record.granting_voters):
            if voter.voter_directory_id is not None and voter.voter_directory_id.int:
                raise ValueError("LEADER_CHANGE is written in version 0, which has no field for a voter's directory id")
    return value_bytes(record)


class ControlAppends(ABC):
    """One method for each type of control record; they call the builder's `append_control`."""

    @abstractmethod
    def append_control(self, timestamp: Timestamp, record: ControlRecord, offset: int | None = None) -> int: ...

    def _append_fields(self, timestamp: Timestamp, kind: ControlRecordType, *fields: Any) -> int:
        """Adds the control record of a type that has these fields."""
        of: Any = CLASSES[kind]
        return self.append_control(timestamp, of(kind, kind, _VERSION, *fields))

    def append_end_txn_marker(
        self, timestamp: Timestamp, control_type: ControlRecordType | str, coordinator_epoch: int = 0
    ) -> int:
        """Adds the "commit" or "abort" that ends the producer's transaction."""
        kind = type_of(control_type)
        if kind not in MARKERS:
            raise ValueError(f"{kind.name} ends no transaction; give abort or commit")
        return self._append_fields(timestamp, kind, coordinator_epoch)

    def append_leader_change(
        self,
        timestamp: Timestamp,
        leader_id: int,
        voters: Iterable[LeaderChangeVoter],
        granting_voters: Iterable[LeaderChangeVoter] = (),
    ) -> int:
        """Adds LEADER_CHANGE in version 0, which has no directory ids."""
        voter_sets = tuple(voters), tuple(granting_voters)
        return self._append_fields(timestamp, ControlRecordType.LEADER_CHANGE, leader_id, *voter_sets)

    def append_snapshot_header(self, timestamp: Timestamp, last_contained_log_timestamp: int) -> int:
        """Adds SNAPSHOT_HEADER; its timestamp is in ms."""
        return self._append_fields(timestamp, ControlRecordType.SNAPSHOT_HEADER, last_contained_log_timestamp)

    def append_snapshot_footer(self, timestamp: Timestamp) -> int:
        """Adds SNAPSHOT_FOOTER."""
        return self._append_fields(timestamp, ControlRecordType.SNAPSHOT_FOOTER)

    def append_kraft_version(self, timestamp: Timestamp, kraft_version: int) -> int:
        """Adds KRAFT_VERSION."""
        return self._append_fields(timestamp, ControlRecordType.KRAFT_VERSION, kraft_version)

    def append_voters(self, timestamp: Timestamp, voters: Iterable[KRaftVoter]) -> int:
        """Adds KRAFT_VOTERS: the whole voter set."""
        return self._append_fields(timestamp, ControlRecordType.KRAFT_VOTERS, tuple(voters))
