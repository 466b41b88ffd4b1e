"""read_committed: excludes aborted transactions and everything from the first open transaction on (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple

from kafkarec.damage import UndecidedTransaction
from kafkarec.format.java_integers import number_or_none
from kafkarec.recover.holes import Hole
from kafkarec.recover.marker_evidence import END_UNKNOWN, UNDECIDED, Evidence
from kafkarec.recover.marker_matching import MatchedTransactions
from kafkarec.recover.misplaced import MisplacedBatches, misplaced_batches
from kafkarec.recover.steps import ABORT, ROW, WIDTH, Step, TransactionData

from .passes import Excluded, Span
from .walk import CHECKED_MARKERS, CHECKSUMS, MARKERS, passes_checksum, walk, walk_request

_NEVER = 2**63 - 1
_PRODUCER, _CODE, _MARKER, _FIRST = map(ROW.index, ("producer_id", "code", "marker_offset", "first_offset"))


class EndedAndOpen(NamedTuple):
    """The result of `ended_and_open`: the transactions of a log.

    aborted              (producer id, first offset, marker's offset) of each aborted transaction with data in the input
    marked_producer_ids  producer ids that have a marker in the input, with or without data before it
    open_first_offsets   the first offset of each transaction that has data and no marker
    """

    aborted: tuple[Span, ...]
    marked_producer_ids: frozenset[int]
    open_first_offsets: tuple[int, ...]


def match_markers(
    segments: Iterable[Any],
    *,
    raises: bool = False,
    check_all: bool = False,
    restore: bool = True,
    holes: Sequence[Hole] = (),
    evidence_of: Callable[[Any], Evidence] = attrgetter("evidence"),
) -> MatchedTransactions:
    """Matches the markers of one log. Reads it twice if a damaged header seems to begin a transaction, again if batches
    are at a wrong place, and if a transaction is undecided and `__transaction_state` may have its end.

    segments: in order; also buffers
    raises: InvalidRecordError for a control batch with an unreadable first record; otherwise it ends no transaction
    check_all: check the checksums of all batches in the first pass
    restore: restore header fields
    holes: of a log whose damaged bytes were removed, in order
    """

    misplaced: MisplacedBatches | None = None

    def steps(over: Iterable[Any], check_all: bool) -> Iterator[Step]:
        want = MARKERS | CHECKSUMS if check_all else CHECKED_MARKERS
        return walk(over, walk_request(want, errors="skip", restore=restore))

    def matched(over: Iterable[Any], check_all: bool, prepared: Mapping[tuple[int, int], bool]) -> MatchedTransactions:
        known = [*holes, *(misplaced.holes if misplaced else ())]
        found = MatchedTransactions(raises, evidence_of, known_holes=known, prepared=prepared)
        for step in misplaced.left_out_of(steps(over, check_all)) if misplaced else steps(over, check_all):
            found.take(step)
        found.finish()
        return found

    found = matched(segments, check_all, {})
    ended_unseen = any(one.proof == END_UNKNOWN.proof for one in found.decisions)  # or its header is damaged, too
    if not check_all and (ended_unseen or found.is_out_of_order or not _open_transactions_pass_crc(found)):
        check_all = True
        found = matched(found.segments, check_all, {})
    if found.is_out_of_order and not raises:
        misplaced = misplaced_batches(steps(found.segments, check_all))
        found = matched(found.segments, check_all, {})
    if any(one.outcome == UNDECIDED for one in found.decisions):
        prepared = evidence_of(found.segments[0]).prepared()
        found = matched(found.segments, check_all, prepared) if prepared else found
    return found


def _open_transactions_pass_crc(found: MatchedTransactions) -> bool:
    """Whether the first batch of each open transaction has a right checksum. A damaged header can look like the start
    of a transaction that never ends, which would exclude the rest of the log."""
    return all(passes_checksum(found.segments[one.segment], one.position, one.size) for one in found.open.values())


def ended_and_open(segments: Iterable[Any], *, skip: bool) -> EndedAndOpen:
    """The ended and the open transactions of one log, by its markers.

    segments: those of the log in order, or buffers; a transaction that began before the first one
        has its first offset from the .txnindex, or else from its first data in the input
    skip: the caller skips damage, so the checksum of every batch is checked, and a marker that cannot be read ends no
        transaction; otherwise InvalidRecordError for such a marker
    """
    matched = match_markers(segments, raises=not skip, check_all=skip)
    marked = frozenset((*matched.ended[_PRODUCER::WIDTH], *matched.without_data[_PRODUCER::WIDTH]))
    return EndedAndOpen(aborted_spans(matched), marked, tuple(one.first_offset for one in matched.open.values()))


def aborted_spans(matched: MatchedTransactions) -> tuple[Span, ...]:
    ended = matched.ended
    aborted = [code == ABORT for code in ended[_CODE::WIDTH]]
    columns = (compress(ended[at::WIDTH], aborted) for at in (_PRODUCER, _FIRST, _MARKER))
    found: Iterable[Span] = zip(*columns, strict=True)
    return tuple(_joined(found) if matched.decisions else found)


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
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


def _abort_markers(matched: MatchedTransactions) -> dict[int, list[int]]:
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
        markers = _abort_markers(matched)
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
    highest, damaged = matched.highest_base, bool(matched.damage)
    return Excluded(aborted_spans(matched), stable, last_stable_offset, _undecided(matched), highest, damaged)


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
