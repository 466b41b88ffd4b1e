"""One batch, record by record, under the rules of Kafka's MemoryRecordsBuilder 4.4.

    magic 2             one batch: 61 bytes, then the records, compressed as a whole
    magic 0, 1          consecutive messages; with a codec one wrapper message with them as its value
    base timestamp      the first record's, or the delete horizon (KIP-534)
    offsets             strictly increasing; a record is at most 2^31-1 above the base offset, in every magic
    control records     key: version int16 = 0 | type int16; value: version int16 = 0 | the fields of the type's message

A refused record leaves the batch unchanged. (Kafka's builder keeps the base timestamp of a refused first record, and
the bytes of one whose offset is too far.) Where a batch is full: see `_c/write.pxd`.

Versions of control records are those that Kafka's builder writes, 0 everywhere: LEADER_CHANGE has a version 1 with
directory ids (KIP-853), which the builder does not write and ControlRecordUtils does not read.
`kafkarec.format.control` parses them.
"""

from __future__ import annotations

from typing import Any, Self

from kafkarec._writer import OpenBatch, compiled_append, compiled_init
from kafkarec.codecs import CODECS, MissingCodec, checked_level, compress
from kafkarec.errors import MissingCodecError
from kafkarec.format.control import (
    CLASSES,
    ControlRecord,
    ControlRecordType,
    EndTxnMarker,
    LeaderChangeRecord,
    type_id,
    value_bytes,
)
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS, MAX_SIZE
from kafkarec.write.fields import (
    BatchHeader,
    Headers,
    Timestamp,
    bytes_or_none,
    checked_int,
    checked_magic,
    header_pair,
    timestamp_of,
)
from kafkarec.write.sizes import ESTIMATOR

_MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
_VERSION = 0


def _type_of(control_type: ControlRecordType | str | int) -> ControlRecordType:
    """The member of that name, lower or upper case, or id; ValueError lists the names."""
    try:
        if isinstance(control_type, str):
            return ControlRecordType[control_type.upper()]
        return ControlRecordType(control_type)
    except (KeyError, ValueError):
        names = ", ".join(name.lower() for name in ControlRecordType.__members__)
        raise ValueError(f"control type {control_type!r}: one of {names}") from None


def _value_of(record: ControlRecord) -> bytes:
    """The value of a typed control record; ValueError for a version other than 0, or a field that does not fit or has
    another type."""
    of = CLASSES.get(record.type)
    if of is None or type(record) is not of:
        raise ValueError(f"{type(record).__name__} is not the class of a control record {record.type.name}")
    if record.version != _VERSION:
        raise ValueError(f"{record.type.name} is written in version {_VERSION} only, not {record.version}")
    try:
        voters = (*record.voters, *record.granting_voters) if isinstance(record, LeaderChangeRecord) else ()
        if any(voter.voter_directory_id is not None and voter.voter_directory_id.int for voter in voters):
            raise ValueError("LEADER_CHANGE is written in version 0, which has no field for a voter's directory id")
        return value_bytes(record)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{record.type.name} has a field of another type: {error}") from None


