"""Estimates the compression ratio of a topic's batches, from which the size of an open batch is estimated.

    ratio   compressed bytes / uncompressed bytes of the records, a 32-bit float, for each topic and codec; 1.0 at first

The estimate is pessimistic, see next_ratio in `_c/write.pxd`. Numbers equal those of Kafka's
CompressionRatioEstimator, which calculates in 32-bit floats.
"""

from __future__ import annotations

import threading

from kafkarec._writer import INITIAL_RATIO as INITIAL_RATIO
from kafkarec._writer import next_ratio
from kafkarec.codecs import CODECS
from kafkarec.format.enums import Compression
from kafkarec.write.fields import single


class CompressionRatioEstimator:
    """Ratios by topic and codec. Safe to use from several threads; Kafka has one for each process, see `ESTIMATOR`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[str, list[float]] = {}

    def estimation(self, topic: str, compression: Compression | str) -> float:
        """The expected ratio of the topic's next batch."""
        codec = Compression.of(compression)
        with self._lock:
            return self._of(topic)[codec]

    def update_estimation(self, topic: str, compression: Compression | str, observed: float) -> float:
        """Moves the ratio by one step towards the observed ratio of a batch; returns it."""
        codec = Compression.of(compression)
        observed = single(observed)
        with self._lock:
            ratios = self._of(topic)
            ratios[codec] = next_ratio(ratios[codec], observed)
            return ratios[codec]

    def _of(self, topic: str) -> list[float]:
        return self._ratios.setdefault(topic, [INITIAL_RATIO] * len(CODECS))

    def __repr__(self) -> str:
        return f"<CompressionRatioEstimator of {len(self._ratios)} topics>"


ESTIMATOR = CompressionRatioEstimator()
"""Used by every `RecordBatchBuilder` that has a topic."""
