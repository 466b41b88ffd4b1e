"""The base offsets of segments whose names are wrong, by their batches: names were exchanged, or changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import TypeVar

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.format.layout import UP_TO_MAGIC, first_fields
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.read.walk import HEADERS, passes_checksum, walk, walk_request
from kafkarec.recover.aborted_index import AbortedIndex
from kafkarec.recover.holes import Hole
from kafkarec.sources.files import FileObject

from . import names
from .segment_file import MAX_OFFSETS, SegmentFile, size_or_zero
from .segment_summary import next_offset

AnySegment = TypeVar("AnySegment", bound=SegmentFile)
_FRAMES = 3  # that are read to learn the offsets of a segment


def base_offsets_by_content(segments: Sequence[SegmentFile]) -> dict[SegmentFile, int]:
    """Segment -> base offset, of those of a log whose first batches are outside of the range that their names give, and
    of those without a whole batch whose names these have: they get the names that are left."""
    ends = ends_by_name(segments)
    if not any(begins_outside(segment, ends) for segment in segments):
        return {}
    wrong: dict[int, tuple[SegmentFile, list[int]]] = {}
    empty: dict[int, SegmentFile] = {}
    for segment in segments:
        base, found = segment.base_offset, _first_base_offsets(segment)
        if base is not None and found and _is_mostly_outside(segment, found, base, ends[base]):
            wrong[base] = segment, found
        elif base is not None and not found:
            empty[base] = segment
    right = {one.base_offset: one for one in segments if one.base_offset is not None and one.base_offset not in wrong}
    moved = {}
    for base, (segment, found) in wrong.items():
        by_content = next((one for one in (*wrong, *empty) if one <= found[0] < ends[one]), None)
        is_own = found == sorted(found)
        if len(found) == 1 and by_content not in wrong:
            end = end_offset(segment.copy(restore=False))
            fits_its_name = end == found[0] + ends[base] - base
            if fits_its_name or not passes_checksum(segment, 0, size_or_zero(segment)):
                continue  # its base offset is damaged, or more of its header
            # the single batch begins where another segment ends, or ends where one begins
            below = max((one for one in right if one < found[0]), default=None)
            is_own = end in right or (below is not None and end_offset(right[below]) == found[0])
        if by_content is None and found[0] not in ends and is_own:
            by_content = found[0]
        if by_content is not None:
            moved[segment] = by_content
    left = [base for base, (segment, _) in wrong.items() if segment in moved and base not in moved.values()]
    exchanged = [empty[by_content] for by_content in moved.values() if by_content in empty]
    moved.update(zip(exchanged, left, strict=False))
    return moved if len(set(moved.values())) == len(moved) else {}


def wrong_names(segments: Sequence[SegmentFile]) -> str | None:
    """A clause that says that names are wrong; None: they are not."""
    for segment, by_content in base_offsets_by_content(segments).items():
        return f"names of segments contradict their offsets, {segment.name} begins with {by_content}"
    return None


def sorted_by_base_offset(segments: Sequence[AnySegment], base_offsets: Mapping[SegmentFile, int]) -> list[AnySegment]:
    """The segments by these base offsets, others by their names."""
    return sorted(segments, key=lambda one: base_offsets.get(one, one.base_offset or 0))


def order_by_content(segments: Sequence[AnySegment]) -> Sequence[AnySegment]:
    """The segments of a log in the order of their batches, for its transactions, with `lost_segments`: as they are,
    unless names are wrong or some are lost. Then copies with the base offsets of their batches and the entries of all
    .txnindex files with their offsets: the file beside a segment may be that of another."""
    base_offsets = base_offsets_by_content(segments)
    lost = [one for one in lost_segments(segments) if one.base_offset not in base_offsets.values()]
    if not base_offsets and not lost:
        return segments
    in_order = sorted_by_base_offset([*segments, *lost], base_offsets)
    ordered = [one if one in lost else one.copy(base_offset=base_offsets.get(one, one.base_offset)) for one in in_order]
    put_at_offsets(ordered, aborted_entries(ordered))
    return ordered


def put_at_offsets(segments: Sequence[SegmentFile], aborted: Iterable[AbortedTransaction]) -> None:
    """Changes the evidence of segments to that of their base offsets. aborted: the entries of all .txnindex files"""
    index, ends = AbortedIndex([*aborted]), ends_by_name(segments)
    for one in segments:
        if (base := one.base_offset) is not None:
            one.transaction_evidence = one.transaction_evidence.at_offset(
                base, index.within(Hole(base, ends[base] - 1))
            )


def lost_segments(segments: Sequence[AnySegment]) -> list[AnySegment]:
    """Empty ones in place of those that are missing between others and have left an index, which proves that markers
    may be lost there: for a reader as for salvage, which writes them again. A .txnindex proves which."""
    if len(segments) < 2:
        return []
    first, last = segments[0], segments[-1]
    own, folder = names.segment(last.name), last.folder
    if own is None or own.segment_id or folder is None:
        return []
    files, found = list[names.SegmentName](), []
    with suppress(OSError):
        files = names.files_of_log(folder.names(), own)
    for base, index in names.indexes_without_segment(files).items():
        if (first.base_offset or 0) < base < (last.base_offset or 0):
            name, source = names.side_file_name(index, ".log"), FileObject(BytesIO())
            one = type(last)(folder.join(name), name, folder=folder, source=source, size=0)
            one.transaction_evidence = one.transaction_evidence._replace(is_lost=True)
            found.append(one)
    return found


def aborted_entries(segments: Iterable[SegmentFile]) -> set[AbortedTransaction]:
    """The entries of the .txnindex files beside segments of one log; one that cannot be read has none. No checksum
    covers them: one whose marker is not in its file's segment, by name or by content, is wrong."""
    named: list[tuple[SegmentFile, set[int]]] = []
    for one in segments:
        named.append((one, {base for base in (names.offset_in_name(one.name), one.base_offset) if base is not None}))
    bases = sorted(set[int]().union(*(own for _, own in named)))
    ends = {base: min(end, base + MAX_OFFSETS) for base, end in zip(bases, (*bases[1:], LONG_MAX), strict=False)}
    found = set[AbortedTransaction]()
    for segment, own in named:
        with suppress(KafkaRecordError, OSError):
            entries = segment.transaction_evidence.aborted() or ()
            found.update(one for one in entries if not own or any(at <= one.last_offset < ends[at] for at in own))
    return found


