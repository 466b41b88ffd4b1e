"""`cat --follow`: prints the existing records, then new ones, until Ctrl-C or -n rows."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from types import FrameType
from typing import Any

from kafkarec.read.decode_options import request
from kafkarec.storage import Log, remote
from kafkarec.storage.output_rules import is_stream
from kafkarec.storage.ranges import RecordRange

from . import inputs, last_records
from .record_pieces import PieceReader
from .selection import SelectedRows, first_rows, last_rows
from .shared_options import WrongUse
from .tail import GrowingLog

INTERVAL = 0.25  # seconds between two polls


def demand_endless(args: argparse.Namespace) -> None:
    """Raises WrongUse for options that need an end, and for inputs that cannot grow."""
    if args.format not in ("json", "csv"):
        raise WrongUse(f"--format {args.format} needs an end; --follow goes with json and csv")
    if not is_stream(args.output):
        raise WrongUse("-o FILE appears when it is complete, which --follow never is; write > FILE")
    if args.to_offset is not None or args.to_time is not None:
        raise WrongUse("--follow has no end; leave out --to-offset and --to-time")
    for path in args.paths:
        if path == inputs.STANDARD_INPUT or remote.is_url(path):
            raise WrongUse(f"--follow looks at local files and folders, and {path} is none")


def pieces(args: argparse.Namespace, logs: Sequence[Log], reader: PieceReader) -> Generator[SelectedRows]:
    """The chosen rows as they arrive. Ctrl-C ends the iteration between two pieces."""
    growing = []
    for log in logs:
        start = args.from_offset
        if args.last is not None:
            ((_, start),) = last_records.parts(reader, [log], max(args.last, 1))
        growing.append(_growing(args, log, reader, start))
    with closing(_endless(growing, reader, args.last)) as found:
        yield from found if args.first is None else first_rows(found, args.first)


def _growing(args: argparse.Namespace, log: Log, reader: PieceReader, start: int | None) -> GrowingLog:
    named = {os.path.realpath(path) for path in args.paths if not os.path.isdir(path)}
    alone = all(os.path.realpath(segment.path) in named for segment in log.segments)
    options = dict(reader.decode)
    committed = options.pop("isolation") == "read_committed"
    return GrowingLog(
        os.path.dirname(log.segments[0].path) or os.curdir,
        log.topic,
        log.partition,
        request(**options, errors="skip"),
        RecordRange.of(start, None, args.from_time, None),
        committed=committed,
        only=[segment.name for segment in log.segments] if alone else (),
    )


def _endless(growing: Sequence[GrowingLog], reader: PieceReader, last: int | None) -> Generator[SelectedRows]:
    with _Interrupts() as interrupts:
        for one in growing:
            look = _rows(one, reader, interrupts)
            yield from look if last is None else last_rows(look, last)
        while not reader.troubles.stopped:
            interrupts.sleep(INTERVAL)
            for one in growing:
                yield from _rows(one, reader, interrupts)


def _rows(one: GrowingLog, reader: PieceReader, interrupts: _Interrupts) -> Generator[SelectedRows]:
    if reader.troubles.stopped:
        return
    stops = reader.troubles.stop_at_first
    for segment, records in one.look():
        damage = list(records.damage)[: 1 if stops else None]
        stop_at = damage[0].position if damage and stops else None
        for piece in reader.selection.choose(segment, records, stop_at):
            yield piece
            interrupts.check()
        interrupts.check()
        for each in damage:
            reader.troubles.add(segment, each)
        if reader.troubles.stopped:
            return


class _Interrupts:
    """Delays a Ctrl-C during a write until the write is done, so that the last line is whole; not a second one."""

    def __init__(self) -> None:
        self._asked = self._asleep = False
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asleep or self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def sleep(self, seconds: float) -> None:
        self.check()
        self._asleep = True
        try:
            self.check()
            time.sleep(seconds)
        finally:
            self._asleep = False

    def check(self) -> None:
        if self._asked:
            raise KeyboardInterrupt
