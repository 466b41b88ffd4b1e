"""read_committed: excludes aborted transactions and everything from the first open transaction on (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

from kafkarec.damage import UndecidedTransaction

from .hurt_markers import UNDECIDED
from .marker_columns import ABORT, ROW, WIDTH, MarkerInput
from .marker_matching import FIRST, Match, match

_NEVER = 2**63 - 1
_PRODUCER, _CODE, _MARKER, _FIRST = map(ROW.index, ("producer_id", "code", "marker_offset", "first_offset"))

Span = tuple[int, int, int]


class Excluded(NamedTuple):
    """aborted: (producer id, first offset, marker's offset) of each aborted transaction
    stable_offset: the offset at which reading stops; None: at the end
    last_stable_offset: as returned to the caller
    undecided: transactions whose marker may be lost in damage, left out
    """

    aborted: tuple[Span, ...]
    stable_offset: int | None
    last_stable_offset: int | None
    undecided: tuple[UndecidedTransaction, ...] = ()


class EndedAndOpen(NamedTuple):
    """The result of `ended_and_open`: the transactions of a log.

    aborted              (producer id, first offset, marker's offset) of each aborted transaction with data in the input
    marked_producer_ids  producer ids that have a marker in the input, with or without data before it
    open_first_offsets   the first offset of each transaction that has data and no marker
    """

    aborted: tuple[Span, ...]
    marked_producer_ids: frozenset[int]
    open_first_offsets: tuple[int, ...]


def ended_and_open(inputs: Iterable[Any], *, skip: bool) -> EndedAndOpen:
    """The ended and the open transactions of one log, by its markers.

    inputs: the log's segments in order, or buffers; a transaction that began before the first one has its first offset
        from the .txnindex, or else from its first data in the input
    skip: the caller skips damage, so the checksum of every batch is checked, and a marker that cannot be read ends no
        transaction; otherwise InvalidRecordError for such a marker
    """
    matched = match(inputs, raises=not skip, check_all=skip)
    marked = frozenset((*matched.ended[_PRODUCER::WIDTH], *matched.without_data[_PRODUCER::WIDTH]))
    return EndedAndOpen(_aborted(matched), marked, _open_first_offsets(matched))


def _open_first_offsets(matched: Match) -> tuple[int, ...]:
    return tuple(txn[FIRST] for txn in matched.open.values())


def _aborted(matched: Match) -> tuple[Span, ...]:
    ended = matched.ended
    spans = zip(ended[_PRODUCER::WIDTH], ended[_FIRST::WIDTH], ended[_MARKER::WIDTH], strict=True)
    return tuple(compress(spans, map(ABORT.__eq__, ended[_CODE::WIDTH])))


def _abort_markers(matched: Match) -> dict[int, list[int]]:
    """Producer id -> offsets of its ABORT markers, including those of transactions that began before the input."""
    markers: dict[int, list[int]] = {}
    for rows in (matched.ended, matched.without_data):
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
    skip: bool = False,
    restore: bool = True,
) -> Excluded:
    """The records that a read_committed consumer does not receive, by the markers of the log.

    aborted, last_stable_offset: override the result of the markers

    inputs: the segments of one log in order, or a buffer (see MarkerInput.of); not read if `last_stable_offset` is
        given and `aborted` has the markers' offsets
    skip: the caller skips damage, so damaged batches must not count here
    restore: the caller restores header fields
    InvalidRecordError for an unreadable marker; with `skip` such a marker ends no transaction.
    """
    known = None if aborted is None else tuple(aborted)
    if known is not None and last_stable_offset is not None:
        complete = tuple(span for span in known if len(span) == 3)
        if len(complete) == len(known):
            return Excluded(complete, last_stable_offset, last_stable_offset)
    given = map(MarkerInput.of, inputs)
    matched = match(
        given if restore else (replace(one, restore=False) for one in given), raises=not skip, check_all=skip
    )
    if known is None:
        spans = _aborted(matched)
    else:
        markers = _abort_markers(matched)
        spans = tuple(
            (producer, first, min((at for at in markers.get(producer, ()) if at >= first), default=_NEVER))
            for producer, first, *_ in known
        )
    stable = last_stable_offset
    if stable is None:
        stable = min(_open_first_offsets(matched), default=None)
    undecided = _undecided(matched) if known is None else ()
    return Excluded(spans, stable, matched.next_offset if stable is None else stable, undecided)


def _undecided(matched: Match) -> tuple[UndecidedTransaction, ...]:
    return tuple(
        UndecidedTransaction(
            one.producer_id,
            one.producer_epoch,
            one.first_offset,
            one.last_offset,
            one.lost_from,
            one.lost_to,
            one.sentence,
        )
        for one in matched.decisions
        if one.outcome == UNDECIDED
    )