class RecordBatchBuilder(OpenBatch):
    """Builds one batch (magic 2) or message set (magic 0, 1).

    compression       a name or member of `Compression`; level: None is Kafka's default (gzip -1, lz4 9, zstd 3)
    timestamp_type    "create_time" or "log_append_time"; None in magic 0 only, which has none
    log_append_time   ms, -1 for none: the timestamp of all records under log append time
    base_offset       of the first record that is appended without an offset
    batch_size        bytes; the limit for `has_room_for` and `is_full`. `append` accepts records beyond it
    producer_id, producer_epoch, base_sequence   -1: none. Checked when the batch is built
    delete_horizon_ms compacted batches: when tombstones and markers may be removed; None or below 0: none
    topic             the expected compression ratio is read from `ESTIMATOR` and updated there, as in a producer

    ValueError for what Kafka refuses, and for numbers that do not fit their fields. Belongs to one thread at a time.
    As a context manager it is built at the end of the block, aborted when the block raises.
    """

    @compiled_init
    def __init__(
        self,
        *,
        magic: int = 2,
        compression: Compression | str = "none",
        level: int | None = None,
        timestamp_type: TimestampType | str | None = "create_time",
        base_offset: int = 0,
        batch_size: int = 16384,
        log_append_time: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = -1,
        delete_horizon_ms: int | None = None,
        topic: str | None = None,
    ) -> None:
        checked = checked_magic(magic)
        codec = Compression.of(compression)
        checked_to_write = checked_level(codec, level)
        if timestamp_type is None and magic > 0:
            raise ValueError(f"magic {magic} needs a timestamp type")
        if magic < BATCH_MAGIC and codec > LATEST_CODECS[magic]:
            raise ValueError(f"magic {magic} has no {CODECS[codec].name} (KIP-110)")
        try:
            compress(codec, b"")
        except MissingCodec as missing:
            raise MissingCodecError(str(missing), reason="missing_codec") from None
        if magic < BATCH_MAGIC and (is_transactional or is_control):
            raise ValueError(f"magic {magic} has neither transactions nor control batches")
        if magic < BATCH_MAGIC and delete_horizon_ms not in (None, -1):
            raise ValueError(f"magic {magic} has no delete horizon")
        horizon = -1 if delete_horizon_ms is None else checked_int("delete horizon", delete_horizon_ms, 64)
        header = BatchHeader(
            checked,
            int(codec),
            checked_to_write,
            0 if timestamp_type is None else int(TimestampType.of(timestamp_type)),
            checked_int("base offset", base_offset, 64),
            log_append_time=checked_int("log append time", log_append_time, 64),
            partition_leader_epoch=checked_int("partition leader epoch", partition_leader_epoch, 32),
            producer_id=checked_int("producer id", producer_id, 64),
            producer_epoch=checked_int("producer epoch", producer_epoch, 16),
            base_sequence=checked_int("base sequence", base_sequence, 32),
            is_transactional=bool(is_transactional),
            is_control=bool(is_control),
            delete_horizon_ms=horizon if horizon >= 0 else None,
        )
        self._begin(header, checked_int("batch size", batch_size, 32))
        if topic is not None:
            self._use_topic(topic)

    def _use_topic(self, topic: str) -> None:
        self._topic = topic
        self.estimated_compression_ratio = ESTIMATOR.estimation(topic, self.compression)

    def has_room_for(
        self, timestamp: Timestamp, key: bytes | None, value: bytes | None, headers: Headers | None = ()
    ) -> bool:
        """Whether a record with these fields still fits `batch_size`; with a codec a pessimistic estimate."""
        known = self._has_room(timestamp, key, value, headers)
        if known is None:
            row = timestamp_of(timestamp), bytes_or_none("key", key), bytes_or_none("value", value)
            known = self._has_room(*row, self._header_pairs(headers) if self.magic >= BATCH_MAGIC else [])
        return bool(known)

    def _header_pairs(self, headers: Headers | None) -> list[tuple[bytes, bytes | None]]:
        if headers is None and self.magic >= BATCH_MAGIC:
            raise ValueError("headers must not be None; for no headers give ()")
        pairs = [header_pair(header) for header in headers or ()]
        if pairs and self.magic < BATCH_MAGIC:
            raise ValueError(f"magic {self.magic} has no record headers")
        return pairs

    @property
    def compression(self) -> Compression:
        return Compression(self._codec)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        name = CODECS[self._codec].name
        about = "about " if self._codec and not self.is_closed else ""
        return (
            f"<RecordBatchBuilder magic {self.magic}, {name}, {self._state}: {len(self)} records from offset "
            f"{self.base_offset}, {about}{self.estimated_size} of {self._limit} bytes>"
        )

    @compiled_append
    def append(
        self,
        timestamp: Timestamp,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = (),
        offset: int | None = None,
    ) -> int:
        """Adds a record; returns its offset.

        timestamp: ms or an aware datetime, None or -1 for none. key, value: any buffer, copied unless it is bytes.
        headers: (key as text or UTF-8 bytes, value or None). offset: above the last one; None is the next one.
        """
        if self.is_control:
            raise ValueError("a control batch accepts control records only")
        return self._append(timestamp, key, value, headers, offset)

    def append_control_record(
        self,
        timestamp: Timestamp,
        key: bytes,
        value: bytes | None,
        headers: Headers | None = (),
        offset: int | None = None,
    ) -> int:
        """Adds a control record from its key and value, of any version; its type must be one that Kafka 4.4 knows."""
        kind = type_id(key)
        if kind not in ControlRecordType.__members__.values() or kind < 0:
            raise ValueError(f"control record of the unknown type {kind}")
        return self._append_control(timestamp, key, value, headers, offset)

    def append_end_txn_marker(
        self, timestamp: Timestamp, control_type: ControlRecordType | str, coordinator_epoch: int = 0
    ) -> int:
        """Adds the "commit" or "abort" that ends the producer's transaction."""
        kind = _type_of(control_type)
        if kind not in _MARKERS:
            raise ValueError(f"{kind.name} ends no transaction; give abort or commit")
        return self.append_control(timestamp, EndTxnMarker(kind, kind, _VERSION, coordinator_epoch))

    def append_control(self, timestamp: Timestamp, record: ControlRecord, offset: int | None = None) -> int:
        """Adds a typed control record, as returned by `Record.control`.

        Markers need a producer id and a transactional batch, LEADER_CHANGE a partition leader epoch.
        """
        if not isinstance(record, ControlRecord):
            raise TypeError(f"a control record is needed, as Record.control returns it, not {type(record).__name__}")
        kind = _type_of(record.type)
        if kind in _MARKERS:
            if self.producer_id == -1:
                raise ValueError("an end transaction marker needs a producer id")
            if not self.is_transactional:
                raise ValueError("an end transaction marker needs a transactional batch")
        if kind is ControlRecordType.LEADER_CHANGE and self._leader_epoch == -1:
            raise ValueError("a leader change needs a partition leader epoch")
        if kind is ControlRecordType.UNKNOWN:
            raise ValueError("a control record of type UNKNOWN cannot be written: it has no id")
        key = _VERSION.to_bytes(2, "big") + kind.to_bytes(2, "big")
        return self._append_control(timestamp, key, _value_of(record), (), offset)

    def _append_control(
        self, timestamp: Timestamp, key: bytes, value: bytes | None, headers: Headers | None, offset: int | None
    ) -> int:
        if not self.is_control:
            raise ValueError("a control record needs a control batch")
        return self._append(timestamp, key, value, headers, offset)

    def _append(self, timestamp: Timestamp, key: Any, value: Any, headers: Headers | None, offset: int | None) -> int:
        """Appends a record that the compiled code did not accept: converts its fields, or raises the error."""
        if self._state != "open":
            raise ValueError(f"no more records: the builder is {self._state}")
        offset = checked_int("offset", self.next_offset if offset is None else offset, 64)
        last = self.last_offset
        if last is not None and offset <= last:
            raise ValueError(f"offset {offset} does not follow the last offset {last}: they must increase")
        delta = offset - self.base_offset
        if not -MAX_SIZE - 1 <= delta <= MAX_SIZE:
            raise ValueError(f"offset {offset} is too far from the base offset {self.base_offset} for 32 bits")
        time = timestamp_of(timestamp)
        if time < -1:
            raise ValueError(f"timestamp {time} is negative")
        parts = bytes_or_none("key", key), bytes_or_none("value", value), self._header_pairs(headers)
        if self._append_row(time, *parts, offset) is None:
            raise ValueError(f"the records take more than {self._most_bytes} bytes")
        return offset

    def build(self) -> bytes:
        """The batch; b"" without records. Closes the builder; further calls return the same bytes.

        ValueError if the producer's fields contradict each other, or after `abort`.
        """
        if self._topic is None or self._state != "open" or self.is_control:
            return self._build()
        built = self._build()
        ESTIMATOR.update_estimation(self._topic, self.compression, self.compression_ratio)
        return built

    def close(self) -> bytes:
        """The same as `build`."""
        return self.build()

    def abort(self) -> None:
        """Drops the records. `build` then raises ValueError."""
        self._abort()

    def override_last_offset(self, last_offset: int) -> None:
        """Sets the last offset in the batch's header, as after compaction. ValueError once the batch is built."""
        if self.is_closed:
            raise ValueError("the batch is built: its last offset cannot be set any more")
        last_offset = checked_int("last offset", last_offset, 64)
        if self.magic >= BATCH_MAGIC:
            checked_int("distance from the base offset to the last", last_offset - self.base_offset, 32)
        self._set_last_offset(last_offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.abort()
        elif self._state != "aborted":
            self.build()
