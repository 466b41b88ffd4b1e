"""What read_committed hides: aborted transactions, and everything from the first open one on (KIP-98)"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from .marker_columns import ABORT
from .marker_matching import FIRST, ROW, WIDTH, Match, match

_NEVER = 2**63 - 1
_PRODUCER, _CODE, _MARKER, _FIRST = map(ROW.index, ("producer_id", "code", "marker_offset", "first_offset"))

Span = tuple[int, int, int]


class Excluded(NamedTuple):
    """aborted: (producer id, first offset, marker's offset); stable_offset: where reading stops, None: nowhere."""

    aborted: tuple[Span, ...]
    stable_offset: int | None
    last_stable_offset: int | None


class EndedAndOpen(NamedTuple):
    """The transactions of a log, as `ended_and_open` finds them.

    aborted              (producer id, first offset, marker's offset) of each aborted transaction with data in the input
    marked_producer_ids  producer ids that have a marker in the input, with or without data in front of it
    open_first_offsets   the first offset of each transaction that has data and no marker
    """

    aborted: tuple[Span, ...]
    marked_producer_ids: frozenset[int]
    open_first_offsets: tuple[int, ...]


def ended_and_open(inputs: Iterable[Any], *, skip: bool) -> EndedAndOpen:
    """Which transactions of one log have ended, and which are open, by its markers.

    inputs: the log's segments in order, or buffers (see Input.of); a transaction that began in front of the first one
        counts from its first data here, or from where the .txnindex says that it began
    skip: the reader goes on behind damage, so the checksum of every batch is checked, and a marker that cannot be read
        ends nothing; otherwise InvalidRecordError for such a marker
    """
    found = match(inputs, raises=not skip, check_all=skip)
    marked = frozenset((*found.ended[_PRODUCER::WIDTH], *found.without_data[_PRODUCER::WIDTH]))
    return EndedAndOpen(_aborted(found), marked, _open_first_offsets(found))


def _open_first_offsets(found: Match) -> tuple[int, ...]:
    return tuple(txn[FIRST] for txn in found.open.values())


def _aborted(found: Match) -> tuple[Span, ...]:
    ended = found.ended
    return tuple(
        (producer, first, marker)
        for code, producer, first, marker in zip(
            ended[_CODE::WIDTH], ended[_PRODUCER::WIDTH], ended[_FIRST::WIDTH], ended[_MARKER::WIDTH], strict=True
        )
        if code == ABORT
    )


def _abort_markers(found: Match) -> dict[int, list[int]]:
    """Producer id -> offsets of its ABORT markers, also of those whose transaction began before the input."""
    markers: dict[int, list[int]] = {}
    for rows in (found.ended, found.without_data):
        for code, producer, marker in zip(
            rows[_CODE::WIDTH], rows[_PRODUCER::WIDTH], rows[_MARKER::WIDTH], strict=True
        ):
            if code == ABORT:
                markers.setdefault(producer, []).append(marker)
    return markers


def excluded(
    inputs: Iterable[Any],
    aborted: Iterable[tuple[int, int] | Span] | None = None,
    last_stable_offset: int | None = None,
    *,
    skip: bool | None = None,
) -> Excluded:
    """What a read_committed reader must not see; `aborted` and `last_stable_offset` replace what the markers say.

    inputs: the segments of one log in order (see Input.of), a buffer being a log of one; where `aborted` tells the
        markers too, and `last_stable_offset` the rest, nothing of them is read
    skip: the reader goes on behind damage, so what is damaged must not count here. None: as the request of the first
        input has it
    InvalidRecordError for a marker that cannot be read, unless `skip`: such a marker then ends nothing.
    """
    known = None if aborted is None else tuple(aborted)
    if known is not None and last_stable_offset is not None:
        whole = tuple(span for span in known if len(span) == 3)
        if len(whole) == len(known):
            return Excluded(whole, last_stable_offset, last_stable_offset)
    rest = iter(inputs)
    first = next(rest, None)
    if skip is None:
        skip = isinstance(first, tuple) and first[0].skip
    found = match(chain(() if first is None else (first,), rest), raises=not skip, check_all=skip)
    if known is None:
        spans = _aborted(found)
    else:
        markers = _abort_markers(found)
        spans = tuple(
            (producer, first, min((at for at in markers.get(producer, ()) if at >= first), default=_NEVER))
            for producer, first, *_ in known
        )
    stable = last_stable_offset
    if stable is None:
        stable = min(_open_first_offsets(found), default=None)
    return Excluded(spans, stable, found.next_offset if stable is None else stable)
