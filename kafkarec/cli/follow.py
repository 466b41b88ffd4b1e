"""`cat --follow`: prints existing records, then new ones as they are appended, until Ctrl-C or -n rows."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Generator, Sequence
from contextlib import closing

from kafkarec.logs import Log
from kafkarec.read.decode_options import request
from kafkarec.sources import remote
from kafkarec.storage.output_rules import is_stream
from kafkarec.storage.ranges import RecordRange

from . import input_logs, last_records
from .log_follower import LogFollower
from .record_pieces import PieceReader
from .selection import SelectedRows, first_rows, last_rows
from .shared_options import WrongUse

INTERVAL = 0.25  # seconds between two polls


def demand_endless(args: argparse.Namespace) -> None:
    """Raise WrongUse for options that need an end of the output, and for inputs that cannot grow."""
    if args.format not in ("json", "csv"):
        raise WrongUse(f"--format {args.format} needs an end, which --follow does not have; use json or csv")
    if not is_stream(args.output):
        raise WrongUse("-o FILE appears when it is complete, and --follow has no end; use > FILE")
    if args.latest_per_key:
        raise WrongUse("--latest-per-key needs an end of the log, and --follow has none")
    if args.to_offset is not None or args.to_time is not None:
        raise WrongUse("--follow has no end; leave out --to-offset and --to-time")
    for path in args.paths:
        if path == input_logs.STANDARD_INPUT or remote.is_url(path):
            raise WrongUse(f"--follow reads local files and folders only, and {path} is neither")


def pieces(args: argparse.Namespace, logs: Sequence[Log], reader: PieceReader) -> Generator[SelectedRows]:
    """Yield the selected rows as they arrive."""
    followers = []
    for log in logs:
        start = args.from_offset
        if args.last is not None:
            ((_, start),) = last_records.parts(reader, [log], max(args.last, 1))
        followers.append(_follower(args, log, reader, start))
    with closing(_endless(followers, reader, args.last)) as pieces_read:
        yield from pieces_read if args.first is None else first_rows(pieces_read, args.first)


def _follower(args: argparse.Namespace, log: Log, reader: PieceReader, start: int | None) -> LogFollower:
    named = {os.path.realpath(path) for path in args.paths if not os.path.isdir(path)}
    alone = all(os.path.realpath(segment.path) in named for segment in log.segments)
    options = dict(reader.decode)
    committed = options.pop("isolation") == "read_committed"
    return LogFollower(
        os.path.dirname(log.segments[0].path) or os.curdir,
        log.topic,
        log.partition,
        request(**options, errors="skip", restore=not reader.damage_reporter.stop_at_first),
        RecordRange.of(start, None, args.from_time, None),
        committed=committed,
        only=[segment.name for segment in log.segments] if alone else (),
    )


def _endless(followers: Sequence[LogFollower], reader: PieceReader, last: int | None) -> Generator[SelectedRows]:
    for one in followers:
        rows = _rows(one, reader)
        yield from rows if last is None else last_rows(rows, last)
    while not reader.damage_reporter.stopped:
        time.sleep(INTERVAL)
        for one in followers:
            yield from _rows(one, reader)


def _rows(one: LogFollower, reader: PieceReader) -> Generator[SelectedRows]:
    if reader.damage_reporter.stopped:
        return
    stops = reader.damage_reporter.stop_at_first
    for segment, records in one.poll():
        damage = list(records.damage)[: 1 if stops else None]
        stop_at = damage[0].position if damage and stops else None
        yield from reader.selection.choose(segment, records, stop_at)
        for each in damage:
            reader.damage_reporter.add(segment, each)
        for restored in records.restored:
            reader.damage_reporter.restored(segment, restored)
        if reader.damage_reporter.stopped:
            return
