"""Enums of the format. Wherever a member is accepted, its lower-case name is accepted too."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Self


@cache
def _members(cls: type[IntEnum]) -> dict[str, IntEnum]:
    """By name. The enum's own __members__ makes a view for each use."""
    return dict(cls.__members__)


class _NamedEnum(IntEnum):
    """An enum whose members are accepted by their lower-case names too."""

    @classmethod
    def of(cls, value: Self | str | int) -> Self:
        """The member with this name or number; ValueError lists the names."""
        if isinstance(value, str) and (member := _members(cls).get(value.upper())) is not None:
            return member  # type: ignore[return-value]
        if isinstance(value, int) and not isinstance(value, bool) and value in tuple(cls):
            return cls(value)
        raise ValueError(f"{cls.called()} {value!r}: one of {', '.join(name.lower() for name in cls.__members__)}")

    @classmethod
    def called(cls) -> str:
        """The name of the option, for error messages."""
        return cls.__name__.lower()


class Compression(_NamedEnum):
    """Codec ids of the attribute bits 0-2 (Kafka: CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES = tuple(codec.name.lower() for codec in Compression)
"""By codec id."""


class TimestampType(_NamedEnum):
    """Attribute bit 3 (KIP-32). Magic 0 has none: null in columns."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @classmethod
    def called(cls) -> str:
        return "timestamp_type"


class Isolation(_NamedEnum):
    """Which records of transactions are returned (Kafka: IsolationLevel)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
