"""`kafkarec scan`: prints one row per batch, from the headers alone."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

from kafkarec.format.schema import BATCH_FIELDS
from kafkarec.logs import Segment
from kafkarec.storage.output_rules import is_stream
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support import text_table
from kafkarec.tables.records import BatchTable

from . import empty_answer, input_logs, json_lines, output_files, progress, shared_options
from .cat_writer import constants
from .output_files import Sink
from .problems import DamageReporter, say
from .selection import SelectedRows, first_rows, last_rows
from .table_windows import windows

DESCRIPTION = """Prints one row per batch, from its header alone. Nothing is decompressed and no checksum is computed,
so it is fast. For magic 0 and 1 one row is one outer message."""
EXAMPLES = """examples:
  kafkarec scan /kafka-logs/orders-0                     which batches, codecs, producers
  kafkarec scan 00000000000000000000.log --format json   the same as JSON
  kafkarec scan orders-0 --last 5                        the end of a log"""

COLUMNS = tuple(BATCH_FIELDS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    shared_options.add_range(parser, "batches")
    known = ("file", *COLUMNS)
    parser.add_argument(
        "--columns",
        type=shared_options.names(known),
        metavar="A,B",
        help=f"the columns to print, in this order; there are {', '.join(known)}",
    )
    shared_options.add_errors(parser)
    shared_options.add_output(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    logs = input_logs.find(args.paths, args.topic, args.partition)
    sources = input_logs.segments(logs)
    damage_reporter = DamageReporter(
        args.argv,
        stop_at_first=args.errors == "raise",
        last_path=sources[-1].path,
        resumes=len(logs) == 1 and args.first is None and args.last is None,
        file=None if is_stream(args.output) else args.output,
    )
    with output_files.opened(args) as sink:
        writer: TextWriter | BatchJsonWriter
        if args.format == "json":
            writer = BatchJsonWriter(sink, args.columns or ["file", *COLUMNS])
        else:
            writer = TextWriter(sink, args.columns, len(sources) > 1)
        with (
            progress.shown(sources, progress.when(args.output)) as tick,
            closing(read(sources, args, damage_reporter, tick)) as selected,
        ):
            pieces: Iterator[SelectedRows] = selected
            if args.first is not None:
                pieces = first_rows(pieces, args.first)
            elif args.last is not None:
                pieces = last_rows(pieces, args.last)
            rows = 0
            for piece in pieces:
                rows += piece.count
                writer.write(piece)
        writer.finish()
        fetched = input_logs.fetched(sources)
        if fetched is not None and args.format == "text":
            sink.write(f"{text_table.counted(fetched, 'byte')} fetched\n".encode())
        elif fetched is not None:
            say(f"note: {text_table.counted(fetched, 'byte')} fetched")
    if not rows and not damage_reporter.stopped and (why := empty_answer.reason(args, logs, "batch")):
        say(f"note: {why}")
    return damage_reporter.finish()


def read(
    sources: Sequence[Segment], args: argparse.Namespace, damage_reporter: DamageReporter, tick: progress.Tick
) -> Generator[SelectedRows]:
    """Yield the selected batches; each needs about a hundred bytes of memory, whatever its size."""
    for source in sources:
        remaining = 0
        pieces = source.scan_pieces(errors="skip", start_offset=args.from_offset, end_offset=args.to_offset)
        for batches in pieces:
            damage = list(batches.damage)[: 1 if damage_reporter.stop_at_first else None]
            stop_at = damage[0].position if damage and damage_reporter.stop_at_first else None
            for window in windows(batches):
                yield SelectedRows(source, window, _rows(window, args, stop_at))
            for one in damage:
                damage_reporter.add(source, one)
            if damage_reporter.stopped:
                return
            remaining = batches.remaining
            tick(*progress.after(source, batches))
        damage_reporter.tail(source, remaining)


def _rows(window: BatchTable, args: argparse.Namespace, stop_at: int | None) -> list[int] | None:
    """Return the rows of batches whose range of times overlaps the selected one; None: all."""
    tests = (
        ("position", None, stop_at),
        ("max_timestamp", args.from_time, None),
        ("base_timestamp", None, args.to_time),
    )
    rows: list[int] | None = None
    for name, low, high in tests:
        if low is None and high is None:
            continue
        values = window.column(name)
        rows = [
            row
            for row in (range(len(window)) if rows is None else rows)
            if values[row] is None or ((low is None or values[row] >= low) and (high is None or values[row] < high))
        ]
    return rows


class BatchJsonWriter:
    """Prints one object per batch; times are ms."""

    def __init__(self, sink: Sink, names: Sequence[str]) -> None:
        self._sink = sink
        self._names = names

    def write(self, piece: SelectedRows) -> None:
        known = constants(piece.source)
        self._sink.write(json_lines.render(piece.table, self._names, constants=known, rows=piece.rows))
        self._sink.flush()

    def finish(self) -> None:
        self._sink.flush()


class TextWriter:
    """Prints a table with short names, ISO times, - for null, and a line of totals."""

    def __init__(self, sink: Sink, names: Sequence[str] | None, several: bool) -> None:
        self._sink = sink
        self._names = names
        self._several = several
        self._source: SegmentFile | None = None
        self._batches = self._bytes = self._records = self._uncounted = 0

    def write(self, piece: SelectedRows) -> None:
        if not piece.count:
            return
        if self._several and self._names is None and self._source is not piece.source:
            self._source = piece.source
            self._sink.write(f"{text_table.safe(piece.source.path)}\n".encode())
        rows = _values(piece)
        for row in rows:
            self._batches += 1
            self._bytes += row["size_in_bytes"]
            self._records += row["record_count"] or 0
            self._uncounted += row["record_count"] is None
        if self._names is None:
            columns = [(title, [show(row) for row in rows]) for title, show in text_table.BATCH_COLUMNS]
        else:
            rows = [row | constants(piece.source) for row in rows]
            columns = [(name, [text_table.plain(name, row[name]) for row in rows]) for name in self._names]
        self._sink.write(text_table.render(columns).encode())
        self._sink.flush()

    def finish(self) -> None:
        records = text_table.counted(self._records, "record")
        if self._uncounted:
            legacy = text_table.counted(self._uncounted, "message")
            records += f" (not counting those inside {legacy} of magic 0 or 1)"
        batches, size = text_table.counted(self._batches, "batch"), text_table.counted(self._bytes, "byte")
        self._sink.write(f"{batches}, {records}, {size}\n".encode())


def _values(piece: SelectedRows) -> list[dict[str, Any]]:
    return list(piece.table) if piece.rows is None else [piece.table[row] for row in piece.rows]
