"""Reads the segments of logs: ranges, read_committed, several files as one result; cuts a segment for several tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec._core import Batches, PassResult
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import Isolation
from kafkarec.read.decode_options import DecodeRequest, checked_threads, request
from kafkarec.read.passes import Excluded, as_columns, read_at_once
from kafkarec.read.walk import CHECKSUMS, HEADERS, Want, walk, walk_request
from kafkarec.recover.offset_order import WINDOW
from kafkarec.recover.steps import Step, as_stored
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns, join_results

from . import ranges
from .names_by_content import (
    base_offsets_by_content,
    begins_outside,
    ends_by_name,
    order_by_content,
    sorted_by_base_offset,
)
from .ranges import EVERYTHING, RecordRange
from .raw_batches import SegmentBytes
from .segment_file import SegmentFile

RESYNC_BYTES = 4 << 20  # how far resynchronisation searches (MAX_SEARCH_BYTES of _c/resync.pxd)
Groups = Iterable[Sequence[SegmentFile]]
"""The segments of each log, in order."""


class Selection(NamedTuple):
    """Which records are read, and how: the parameters of `kafkarec.logs.Readable.read`. request: its other options."""

    request: DecodeRequest
    record_range: RecordRange = EVERYTHING
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    aborted: Sequence[Any] | None = None
    last_stable_offset: int | None = None
    threads: int = 1

    @classmethod
    def of_locals(cls, decode_request: DecodeRequest, arguments: dict[str, Any]) -> Selection:
        """That of a function which has these parameters, or some of them. arguments: its `locals()`."""
        bounds = map(arguments.get, ("start_offset", "end_offset", "start_timestamp", "end_timestamp"))
        aborted, threads = arguments.get("aborted"), checked_threads(arguments.get("threads", 1))
        aborted = None if aborted is None else list(aborted)
        isolation, stable = Isolation.of(arguments["isolation"]), arguments.get("last_stable_offset")
        return cls(decode_request, RecordRange.of(*bounds), isolation, aborted, stable, threads)

    @property
    def is_committed(self) -> bool:
        return self.isolation is Isolation.READ_COMMITTED


def _logs_to_read(
    groups: Groups, chosen: Selection
) -> Iterator[tuple[Generator[SegmentFile], DecodeRequest, Excluded | None]]:
    """Yields of each log the segments that may have records of the range, the request for each of these, and what
    read_committed leaves out."""
    in_range = chosen.request.with_options(within=chosen.record_range)
    for group in groups:
        left_out = None
        if chosen.is_committed:
            from kafkarec.read import isolation  # not at the top: a tenth of a first `ls`

            left_out = isolation.excluded(
                order_by_content(group),
                chosen.aborted,
                chosen.last_stable_offset,
                skip=in_range.skip,
                restore=in_range.options.restore,
            )
        of_log = in_range if left_out is None else left_out.applied_to(in_range)
        yield _segments_in_range(group, chosen.record_range), of_log, left_out


def read(groups: Groups, chosen: Selection) -> RecordColumns:
    """All records as one result."""
    parts: list[PassResult] = []
    left_out: list[Excluded | None] = []
    for segments, of_log, excluded in _logs_to_read(groups, chosen):
        left_out.append(excluded)
        with closing(segments):
            parts += [read_segment(segment, of_log, chosen.record_range, chosen.threads) for segment in segments]
    if len(left_out) == 1:
        return as_columns(chosen.request, join_results(parts), left_out[0])
    # of several logs one last stable offset has no meaning
    undecided = tuple(one for excluded in left_out if excluded is not None for one in excluded.undecided)
    return as_columns(chosen.request, join_results(parts), Excluded((), None, None, undecided))


def read_segment(
    segment: SegmentFile, decode_request: DecodeRequest, record_range: RecordRange = EVERYTHING, threads: int = 1
) -> PassResult:
    """The records of a segment in one part."""
    with segment.opened() as source:
        start = ranges.start_position(segment, record_range)
        return read_at_once(segment.named_request(decode_request), source, start, segment.end, threads)


def pieces(groups: Groups, chosen: Selection) -> Generator[tuple[Any, RecordColumns]]:
    """(segment, some of its records), in constant memory."""
    start_of = partial(ranges.start_position, record_range=chosen.record_range)
    for segments, of_log, left_out in _logs_to_read(groups, chosen):
        with closing(segments), closing(walk(segments, of_log, start_of=start_of, threads=chosen.threads)) as steps:
            for step in steps:
                yield step.segment, as_columns(chosen.request, step.part, left_out)


def batch_tables(
    segments: Sequence[SegmentFile],
    *,
    errors: str = "raise",
    record_range: RecordRange = EVERYTHING,
    check_crcs: bool = False,
) -> Generator[BatchTable]:
    """Batch tables of about 11,000 batches each, of those that may have offsets of the range. From frames and headers
    alone, unless check_crcs: then every byte is read, and still nothing decompressed."""
    for step in _header_steps(segments, CHECKSUMS if check_crcs else HEADERS, errors, record_range):
        yield BatchTable(step.part)


def _header_steps(
    segments: Sequence[SegmentFile], want: Want, errors: str, record_range: RecordRange
) -> Generator[Step]:
    headers = walk_request(want, errors=errors).with_options(within=record_range)
    start_of = partial(ranges.start_position, record_range=record_range)
    with closing(_segments_in_range(segments, record_range)) as chosen:
        yield from walk(chosen, headers, start_of=start_of)


def record_batches(segment: SegmentFile, decode_request: DecodeRequest) -> Iterator[RecordBatch]:
    """The batches of a segment. A batch's bytes are read when they are used."""
    source = SegmentBytes(segment, segment.named_request(decode_request._replace(skip=False)))
    errors = "skip" if decode_request.skip else "raise"
    with segment.opened():
        yield from Batches((step.rows for step in _header_steps([segment], HEADERS, errors, EVERYTHING)), source)


