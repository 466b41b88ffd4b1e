"""The format's small vocabularies. Wherever one of these is taken, its lower-case name is taken too."""

from __future__ import annotations

from enum import IntEnum


class Compression(IntEnum):
    """Codec ids of the attribute bits 0-2 (Kafka: CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Attribute bit 3 (KIP-32). Magic 0 has none: null in columns."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Isolation(IntEnum):
    """What a reader sees of transactions (Kafka: IsolationLevel)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @classmethod
    def of(cls, value: Isolation | str) -> Isolation:
        """The member of that name; ValueError lists the names."""
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        if isinstance(value, cls):
            return value
        raise ValueError(f"isolation {value!r}: one of {', '.join(name.lower() for name in cls.__members__)}")
