"""Control records as typed values: transaction markers and the records of a KRaft log.

    key     version: int16 >= 0 | type: int16 | fields that newer versions add
    value   version: int16      | the fields of the type's message | fields that newer versions add

The messages are Kafka's generated ones. Structs have the names of their classes here, whose attributes are in the order
of the fields. `import kafkarec` needs no reader of messages: it is imported when the first record is parsed.
A record of a type that this file does not list is an `UnknownControlRecord`: it is not corrupt.
A record that Kafka's ControlRecordType.parse or ControlRecordUtils refuses raises InvalidRecordError here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform

from kafkarec.errors import InvalidRecordError, LimitExceededError

if TYPE_CHECKING:
    from uuid import UUID

    from .message_schemas import MessageSchema, MessageStruct

_Record = TypeVar("_Record", bound="ControlRecord")
_Struct = TypeVar("_Struct")

# A voter set has some kilobytes. Five bytes of a crafted array become one object, so this limits the objects
# that one record can create. Markers and records of unknown type are one object at any size.
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
    """A control record of a type that Kafka 4.4 does not have. `version` is the key's; `value` is not parsed."""

    value: bytes | None


# Of each type of Kafka 4.4: the class of its records, and the name that kafka-dump-log prints before their fields.
CLASSES: dict[int, type[ControlRecord]] = {}
DUMP_NAMES: dict[int, str] = {}
_MESSAGES: dict[type[ControlRecord], str] = {}
_STRUCTS: dict[str, Any] = {}


@dataclass_transform(frozen_default=True)
def _register(*types: ControlRecordType, dump_name: str, message: str) -> Callable[[type[_Record]], type[_Record]]:
    """Makes a class that of the records of these types. message: its name and fields; the notation:
    `message_schemas.py`, in the order of the attributes."""

    def registered(of: type[_Record]) -> type[_Record]:
        of = dataclass(frozen=True, slots=True)(of)
        CLASSES.update(dict.fromkeys(types, of))
        DUMP_NAMES.update(dict.fromkeys(types, dump_name))
        _MESSAGES[of] = message
        return of

    return registered


@dataclass_transform(frozen_default=True)
def _struct(of: type[_Struct]) -> type[_Struct]:
    """Makes a class that of the message's structs with its name."""
    _STRUCTS[of.__name__] = made = dataclass(frozen=True, slots=True)(of)
    return made


@_register(
    ControlRecordType.ABORT,
    ControlRecordType.COMMIT,
    dump_name="endTxnMarker:",
    message="""
- EndTxnMarker
value 0
  coordinatorEpoch int32
""",
)
class EndTxnMarker(ControlRecord):
    """ABORT or COMMIT: the end of the open transaction of the batch's producer id (KIP-98)."""

    coordinator_epoch: int


@_struct
class LeaderChangeVoter:
    """A voter of an election. `voter_directory_id` is None in version 0, which does not have it (KIP-853)."""

    voter_id: int
    voter_directory_id: UUID | None = None


@_register(
    ControlRecordType.LEADER_CHANGE,
    dump_name="LeaderChange:",
    message="""
- LeaderChangeMessage
value 0-1 flexible 0+
  leaderId int32
  voters [LeaderChangeVoter]
  grantingVoters [LeaderChangeVoter]
  LeaderChangeVoter:
    voterId int32
    voterDirectoryId uuid 1+
""",
)
class LeaderChangeRecord(ControlRecord):
    """LEADER_CHANGE: who leads the quorum from here on, and who voted for it (KIP-595)."""

    leader_id: int
    voters: tuple[LeaderChangeVoter, ...]
    granting_voters: tuple[LeaderChangeVoter, ...]


