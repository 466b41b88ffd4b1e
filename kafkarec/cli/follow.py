"""`cat --follow`: prints existing records, then new ones as they are appended, until Ctrl-C or -n rows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator, Sequence
from contextlib import closing

from kafkarec.logs import Log
from kafkarec.sources import remote
from kafkarec.storage.follower import Follower
from kafkarec.storage.output_rules import is_stream

from . import input_logs, last_records
from .problems import say
from .record_pieces import PieceReader
from .selection import SelectedRows, first_rows, last_rows
from .shared_options import CouldNot, WrongUse

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
    followers: list[Follower] = []
    for log in logs:
        start = args.from_offset
        if args.last is not None:
            ((_, start),) = last_records.parts(reader, [log], max(args.last, 1))
        try:
            followers += log.followers(
                start_offset=start, start_timestamp=args.from_time, on_note=_note, **reader.options
            )
        except ValueError as error:  # of several folders
            raise WrongUse(str(error)) from error
    with closing(_endless(followers, reader, args.last)) as pieces_read:
        yield from pieces_read if args.first is None else first_rows(pieces_read, args.first)


def _note(text: str) -> None:
    say(f"note: {text}")


def _endless(followers: Sequence[Follower], reader: PieceReader, last: int | None) -> Generator[SelectedRows]:
    for one in followers:
        rows = _rows(one, reader)
        yield from rows if last is None else last_rows(rows, last)
    while not reader.damage_reporter.stopped:
        time.sleep(INTERVAL)
        for one in followers:
            yield from _rows(one, reader)


def _rows(one: Follower, reader: PieceReader) -> Generator[SelectedRows]:
    if reader.damage_reporter.stopped:
        return
    try:
        for segment, records in one.poll():
            yield from reader.chosen(segment, records)
            if reader.damage_reporter.stopped:
                return
    except FileNotFoundError as gone:
        raise CouldNot(str(gone)) from gone
