"""Reads the records of all inputs piece by piece, in constant memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafkarec.damage import Damage
from kafkarec.logs import Log, Segment
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordColumns

from . import progress
from .problems import DamageReporter
from .progress import Tick
from .selection import SelectedRows, Selection


class LogRange(NamedTuple):
    """A log from an offset on (None: from its beginning)."""

    log: Log
    from_offset: int | None = None


@dataclass(frozen=True)
class PieceReader:
    """decode: options of `Log.stream`; selection: the rows to return; damage_reporter: gets the damage;
    threads: how many decode."""

    decode: dict[str, Any]
    selection: Selection
    damage_reporter: DamageReporter
    tick: Tick
    threads: int = 1

    def pieces(self, parts: Iterable[LogRange]) -> Generator[SelectedRows]:
        """Yield the selected rows of all logs, in pieces of up to about 1 MB of payload."""
        for part in parts:
            yield from self._part(part)
            if self.damage_reporter.stopped:
                return

    def _part(self, part: LogRange) -> Generator[SelectedRows]:
        tail: tuple[Segment, int] | None = None
        ranges = {**self.selection.ranges, "start_offset": part.from_offset}
        with closing(part.log.pieces(**ranges, **self.options, threads=self.threads)) as pieces:
            for segment, records in pieces:
                if tail is None:
                    self.damage_reporter.undecided(part.log.path, records.undecided)
                if tail and tail[0] is not segment:
                    self.damage_reporter.tail(*tail)
                tail = (segment, records.remaining)
                yield from self.chosen(segment, records)
                if self.damage_reporter.stopped:
                    return
                self.tick(*progress.after(segment, records.batches))
        if tail:
            self.damage_reporter.tail(*tail)

    @property
    def options(self) -> dict[str, Any]:
        """What the log is read with. Damage is skipped in any case, so that all records before the first one come."""
        return {**self.decode, "errors": "skip", "restore": not self.damage_reporter.stop_at_first}

    def silent(self, *columns: str) -> PieceReader:
        """Return a reader of these columns of the same rows that reports no damage, as they are read once more."""
        reporter = DamageReporter(self.damage_reporter.argv, self.damage_reporter.stop_at_first, "", lines=0)
        needed = dict.fromkeys([*self.selection.columns, *columns, "batch_position"])
        return replace(self, decode={**self.decode, "columns": list(needed)}, damage_reporter=reporter)

    def chosen(self, segment: SegmentFile, records: RecordColumns) -> Generator[SelectedRows]:
        """Yield the selected rows of what was read, and report its damage; if reading stops at damage, only what is
        before it."""
        stops = self.damage_reporter.stop_at_first
        damage = deque(list(records.damage)[: 1 if stops else None])
        stop_at = damage[0].position if damage and stops else None
        for piece in self.selection.choose(segment, records, stop_at):
            yield from self._around(piece, damage)
        for one in damage:
            self.damage_reporter.add(segment, one)
        for restored in records.restored:
            self.damage_reporter.restored(segment, restored)

    def _around(self, piece: SelectedRows, damage: deque[Damage]) -> Generator[SelectedRows]:
        """Yield the rows in parts, and report damage between two of them, so that it is reported only if the caller
        reads on behind it."""
        while damage:
            positions = piece.table.column("batch_position")
            before = bisect_right(piece.selected, damage[0].position, key=positions.__getitem__)
            if before == piece.count:
                break
            if before:
                yield piece.slice(0, before)
            self.damage_reporter.add(piece.source, damage.popleft())
            piece = piece.slice(before, piece.count)
        yield piece
