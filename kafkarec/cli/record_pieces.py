"""Records of all inputs, piece by piece, in flat memory."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkarec.storage import Log, Segment

from .problems import Troubles
from .progress import Tick
from .selection import SelectedRows, Selection


class LogRange(NamedTuple):
    """A log from an offset on (None: from its beginning)."""

    log: Log
    from_offset: int | None = None


@dataclass(frozen=True)
class PieceReader:
    """decode: options of `Log.stream`; selection: which rows; damage goes to `troubles`."""

    decode: dict[str, Any]
    selection: Selection
    troubles: Troubles
    tick: Tick

    def pieces(self, parts: Iterable[LogRange]) -> Generator[SelectedRows]:
        """The chosen rows of all logs, about 1 MB of payload or less a piece."""
        for part in parts:
            yield from self._part(part)
            if self.troubles.stopped:
                return

    def _part(self, part: LogRange) -> Generator[SelectedRows]:
        """Reads with errors="skip" always, so that all records before the first damage are returned."""
        stops = self.troubles.stop_at_first
        tail: tuple[Segment, int] | None = None
        ranges = {**self.selection.ranges, "start_offset": part.from_offset}
        with closing(part.log.pieces(errors="skip", **ranges, **self.decode)) as pieces:
            for segment, records in pieces:
                if tail and tail[0] is not segment:
                    self.troubles.tail(*tail)
                tail = (segment, records.remaining)
                damage = list(records.damage)[: 1 if stops else None]
                stop_at = damage[0].position if damage and stops else None
                yield from self.selection.choose(segment, records, stop_at)
                for one in damage:
                    self.troubles.add(segment, one)
                if stop_at is not None:
                    return
                self.tick(segment, records)
        if tail:
            self.troubles.tail(*tail)
