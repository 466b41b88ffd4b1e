"""What a segment, a log and a data folder have in common: the verbs, over the segments of one or more partitions.

Everything is read as the engine reads bytes in memory, a window at a time; what read_committed hides is worked out over
all segments of a partition.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import transactions
from ..enums import Isolation
from ..passes import Part, as_columns, joined
from ..records import BatchTable, RecordBatch, RecordColumns
from ..request import CHUNK_BYTES, Request, demand_known, request
from ..schema import DEFAULT_RECORD_COLUMNS
from .ranges import Range

if TYPE_CHECKING:
    from ..checks import Report
    from ..rescue import SalvageReport
    from .folders import Tally
    from .segment import Segment

_SEVERAL = ("topic", "partition", "file")


class _Reading(NamedTuple):
    """One partition's segments that may hold what is wanted, and what is asked of each."""

    asked: Request
    segments: Sequence[Segment]
    stable: int | None


class Readable:
    """Segment, Log and LogDir: `read`, `stream`, `scan`, `batches` and what is built on them."""

    def groups(self) -> Iterator[Sequence[Segment]]:
        """The segments of each partition, in order."""
        raise TypeError(f"{type(self).__name__} has no segments of its own")

    @property
    def tally(self) -> Tally | None:
        """What counts the bytes that come over the wire, for all that was opened with one call; None: not remote."""
        tally: Tally | None = getattr(getattr(self, "_folder", None), "tally", None)
        return tally

    @property
    def fetched(self) -> int | None:
        """Bytes that came over the wire so far, for this and everything opened with it; None: it is not remote."""
        return None if self.tally is None else self.tally.fetched

    @property
    def _default_columns(self) -> tuple[str, ...] | None:
        return None

    def _readings(
        self, asked: Request, wanted: Range, isolation: Isolation | str,
        aborted: Iterable[Any] | None, last_stable_offset: int | None,
    ) -> Iterator[_Reading]:  # fmt: skip
        options = replace(asked.options, offsets=wanted.offsets, times=wanted.times)
        committed = Isolation.of(isolation) is Isolation.READ_COMMITTED
        aborted = None if aborted is None else list(aborted)
        for group in self.groups():
            chosen, stable = options, None
            if committed:
                hidden = transactions.hidden(group, aborted, last_stable_offset, skip=asked.skip)
                chosen = replace(options, aborted=hidden.aborted, stable_offset=hidden.stable_offset)
                stable = hidden.last_stable_offset
            yield _Reading(asked._replace(options=chosen), _within(group, wanted), stable)

    def _asked(self, wishes: dict[str, Any]) -> Request:
        demand_known(wishes)
        if wishes.get("columns") is None and self._default_columns:
            wishes = {**wishes, "columns": self._default_columns}
        return request(**wishes)

    def read(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        aborted: Iterable[tuple[int, int] | tuple[int, int, int]] | None = None,
        last_stable_offset: int | None = None,
        threads: int = 1,
        **wishes: Any,
    ) -> RecordColumns:
        """All chosen records as columns. Takes decode's options besides:

        start_offset, end_offset: offsets from the first to the second, which is exclusive
        start_timestamp, end_timestamp: the same for timestamps, int milliseconds or an aware datetime; a record
            without a timestamp is in no range. The indexes beside a segment tell where to begin; a batch whose header
            shows that nothing in it is wanted is not decoded
        `.batches` and `.damage` are those of what was read; `.remaining` sums up the tails of all segments.
        """
        asked = self._asked(wishes)
        wanted = Range.of(start_offset, end_offset, start_timestamp, end_timestamp)
        parts: list[Part] = []
        stable: list[int | None] = []
        for reading in self._readings(asked, wanted, isolation, aborted, last_stable_offset):
            stable.append(reading.stable)
            for segment in reading.segments:
                parts.append(segment.part(reading.asked, wanted, threads))
        return as_columns(asked, joined(parts), stable[0] if len(stable) == 1 else None)

    def stream(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        aborted: Iterable[tuple[int, int] | tuple[int, int, int]] | None = None,
        last_stable_offset: int | None = None,
        batch_bytes: int = CHUNK_BYTES,
        **wishes: Any,
    ) -> Iterator[RecordColumns]:
        """As read, in pieces of about `batch_bytes` of payload, each with its own batches and damage: flat memory.

        Under errors="raise" everything in front of the damage comes first. Closing the iterator closes the file.
        """
        wanted = Range.of(start_offset, end_offset, start_timestamp, end_timestamp)
        pieces = self._stream(wanted, isolation, aborted, last_stable_offset, batch_bytes, wishes)
        return _second_of(pieces)

    def pieces(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | str = "read_uncommitted",
        batch_bytes: int = CHUNK_BYTES,
        **wishes: Any,
    ) -> Generator[tuple[Segment, RecordColumns]]:
        """As stream, each piece with the segment that it lies in."""
        wanted = Range.of(start_offset, end_offset, start_timestamp, end_timestamp)
        return self._stream(wanted, isolation, None, None, batch_bytes, wishes)

    def _stream(
        self, wanted: Range, isolation: Isolation | str, aborted: Any, stable: int | None, batch_bytes: int,
        wishes: dict[str, Any],
    ) -> Generator[tuple[Segment, RecordColumns]]:  # fmt: skip
        if not isinstance(batch_bytes, int) or batch_bytes < 1:
            raise ValueError(f"batch_bytes {batch_bytes!r}: 1 or more")
        asked = self._asked(wishes)
        asked = asked._replace(options=replace(asked.options, chunk_bytes=batch_bytes))
        return self._pieces(asked, wanted, Isolation.of(isolation), aborted, stable)

    def _pieces(self, asked: Request, wanted: Range, *isolation: Any) -> Generator[tuple[Segment, RecordColumns]]:
        for reading in self._readings(asked, wanted, *isolation):
            for segment in reading.segments:
                with closing(segment.parts(reading.asked, wanted)) as parts:
                    for part in parts:
                        yield segment, as_columns(asked, part, reading.stable)

    def scan(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> BatchTable:
        """One row per batch from the headers alone: of all, or of those that may hold offsets of a range, whose end is
        exclusive. `scan_pieces` gives the same in flat memory."""
        return BatchTable.joined(
            list(self.scan_pieces(errors=errors, start_offset=start_offset, end_offset=end_offset))
        )

    def scan_pieces(
        self, *, errors: str = "raise", start_offset: int | None = None, end_offset: int | None = None
    ) -> Iterator[BatchTable]:
        """Batch tables of some 11,000 batches each. Positions count within a segment."""
        asked = request(errors=errors)
        wanted = Range.of(start_offset, end_offset, None, None)
        for group in self.groups():
            for segment in _within(group, wanted):
                yield from segment.headers(asked, wanted)

    def batches(self, *, errors: str = "raise", **wishes: Any) -> Iterator[RecordBatch]:
        """The batches one by one; see kafkarec.batches. Bytes are read when they are asked for."""
        demand_known(wishes)
        asked = request(**{"control": True, **wishes}, errors=errors)
        return (batch for group in self.groups() for segment in group for batch in segment.record_batches(asked))

    def transactions(self, *, hanging_after: timedelta = transactions.HANGING_AFTER) -> Any:
        """All transactions of the log, from headers and markers: a transactions.TransactionListing."""
        (group,) = self.groups()
        return transactions.listing(group, hanging_after=hanging_after)

    @property
    def last_stable_offset(self) -> int | None:
        """Where a read_committed consumer stops: the first open transaction's first offset, else the log's end."""
        (group,) = self.groups()
        return transactions.hidden(group).last_stable_offset

    def verify(self, **wishes: Any) -> Report:
        """Is it damaged, where, what is lost: see kafkarec.verify."""
        from ..checks import verify

        return verify(self, **wishes)

    def salvage(self, out: Any, **wishes: Any) -> SalvageReport:
        """Every good batch into a new folder: see kafkarec.salvage."""
        from ..rescue import salvage

        return salvage(self, out, **wishes)

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """The offset of the first record at or after a time (ms, or an aware datetime); None: there is none.

        Follows KafkaConsumer.offsetsForTimes.
        """
        for piece in self.stream(start_timestamp=timestamp, columns=["offset"], batch_bytes=1):
            if len(piece):
                return int(piece.column("offset")[0])
        return None


def _within(group: Sequence[Segment], wanted: Range) -> Sequence[Segment]:
    """The segments that may hold the wanted offsets, by the base offsets of their names."""
    chosen = []
    for number, segment in enumerate(group):
        later = group[number + 1].base_offset if number + 1 < len(group) else None
        first, end, base = wanted.first_offset, wanted.end_offset, segment.base_offset
        if first is not None and later is not None and base is not None and base < later <= first:
            continue
        if end is not None and base is not None and base >= end and number > 0:
            continue
        chosen.append(segment)
    return chosen


def _second_of(pieces: Generator[tuple[Segment, RecordColumns]]) -> Iterator[RecordColumns]:
    with closing(pieces):
        for _, piece in pieces:
            yield piece


def several_columns() -> tuple[str, ...]:
    return (*DEFAULT_RECORD_COLUMNS, *_SEVERAL)
