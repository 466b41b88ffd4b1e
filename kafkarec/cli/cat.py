"""`kafkarec cat`: records as JSON Lines, CSV, Parquet or an Arrow IPC stream."""

from __future__ import annotations

import argparse
import base64
import binascii
from collections.abc import Generator, Sequence
from contextlib import closing

from kafkarec.format.schema import RECORD_FIELDS
from kafkarec.storage import Log, Segment

from . import follow, inputs, internal, last_records, output, progress, shared_options
from .cat_arrow import ArrowWriter, ParquetWriter
from .cat_csv import CsvWriter
from .cat_writer import CONSTANTS, JsonWriter, RowWriter
from .json_lines import FORMS
from .problems import Troubles
from .record_pieces import LogRange, PieceReader
from .selection import SelectedRows, Selection, first_rows, last_rows

DESCRIPTION = """Prints records as JSON Lines, one record a line, or as CSV, Parquet or an Arrow IPC stream.
Keys and values that are UTF-8 are strings; others are base64 under key_base64 and value_base64.
Those of internal topics (__consumer_offsets, __cluster_metadata, ...) are objects; --raw shows their bytes."""
EXAMPLES = """examples:
  kafkarec cat /kafka-logs/orders-0                     every record of a partition
  kafkarec cat 00000000000000000000.log -n 10           the first ten of a segment
  kafkarec cat orders-0 --from-time -1h --key user-17   one key's last hour
  kafkarec cat orders-0 --isolation read_committed      as a consumer would see it
  kafkarec cat orders-0 --errors skip                   all that can be saved of a damaged log
  kafkarec cat orders-0 --format parquet -o orders.parquet
  kafkarec cat orders-0 --follow --last 5               the end, and what comes
  kafkarec cat __consumer_offsets-12                    who committed what, as objects"""

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
COLUMNS = (*DEFAULT_COLUMNS, *(name for name in RECORD_FIELDS if name not in DEFAULT_COLUMNS))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    shared_options.add_range(parser, "records")
    parser.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="wait for more, as tail -f does: batches, segments, the end of transactions; Ctrl-C or -n rows end it",
    )
    parser.add_argument("--key", metavar="K", help="only records with this key, written as --key-as says")
    parser.add_argument(
        "--isolation",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed: no aborted records, nothing from the first open transaction on",
    )
    parser.add_argument("--control", action="store_true", help="control records too, decoded under control")
    parser.add_argument(
        "--columns",
        type=shared_options.names(COLUMNS),
        metavar="A,B",
        help=f"which, in which order: {', '.join(COLUMNS)}",
    )
    for field in ("key", "value"):
        parser.add_argument(
            f"--{field}-as",
            choices=tuple(FORMS),
            default="utf8",
            help=f"how to show the {field}; bytes that do not fit are shown as {field}_base64",
        )
    parser.add_argument("--raw", action="store_true", help="do not decode the records of internal topics")
    parser.add_argument(
        "--max-decompressed-bytes",
        type=shared_options.size,
        default=128 << 20,
        metavar="SIZE",
        help="how far one batch may decompress (default 128m)",
    )
    shared_options.add_errors(parser)
    shared_options.add_output(parser, ("json", "csv", "parquet", "arrow"))
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="CSV for Excel and the like: a byte order mark, and no cell that is taken for a formula",
    )


def run(args: argparse.Namespace) -> int:
    if args.follow:
        follow.demand_endless(args)
    logs = inputs.find(args.paths, args.topic, args.partition)
    sources = inputs.segments(logs)
    troubles = Troubles(
        args.argv,
        stop_at_first=args.errors == "raise",
        last_path=sources[-1].path,
        limit=args.max_decompressed_bytes,
    )
    selection = Selection(
        args.from_offset, args.to_offset, args.from_time, args.to_time, _key_bytes(args.key, args.key_as)
    )
    columns = tuple(args.columns or DEFAULT_COLUMNS)
    decoded = [name for name in columns if name not in CONSTANTS]
    with output.opened(args) as sink:
        writer = _writer(args, sink, sources, columns)
        needed = [*decoded, *selection.columns, *writer.needed_columns]
        if troubles.stop_at_first:
            needed.append("batch_position")
        decode = {
            "columns": list(dict.fromkeys(needed)) or ["offset"],
            "control": args.control,
            "isolation": args.isolation,
            "max_decompressed_bytes": args.max_decompressed_bytes,
            "timestamp_unit": writer.timestamp_unit,
        }
        with progress.shown(sources, wanted=args.output is not None) as tick:
            reader = PieceReader(decode, selection, troubles, tick)
            with closing(follow.pieces(args, logs, reader) if args.follow else _pieces(args, logs, reader)) as pieces:
                for piece in pieces:
                    writer.write(piece)
        writer.finish(decode)
    return troubles.finish()


def _pieces(args: argparse.Namespace, logs: Sequence[Log], reader: PieceReader) -> Generator[SelectedRows]:
    if args.last is not None:
        parts = last_records.parts(reader, logs, args.last)
    else:
        parts = [LogRange(log, args.from_offset) for log in logs]
    with closing(reader.pieces(parts)) as found:
        if args.first is not None:
            yield from first_rows(found, args.first)
        elif args.last is not None:
            yield from last_rows(found, args.last)
        else:
            yield from found


def _writer(
    args: argparse.Namespace, sink: output.Sink, sources: Sequence[Segment], columns: Sequence[str]
) -> RowWriter:
    if args.spreadsheet and args.format != "csv":
        raise shared_options.WrongUse("--spreadsheet goes with --format csv")
    if args.format in ("arrow", "parquet"):
        several = len({(source.topic, source.partition) for source in sources}) > 1
        shown = [name for name in columns if args.columns or several or name not in CONSTANTS]
        return (ParquetWriter if args.format == "parquet" else ArrowWriter)(sink, shown)
    forms = {"key": args.key_as, "value": args.value_as}
    decoding = None if args.raw else internal.wanted(sources, columns, forms)
    if args.format == "csv":
        return CsvWriter(sink, columns, args.control, forms, decoding, args.spreadsheet)
    return JsonWriter(sink, columns, args.control, forms, decoding)


def _key_bytes(text: str | None, form: str) -> bytes | None:
    if text is None:
        return None
    try:
        if form in ("int32", "int64"):
            return int(text).to_bytes(4 if form == "int32" else 8, "big", signed=True)
        if form == "hex":
            return bytes.fromhex(text)
        if form == "base64":
            return base64.b64decode(text, validate=True)
    except (ValueError, OverflowError, binascii.Error):
        raise shared_options.WrongUse(f"--key {text!r} is no {form}, as --key-as asks for") from None
    return text.encode("utf-8", "surrogateescape")
