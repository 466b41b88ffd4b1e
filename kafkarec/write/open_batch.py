"""State of a batch that is being built: fields, records so far, size. Where it is full: see `_c/write.pxd`."""

from __future__ import annotations

from kafkarec._writer import OpenBatch, compiled_init
from kafkarec.codecs import CODECS, MissingCodec, checked_level, compress
from kafkarec.errors import MissingCodecError
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.write.compression_ratio import ESTIMATOR
from kafkarec.write.fields import (
    Headers,
    Timestamp,
    checked_magic,
    content,
    fitting,
    header_pair,
    single,
    timestamp_of,
)
from kafkarec.write.header import BatchHeader


class BatchState(OpenBatch):
    """The fields and properties of `RecordBatchBuilder`. The compiled base has the records."""

    _header: BatchHeader

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
        horizon = -1 if delete_horizon_ms is None else fitting("delete horizon", delete_horizon_ms, 64)
        header = BatchHeader(
            checked,
            int(codec),
            checked_to_write,
            0 if timestamp_type is None else int(TimestampType.of(timestamp_type)),
            fitting("base offset", base_offset, 64),
            log_append_time=fitting("log append time", log_append_time, 64),
            partition_leader_epoch=fitting("partition leader epoch", partition_leader_epoch, 32),
            producer_id=fitting("producer id", producer_id, 64),
            producer_epoch=fitting("producer epoch", producer_epoch, 16),
            base_sequence=fitting("base sequence", base_sequence, 32),
            is_transactional=bool(is_transactional),
            is_control=bool(is_control),
            delete_horizon_ms=horizon if horizon >= 0 else None,
        )
        self._begin(header, fitting("batch size", batch_size, 32))
        if topic is not None:
            self._use_topic(topic)

    def _use_topic(self, topic: str) -> None:
        self._topic = topic
        self._expected_ratio = ESTIMATOR.estimation(topic, self.compression)

    def has_room_for(
        self, timestamp: Timestamp, key: bytes | None, value: bytes | None, headers: Headers | None = ()
    ) -> bool:
        """Whether a record with these fields still fits `batch_size`; with a codec a pessimistic estimate."""
        known = self._has_room(timestamp, key, value, headers)
        if known is None:
            row = timestamp_of(timestamp), content("key", key), content("value", value)
            known = self._has_room(*row, self._pairs(headers) if self._header.magic >= BATCH_MAGIC else [])
        return bool(known)

    @property
    def is_full(self) -> bool:
        """Whether no further record fits, or the batch is built or aborted. False while it is open without records."""
        return self._is_full

    @property
    def estimated_bytes_written(self) -> int:
        """Bytes so far with the header: exact without a codec, with one estimated by the expected ratio."""
        return self._size_so_far

    @property
    def estimated_size(self) -> int:
        """Bytes of the batch once it is built; before that `estimated_bytes_written`."""
        return self._size

    @property
    def estimated_compression_ratio(self) -> float:
        """The expected ratio that `has_room_for` uses. May be set; rounded to a 32-bit float."""
        return self._expected_ratio

    @estimated_compression_ratio.setter
    def estimated_compression_ratio(self, ratio: float) -> None:
        self._expected_ratio = single(ratio)

    def _pairs(self, headers: Headers | None) -> list[tuple[bytes, bytes | None]]:
        if headers is None and self._header.magic >= BATCH_MAGIC:
            raise ValueError("headers must not be None; for no headers give ()")
        pairs = [header_pair(header) for header in headers or ()]
        if pairs and self._header.magic < BATCH_MAGIC:
            raise ValueError(f"magic {self._header.magic} has no record headers")
        return pairs

    @property
    def max_timestamp(self) -> int:
        """ms; -1 without one."""
        return self._header.log_append_time if self._header.timestamp_type else self._max_timestamp[0]

    @property
    def offset_of_max_timestamp(self) -> int:
        """The offset of the first record that has the max timestamp; -1 without one."""
        if self._header.timestamp_type:
            return self._first_offset
        return self._max_timestamp[1]

    @property
    def compression_ratio(self) -> float:
        """Bytes of the built batch's payload / uncompressed bytes of its records; 1.0 before it is built."""
        return self._ratio

    @property
    def next_offset(self) -> int:
        """The offset of the next record that is appended without one."""
        last = self._last_offset
        return self._header.base_offset if last is None else last + 1

    @property
    def magic(self) -> int:
        return self._header.magic

    @property
    def compression(self) -> Compression:
        return Compression(self._header.codec)

    @property
    def base_offset(self) -> int:
        return self._header.base_offset

    @property
    def last_offset(self) -> int | None:
        """The last record's offset, or the one set by `override_last_offset`; None without records."""
        return self._last_offset

    @property
    def producer_id(self) -> int:
        return self._header.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._header.producer_epoch

    @property
    def base_sequence(self) -> int:
        return self._header.base_sequence

    @property
    def is_transactional(self) -> bool:
        return self._header.is_transactional

    @property
    def is_control(self) -> bool:
        return self._header.is_control

    @property
    def delete_horizon_ms(self) -> int | None:
        return self._header.delete_horizon_ms

    @property
    def is_closed(self) -> bool:
        """Whether the batch is built."""
        return self._state == "built"

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        name = CODECS[self._header.codec].name
        about = "about " if self._header.codec and self._state != "built" else ""
        return (
            f"<RecordBatchBuilder magic {self._header.magic}, {name}, {self._state}: {len(self)} records from offset "
            f"{self._header.base_offset}, {about}{self.estimated_size} of {self._limit} bytes>"
        )
