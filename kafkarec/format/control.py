"""Control records as typed values: transaction markers and the records of a KRaft log.

    key     version: int16 >= 0 | type: int16 | whatever newer versions add
    value   version: int16      | the fields of the type's message | whatever newer versions add

The messages are Kafka's generated ones: EndTxnMarker, and the flexible LeaderChangeMessage,
SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord, VotersRecord (KIP-482: compact arrays and
strings, tagged fields).
A type that this file does not list passes through as `UnknownControlRecord`: unknown is not corrupt.
What Kafka's ControlRecordType.parse and ControlRecordUtils refuse raises InvalidRecordError here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from kafkarec.errors import InvalidRecordError, LimitExceededError

# A voter set is some kilobytes. Five bytes of a hostile array become one object, so this bounds the objects
# that one record can make. Markers and records of unknown type are one object at any size.
_LARGEST_MESSAGE = 4 << 20


class ControlRecordType(IntEnum):
    """The type in a control record's key (Kafka: ControlRecordType)."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """The fields of all control records: the type, its raw id, and the version in its value."""

    type: ControlRecordType
    type_id: int
    version: int


@dataclass(frozen=True, slots=True)
class UnknownControlRecord(ControlRecord):
    """A control record of a type that Kafka 4.3 does not know. `version` is the key's; `value` is unparsed."""

    value: bytes | None


@dataclass(frozen=True, slots=True)
class EndTxnMarker(ControlRecord):
    """ABORT or COMMIT: the end of the open transaction of the batch's producer id (KIP-98)."""

    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderChangeVoter:
    """A voter of an election. `voter_directory_id` is None in version 0, which does not have it (KIP-853)."""

    voter_id: int
    voter_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class LeaderChangeRecord(ControlRecord):
    """LEADER_CHANGE: who leads the quorum from here on, and who voted for it (KIP-595)."""

    leader_id: int
    voters: tuple[LeaderChangeVoter, ...]
    granting_voters: tuple[LeaderChangeVoter, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeaderRecord(ControlRecord):
    """SNAPSHOT_HEADER: the append time in ms of the last record that the snapshot covers (KIP-630)."""

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True)
class SnapshotFooterRecord(ControlRecord):
    """SNAPSHOT_FOOTER: the end of a complete snapshot (KIP-630)."""


@dataclass(frozen=True, slots=True)
class KRaftVersionRecord(ControlRecord):
    """KRAFT_VERSION: the finalized kraft.version; from 1 on voters may change (KIP-853)."""

    kraft_version: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of a voter."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class KRaftVersionFeature:
    """The range of kraft.version that a voter supports."""

    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class KRaftVoter:
    """One member of the voter set."""

    voter_id: int
    voter_directory_id: UUID
    endpoints: tuple[Endpoint, ...]
    kraft_version_feature: KRaftVersionFeature


@dataclass(frozen=True, slots=True)
class KRaftVotersRecord(ControlRecord):
    """KRAFT_VOTERS: the whole voter set from here on (KIP-853)."""

    voters: tuple[KRaftVoter, ...]


