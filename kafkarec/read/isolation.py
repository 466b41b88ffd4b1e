"""read_committed: excludes aborted transactions and everything from the first open transaction on (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

from kafkarec.damage import UndecidedTransaction, error, restored_text
from kafkarec.format.java_integers import number_or_none
from kafkarec.recover.holes import Hole
from kafkarec.recover.marker_evidence import END_UNKNOWN, UNDECIDED
from kafkarec.recover.marker_matching import MatchedTransactions
from kafkarec.recover.misplaced import judged_steps
from kafkarec.recover.steps import ABORT, Step, TransactionData, columns_of

from .passes import Excluded, Span, WrongOffset
from .walk import CHECKED_MARKERS, CHECKSUMS, MARKERS, passes_checksum, walk, walk_request

_NEVER = 2**63 - 1


class EndedAndOpen(NamedTuple):
    """The result of `ended_and_open`: the transactions of a log.

    aborted              (producer id, first offset, marker's offset) of each aborted transaction with data in the input
    marked_producer_ids  producer ids that have a marker in the input, with or without data before it
    open_first_offsets   the first offset of each transaction that has data and no marker
    is_damaged           whether damage has decided anything: then some of `aborted` may be of data elsewhere in the log
    undecided            transactions whose marker may be lost; they are in `aborted`
    """

    aborted: tuple[Span, ...]
    marked_producer_ids: frozenset[int]
    open_first_offsets: tuple[int, ...]
    is_damaged: bool
    undecided: tuple[UndecidedTransaction, ...]


def match_markers(
    segments: Iterable[Any],
    *,
    raises: bool = False,
    check_all: bool = False,
    restore: bool = True,
    holes: Sequence[Hole] = (),
) -> MatchedTransactions:
    """Matches the markers of one log. Reads it a second time, with all checksums, if batches are at a wrong place (then
    their headers are held in memory), or if a damaged header seems to begin a transaction or to have ended one.

    segments: in order; also buffers
    raises: InvalidRecordError for a control batch with an unreadable first record; otherwise it ends no transaction
    check_all: check the checksums of all batches in the first pass
    restore: restore header fields
    holes: of a log whose damaged bytes were removed, in order
    """

    def steps(over: Iterable[Any], check_all: bool) -> Iterator[Step]:
        want = MARKERS | CHECKSUMS if check_all else CHECKED_MARKERS
        return walk(over, walk_request(want, errors="skip", restore=restore))

    def matched(parts: Iterable[tuple[Step, bool]], misplaced: Iterable[Hole] = ()) -> MatchedTransactions:
        found = MatchedTransactions(raises, [*holes, *misplaced])
        for step, is_placed in parts:
            (found.take if is_placed else found.leave_out_misplaced)(step)
        found.finish()
        return found

    found = matched((step, True) for step in steps(segments, check_all))
    if not check_all and (raises or not found.is_out_of_order):
        ended_unseen = any(one.proof == END_UNKNOWN.proof for one in found.decisions)  # or its header is damaged, too
        # a damaged header can look like the start of a transaction that never ends, which excludes the rest of the log
        began = ((found.segments[one.segment], one.position, one.size) for one in found.open.values())
        if ended_unseen or found.is_out_of_order or not all(starmap(passes_checksum, began)):
            found = matched((step, True) for step in steps(found.segments, True))
    if found.is_out_of_order and not raises:
        found = matched(*judged_steps(steps(found.segments, True)))
    return found


def ended_and_open(segments: Iterable[Any], *, skip: bool) -> EndedAndOpen:
    """The ended and the open transactions of one log, by its markers.

    segments: those of the log in order, or buffers; a transaction that began before the first one
        has its first offset from the .txnindex, or else from its first data in the input
    skip: the caller skips damage, so the checksum of every batch is checked, and a marker that cannot be read ends no
        transaction; otherwise InvalidRecordError for such a marker
    """
    matched = match_markers(segments, raises=not skip, check_all=skip)
    for wrong_offset in () if skip else _wrong_offsets(matched):
        raise wrong_offset.error
    marked = frozenset(producer for (producer,) in columns_of(matched.ended + matched.without_data, "producer_id"))
    opened = tuple(one.first_offset for one in matched.open.values())
    is_damaged = matched.is_out_of_order or bool(matched.decisions)
    return EndedAndOpen(aborted_spans(matched, matched.open), marked, opened, is_damaged, _undecided(matched))


def aborted_spans(matched: MatchedTransactions, opened: Mapping[int, TransactionData]) -> tuple[Span, ...]:
    """The spans of the aborted transactions, by first offset. A span ends before what its producer has next: in a
    buffer the base offset of the marker, or of the batch behind damage that may hold it, may be too high."""
    following = {producer: data.first_offset for producer, data in opened.items()}
    rows = columns_of(matched.ended, "first_offset", "producer_id", "code", "last_offset", "marker_offset")
    found: list[Span] = []
    for first, producer, code, last, marker in sorted(rows, reverse=True):
        if code == ABORT:
            stop = following.get(producer, _NEVER)
            found.append((producer, first, min(marker, stop - 1) if stop > last else marker))
        following[producer] = first
    found.reverse()
    return tuple(_without_overlaps(found) if matched.decisions else found)


def _without_overlaps(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans without overlaps, as the engine wants them: what is decided about damage may be within another one."""
    last: Span | None = None
    for one in sorted(spans):
        if last is not None and last[0] == one[0] and one[1] <= last[2]:
            last = (*last[:2], max(last[2], one[2]))
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def excluded(
    segments: Iterable[Any],
    aborted: Iterable[tuple[int, int] | Span] | None = None,
    last_stable_offset: int | None = None,
    *,
    skip: bool = False,
    restore: bool = True,
) -> Excluded:
    """The records that a read_committed consumer does not receive, by the markers of the log.

    aborted, last_stable_offset: override the result of the markers

    segments: those of one log in order, or a buffer; not read if `last_stable_offset` is given and `aborted` has the
        markers' offsets
    skip: the caller skips damage, so damaged batches must not count here
    restore: the caller restores header fields
    InvalidRecordError for an unreadable marker; with `skip` such a marker ends no transaction.
    """
    known = None if aborted is None else tuple(map(_checked_span, aborted))
    last_stable_offset = number_or_none("last_stable_offset", last_stable_offset, "an offset (int64) or None")
    if known is not None and last_stable_offset is not None:
        complete = tuple(span for span in known if len(span) == 3)
        if len(complete) == len(known):
            return Excluded(complete, last_stable_offset, last_stable_offset)
    matched = match_markers(segments, raises=not skip, check_all=skip, restore=restore)
    found = _excluded(matched, matched.open)
    if known is not None:
        markers: dict[int, list[int]] = {}  # of a producer's ABORTs, also of transactions that began before the input
        rows = matched.ended + matched.without_data
        for code, producer, marker in columns_of(rows, "code", "producer_id", "marker_offset"):
            if code == ABORT:
                markers.setdefault(producer, []).append(marker)
        spans = tuple(
            (producer, first, min((at for at in markers.get(producer, ()) if at >= first), default=_NEVER))
            for producer, first, *_ in known
        )
        found = found._replace(aborted=spans, undecided=())
    if last_stable_offset is None:
        return found
    return found._replace(stable_offset=last_stable_offset, last_stable_offset=last_stable_offset)


def _checked_span(span: Sequence[int]) -> tuple[int, ...]:
    what = "(producer id, first offset), perhaps with the marker's offset"
    numbers = [number_or_none("aborted", one, what) for one in span]
    if len(numbers) < 2 or None in numbers:
        raise ValueError(f"aborted {span!r}: {what}")
    return tuple(one for one in numbers if one is not None)


def excluded_so_far(matched: MatchedTransactions) -> Excluded | None:
    """As `excluded`, of a log that may go on; None: only reading all of it again tells."""
    opened = matched.open_so_far()
    return None if opened is None else _excluded(matched, opened)


def _excluded(matched: MatchedTransactions, opened: Mapping[int, TransactionData]) -> Excluded:
    stable = min((one.first_offset for one in opened.values()), default=None)
    last_stable_offset = matched.next_offset if stable is None else stable
    return Excluded(
        aborted_spans(matched, opened),
        stable,
        last_stable_offset,
        _undecided(matched),
        matched.highest_base,
        bool(matched.damage),
        tuple(_wrong_offsets(matched)),
        matched.falls or matched.has_misplaced,
    )


def _wrong_offsets(matched: MatchedTransactions) -> Iterator[WrongOffset]:
    """Excluded.wrong_offsets. By its stored offset a batch is left out that is above the highest right one."""
    for one, last in matched.wrong_offsets:
        stored, right = one.fields["base_offset"]
        why = f'{restored_text(one.fields, one.evidence)}; errors="skip" uses that'
        fault = {"file": one.file, "position": one.position, "base_offset": stored, "detail": why}
        by_stored = [(stored, stored + last - right)] if stored <= matched.highest_base else []
        yield WrongOffset(error("base_offset_undecided", fault), [(right, last), *by_stored])


def _undecided(matched: MatchedTransactions) -> tuple[UndecidedTransaction, ...]:
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
