"""Records of all inputs, piece by piece, in flat memory."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import kafkarec

from . import committed, inputs
from .inputs import Source
from .progress import Tick
from .selection import Piece, Selection
from .trouble import Troubles

# Mapped pages count as our memory until they are given back: every so many pieces of about 1 MB.
_PIECES_BETWEEN_FORGETTING = 32


@dataclass(frozen=True)
class Reader:
    """decode: options of `kafkarec.stream`; selection: which rows; damage goes to `troubles`."""

    decode: dict[str, Any]
    selection: Selection
    troubles: Troubles
    tick: Tick

    def pieces(self, sources: Sequence[Source]) -> Generator[Piece]:
        """The chosen rows of all sources, about 1 MB of payload or less a piece."""
        for _, group in groupby(sources, key=lambda source: source.log):
            log = list(group)
            whole = committed.Log(log) if self.decode["isolation"] == "read_committed" else None
            for source in log:
                more = whole.options(source) if whole else {}
                with inputs.opened(source) as view:
                    yield from self._one(source, view, more)
                if self.troubles.stopped:
                    return

    def _one(self, source: Source, view: memoryview, more: dict[str, Any]) -> Generator[Piece]:
        """Always reads in the skipping way: what lies before the first damage is then whole and at hand."""
        stops = self.troubles.stop_at_first
        remaining = 0
        stream = kafkarec.stream(view, errors="skip", _file=source.name, **self.decode, **more)
        for number, records in enumerate(stream):
            remaining = records.remaining
            damage = list(records.damage)[: 1 if stops else None]
            stop_at = damage[0].position if damage and stops else None
            yield from self.selection.choose(source, records, stop_at)
            for one in damage:
                self.troubles.add(source, one, view)
            if stop_at is not None:
                return
            self.tick(source, records)
            if number % _PIECES_BETWEEN_FORGETTING == _PIECES_BETWEEN_FORGETTING - 1:
                inputs.forget(view)
        if remaining:
            self.troubles.tail(source, view[len(view) - remaining :], len(view))