@_register(
    ControlRecordType.SNAPSHOT_HEADER,
    dump_name="SnapshotHeader",
    message="""
- SnapshotHeaderRecord
value 0 flexible 0+
  lastContainedLogTimestamp int64
""",
)
class SnapshotHeaderRecord(ControlRecord):
    """SNAPSHOT_HEADER: the append time in ms of the last record that the snapshot covers (KIP-630)."""

    last_contained_log_timestamp: int


@_register(
    ControlRecordType.SNAPSHOT_FOOTER,
    dump_name="SnapshotFooter",
    message="""
- SnapshotFooterRecord
value 0 flexible 0+
""",
)
class SnapshotFooterRecord(ControlRecord):
    """SNAPSHOT_FOOTER: the end of a complete snapshot (KIP-630)."""


@_register(
    ControlRecordType.KRAFT_VERSION,
    dump_name="KRaftVersion",
    message="""
- KRaftVersionRecord
value 0 flexible 0+
  kRaftVersion int16
""",
)
class KRaftVersionRecord(ControlRecord):
    """KRAFT_VERSION: the finalized kraft.version; from 1 on voters may change (KIP-853)."""

    kraft_version: int


@_struct
class Endpoint:
    """An endpoint of a voter."""

    name: str
    host: str
    port: int


@_struct
class KRaftVersionFeature:
    """The range of kraft.version that a voter supports."""

    min_supported_version: int
    max_supported_version: int


@_struct
class KRaftVoter:
    """One member of the voter set."""

    voter_id: int
    voter_directory_id: UUID
    endpoints: tuple[Endpoint, ...]
    kraft_version_feature: KRaftVersionFeature


@_register(
    ControlRecordType.KRAFT_VOTERS,
    dump_name="KRaftVoters",
    message="""
- VotersRecord
value 0 flexible 0+
  voters [KRaftVoter]
  KRaftVoter:
    voterId int32
    voterDirectoryId uuid
    endpoints [Endpoint]
    kRaftVersionFeature KRaftVersionFeature
  Endpoint:
    name string
    host string
    port uint16
  KRaftVersionFeature:
    minSupportedVersion int16
    maxSupportedVersion int16
""",
)
class KRaftVotersRecord(ControlRecord):
    """KRAFT_VOTERS: the whole voter set from here on (KIP-853)."""

    voters: tuple[KRaftVoter, ...]


def type_id(key: bytes | None) -> int:
    """The raw type id in a control record's key; InvalidRecordError if Kafka's parseTypeId refuses the key."""
    return _parse_key(key)[1]


def last_version(of: type[ControlRecord]) -> int:
    """The newest version of a class's message that Kafka 4.4 has."""
    return _schemas()[of].last


