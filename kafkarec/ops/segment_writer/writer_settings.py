"""When a segment is rolled: LogSegment.shouldRoll of Kafka 4.4, applied to each batch

    size + batch size > segment_bytes                      a first batch above segment_bytes is refused
    max timestamp - that of the first batch > segment_ms   without a timestamp in the first batch: time since opening
    .index has max_index_size // 8 entries                 or .timeindex has one less than max_index_size // 12
    last offset - segment's base offset > 2^31-1           the limit of an index entry

Kafka checks once per append of several batches. Here each batch is checked as if it were appended alone. There is no
jitter (segment.jitter.ms).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkarec.format.java_integers import INT_MAX, LONG_MAX
from kafkarec.sidecars import offset_index, time_index

WEEK_MS = 7 * 24 * 60 * 60 * 1000
# The minimum and maximum of each option. An index with fewer bytes than two time entries would always be full.
_LIMITS = {
    "segment_bytes": (1, INT_MAX),
    "segment_ms": (1, LONG_MAX),
    "index_interval_bytes": (0, INT_MAX),
    "max_index_size": (2 * time_index.ENTRY_SIZE, INT_MAX),
    "leader_epoch": (0, INT_MAX),
    "start_offset": (0, LONG_MAX - 1),
}
_NONE_ALLOWED = {"leader_epoch", "start_offset"}


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The options of a SegmentWriter, described there. Raises ValueError for a value out of range."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    max_index_size: int
    leader_epoch: int | None
    start_offset: int | None
    assign_offsets: bool
    preallocate: bool

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in _NONE_ALLOWED:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} {value!r}: must be an integer")
            if not low <= value <= high:
                raise ValueError(f"{name} {value}: must be {low} to {high}")

    def entries_left(self, entries: tuple[int, int]) -> int:
        """The number of entries that still fit into the indexes; 0 or less: full. entries: numbers of entries in the
        .index and .timeindex."""
        most = self.max_index_size // offset_index.ENTRY_SIZE, self.max_index_size // time_index.ENTRY_SIZE - 1
        return min(most[0] - entries[0], most[1] - entries[1])