def _segments_in_range(group: Sequence[SegmentFile], record_range: RecordRange) -> Generator[SegmentFile]:
    """The segments that may have records of the range, by their names. Where one begins outside of its name's range,
    as names were exchanged, it and the ones after it are those that may by their batches, in the order of these."""
    chosen = _in_range_by_base_offsets(group, record_range, {})
    if record_range == EVERYTHING or len(group) == 1:
        yield from chosen
        return
    ends = ends_by_name(group)
    for number, segment in enumerate(chosen):
        with ExitStack() as held:  # open until it is read: an object's first bytes are not fetched twice
            with suppress(OSError, KafkaRecordError):
                held.enter_context(segment.opened())
            if not begins_outside(segment, ends):
                yield segment
                continue
        base_offsets, passed = base_offsets_by_content(group), set(chosen[:number])
        ordered = sorted_by_base_offset(group, base_offsets)
        yield from (one for one in _in_range_by_base_offsets(ordered, record_range, base_offsets) if one not in passed)
        return


def _in_range_by_base_offsets(
    segments: Sequence[SegmentFile], record_range: RecordRange, base_offsets: Mapping[SegmentFile, int]
) -> list[SegmentFile]:
    """base_offsets: the base offsets of those whose names are wrong"""
    bases = [base_offsets.get(segment, segment.base_offset) for segment in segments]
    return [segments[at] for at in ranges.segments_in_range(bases, record_range.first_offset, record_range.end_offset)]


def splits(segment: SegmentFile, max_bytes: int) -> list[tuple[int, int]]:
    """Consecutive ranges [begin, end) of about `max_bytes` each, cut between two good batches of rising offsets.

    Reads the headers of the file, and the two batches at each cut. Does not cut within RESYNC_BYTES after broken
    framing, falling offsets or falling leader epochs, nor within offset_order.WINDOW batches before: so
    resynchronisation and restoring never need bytes of another range, and the ranges together have the same
    records and damage as the file.
    """
    if max_bytes < 1:
        raise ValueError(f"max_bytes {max_bytes}: 1 or more")
    cuts, previous_position, next_offset, previous_epoch = [segment.begin], segment.begin, 0, -1
    recent: deque[int] = deque(maxlen=WINDOW)
    expected, cut_from = segment.begin, segment.begin
    end = segment.size if segment.end is None else segment.end
    for table in batch_tables([segment.between(segment.begin, end)], errors="skip"):  # the file may grow meanwhile
        for position, size, base, last, following, epoch in table.zip_columns(
            "position", "size_in_bytes", "base_offset", "last_offset", "next_offset", "partition_leader_epoch"
        ):
            epoch, first = as_stored(epoch), last if base is None else base
            if position != expected or first < next_offset or epoch < previous_epoch:
                cut_from = position + RESYNC_BYTES
                _drop_cuts(cuts, recent)
            may_cut = position - cuts[-1] >= max_bytes and position >= cut_from
            if may_cut and _are_good_batches(segment, previous_position, position, position + size):
                cuts.append(position)
            previous_position, expected, next_offset, previous_epoch = position, position + size, following, epoch
            recent.append(position)
    if expected != end:
        _drop_cuts(cuts, recent)
    return [*pairwise(cuts), (cuts[-1], end)]


def _are_good_batches(segment: SegmentFile, *positions: int) -> bool:
    """Whether there is exactly one good batch between each two consecutive ones of `positions`."""
    try:
        parts = [read_segment(segment.between(*ends), request(columns=[])) for ends in pairwise(positions)]
    except KafkaRecordError:
        return False
    return all(sum(map(len, part.tables)) == 1 and not part.remaining for part in parts)


def _drop_cuts(cuts: list[int], recent: Sequence[int]) -> None:
    """Removes the cuts at these batches, and later ones; the first one stays."""
    while len(cuts) > 1 and recent and cuts[-1] >= recent[0]:
        cuts.pop()
