"""`cat --follow`: prints existing records, then new ones as they are appended, until Ctrl-C or -n rows."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Sequence
from contextlib import closing

from kafkarec.format.enums import Isolation
from kafkarec.logs import Log
from kafkarec.sources import remote
from kafkarec.storage import follower
from kafkarec.storage.output_rules import is_stream

from . import input_logs
from .problems import remark
from .record_pieces import PieceReader, SomeRecords
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


def pieces(args: argparse.Namespace, logs: Sequence[Log], reader: PieceReader) -> Generator[SomeRecords]:
    """Yield the selected records as they arrive."""
    polled: list[follower.Follower] = []
    isolation = Isolation.of(reader.isolated.isolation)
    for log in logs:
        try:
            polled += follower.followers(log, reader.wanted, reader.record_range, isolation, args.last, remark)
        except ValueError as error:  # of several folders
            raise WrongUse(str(error)) from error
    try:
        with closing(follower.follow(polled, INTERVAL, args.last)) as arrived:
            for segment, records in arrived:
                yield from reader.windows(segment, records)
                if reader.damage_reporter.stopped:
                    return
    except FileNotFoundError as gone:
        raise CouldNot(str(gone)) from gone
