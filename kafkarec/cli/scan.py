"""`kafkarec scan`: prints one row per batch, from the headers alone."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from kafkarec import report
from kafkarec.format.schema import BATCH_FIELDS
from kafkarec.logs import Segment
from kafkarec.report import Block, ReportTable
from kafkarec.storage.first_and_last import limited
from kafkarec.support.text_table import counted, timestamp_text
from kafkarec.tables.records import BatchTable

from . import input_logs, json_lines, output_files, progress, shared_options
from .json_lines import constant_columns
from .problems import DamageReporter, remark
from .record_pieces import rows_at, slices_reporting_damage, why_empty

DESCRIPTION = """Prints one row per batch, from its header alone. Nothing is decompressed and no checksum is computed,
so it is fast. For magic 0 and 1 one row is one outer message."""
EXAMPLES = """examples:
  kafkarec scan /kafka-logs/orders-0                     which batches, codecs, producers
  kafkarec scan 00000000000000000000.log --format json   the same as JSON
  kafkarec scan orders-0 --last 5                        the end of a log"""

COLUMNS = tuple(BATCH_FIELDS)
_SomeBatches = tuple[Segment, BatchTable]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    shared_options.add_range(parser, "batches")
    shared_options.add_columns(parser, ("file", *COLUMNS), "the columns to print, in this order")
    shared_options.add_errors(parser)
    shared_options.add_format_and_output(parser)


def run(args: argparse.Namespace) -> int:
    logs = input_logs.find(args)
    sources = input_logs.segments(logs)
    damage_reporter = DamageReporter(args, sources[-1].path)
    counts: list[int] = []
    with output_files.opened(args) as sink:
        with (
            progress.show_segments_read(sources, progress.when_writing(args.output)) as tick,
            closing(
                limited(read_batches(sources, args, damage_reporter, tick, counts), args.first, args.last)
            ) as pieces,
        ):
            if args.format == "json":
                names = args.columns or ["file", *COLUMNS]
                parts = (
                    json_lines.render(table, names, constants=constant_columns(source)) for source, table in pieces
                )
            else:
                blocks = _blocks(pieces, args.columns, len(sources) > 1)
                parts = (text.encode() for text in report.text(blocks))
            for part in parts:
                sink.write(part)
                sink.flush()
        if (fetched := input_logs.fetched_bytes(sources)) is not None:
            text = f"{counted(fetched, 'byte')} fetched"
            if args.format == "text":
                sink.write(f"{text}\n".encode())
            else:
                remark(text)
    if not any(counts) and not damage_reporter.stopped and (why := why_empty(args, logs, "batch")):
        remark(why)
    return damage_reporter.finish()


def read_batches(
    sources: Sequence[Segment],
    args: argparse.Namespace,
    damage_reporter: DamageReporter,
    tick: progress.Tick,
    counts: list[int],
) -> Generator[_SomeBatches]:
    """Yield the selected batches; each needs about a hundred bytes of memory, whatever its size. counts: gets the
    number of rows of each table"""
    for source in sources:
        pieces = source.scan_pieces(errors="skip", start_offset=args.from_offset, end_offset=args.to_offset)
        for batches in pieces:
            for _, rows in slices_reporting_damage(damage_reporter, source, batches):
                if args.from_time is not None or args.to_time is not None:  # a time that is not known is in any range
                    times = rows.zip_columns("base_timestamp", "max_timestamp")
                    overlapping = (
                        row
                        for row, (first, last) in enumerate(times)
                        if (last is None or args.from_time is None or last >= args.from_time)
                        and (first is None or args.to_time is None or first < args.to_time)
                    )
                    rows = rows_at(rows, list(overlapping))
                counts.append(len(rows))
                yield source, rows
            if damage_reporter.stopped:
                return
            damage_reporter.report_tail(source, batches.remaining)
            tick(*progress.tick_arguments(source, batches))


def _blocks(pieces: Iterable[_SomeBatches], names: Sequence[str] | None, several: bool) -> Iterator[Block]:
    """Yield a table for each piece, with short names, ISO times and - for null, and a line of totals. Of several files,
    the path comes first; chosen columns have one instead."""
    path = None
    shown = _COLUMNS if names is None else {name: name for name in names}
    batches = size = records = legacy = 0
    for source, table in pieces:
        if not len(table):
            continue
        if several and names is None and path != source.path:
            path = source.path
            yield path
        rows, known = list(table), constant_columns(source)
        batches += len(rows)
        for row in rows:
            size += row["size_in_bytes"]
            records += row["record_count"] or 0
            legacy += row["record_count"] is None
            codec = row["compression"] or f"codec {row['attributes'] & 7}"  # 5 to 7 have no name
            row |= known | {"codec": codec, "notes": _notes(row)}
        yield ReportTable.of(rows, shown)
    uncounted = f" (not counting those inside {counted(legacy, 'message')} of magic 0 or 1)" if legacy else ""
    yield f"{counted(batches, 'batch')}, {counted(records, 'record')}{uncounted}, {counted(size, 'byte')}"


def _notes(row: dict[str, Any]) -> str:
    notes = {
        "transactional": row["is_transactional"],
        "control": row["is_control"],
        "log append time": row["timestamp_type"] == 1,
        "delete horizon " + timestamp_text(row["delete_horizon_ms"]): row["delete_horizon_ms"] is not None,
        "empty": row["record_count"] == 0,
    }
    return ", ".join(note for note, holds in notes.items() if holds)


# title -> the column of a batch, or what is said of it
_COLUMNS = {
    "position": "position",
    "bytes": "size_in_bytes",
    "base": "base_offset",
    "last": "last_offset",
    "records": "record_count",
    "codec": "codec",
    "magic": "magic",
    "max timestamp": "max_timestamp",
    "epoch": "partition_leader_epoch",
    "producer": "producer_id",
    "p.epoch": "producer_epoch",
    "sequence": "base_sequence",
    "notes": "notes",
}
