"""`kafkarec cat`: records as JSON Lines, CSV, Parquet or an Arrow IPC stream."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing

from kafkarec import internal_topics
from kafkarec.format.enums import Isolation
from kafkarec.format.schema import RECORD_FIELDS
from kafkarec.logs import Segment
from kafkarec.read.decode_options import for_keys, request
from kafkarec.storage.first_and_last import limited
from kafkarec.storage.log_reading import Selection
from kafkarec.storage.ranges import RecordRange

from . import input_cells, input_logs, output_files, progress, shared_options
from .cat_writers import CONTROL, WRITERS, ArrowWriter, FolderWriter, JsonWriter
from .json_lines import CONSTANT_COLUMNS, FORMS, constant_columns
from .problems import DamageReporter, remark
from .record_pieces import RecordReader, demand_followable, followed, latest_per_key, why_empty
from .shared_options import WrongUse, add_option

DESCRIPTION = """Prints records as JSON Lines, one record a line, or as CSV, Parquet or an Arrow IPC stream.
Keys and values that are UTF-8 are strings; others are base64 in key_base64 and value_base64.
Those of internal topics (__consumer_offsets, __cluster_metadata, ...) are objects; --raw prints their bytes."""
EXAMPLES = """examples:
  kafkarec cat /kafka-logs/orders-0                     every record of a partition
  kafkarec cat 00000000000000000000.log -n 10           the first ten of a segment
  kafkarec cat orders-0 --from-time -1h --key user-17   the last hour of one key
  kafkarec cat orders-0 --isolation read_committed      as a consumer would see it
  kafkarec cat orders-0 --errors skip                   every good batch of a damaged log
  kafkarec cat orders-0 -o orders.parquet               .csv, .json and .arrow likewise
  kafkarec cat data -o table --partition-by topic,date  Parquet by topic and day
  kafkarec cat orders-0 --follow --last 5               the last records, then new ones
  kafkarec cat __consumer_offsets-12                    who committed what, as objects
  kafkarec cat __consumer_offsets-12 --latest-per-key   the offsets of all groups now"""

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
PARTITION_COLUMNS = ("topic", "date")
COLUMNS = (*DEFAULT_COLUMNS, *(name for name in RECORD_FIELDS if name not in DEFAULT_COLUMNS), CONTROL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    shared_options.add_range(parser, "records")
    add_option(
        parser,
        "--follow -f",
        "wait for new batches, segments and ends of transactions, as tail -f does, until Ctrl-C or -n rows",
    )
    add_option(
        parser,
        "--key K",
        "only records with this key, encoded as --key-as says; several: with one of these keys",
        action="append",
    )
    add_option(
        parser,
        "--latest-per-key",
        "of the selected records only the last one of each key in its partition; reads the log twice",
    )
    add_option(
        parser,
        "--isolation read_uncommitted|read_committed",
        "read_committed: without aborted records, and only up to the first open transaction",
    )
    add_option(
        parser,
        "--control",
        "also print control records, decoded in a column control, the last one if --columns does not name it",
    )
    more = " (with the records of --control)"
    shared_options.add_columns(parser, COLUMNS, "the columns to print, in this order", more)
    for field in ("key", "value"):
        add_option(
            parser,
            f"--{field}-as {'|'.join(FORMS)}",
            f"how to print the {field}; bytes that cannot be printed so are printed as {field}_base64",
        )
    add_option(
        parser,
        "--time-format ms|iso",
        "how JSON and CSV print timestamps: milliseconds since 1970 (ms, the default) or ISO 8601 in UTC (iso)",
    )
    add_option(parser, "--raw", "do not decode the records of internal topics")
    shared_options.add_threads(parser)
    shared_options.add_decompressed_limit(parser)
    shared_options.add_errors(parser)
    shared_options.add_format_and_output(parser, tuple(WRITERS))
    add_option(
        parser,
        "--partition-by A,B",
        (
            "write the new folder -o DIR of Parquet files in folders topic=NAME, date=DAY (UTC, of the timestamp) or "
            "both, in this order"
        ),
        shared_options.names_parser(PARTITION_COLUMNS),
    )


def run(args: argparse.Namespace) -> int:
    if args.follow:
        demand_followable(args)
    columns = tuple(args.columns or DEFAULT_COLUMNS)
    if args.control and CONTROL not in columns:
        columns += (CONTROL,)
    with_control = CONTROL in columns
    if args.latest_per_key and with_control:
        raise WrongUse("--latest-per-key leaves out control records; leave out --control")
    logs = input_logs.find(args)
    sources = input_logs.segments(logs)
    damage_reporter = DamageReporter(args, sources[-1].path)
    record_range = RecordRange.of(args.from_offset, args.to_offset, args.from_time, args.to_time)
    keys = [_key_bytes(key, args.key_as) for key in args.key] if args.key else None
    decoded = [name for name in columns if name in RECORD_FIELDS and name not in CONSTANT_COLUMNS]
    opened = output_files.new_folder(args.output) if args.partition_by else output_files.opened(args)
    with opened as sink:
        writer = _writer(args, sink, sources, columns)
        decode_options = {
            "columns": list(dict.fromkeys([*decoded, *writer.needed_columns, "batch_position"])),
            "control": with_control,
            "max_decompressed_bytes": args.max_decompressed_bytes,
            "timestamp_unit": writer.timestamp_unit,
            "errors": "skip",
            "restore": args.errors == "skip",
        }
        wanted, isolation = for_keys(request(**decode_options), keys), Isolation.of(args.isolation)
        with progress.show_segments_read(sources, progress.when_writing(args.output), 1 + args.latest_per_key) as tick:
            chosen = Selection(wanted, record_range, isolation, threads=shared_options.threads(args))
            reader = RecordReader(chosen, damage_reporter, tick)
            if args.follow:
                pieces = followed(args, logs, reader)
            else:
                pieces = latest_per_key(reader, logs) if args.latest_per_key else reader.pieces(logs, args.last)
            with closing(limited(pieces, args.first, None if args.follow else args.last)) as selected:
                rows = 0
                for source, table in selected:
                    rows += len(table)
                    with output_files.deferred_interrupts():
                        writer.write(source, table)
        writer.finish(decode_options)
    if not rows and not damage_reporter.stopped and (why := why_empty(args, logs)):
        remark(why)
    return damage_reporter.finish()


def _writer(
    args: argparse.Namespace,
    sink: output_files.Sink | str,
    sources: Sequence[Segment],
    columns: Sequence[str],
) -> JsonWriter | ArrowWriter:
    shown = columns
    iso_times = args.time_format == "iso"
    forms = {"key": args.key_as, "value": args.value_as}
    internal = [source.topic in internal_topics.TOPICS for source in sources]
    decoded = [name for name in ("key", "value") if name in columns and forms[name] == "utf8"]
    if args.raw or not any(internal):
        decoded = []
    if args.format in ("arrow", "parquet"):
        if iso_times:
            raise WrongUse(f"--time-format is for json and csv; timestamps in {args.format} have a type")
        for name in ("key", "value"):
            if forms[name] != "utf8" and not (name == "key" and args.key):
                raise WrongUse(f"--{name}-as is for json and csv; a {name} in {args.format} is bytes")
        if decoded and not all(internal):
            remark("keys and values of internal topics stay bytes, as there are other topics; read them alone")
            decoded = []
        known = {
            name for name in CONSTANT_COLUMNS if any(constant_columns(source)[name] is not None for source in sources)
        }
        shown = tuple(name for name in columns if args.columns or name not in CONSTANT_COLUMNS or name in known)
        if isinstance(sink, str):
            return FolderWriter(sink, args.output, args.partition_by, shown, decoded, forms, iso_times)
        if sink.is_terminal:
            raise WrongUse(
                f"--format {args.format} is binary and cannot be printed on a terminal; add -o FILE or a pipe"
            )
    return WRITERS[args.format](sink, shown, decoded, forms, iso_times)


def _key_bytes(text: str, form: str) -> bytes:
    if form not in ("utf8", "json"):
        try:
            return input_cells.FORMS[form][0](int(text) if form.startswith("int") else text)
        except (ValueError, OverflowError):
            raise WrongUse(f"--key {text!r} is not {form}, as --key-as requires") from None
    return text.encode("utf-8", "surrogateescape")
