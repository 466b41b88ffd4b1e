"""Estimates the compression ratio of a topic's batches, from which the size of an open batch is estimated.

    ratio   compressed bytes / uncompressed bytes of the records, a 32-bit float, for each topic and codec; 1.0 at first

The estimate is pessimistic: a batch with a higher ratio raises it by at least 0.05, one with a lower ratio lowers it by
at most 0.005. Numbers equal those of Kafka's CompressionRatioEstimator, which calculates in 32-bit floats.
"""

from __future__ import annotations

import threading

from kafkarec.codecs import CODECS
from kafkarec.format.enums import Compression
from kafkarec.write.fields import single

IMPROVING_STEP = single(0.005)
DETERIORATE_STEP = single(0.05)
INITIAL_RATIO = 1.0


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
            current = ratios[codec]
            if observed > current:
                ratios[codec] = max(single(current + DETERIORATE_STEP), observed)
            elif observed < current:
                ratios[codec] = max(single(current - IMPROVING_STEP), observed)
            return ratios[codec]

    def set_estimation(self, topic: str, compression: Compression | str, ratio: float) -> None:
        """Sets the ratio."""
        codec = Compression.of(compression)
        with self._lock:
            self._of(topic)[codec] = single(ratio)

    def reset_estimation(self, topic: str | None = None) -> None:
        """Resets the ratios of all codecs of the topic to 1.0; without a topic, those of all topics."""
        with self._lock:
            if topic is None:
                self._ratios.clear()
            else:
                self._ratios.pop(topic, None)

    def _of(self, topic: str) -> list[float]:
        return self._ratios.setdefault(topic, [INITIAL_RATIO] * len(CODECS))

    def __repr__(self) -> str:
        return f"<CompressionRatioEstimator of {len(self._ratios)} topics>"


ESTIMATOR = CompressionRatioEstimator()
"""Used by every `RecordBatchBuilder` that has a topic."""
