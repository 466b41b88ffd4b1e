"""One batch, record by record, under the rules of Kafka's MemoryRecordsBuilder 4.4.

    magic 2             one batch: 61 bytes, then the records, compressed as a whole
    magic 0, 1          consecutive messages; with a codec one wrapper message with them as its value
    base timestamp      the first record's, or the delete horizon (KIP-534)
    offsets             strictly increasing; a record is at most 2^31-1 above the base offset, in every magic

A refused record leaves the batch unchanged. (Kafka's builder keeps the base timestamp of a refused first record, and
the bytes of one whose offset is too far.)
"""

from __future__ import annotations

from typing import Any, Self

from kafkarec._writer import compiled_append
from kafkarec.format.control import ControlRecord, ControlRecordType, EndTxnMarker, type_id
from kafkarec.format.layout import BATCH_MAGIC, MAX_SIZE
from kafkarec.write.compression_ratio import ESTIMATOR
from kafkarec.write.control_records import MARKERS, VERSION, key_of, type_of, value_of
from kafkarec.write.fields import Headers, Timestamp, content, fitting, timestamp_of
from kafkarec.write.open_batch import BatchState


class RecordBatchBuilder(BatchState):
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
        if self._header.is_control:
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
        kind = type_of(control_type)
        if kind not in MARKERS:
            raise ValueError(f"{kind.name} ends no transaction; give abort or commit")
        return self.append_control(timestamp, EndTxnMarker(kind, kind, VERSION, coordinator_epoch))

    def append_control(self, timestamp: Timestamp, record: ControlRecord, offset: int | None = None) -> int:
        """Adds a typed control record, as returned by `Record.control`.

        Markers need a producer id and a transactional batch, LEADER_CHANGE a partition leader epoch.
        """
        if not isinstance(record, ControlRecord):
            raise TypeError(f"a control record is needed, as Record.control returns it, not {type(record).__name__}")
        kind = type_of(record.type)
        if kind in MARKERS:
            if self._header.producer_id == -1:
                raise ValueError("an end transaction marker needs a producer id")
            if not self._header.is_transactional:
                raise ValueError("an end transaction marker needs a transactional batch")
        if kind is ControlRecordType.LEADER_CHANGE and self._header.partition_leader_epoch == -1:
            raise ValueError("a leader change needs a partition leader epoch")
        return self._append_control(timestamp, key_of(kind), value_of(record), (), offset)

    def _append_control(
        self, timestamp: Timestamp, key: bytes, value: bytes | None, headers: Headers | None, offset: int | None
    ) -> int:
        if not self._header.is_control:
            raise ValueError("a control record needs a control batch")
        return self._append(timestamp, key, value, headers, offset)

    def _append(self, timestamp: Timestamp, key: Any, value: Any, headers: Headers | None, offset: int | None) -> int:
        """Appends a record that the compiled code did not accept: converts its fields, or raises the error."""
        if self._state != "open":
            raise ValueError(f"no more records: the builder is {self._state}")
        offset = fitting("offset", self.next_offset if offset is None else offset, 64)
        last = self._last_offset
        if last is not None and offset <= last:
            raise ValueError(f"offset {offset} does not follow the last offset {last}: they must increase")
        delta = offset - self._header.base_offset
        if not -MAX_SIZE - 1 <= delta <= MAX_SIZE:
            raise ValueError(f"offset {offset} is too far from the base offset {self._header.base_offset} for 32 bits")
        time = timestamp_of(timestamp)
        if time < -1:
            raise ValueError(f"timestamp {time} is negative")
        parts = content("key", key), content("value", value), self._pairs(headers)
        if self._append_row(time, *parts, offset) is None:
            raise ValueError(f"the records take more than {self._most_bytes} bytes")
        return offset

    def build(self) -> bytes:
        """The batch; b"" without records. Closes the builder; further calls return the same bytes.

        ValueError if the producer's fields contradict each other, or after `abort`.
        """
        if self._topic is None or self._state != "open" or self._header.is_control:
            return self._build()
        built = self._build()
        ESTIMATOR.update_estimation(self._topic, self.compression, self._ratio)
        return built

    def close(self) -> bytes:
        """The same as `build`."""
        return self.build()

    def abort(self) -> None:
        """Drops the records. `build` then raises ValueError."""
        self._abort()

    def override_last_offset(self, last_offset: int) -> None:
        """Sets the last offset in the batch's header, as after compaction. ValueError once the batch is built."""
        if self._state == "built":
            raise ValueError("the batch is built: its last offset cannot be set any more")
        last_offset = fitting("last offset", last_offset, 64)
        if self._header.magic >= BATCH_MAGIC:
            fitting("distance from the base offset to the last", last_offset - self._header.base_offset, 32)
        self._last_offset = last_offset

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.abort()
        elif self._state != "aborted":
            self.build()
