"""The columns of records and batches: one table for the engine, Arrow, objects, the command line and the docs.

Types are Arrow's C format strings (l int64, i int32, I uint32, s int16, c int8, b bool, u string, z binary,
vz binary_view, +l list, tsm:UTC timestamp in ms). `code` is the column's number in the compiled core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkarec._lazy import cached_property

# The core's columns, in the order of the C enum Code (`_c/output_columns.pxd`).
_CORE_ORDER = """
    offset timestamp timestamp_type key value headers
    position outer_offset last_offset next_offset batch_length size leader_epoch magic crc attributes batch_type
    horizon base_timestamp max_timestamp producer_id producer_epoch base_sequence last_sequence record_count base_offset
    transactional control sequence control_type partition compression topic file
"""
CODES = {name: code for code, name in enumerate(_CORE_ORDER.split())}

UNITS = {"ms": ("tsm:UTC", 1), "us": ("tsu:UTC", 1000), "ns": ("tsn:UTC", 1_000_000), "int64": ("l", 1)}

_TYPE_NAMES = {
    "l": "int64",
    "i": "int32",
    "I": "uint32",
    "s": "int16",
    "c": "int8",
    "b": "bool",
    "u": "string",
    "z": "binary",
    "vz": "binary_view",
    "+l": "list<struct<key: string not null, value: binary>>",
    "tsm:UTC": "timestamp[ms, UTC]",
    "tsu:UTC": "timestamp[us, UTC]",
    "tsn:UTC": "timestamp[ns, UTC]",
}


class Field(NamedTuple):
    """One column: its name, Arrow C format, whether it may be null, its code in the core."""

    name: str
    format: str
    nullable: bool
    code: int
    views: bool = False
    """Whether the values, or those of the headers, are binary_view."""

    @property
    def type(self) -> str:
        """The Arrow type in words."""
        words = _TYPE_NAMES[self.format]
        return words.replace("value: binary", "value: binary_view") if self.views else words

    def viewed(self) -> Field:
        """The field for layout="view"."""
        changed = {"z": "vz", "+l": "+l"}.get(self.format)
        return self._replace(format=changed, views=True) if changed else self


class Schema(tuple[Field, ...]):
    """The fields of a table in order."""

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """Name -> index."""
        return {field.name: index for index, field in enumerate(self)}

    @property
    def names(self) -> list[str]:
        return list(self.index_of)

    def __repr__(self) -> str:
        return "\n".join(f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in self)


def _fields(table: str) -> dict[str, Field]:
    rows = (line.split() for line in table.strip().splitlines())
    return {name: Field(name, format_, "not-null" not in flags, CODES[code]) for name, format_, code, *flags in rows}


RECORD_FIELDS = _fields("""
    offset                  l        offset         not-null
    timestamp               tsm:UTC  timestamp
    timestamp_type          c        timestamp_type
    key                     z        key
    value                   z        value
    headers                 +l       headers        not-null
    topic                   u        topic
    partition               i        partition
    file                    u        file
    batch_position          l        position
    base_offset             l        base_offset
    partition_leader_epoch  i        leader_epoch
    magic                   c        magic
    compression             u        compression
    is_transactional        b        transactional
    is_control              b        control
    control_type            s        control_type
    producer_id             l        producer_id
    producer_epoch          s        producer_epoch
    sequence                i        sequence
""")
DEFAULT_RECORD_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")

BATCH_FIELDS = _fields("""
    position                l        position
    base_offset             l        outer_offset
    last_offset             l        last_offset
    next_offset             l        next_offset
    batch_length            i        batch_length
    size_in_bytes           i        size
    partition_leader_epoch  i        leader_epoch
    magic                   c        magic
    crc                     I        crc
    attributes              s        attributes
    compression             u        compression
    timestamp_type          c        batch_type
    is_transactional        b        transactional
    is_control              b        control
    delete_horizon_ms       l        horizon
    base_timestamp          tsm:UTC  base_timestamp
    max_timestamp           tsm:UTC  max_timestamp
    producer_id             l        producer_id
    producer_epoch          s        producer_epoch
    base_sequence           i        base_sequence
    last_sequence           i        last_sequence
    record_count            i        record_count
""")


def record_schema(columns: Iterable[str] | None, timestamp_unit: str, views: bool = False) -> Schema:
    """The requested record columns, in the caller's order; None: the default ones. ValueError lists the known ones.
    views: binary values are binary_view."""
    if timestamp_unit not in UNITS:
        raise ValueError(f"timestamp_unit {timestamp_unit!r}: one of {', '.join(UNITS)}")
    names = DEFAULT_RECORD_COLUMNS if columns is None else tuple(columns)

    def requested() -> Iterator[Field]:
        for name in names:
            if name not in RECORD_FIELDS:
                raise ValueError(f"no column {name!r}; there are: {', '.join(RECORD_FIELDS)}")
            field = RECORD_FIELDS[name]
            if name == "timestamp":
                field = field._replace(format=UNITS[timestamp_unit][0])
            yield field.viewed() if views else field

    schema = Schema(requested())
    if len(set(names)) != len(names):
        raise ValueError(f"a column is named twice: {', '.join(names)}")
    return schema


def batch_schema() -> Schema:
    return Schema(BATCH_FIELDS.values())
