"""Sizes of records and batches before they are written (Kafka: AbstractRecords, DefaultRecord, LegacyRecord), and the
compression ratio that is expected of a topic's batches, from which the size of an open batch is estimated.

magic 2     the batch header + for each record: length varint, attributes 1, timestamp and offset deltas, key and
            value with length varints, count of headers, headers
magic 0, 1  for each message its fields (see kafkarec/format/layout.py) + key + value; with a codec also a wrapper
ratio       compressed bytes / uncompressed bytes of the records, a 32-bit float, for each topic and codec; 1.0 at first

The ratio is pessimistic, see next_ratio in `_c/write.pxd`. Numbers equal those of Kafka's
CompressionRatioEstimator, which calculates in 32-bit floats.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from kafkarec._writer import INITIAL_RATIO as INITIAL_RATIO
from kafkarec._writer import next_ratio, record_size
from kafkarec.codecs import CODECS
from kafkarec.format.enums import Compression
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import BATCH_MAGIC, LEAST_SIZES, MAX_SIZE
from kafkarec.write.encoding import checked_fields
from kafkarec.write.fields import checked_int, checked_magic, to_float32


class CompressionRatioEstimator:
    """Ratios by topic and codec. Safe to use from several threads; Kafka has one for each process, see `ESTIMATOR`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[str, list[float]] = {}

    def estimation(self, topic: str, compression: Compression | str) -> float:
        """The expected ratio of the topic's next batch."""
        codec = Compression.of(compression)
        with self._lock:
            return self._ratios_of(topic)[codec]

    def update_estimation(self, topic: str, compression: Compression | str, observed: float) -> float:
        """Moves the ratio by one step towards the observed ratio of a batch; returns it."""
        codec = Compression.of(compression)
        observed = to_float32(observed)
        with self._lock:
            ratios = self._ratios_of(topic)
            ratios[codec] = next_ratio(ratios[codec], observed)
            return ratios[codec]

    def _ratios_of(self, topic: str) -> list[float]:
        return self._ratios.setdefault(topic, [INITIAL_RATIO] * len(CODECS))

    def __repr__(self) -> str:
        return f"<CompressionRatioEstimator of {len(self._ratios)} topics>"


ESTIMATOR = CompressionRatioEstimator()
"""Used by every `RecordBatchBuilder` that has a topic."""


def estimate_size(
    records: Iterable[Any],
    *,
    magic: int = 2,
    compression: Compression | str = "none",
    base_offset: int | None = None,
) -> int:
    """Bytes of `records` as one batch or message set: exact without a codec, a rough estimate with one.

    records: as for `encode`, but for columns; RecordColumns yield Records
    base_offset: magic 2's offset deltas are relative to it; None: the deltas are 0, 1, 2, ...

    With a codec: half the size, 1 KiB at least, 64 KiB at most. No records: 0. As AbstractRecords.estimateSizeInBytes.
    """
    checked_magic(magic)
    codec = Compression.of(compression)
    base = None if base_offset is None else checked_int("base offset", base_offset, 64)
    size = 0
    base_timestamp = 0
    for index, record in enumerate(records):
        offset, time, key, value, headers = checked_fields(record, index)
        timestamp = -1 if time is None else time
        if index == 0:
            base_timestamp = timestamp
            size = LEAST_SIZES[magic] if magic >= BATCH_MAGIC else 0
        delta = index if base is None else checked_int("offset", offset, 64) - base
        size += record_size(magic, wrapped(delta, 32), wrapped(timestamp - base_timestamp, 64), key, value, headers)
    if size > MAX_SIZE:
        raise ValueError(f"the records take {size} bytes; a batch holds {MAX_SIZE} at most")
    return size if not codec else min(max(size // 2, 1024), 1 << 16)
