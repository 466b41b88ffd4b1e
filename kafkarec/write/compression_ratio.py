"""What compressed batches of a topic came down to, for the guess how full an open batch is.

    ratio   compressed bytes / uncompressed bytes of the records, a 32-bit float, for each topic and codec; 1.0 at first

The guess is pessimistic: a batch that packed worse moves it up by 0.05 at least, one that packed better moves it down
by 0.005 at most. Numbers are those of Kafka's CompressionRatioEstimator, to the last bit: it counts in 32-bit floats.
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
        """The ratio to expect of the topic's next batch."""
        codec = Compression.of(compression)
        with self._lock:
            return self._of(topic)[codec]

    def update_estimation(self, topic: str, compression: Compression | str, observed: float) -> float:
        """Moves the ratio one step to what a batch has shown; returns it."""
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
        """Sets the ratio by hand."""
        codec = Compression.of(compression)
        with self._lock:
            self._of(topic)[codec] = single(ratio)

    def reset_estimation(self, topic: str | None = None) -> None:
        """Back to 1.0 for all codecs of the topic; without a topic, for all topics."""
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
"""What `RecordBatchBuilder` uses where it is told a topic."""