def ends_by_name(segments: Sequence[SegmentFile]) -> dict[int, int]:
    """Base offset -> that of the next segment; LONG_MAX: there is none."""
    offsets = sorted({one.base_offset for one in segments if one.base_offset is not None})
    return dict(zip(offsets, (*offsets[1:], LONG_MAX), strict=False))


def begins_outside(segment: SegmentFile, ends: Mapping[int, int]) -> bool:
    """Whether the first batch of a segment is outside of the range of its name: that is wrong, or the batch's header
    is, or bytes that are no batch. ends: see ends_by_name."""
    if segment.base_offset is None:
        return False
    try:
        with segment.opened():
            head = segment.source.read_at(0, UP_TO_MAGIC)  # of a packed file, whose size is not known, no more
    except (OSError, KafkaRecordError):
        return False
    start = first_fields(head) if len(head) == UP_TO_MAGIC and any(head) else None
    return start is not None and not segment.base_offset <= start.base_offset < ends[segment.base_offset]


def end_offset(segment: SegmentFile) -> int | None:
    """The offset after its last batch; None: not known."""
    try:
        return next_offset(segment)
    except (OSError, KafkaRecordError):
        return None


def _is_mostly_outside(segment: SegmentFile, first_offsets: Sequence[int], low: int, high: int) -> bool:
    """Whether the first batches and most others of a segment are outside of its range, or those from its start lead
    into it without a gap. Blocks of another file at its start are not enough, nor is a first batch that leads into it
    and does not adjoin the second one: its base offset is damaged."""
    if low <= first_offsets[0] < high:
        return False
    inside = batches = 0
    end: int | None = first_offsets[0]  # of the batches from the start; None: behind a gap
    leads_in = False  # the first batch
    try:
        for begin, last in _offsets_of_batches(segment, "skip"):
            end = last + 1 if begin == end else None
            if end is not None and (leads_in or (begin < low <= end and begin != first_offsets[0])):
                return True
            leads_in = end is not None and begin < low <= end
            inside += low <= begin and last < high
            batches += 1
    except (OSError, KafkaRecordError):
        return False
    return leads_in or (2 * inside < batches and not any(low <= each < high for each in first_offsets))


def _first_base_offsets(segment: SegmentFile) -> list[int]:
    """The base offsets of the first whole frames (of a wrapper message its own offset); fewer where one is damaged."""
    found: list[int] = []
    with suppress(OSError, KafkaRecordError):
        for begin, _ in islice(_offsets_of_batches(segment, "raise"), _FRAMES):
            if begin < 0:
                break
            found.append(begin)
    return found


def _offsets_of_batches(segment: SegmentFile, errors: str) -> Iterator[tuple[int, int]]:
    """(base offset, last offset) by headers; a wrapper message has the last one alone."""
    for step in walk([segment], walk_request(HEADERS, errors=errors)):
        for base, last in step.zip_columns("base_offset", "last_offset"):
            yield last if base is None else base, last
