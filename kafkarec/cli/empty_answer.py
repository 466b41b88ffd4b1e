"""Says why `cat` or `scan` printed no row: what the options ask for, beside what the log has."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log
from kafkarec.storage.segment_summary import SegmentSummary, earliest, latest, summarize
from kafkarec.support.text_table import timestamp_text

from . import input_logs

# First and last of the offsets or times (ms) of all logs; None: unknown.
_Extent = tuple[int | None, int | None]


def reason(args: argparse.Namespace, logs: Sequence[Log], row: str = "record") -> str | None:
    """Return a sentence; None if no option selects rows, if none was asked for, or if there is no batch. `row`: what a
    row is; only those of records can be selected by more than their bounds."""
    bounds = (args.from_offset, args.to_offset, args.from_time, args.to_time)
    selects = row == "record" and (args.key or args.latest_per_key or args.isolation == "read_committed")
    if 0 in (args.first, args.last) or not (selects or any(bound is not None for bound in bounds)):
        return None
    summaries = list(map(_summary, input_logs.segments(logs)))
    end = latest(*(one.next_offset for one in summaries))
    offsets = earliest(*(one.first_offset for one in summaries)), None if end is None else end - 1
    times = earliest(*(one.first_timestamp for one in summaries)), latest(*(one.max_timestamp for one in summaries))
    if offsets[0] is None:
        return None
    name = "the log has" if len(logs) == 1 else f"the {len(logs)} logs have"
    there = f"offsets {offsets[0]} to {'?' if offsets[1] is None else offsets[1]}"
    if times[0] is not None:
        there += f", times {timestamp_text(times[0])} to {timestamp_text(times[1])}"
    return f"no {row} is selected: {_cause(args, offsets, times, row)}; {name} {there}"


def _cause(args: argparse.Namespace, offsets: _Extent, times: _Extent, row: str) -> str:
    bounds: tuple[tuple[str, Callable[[int], str], int | None, int | None, _Extent], ...] = (
        ("offset", str, args.from_offset, args.to_offset, offsets),
        ("time", timestamp_text, args.from_time, args.to_time, times),
    )
    for name, text, low, high, (first, last) in bounds:
        if low is not None and high is not None and low >= high:
            return f"--from-{name} {text(low)} is not below --to-{name} {text(high)}, which is exclusive"
        if low is not None and last is not None and low > last:
            return f"--from-{name} {text(low)} is after the last {row}"
        if high is not None and first is not None and high <= first:
            return f"--to-{name} {text(high)} is exclusive, and no {row} is before it"
    limited = any(bound is not None for each in bounds for bound in each[2:4])
    where = " between these bounds" if limited else ""
    if row != "record":
        return f"no {row} is{where}"
    if args.key:
        return f"no record{where} has {'this key' if len(args.key) == 1 else 'one of these keys'}"
    if args.isolation == "read_committed":
        return f"no record{where} is of a committed transaction, or before the first open one"
    if args.latest_per_key:
        return f"no record{where} has a key"
    return f"no record is{where}" + ("" if args.control else " (--control prints control records, too)")


def _summary(segment: Any) -> SegmentSummary:
    try:
        return summarize(segment)
    except (KafkaRecordError, OSError):
        return SegmentSummary()
