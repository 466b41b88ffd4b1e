"""What `cat` and `scan` print: the records of all inputs piece by piece, tables in slices, so that the output needs
little memory, however large a decompressed batch is; and why there is nothing.

`cat --latest-per-key` reads a log twice: first for the last offset of each key, then for the records. Memory grows with
the number of different keys in one partition (some 50 bytes for a key of 16), not with records or values. Records
without a key are left out; a tombstone (value null) is a record.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from kafkarec._verbs import LastOffsets
from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log
from kafkarec.read.decode_options import request
from kafkarec.sources import remote
from kafkarec.storage import log_reading
from kafkarec.storage.first_and_last import last_ranges
from kafkarec.storage.log_reading import Selection
from kafkarec.storage.output_rules import STANDARD_INPUT, is_stream
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.storage.segment_summary import largest_known, least_known, summarize
from kafkarec.support.text_table import timestamp_text
from kafkarec.tables.records import BatchTable, RecordColumns

from . import input_logs, progress
from .problems import DamageReporter, remark
from .progress import Tick
from .shared_options import CouldNot, WrongUse, value_errors_refused

AnyTable = TypeVar("AnyTable", RecordColumns, BatchTable)
AnySegment = TypeVar("AnySegment", bound=SegmentFile)


def slices(table: AnyTable, rows: int = 1 << 16, size: int = 4 << 20) -> Iterator[AnyTable]:
    """Yield slices of at most `rows` rows and, if rows have similar sizes, about `size` bytes. Nothing is copied."""
    at = 0
    for chunk, first, stop in table._slices:
        count = stop - first
        numbers = 8 * count * len(table.schema)  # bytes, about
        step = max(1, min(rows, count * size // max(numbers + chunk.size_of(first, stop), 1)))
        for start in range(at, at + count, step):
            yield table[start : min(start + step, at + count)]
        at += count


def slices_reporting_damage(
    reporter: DamageReporter, segment: AnySegment, table: AnyTable
) -> Iterator[tuple[AnySegment, AnyTable]]:
    """Yield what was read in small tables, and report damage between two of them, so that it is reported only if the
    caller reads on behind it. If reading stops at damage, only what is before it."""
    position = "position" if isinstance(table, BatchTable) else "batch_position"
    for damage in table.damage:
        before = bisect_right(table.column(position), damage.position)
        yield from ((segment, rows) for rows in slices(table[:before]))
        reporter.add(segment, damage)
        if reporter.stopped:
            return
        table = table[before:]
    yield from ((segment, rows) for rows in slices(table))
    for restored in table.restored:
        reporter.report_restored(segment, restored)


def rows_at(table: AnyTable, rows: Sequence[int]) -> AnyTable:
    """Return the rows at these places, in rising order. Nothing is copied."""
    runs = ([row for _, row in run] for _, run in groupby(enumerate(rows), key=lambda place: place[1] - place[0]))
    return table._with_slices([piece for run in runs for piece in table._slices_of_rows(run[0], run[-1] + 1)])


SomeRecords = tuple[SegmentFile, RecordColumns]


@dataclass(frozen=True)
class RecordReader:
    """chosen: with the column batch_position; damage is skipped, so that all records before the first one come;
    damage_reporter: gets the damage."""

    chosen: Selection
    damage_reporter: DamageReporter
    tick: Tick

    def pieces(self, logs: Sequence[Log], last: int | None = None) -> Generator[SomeRecords]:
        """Yield the selected records of all logs, in pieces of up to about 1 MB of payload. last: of the end of the
        logs that has so many."""
        ends = [(number, self.chosen.record_range) for number in range(len(logs))]
        if last is not None:
            ends = last_ranges(
                [log.segments for log in logs], self.with_request(skip=not self.damage_reporter.stop_at_first), last
            )
        for number, end_of_log in ends:
            log, of_log = logs[number], self.chosen._replace(record_range=end_of_log)
            with closing(log_reading.pieces([log.segments], of_log)) as pieces:
                for count, (segment, records) in enumerate(pieces):
                    if not count:
                        self.damage_reporter.report_undecided(log.path, records.undecided)
                    yield from slices_reporting_damage(self.damage_reporter, segment, records)
                    if self.damage_reporter.stopped:
                        return
                    self.damage_reporter.report_tail(segment, records.remaining)
                    self.tick(*progress.tick_arguments(segment, records.batches))

    def with_request(self, **changes: Any) -> Selection:
        """The selection with another request for records."""
        return self.chosen._replace(request=self.chosen.request._replace(**changes))


def latest_per_key(reader: RecordReader, logs: Sequence[Log]) -> Generator[SomeRecords]:
    """Yield the records that have the last offset of their key in the selection of their log."""
    silent = DamageReporter(reader.damage_reporter.args, "", lines=0)
    layout = request(columns=("key", "offset", "batch_position")).layout
    for_keys = replace(reader, chosen=reader.with_request(layout=layout), damage_reporter=silent)
    for log in logs:
        last = LastOffsets()
        for _, records in for_keys.pieces([log]):
            for chunk, start, stop in records._slices:
                last.put(chunk, [(start, stop)])
        options = reader.chosen.request.options._replace(keys=last)
        yield from replace(reader, chosen=reader.with_request(options=options)).pieces([log])
        if reader.damage_reporter.stopped:
            return


def demand_followable(args: argparse.Namespace) -> None:
    """Raise WrongUse for options that need an end of the output, and for inputs that cannot grow."""
    has_end = args.latest_per_key or args.to_offset is not None or args.to_time is not None
    if has_end or args.format not in ("json", "csv") or not is_stream(args.output):
        raise WrongUse(
            "--follow has no end: it prints json or csv, to standard output (> FILE), and --to-offset, --to-time and "
            "--latest-per-key have no meaning with it"
        )
    for path in args.paths:
        if path == STANDARD_INPUT or remote.is_url(path):
            raise WrongUse(f"--follow reads local files and folders only, and {path} is neither")


def followed(args: argparse.Namespace, logs: Sequence[Log], reader: RecordReader) -> Generator[SomeRecords]:
    """Yield the selected records as they arrive, until Ctrl-C."""
    from kafkarec.storage import follower  # not at the top: only --follow needs it

    polled: list[follower.Follower] = []
    for log in logs:
        with value_errors_refused():  # of several folders
            polled += follower.followers(log, reader.chosen, args.last, remark)
    try:
        with closing(follower.follow(polled, 0.25, args.last)) as arrived:
            for segment, records in arrived:
                yield from slices_reporting_damage(reader.damage_reporter, segment, records)
                if reader.damage_reporter.stopped:
                    return
    except FileNotFoundError as gone:
        raise CouldNot(str(gone)) from gone


_SELECTING = ("from_offset", "to_offset", "from_time", "to_time", "key")
"""What selects rows: names in the command line's arguments."""


def why_empty(args: argparse.Namespace, logs: Sequence[Log], row: str = "record") -> str | None:
    """Return a sentence with what the logs have; None without an option that selects rows, if no row was asked for, or
    if there is no batch. `row`: what a row is"""
    selects = any(getattr(args, name, None) is not None for name in _SELECTING)
    is_committed = getattr(args, "isolation", None) == "read_committed"
    if 0 in (args.first, args.last) or not (selects or is_committed):
        return None
    summaries = []
    for segment in input_logs.segments(logs):
        with suppress(KafkaRecordError, OSError):
            summaries.append(summarize(segment))
    first = least_known(*(one.first_offset for one in summaries))
    if first is None:
        return None
    end = largest_known(*(one.next_offset for one in summaries))
    earliest = least_known(*(one.first_timestamp for one in summaries))
    latest = largest_known(*(one.max_timestamp for one in summaries))
    there = f"offsets {first} to {'?' if end is None else end - 1}"
    if earliest is not None:
        there += f", times {timestamp_text(earliest)} to {timestamp_text(latest)}"
    hint = "; read_committed ends at the first open transaction" if is_committed else ""
    return f"no {row} is selected; there are {there}{hint}"