class _Cursor:
    """A place in one message. Lengths are compared with the bytes left before anything is allocated."""

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.pos

    def take(self, size: int) -> bytes:
        if size > self.left:
            _refuse(f"the message ends at byte {len(self.data)}, inside a field", size, self.left)
        start = self.pos
        self.pos += size
        return self.data[start : self.pos]

    def integer(self, size: int, signed: bool = True) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def unsigned_varint(self) -> int:
        """Five bytes at most; excess bits of the fifth are dropped, as ByteUtils.readUnsignedVarint does."""
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.integer(1, signed=False)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFF
        _refuse("an unsigned varint is longer than 5 bytes")

    def compact_length(self, unit: int, what: str) -> int:
        """The count of a compact array or string (stored plus one), an element being `unit` bytes or more."""
        length = self.unsigned_varint() - 1
        if length < 0:
            _refuse(f"{what} is null and must not be")
        if length > self.left // unit:
            _refuse(f"{what} claims more than the bytes left can hold", self.left // unit, length)
        return length

    def skip_tagged_fields(self) -> None:
        """All are unknown here. They are stepped over, never kept: two bytes may not become an object, nor
        may a count be believed before the bytes are there (CVE-2026-111115)."""
        count = self.unsigned_varint()
        if count >= 1 << 31:
            return  # negative in Java, whose loop then does not run
        if count > self.left // 2:
            _refuse("the tagged fields' count does not fit the bytes left", self.left // 2, count)
        for _ in range(count):
            self.unsigned_varint()
            size = self.unsigned_varint()
            if size > self.left:
                _refuse("a tagged field is longer than the bytes left", self.left, size)
            self.pos += size


_Reader = Callable[[_Cursor, int], Any]


class _Field(NamedTuple):
    """One field of a message: our attribute, Kafka's name in its JSON, how to read it, its first version."""

    attribute: str
    json: str
    read: _Reader
    since: int = 0


class _Message(NamedTuple):
    """A message or a struct inside of one: the class to make, its fields in order, KIP-482 or not."""

    make: type
    fields: tuple[_Field, ...]
    flexible: bool = True


def _integer(size: int, signed: bool = True) -> _Reader:
    return lambda cursor, _version: cursor.integer(size, signed)


def _string(cursor: _Cursor, _version: int) -> str:
    length = cursor.compact_length(1, "a string")
    if length > 0x7FFF:
        _refuse("a string is longer than its type allows", 0x7FFF, length)
    return java_text(cursor.take(length))


def _uuid(cursor: _Cursor, _version: int) -> UUID:
    return UUID(bytes=cursor.take(16))


def _struct(message: _Message) -> _Reader:
    return lambda cursor, version: message.make(**_read_fields(message, cursor, version))


def _array(message: _Message, least: int) -> _Reader:
    """`least`: the smallest size of an element on the wire; a count cannot promise more than there is."""
    read = _struct(message)

    def read_all(cursor: _Cursor, version: int) -> tuple[Any, ...]:
        return tuple(read(cursor, version) for _ in range(cursor.compact_length(least, "an array")))

    return read_all


_INT16, _INT32, _INT64, _UINT16 = _integer(2), _integer(4), _integer(8), _integer(2, signed=False)

_ELECTION_VOTER = _Message(
    LeaderChangeVoter,
    (
        _Field("voter_id", "voterId", _INT32),
        _Field("voter_directory_id", "voterDirectoryId", _uuid, since=1),
    ),
)
_ENDPOINT = _Message(
    Endpoint,
    (_Field("name", "name", _string), _Field("host", "host", _string), _Field("port", "port", _UINT16)),
)
_FEATURE = _Message(
    KRaftVersionFeature,
    (
        _Field("min_supported_version", "minSupportedVersion", _INT16),
        _Field("max_supported_version", "maxSupportedVersion", _INT16),
    ),
)
_VOTER = _Message(
    KRaftVoter,
    (
        _Field("voter_id", "voterId", _INT32),
        _Field("voter_directory_id", "voterDirectoryId", _uuid),
        _Field("endpoints", "endpoints", _array(_ENDPOINT, least=5)),
        _Field("kraft_version_feature", "kRaftVersionFeature", _struct(_FEATURE)),
    ),
)
_MARKER = _Message(EndTxnMarker, (_Field("coordinator_epoch", "coordinatorEpoch", _INT32),), flexible=False)

_TYPES: dict[ControlRecordType, _Message] = {
    ControlRecordType.ABORT: _MARKER,
    ControlRecordType.COMMIT: _MARKER,
    ControlRecordType.LEADER_CHANGE: _Message(
        LeaderChangeRecord,
        (
            _Field("leader_id", "leaderId", _INT32),
            _Field("voters", "voters", _array(_ELECTION_VOTER, least=5)),
            _Field("granting_voters", "grantingVoters", _array(_ELECTION_VOTER, least=5)),
        ),
    ),
    ControlRecordType.SNAPSHOT_HEADER: _Message(
        SnapshotHeaderRecord, (_Field("last_contained_log_timestamp", "lastContainedLogTimestamp", _INT64),)
    ),
    ControlRecordType.SNAPSHOT_FOOTER: _Message(SnapshotFooterRecord, ()),
    ControlRecordType.KRAFT_VERSION: _Message(KRaftVersionRecord, (_Field("kraft_version", "kRaftVersion", _INT16),)),
    ControlRecordType.KRAFT_VOTERS: _Message(
        KRaftVotersRecord, (_Field("voters", "voters", _array(_VOTER, least=27)),)
    ),
}
_JSON_NAMES = {
    field.attribute: field.json
    for message in (*_TYPES.values(), _ELECTION_VOTER, _ENDPOINT, _FEATURE, _VOTER)
    for field in message.fields
}


def type_id(key: bytes | None) -> int:
    """The raw type id in a control record's key; InvalidRecordError where Kafka's parseTypeId refuses it."""
    return _parse_key(key)[1]


def parse(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record that `key` and `value` hold; InvalidRecordError when they hold none."""
    key_version, kind_id = _parse_key(key)
    message = _TYPES.get(kind_id)  # type: ignore[call-overload]  # an int finds its IntEnum key
    if message is None:
        kept = None if value is None else bytes(value)
        return UnknownControlRecord(ControlRecordType.UNKNOWN, kind_id, key_version, kept)
    kind = ControlRecordType(kind_id)
    if value is None:
        _refuse(f"{kind.name} has no value")
    if message.flexible and len(value) > _LARGEST_MESSAGE:
        raise LimitExceededError(
            f"control record {kind.name} has {len(value)} bytes, more than {_LARGEST_MESSAGE} are not read",
            reason="limit_exceeded",
            expected=_LARGEST_MESSAGE,
            found=len(value),
        )
    data = bytes(value) if message.flexible else bytes(value[:6])
    version = _Cursor(data).integer(2)
    if not message.flexible and version < 0:
        _refuse(f"{kind.name} has a negative value version", 0, version)
    last = len(_layouts(version)) - 1
    for attempt, layout in enumerate(_layouts(version)):
        cursor = _Cursor(data)
        cursor.pos = 2
        try:
            found = _read_fields(message, cursor, layout)
        except InvalidRecordError:
            if attempt == last:
                raise
        else:
            record: ControlRecord = message.make(kind, kind_id, version, **found)
            return record
    raise AssertionError("a version has at least one layout")


def as_json(record: ControlRecord) -> dict[str, Any]:
    """The record under the names of Kafka's own JSON (as kafka-dump-log has them), for `json.dumps`."""
    out: dict[str, Any] = {"type": record.type.name, "typeId": record.type_id, "version": record.version}
    known = {"type", "type_id", "version", "value"}
    names = [field.name for field in fields(record) if field.name not in known]
    return out | {_JSON_NAMES[name]: _json_value(getattr(record, name)) for name in names}


def _layouts(version: int) -> tuple[int, ...]:
    """The field layouts to try for a value's version.

    Kafka's ControlRecordUtils reads every version as 0. Version 1 exists for LEADER_CHANGE only (directory
    ids, KIP-853) and Kafka itself fails on it; here it is read, and what is only labelled 1 is read as 0.
    """
    return (1, 0) if version == 1 else (0,)


def _parse_key(key: bytes | None) -> tuple[int, int]:
    if key is None:
        _refuse("the key is null")
    if len(key) < 4:
        _refuse("the key is too short", 4, len(key))
    version, kind_id = (int.from_bytes(key[at : at + 2], "big", signed=True) for at in (0, 2))
    if version < 0:
        _refuse("the key has a negative version", 0, version)
    return version, kind_id


def _read_fields(message: _Message, cursor: _Cursor, version: int) -> dict[str, Any]:
    found = {field.attribute: field.read(cursor, version) for field in message.fields if version >= field.since}
    if message.flexible:
        cursor.skip_tagged_fields()
    return found


def _json_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, UUID):  # Kafka's Uuid.toString
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    if isinstance(value, int | str):
        return value
    items = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {_JSON_NAMES[name]: _json_value(item) for name, item in items if item is not None}


# Java replaces an encoded surrogate, whole or cut after two bytes, by one U+FFFD; Python by one a byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode("utf-8", "replace")


def _refuse(what: str, expected: int | None = None, found: int | None = None) -> NoReturn:
    sides = "" if found is None else f" (limit {expected}, found {found})"
    raise InvalidRecordError(
        f"control record cannot be read: {what}{sides}",
        reason="control_record_invalid",
        expected=expected,
        found=found,
    )
