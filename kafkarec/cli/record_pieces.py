"""Reads the records of all inputs piece by piece, in constant memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from kafkarec.logs import Log
from kafkarec.read.decode_options import DecodeRequest
from kafkarec.storage import log_reading
from kafkarec.storage.first_and_last import last_ranges
from kafkarec.storage.log_reading import Isolated
from kafkarec.storage.ranges import RecordRange
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordColumns

from . import progress
from .problems import DamageReporter
from .progress import Tick
from .table_windows import windows

SomeRecords = tuple[SegmentFile, RecordColumns]


@dataclass(frozen=True)
class PieceReader:
    """wanted: with the column batch_position; damage is skipped, so that all records before the first one come;
    damage_reporter: gets the damage; threads: how many decode."""

    wanted: DecodeRequest
    record_range: RecordRange
    isolated: Isolated
    damage_reporter: DamageReporter
    tick: Tick
    threads: int = 1

    def pieces(self, logs: Sequence[Log], last: int | None = None) -> Generator[SomeRecords]:
        """Yield the selected records of all logs, in pieces of up to about 1 MB of payload. last: of the end of the
        logs that has so many."""
        chosen = [(number, self.record_range) for number in range(len(logs))]
        if last is not None:
            wanted = self.wanted._replace(skip=not self.damage_reporter.stop_at_first)
            chosen = last_ranges([log.segments for log in logs], wanted, self.record_range, self.isolated, last)
        for number, of_log in chosen:
            log = logs[number]
            with closing(
                log_reading.pieces([log.segments], self.wanted, of_log, self.isolated, self.threads)
            ) as pieces:
                yield from self._of_log(log, pieces)
            if self.damage_reporter.stopped:
                return

    def _of_log(self, log: Log, pieces: Iterable[SomeRecords]) -> Iterator[SomeRecords]:
        tail: tuple[SegmentFile, int] | None = None
        for segment, records in pieces:
            if tail is None:
                self.damage_reporter.undecided(log.path, records.undecided)
            if tail and tail[0] is not segment:
                self.damage_reporter.tail(*tail)
            tail = (segment, records.remaining)
            yield from self.windows(segment, records)
            if self.damage_reporter.stopped:
                return
            self.tick(*progress.after(segment, records.batches))
        if tail:
            self.damage_reporter.tail(*tail)

    def windows(self, segment: SegmentFile, records: RecordColumns) -> Iterator[SomeRecords]:
        """Yield what was read in small tables, and report damage between two of them, so that it is reported only if
        the caller reads on behind it. If reading stops at damage, only what is before it."""
        for damage in records.damage:
            before = bisect_right(records.column("batch_position"), damage.position)
            yield from ((segment, window) for window in windows(records[:before]))
            self.damage_reporter.add(segment, damage)
            if self.damage_reporter.stopped:
                return
            records = records[before:]
        yield from ((segment, window) for window in windows(records))
        for restored in records.restored:
            self.damage_reporter.restored(segment, restored)
