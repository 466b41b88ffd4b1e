"""Serializes control records; `kafkarec.format.control` parses them.

    key     version: int16 = 0 | type: int16
    value   version: int16 = 0 | the fields of the type's message

Versions are those that Kafka 4.3's MemoryRecordsBuilder writes, 0 everywhere: LEADER_CHANGE has a version 1 with
directory ids (KIP-853), which the builder does not write and ControlRecordUtils does not read. All messages but the
markers are flexible (KIP-482): compact arrays and strings, and tagged fields, of which there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafkarec.format.control import (
    ControlRecord,
    ControlRecordType,
    Endpoint,
    EndTxnMarker,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVotersRecord,
    LeaderChangeRecord,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from kafkarec.write.fields import Timestamp, unsigned_varint

MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
LONGEST_STRING = 0x7FFF

_NO_TAGS = b"\0"
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
    return _integer(_VERSION, 2) + _integer(control_type, 2)


def value_of(record: ControlRecord) -> bytes:
    """The value of a typed control record; ValueError for a version other than 0 or a field that does not fit."""
    fields = _FIELDS.get(record.type)
    if fields is None or not isinstance(record, fields[0]):
        raise ValueError(f"{type(record).__name__} does not say what a control record of {record.type.name} holds")
    if record.version != _VERSION:
        raise ValueError(f"{record.type.name} is written in version {_VERSION} only, not {record.version}")
    return _integer(_VERSION, 2) + fields[1](record)


class ControlAppends:
    """One method for each type of control record; they call the builder's `append_control`."""

    def append_control(self, timestamp: Timestamp, record: ControlRecord, offset: int | None = None) -> int:
        raise TypeError("a builder brings this method")

    def append_end_txn_marker(
        self, timestamp: Timestamp, control_type: ControlRecordType | str, coordinator_epoch: int = 0
    ) -> int:
        """Adds the "commit" or "abort" that ends the producer's transaction."""
        kind = type_of(control_type)
        if kind not in MARKERS:
            raise ValueError(f"{kind.name} ends no transaction: abort or commit")
        return self.append_control(timestamp, EndTxnMarker(kind, kind, 0, coordinator_epoch))

    def append_leader_change(
        self,
        timestamp: Timestamp,
        leader_id: int,
        voters: Iterable[LeaderChangeVoter],
        granting_voters: Iterable[LeaderChangeVoter] = (),
    ) -> int:
        """Adds LEADER_CHANGE in version 0, which has no directory ids."""
        kind = ControlRecordType.LEADER_CHANGE
        record = LeaderChangeRecord(kind, kind, 0, leader_id, tuple(voters), tuple(granting_voters))
        return self.append_control(timestamp, record)

    def append_snapshot_header(self, timestamp: Timestamp, last_contained_log_timestamp: int) -> int:
        """Adds SNAPSHOT_HEADER; its timestamp is in ms."""
        kind = ControlRecordType.SNAPSHOT_HEADER
        return self.append_control(timestamp, SnapshotHeaderRecord(kind, kind, 0, last_contained_log_timestamp))

    def append_snapshot_footer(self, timestamp: Timestamp) -> int:
        """Adds SNAPSHOT_FOOTER."""
        kind = ControlRecordType.SNAPSHOT_FOOTER
        return self.append_control(timestamp, SnapshotFooterRecord(kind, kind, 0))

    def append_kraft_version(self, timestamp: Timestamp, kraft_version: int) -> int:
        """Adds KRAFT_VERSION."""
        kind = ControlRecordType.KRAFT_VERSION
        return self.append_control(timestamp, KRaftVersionRecord(kind, kind, 0, kraft_version))

    def append_voters(self, timestamp: Timestamp, voters: Iterable[KRaftVoter]) -> int:
        """Adds KRAFT_VOTERS: the whole voter set."""
        kind = ControlRecordType.KRAFT_VOTERS
        return self.append_control(timestamp, KRaftVotersRecord(kind, kind, 0, tuple(voters)))


def _integer(number: int, size: int, *, signed: bool = True) -> bytes:
    try:
        return number.to_bytes(size, "big", signed=signed)
    except OverflowError:
        raise ValueError(f"{number} does not fit the {size * 8} bits of its field in a control record") from None


def _array(items: Iterable[Any], write: Callable[[Any], bytes]) -> bytes:
    written = [write(item) for item in items]
    return unsigned_varint(len(written) + 1) + b"".join(written)


def _string(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ValueError("a string of a control record holds half of a surrogate pair") from None
    if len(data) > LONGEST_STRING:
        raise ValueError(f"a string of a control record has {len(data)} bytes, {LONGEST_STRING} at most are allowed")
    return unsigned_varint(len(data) + 1) + data


def _marker(record: EndTxnMarker) -> bytes:
    return _integer(record.coordinator_epoch, 4)


def _leader_change(record: LeaderChangeRecord) -> bytes:
    voters = (_array(each, _election_voter) for each in (record.voters, record.granting_voters))
    return _integer(record.leader_id, 4) + b"".join(voters) + _NO_TAGS


def _election_voter(voter: LeaderChangeVoter) -> bytes:
    if voter.voter_directory_id is not None and voter.voter_directory_id.int:
        raise ValueError("LEADER_CHANGE is written in version 0, which has no place for a voter's directory id")
    return _integer(voter.voter_id, 4) + _NO_TAGS


def _snapshot_header(record: SnapshotHeaderRecord) -> bytes:
    return _integer(record.last_contained_log_timestamp, 8) + _NO_TAGS


def _snapshot_footer(record: SnapshotFooterRecord) -> bytes:
    return _NO_TAGS


def _kraft_version(record: KRaftVersionRecord) -> bytes:
    return _integer(record.kraft_version, 2) + _NO_TAGS


def _voters(record: KRaftVotersRecord) -> bytes:
    return _array(record.voters, _voter) + _NO_TAGS


def _voter(voter: KRaftVoter) -> bytes:
    feature = voter.kraft_version_feature
    return b"".join(
        (
            _integer(voter.voter_id, 4),
            voter.voter_directory_id.bytes,
            _array(voter.endpoints, _endpoint),
            _integer(feature.min_supported_version, 2),
            _integer(feature.max_supported_version, 2),
            _NO_TAGS,  # of the feature
            _NO_TAGS,
        )
    )


def _endpoint(endpoint: Endpoint) -> bytes:
    return _string(endpoint.name) + _string(endpoint.host) + _integer(endpoint.port, 2, signed=False) + _NO_TAGS


_FIELDS: dict[ControlRecordType, tuple[type[ControlRecord], Callable[[Any], bytes]]] = {
    ControlRecordType.ABORT: (EndTxnMarker, _marker),
    ControlRecordType.COMMIT: (EndTxnMarker, _marker),
    ControlRecordType.LEADER_CHANGE: (LeaderChangeRecord, _leader_change),
    ControlRecordType.SNAPSHOT_HEADER: (SnapshotHeaderRecord, _snapshot_header),
    ControlRecordType.SNAPSHOT_FOOTER: (SnapshotFooterRecord, _snapshot_footer),
    ControlRecordType.KRAFT_VERSION: (KRaftVersionRecord, _kraft_version),
    ControlRecordType.KRAFT_VOTERS: (KRaftVotersRecord, _voters),
}