def parse(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record in `key` and `value`; InvalidRecordError if they are not one."""
    key_version, kind_id = _parse_key(key)
    of = CLASSES.get(kind_id)
    if of is None:
        raw = None if value is None else bytes(value)
        return UnknownControlRecord(ControlRecordType.UNKNOWN, kind_id, key_version, raw)
    kind = ControlRecordType(kind_id)
    if value is None:
        _refuse(f"{kind.name} has no value")
    is_marker = of is EndTxnMarker  # one object, whatever bytes follow its six
    if len(value) > _LARGEST_MESSAGE and not is_marker:
        raise LimitExceededError(
            f"control record {kind.name} has {len(value)} bytes, more than {_LARGEST_MESSAGE} are not read",
            reason="limit_exceeded",
            expected=_LARGEST_MESSAGE,
            found=len(value),
        )
    data = bytes(value[:6] if is_marker else value)
    if len(data) < 2:
        _refuse("the message ends inside of its version", 2, len(data))
    version = int.from_bytes(data[:2], "big", signed=True)
    if is_marker and version < 0:
        _refuse(f"{kind.name} has a negative value version", 0, version)
    # Kafka's ControlRecordUtils reads every version as 0, and so fails on the only other one, LEADER_CHANGE's version 1
    # (directory ids, KIP-853). Here a message's versions are read, and a value that is not one of its version as 0.
    if 0 < version <= last_version(of):
        with suppress(InvalidRecordError):
            return of(kind, kind_id, version, *_attributes(kind_id, version, data))
    return of(kind, kind_id, version, *_attributes(kind_id, 0, data))


def as_json(record: ControlRecord) -> dict[str, Any]:
    """The record's fields under their names in Kafka's JSON (as kafka-dump-log prints them), for `json.dumps`."""
    schema = _schemas().get(type(record))
    names = {"type": record.type.name, "typeId": record.type_id, "version": record.version}
    return names if schema is None else names | _fields_by_name(schema.struct, record)


def value_bytes(record: ControlRecord) -> bytes:
    """The value of a control record in its version of the message. ValueError for a field that does not fit, or is
    missing."""
    from .messages import write_message

    schema = _schemas()[type(record)]
    try:
        return record.version.to_bytes(2, "big") + write_message(
            schema, record.version, _fields_by_name(schema.struct, record)
        )
    except KeyError as missing:
        raise ValueError(f"{record.type.name} needs {missing.args[0]}, which is None") from None


@cache
def _schemas() -> dict[type[ControlRecord], MessageSchema]:
    from .message_schemas import parse as parse_table

    return {of: each.value for of, text in _MESSAGES.items() for each in parse_table(text).values()}


def _attributes(kind_id: int, version: int, data: bytes) -> tuple[Any, ...]:
    """The attributes of a record of this type, from a value that is read as one of this version."""
    from .messages import Cursor, MessageError, read_message

    # The size of a message limits its objects: an element of an array has five bytes or more, and counts nine.
    cursor = Cursor(data, 2, 2 * _LARGEST_MESSAGE)
    try:
        attributes: tuple[Any, ...] = read_message(_schemas()[CLASSES[kind_id]], version, cursor, _made)
    except MessageError as error:
        _refuse(error.what, error.expected, error.found)
    return attributes


def _made(of: MessageStruct, fields: dict[str, Any]) -> Any:
    """An object of a struct's class; of a record's own fields, a tuple of its attributes."""
    for field in of.fields:
        if field.name in fields and field.is_array:
            fields[field.name] = tuple(fields[field.name])
        elif field.name in fields and field.type == "uuid":
            from uuid import UUID

            from .uuids import uuid_bytes

            fields[field.name] = UUID(bytes=uuid_bytes(fields[field.name]))
    make = _STRUCTS.get(of.name)
    return tuple(fields.values()) if make is None else make(*fields.values())


def _fields_by_name(of: MessageStruct, made: Any) -> dict[str, Any]:
    """The fields of an object under Kafka's names; those of a newer version, which are None, are left out."""
    out = {}
    for field, name in zip(of.fields, made.__slots__, strict=True):  # the class's own, not those of ControlRecord
        value = getattr(made, name)
        if field.struct is not None:
            value = (
                [_fields_by_name(field.struct, each) for each in value]
                if field.is_array
                else _fields_by_name(field.struct, value)
            )
        elif value is None:
            continue
        elif field.type == "uuid":
            from .uuids import uuid_text

            value = uuid_text(value.bytes)
        out[field.name] = value
    return out


def _parse_key(key: bytes | None) -> tuple[int, int]:
    if key is None:
        _refuse("the key is null")
    if len(key) < 4:
        _refuse("the key is too short", 4, len(key))
    version, kind_id = (int.from_bytes(key[at : at + 2], "big", signed=True) for at in (0, 2))
    if version < 0:
        _refuse("the key has a negative version", 0, version)
    return version, kind_id


def _refuse(what: str, expected: int | None = None, found: int | None = None) -> NoReturn:
    sides = "" if found is None else f" (limit {expected}, found {found})"
    raise InvalidRecordError(
        f"control record cannot be read: {what}{sides}",
        reason="control_record_invalid",
        expected=expected,
        found=found,
        cause=f"{what}{sides}",
    )
