"""Plans what each task reads: pieces of segments, cut between batches.

    segment of 1 GiB, .index     cut at entries of the index, each checked against the log around it
    no .index, on a disk         cut by a walk over the headers (Segment.splits)
    no .index, at a URL          one piece, unless splitScan=true

A cut needs good batches with rising offsets on both sides: then no damage extends from one piece into the next, and the
pieces together have exactly the records and the damage of the file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from operator import le
from typing import NamedTuple

from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import warn_of_some

from .listing import report_loss
from .options import ReadOptions
from .paths import (
    NO_END,
    Keys,
    OffsetRange,
    PartitionLog,
    Partitions,
    Uncommitted,
    display_url,
    open_segment,
    read_length,
)

# The cost of opening a file that is not cut, in bytes, as spark.sql.files.openCostInBytes.
_OPEN_COST = 4 << 20
# The fewest bytes for which another core is worth a task.
_LEAST_TASK = 4 << 20
# Tasks are put together of pieces, so that none is much longer than the others.
_PIECES_OF_A_TASK, _LEAST_PIECE = 5, 1 << 20
# So many batches on each side prove the header fields of one (offset_order.WINDOW of kafkarec); there are at least as
# many as entries of an .index. At a URL, where each header may be a request, fewer are looked at: these are enough
# unless several of them are damaged, too.
_WITNESSES, _WITNESSES_AT_URL = 64, 8
LAST_OFFSET = (1 << 62) - 1  # no log reaches it: its position is that of the last index entry


NOTHING_LEFT_OUT = Uncommitted((), NO_END)


class Split(NamedTuple):
    """The bytes [begin, end) of one segment, and the range of records to read from them.

    end                            None: to the file's end
    later_segment                  more bytes or segments of the same log follow, so a cut batch at its end is damage
    start_offset, end_offset       bounds of the records, the end exclusive; None: no bound
    uncommitted                    what read_committed leaves out
    first_offset                   no record in these bytes has a lower offset; None: unknown
    is_log_end                     a query reads its log's last bytes here. A stream does not: it asks for offsets
    file                           (inode, size) of the file when it was planned; None: it is remote. No inode: a later
                                   segment existed, so it no longer grows
    keys, followed_by              as in paths.SegmentPath
    context                        where batches before `begin` begin that are read for what they prove about those in
                                   it; None: none are
    must_rise                      in FAILFAST mode it is an error if offsets do not rise: a stream goes by them
    next_base_offset               of the next segment, if these are the last bytes of theirs; None: they are not, or it
                                   is the log's last one, or `where` may have left folders out
    """

    path: str
    topic: str | None
    partition: int | None
    begin: int = 0
    end: int | None = None
    later_segment: bool = False
    start_offset: int | None = None
    end_offset: int | None = None
    uncommitted: Uncommitted = NOTHING_LEFT_OUT
    first_offset: int | None = None
    is_log_end: bool = False
    file: tuple[int | None, int] | None = None
    keys: Keys = ()
    followed_by: tuple[str, int] | None = None
    context: int | None = None
    must_rise: bool = False
    next_base_offset: int | None = None


def plan_splits(options: ReadOptions, partitions: Partitions) -> list[Split]:
    """The splits of what is wanted, in order of partition and offset."""
    total = sum(read_length(segment) or 0 for each in partitions.values() for segment in each.segments)
    mean = -(-total // _task_count(options, total, total))
    most = max(1, mean // _PIECES_OF_A_TASK, min(mean, _LEAST_PIECE))
    splits: list[Split] = []
    for partition in partitions.values():
        wanted, uncommitted = partition.wanted, NOTHING_LEFT_OUT
        if options.is_read_committed or wanted != (None, None):
            _check_names(partition)
        if partition.uncommitted is not None:
            uncommitted = partition.uncommitted
        elif options.is_read_committed:
            written, position = _end_of_preallocated(partition)  # before the markers are read
            uncommitted = read_transactions(partition, options, wanted[0])
            warn_of_some(uncommitted.undecided, "more undecided transactions")
            if not uncommitted.is_damaged:
                uncommitted = uncommitted._replace(last_stable_offset=min(written, uncommitted.last_stable_offset))
            if position is not None:
                *earlier, last = partition.segments
                partition = partition._replace(segments=(*earlier, last.copy(end=position)))
        for number in partition.segments_in_range(*wanted):
            segment, later = partition.segments[number], partition.next_base_offset(number)
            size, aborted = read_length(segment), uncommitted.aborted
            first = segment.base_offset if number or partition.first_offset is None else partition.first_offset
            # of empty ones only these show that offsets are missing after them
            if size == 0 and (later is None or first is None or first >= later):
                continue
            if segment.base_offset is not None and not uncommitted.is_damaged:
                # those that end in it or later, and begin before the next one
                base, until = segment.base_offset, NO_END if later is None else later
                aborted = tuple(span for span in aborted if span[2] >= base and span[1] < until)
            file, is_cut = file_identity(segment), segment.end is not None
            # at a URL each cut takes requests, more of them where batches are restored
            longest = mean if file is None and options.mode != "FAILFAST" else most
            for begin, first_offset, stop in _pieces(options, segment, first, longest, wanted):
                end = None if size is None else stop
                is_end = end in (None, segment.listed_size)
                later_segment = segment.later_segment or end != segment.listed_size
                splits.append(
                    Split(
                        segment.path,
                        partition.topic,
                        partition.partition,
                        begin,
                        end,
                        later_segment,
                        *wanted,
                        uncommitted=uncommitted._replace(aborted=aborted),
                        first_offset=first_offset,
                        is_log_end=not is_cut and not later_segment,
                        file=file,
                        keys=tuple(segment.keys.items()),
                        followed_by=partition.followed_by.get(segment.path),
                        context=partition.context if not number and begin == segment.begin else None,
                        must_rise=partition.first_offset is not None,
                        next_base_offset=later if is_end and not is_cut and not options.where else None,
                    )
                )
    return splits


def _check_names(partition: PartitionLog) -> None:
    """ValueError where names of segments are wrong, by which a range and read_committed go. At URLs that would be a
    request for each segment."""
    why = distributed.wrong_names([one.copy(begin=0, end=None) for one in partition.segments if "://" not in one.path])
    if why is not None:
        raise ValueError(
            f"{partition.topic}-{partition.partition}: {why}. Ranges and read_committed go by the names; without them "
            f"all records are read. `kafkarec salvage` names the segments by their batches"
        )


def _end_of_preallocated(partition: PartitionLog) -> tuple[int, int | None]:
    """The next offset of a log whose file is preallocated (log.preallocate), and the position of the zeros behind its
    batches, None after an incomplete one: a broker writes batches there before the tasks read them, whose markers come
    after the planning. NO_END if it is not."""
    last = partition.segments[-1]
    if not last.listed_size or "://" in last.path:
        return NO_END, None
    with suppress(kafkarec.KafkaRecordError, OSError), last:  # else a task has the error
        if distributed.has_zeros_at_end(last):
            # not that of the last batch alone: no checksum covers its offset
            pieces = last.between(last.position_of(LAST_OFFSET), last.size).scan_pieces(errors="skip", check_crcs=True)
            tables = list(pieces)
            ends = [max(table.column("next_offset")) for table in tables if len(table)]
            zeros = sum(table.remaining for table in tables)
            position = last.size - zeros
            is_incomplete = distributed.incomplete_end(last, position, zeros, None) is not None
            return max(ends, default=partition.log.next_offset or 0), None if is_incomplete else position
    return NO_END, None


def file_identity(segment: kafkarec.Segment) -> tuple[int | None, int] | None:
    """Split.file of a segment. FileNotFoundError if it was removed or replaced since it was listed: the caller lists
    again."""
    size = segment.listed_size
    if size is None or "://" in segment.path:
        return None
    status = os.stat(segment.path)
    if status.st_size < size or (segment.later_segment and status.st_size != size):
        raise FileNotFoundError(f"{segment.path} had {size} bytes when it was listed, and has {status.st_size}")
    return None if segment.later_segment else status.st_ino, status.st_size


def order_error(path: str, position: int, offset: int) -> kafkarec.CorruptRecordError:
    """The error for a batch with this first offset that does not rise from those before it to those behind it."""
    reason, file = "base_offset_undecided", display_url(path)
    return kafkarec.CorruptRecordError(
        f"the base offset does not fit those of the batches around it in {file} at byte {position} (base offset "
        f"{offset})",
        position=position,
        base_offset=offset,
        reason=reason,
        file=file,
    )


@contextmanager
def opened_split(options: ReadOptions, split: Split) -> Iterator[kafkarec.Segment | None]:
    """In a task: the bytes of a split. DataLoss if its file was removed, replaced or truncated since it was planned; if
    failOnDataLoss is false, None, or what a truncated file still has.

    An inactive segment must still have its size, and an active one its size or its inode. The inode alone proves
    nothing: file systems reuse inodes of deleted files."""
    name = "" if split.topic is None else f"{split.topic}-{split.partition}: "
    with ExitStack() as stack:
        try:
            whole = open_segment(split.path, options.storageOptions, split.topic, split.partition)
            part = whole
            begin = split.begin if split.context is None else split.context
            if begin or split.end is not None:
                end = whole.size if split.end is None else min(split.end, whole.size)
                part = whole.between(min(begin, end), end, has_grown=split.is_log_end and end < whole.size)
                part = part.copy(later_segment=split.later_segment)
            stack.enter_context(part)
            descriptor = part.source.descriptor
            if split.file is not None and descriptor is not None:
                status, (inode, size) = os.fstat(descriptor), split.file
                if status.st_size != size and status.st_ino != inode:
                    raise FileNotFoundError(f"{split.path} is another file than when the query was planned: load again")
        except FileNotFoundError as error:
            what = f"{display_url(split.path)} no longer exists" if error.errno else str(error)
            if os.path.islink(split.path):
                what = f"{split.path} is a link to {os.readlink(split.path)}, which does not exist"
            report_loss(options, f"{name}{what}")
            yield None
            return
        if split.end is not None and split.end > whole.size:
            had = f"has {whole.size} bytes, and had {split.end} when the query was planned: it was truncated"
            report_loss(options, f"{name}{display_url(split.path)} {had}")
        yield part


def group_into_tasks(options: ReadOptions, splits: list[Split]) -> list[tuple[Split, ...]]:
    """Combines consecutive splits into tasks of about equal size, as many as _task_count says if there are enough.
    Splits of one file that follow each other become one."""
    pieces = Counter(split.path for split in splits)
    sizes = [(split.end or split.begin) - split.begin for split in splits]
    costs = [size + (_OPEN_COST if pieces[split.path] == 1 else 0) for size, split in zip(sizes, splits, strict=True)]
    total, done = sum(costs), 0
    mean = total / _task_count(options, total, sum(sizes))
    combined: dict[int, list[Split]] = {}
    for split, cost in zip(splits, costs, strict=True):
        task = combined.setdefault(int((done + cost / 2) / mean), [])
        done += cost
        if task and (task[-1].path, task[-1].end) == (split.path, split.begin):
            before = task.pop()
            split = split._replace(begin=before.begin, first_offset=before.first_offset, context=before.context)
        task.append(split)
    return [tuple(each) for each in combined.values()]


def _task_count(options: ReadOptions, cost: int, size: int) -> int:
    """The number of tasks for `size` bytes that cost as much as `cost` in one file: at least minPartitions; if that is
    the number of cores, a multiple, unless tasks would be too small: a small log has one, which may also write it."""
    least: int = options.minPartitions
    count: int = -(-cost // options.maxPartitionBytes)
    if "minPartitions" in options.given:
        return max(least, count)
    least = max(1, min(least, size // _LEAST_TASK))
    return max(least, -(-count // least) * least)


def _pieces(
    options: ReadOptions, segment: kafkarec.Segment, first_offset: int | None, most: int, wanted: OffsetRange
) -> Iterator[tuple[int, int | None, int]]:
    """(begin, first offset, end) of each piece of a segment that may have records of a range: records before the byte
    `begin` have lower offsets, others this one or higher ones; None: unknown."""
    size, length = segment.listed_size, read_length(segment) or 0
    cuts, are_proven = list[tuple[int, int | None]](), False
    first, last = (segment.begin, first_offset), (segment.begin + length, None)
    if size is not None and length > most:
        opened = open_segment(segment.path, options.storageOptions)
        if opened.size < size:
            raise FileNotFoundError(f"{segment.path} had {size} bytes when it was listed, and has {opened.size}")
        with opened.between(first[0], last[0]) as part:  # the file may have grown since it was listed
            indexed = _indexed_cuts(options, part, most)
            if indexed is not None:
                cuts, are_proven = indexed, True
            elif part.fetch_counter is None or options.splitScan:
                cuts = [(border, distributed.first_offset(part, border)) for border, _ in part.splits(most)[1:]]

    def are_ordered(offset: int | None, other: int | None) -> bool:
        # at entries of the index the batches on both sides prove the offset; others only follow from rising offsets
        return are_proven and offset is not None and other is not None and offset <= other

    start, end = wanted
    for (begin, offset), (stop, next_offset) in pairwise([first, *cuts, last]):
        if (begin > segment.begin and are_ordered(end, offset)) or are_ordered(next_offset, start):
            continue
        yield begin, offset, stop


def _indexed_cuts(options: ReadOptions, part: kafkarec.Segment, most: int) -> list[tuple[int, int | None]] | None:
    """Where a part of a segment can be cut, at entries of the .index: the position, and the end of the offsets before
    it. None if there is no .index, if it contradicts the log, or if it has too few entries."""
    from kafkarec.sidecars import offset_index

    if part.base_offset is None or part.end is None:
        return None
    entries = [entry for entry in part.index_entries(offset_index) if part.begin <= entry.position < part.end]
    reach = _WITNESSES if part.fetch_counter is None else _WITNESSES_AT_URL
    cuts: list[tuple[int, int | None]] = [(part.begin, None)]
    for number, entry in enumerate(entries[1:-1], 1):
        if entry.position - cuts[-1][0] < most:
            continue
        try:  # whether the bytes beside it are only whole good batches
            beside = part.between(entries[number - 1].position, entries[number + 1].position)
            read = beside.read(columns=[], control=True)
        except ValueError:
            return None
        batches = read.batches
        if options.mode != "FAILFAST":  # which restores nothing, so that no batch depends on those around it
            begin = entries[number - reach].position if number >= reach else part.begin
            end = entries[number + reach].position if number + reach < len(entries) else part.end
            batches = part.between(begin, end).scan(errors="skip")
            if batches.damage or batches.restored:
                return None
        positions, bases, lasts, nexts = map(batches.column, ("position", "base_offset", "last_offset", "next_offset"))
        firsts = [last if base is None else base for base, last in zip(bases, lasts, strict=True)]
        at = [*positions].index(entry.position) if entry.position in positions else 0
        if not at or read.remaining or lasts[at] != entry.offset or not all(map(le, nexts, firsts[1:])):
            return None
        cuts.append((entry.position, nexts[at - 1]))
    is_even = all(stop - begin <= 2 * most for (begin, _), (stop, _) in pairwise([*cuts, (part.end, None)]))
    return cuts[1:] if entries and is_even else None


# ---- read_committed --------------------------------------------------------------------------------------
#
# Without a scan of the whole partition: transactions from the first segment that is read.
#
#     000.log   100.log   200.log   300.log
#                         200.snapshot: the producers with a transaction open at 200, and its first offset
#                         ^ headers and markers are read from here to the end
#
# An aborted transaction that has records at 200 or above also has its marker there, so the scan finds both. A
# transaction that began below 200 and is still open may have no record above 200; the snapshot has its first offset,
# from which the last stable offset follows. Without a readable snapshot the whole log is scanned.


def read_transactions(partition: PartitionLog, options: ReadOptions, start: int | None) -> Uncommitted:
    """The transactions of a partition, from the segment that holds `start` on.

    start: the caller reads no offset below this one and below the last stable offset; None: it reads everything
    """
    log = partition.log
    number = 0 if start is None else partition.segments_in_range(start, None)[0]
    while True:
        producers = None  # at the segment's start
        if number:
            with suppress(kafkarec.KafkaRecordError, OSError):
                producers = log.segments[number].transaction_evidence.snapshot()
        if producers is None:
            number, producers = 0, ()
        segments = distributed.order_by_content(log.segments[number:])
        found = distributed.ended_and_open(segments, skip=options.mode != "FAILFAST")
        still_open = [*found.open_first_offsets]
        for one in producers:
            if one.current_txn_first_offset >= 0 and one.producer_id not in found.marked_producer_ids:
                still_open.append(one.current_txn_first_offset)
        folder = display_url(os.path.dirname(partition.segments[0].path))
        undecided = tuple(f"{folder}: {sentence}" for sentence in found.undecided)
        state = Uncommitted(found.aborted, min(still_open, default=NO_END), found.is_damaged, undecided)
        if not number or state.last_stable_offset >= (partition.segments[number].base_offset or 0):
            return state
        number = partition.segments_in_range(state.last_stable_offset, None)[0]


# ---- a read in one line ----------------------------------------------------------------------------------
#
# For logs, plans and tables: how much it reads, from where, with which options.
#
#     2 tasks, 3 splits, 18016 bytes: path=/backup/kafka subscribe=txn
#
# Values of storageOptions, which may be secret, and of URLs beyond the path are left out.


def plan_text(chosen: ReadOptions, tasks: Sequence[Sequence[Split]]) -> str:
    """tasks: the splits of each."""
    splits = [split for task in tasks for split in task]
    sizes = [None if split.end is None else split.end - split.begin for split in splits]
    unknown = "" if None not in sizes else f" and {counted(sizes.count(None), 'file')} of unknown size"
    amount = (
        f"{counted(len(tasks), 'task')}, {counted(len(splits), 'split')}, {sum(filter(None, sizes))} bytes{unknown}"
    )
    return f"{amount}: {options_text(chosen)}"


def options_text(chosen: ReadOptions) -> str:
    """The options as they were given, in the order of the table of options."""
    shown = {**chosen.given, "paths": ",".join(map(display_url, chosen.paths))}
    shown |= {name: display_url(shown[name]) for name in ("path", "basePath") if name in shown}
    return " ".join(f"{name}={shown[name]}" for name in chosen.given)


def damage_report_call(chosen: ReadOptions) -> str:
    """The call that lists the damage of what is read."""
    return f"spark_udfs.damage_report(spark, {paths_text(chosen)})"


def paths_text(chosen: ReadOptions) -> str:
    """The path that is read, or the list of them, as Python writes it."""
    return repr(display_url(chosen.path) if chosen.path else [*map(display_url, chosen.paths)])


def counted(count: int, one: str, several: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{count} {one if count == 1 else several or one + 's'}"
