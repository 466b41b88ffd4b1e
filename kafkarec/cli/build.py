"""`kafkarec build`: segments and batches from JSON Lines, CSV, Arrow IPC and Parquet."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kafkarec.format.layout import BATCH_MAGIC, MAGICS
from kafkarec.storage.output_rules import is_stream

from . import DAMAGED, FINE, input_formats, new_log, progress, shared_options
from .build_batches import RowBatches
from .input_cells import FORMS, TAKEN, InputRows
from .input_logs import STANDARD_INPUT, demand_once
from .problems import say
from .shared_options import InputPath, WrongUse

DESCRIPTION = """Builds a log from rows: JSON Lines as cat prints them, CSV, Arrow IPC or Parquet. Missing columns have
defaults: no key, no headers, no timestamp, the offset after that of the previous row. The log is a .log file, a
stream of batches on standard output, or a partition folder with indexes that a broker can start on. With the columns
base_offset, producer_id, producer_epoch, sequence, is_transactional, is_control, partition_leader_epoch, magic and
compression, the original batches are reproduced."""
EXAMPLES = """examples:
  kafkarec build orders.jsonl -o orders-0              a partition folder with its indexes
  kafkarec build orders.jsonl -o orders.log --compression zstd
  kafkarec build rows.parquet --columns key,value --value-as json -o new.log
  kafkarec build rows.csv -o copies/                   copies/TOPIC-PARTITION for each partition in the rows
  kafkarec build --base-offset 100 | kafkarec cat -    from standard input, to standard output

exit status: 0 fine, 1 a row cannot be written (nothing is written without --errors skip), 2 wrong usage, 3 failed"""

_ROWS_REPORTED = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input",
        type=InputPath,
        nargs="*",
        default=[InputPath(STANDARD_INPUT)],
        metavar="INPUT",
        help="files of rows; - or nothing: standard input",
    )
    parser.add_argument(
        "--from",
        "--format",
        dest="form",
        choices=input_formats.FORMATS,
        type=lambda name: shared_options.SAME_FORMAT.get(name, name),
        help="the input's format (default: by its name and its first bytes)",
    )
    shared_options.add_columns(parser, TAKEN, "use only these columns")
    for name in ("key", "value"):
        parser.add_argument(
            f"--{name}-as",
            choices=tuple(FORMS),
            default="utf8",
            help=f"how the {name} column is encoded (default utf8); {name}_base64 and {name}_hex are always read",
        )
    text = "a row that cannot be written: write nothing (raise), or leave it out and report it (skip)"
    shared_options.add_errors(parser, text)
    new_log.add_output(parser)
    group = parser.add_argument_group("fields of the rows and batches")
    new_log.add_compression(group, "none")
    group.add_argument(
        "--batch-size",
        type=shared_options.size,
        default=16384,
        metavar="SIZE",
        help="the size of a full batch, as the producer's batch.size (default 16k)",
    )
    group.add_argument("--magic", type=int, choices=MAGICS, help="the record format (default 2)")
    group.add_argument(
        "--base-offset", type=int, metavar="N", help="number the records from N on, instead of by the column"
    )
    group.add_argument(
        "--timestamp",
        type=shared_options.time_ms,
        metavar="T",
        help="the timestamp of rows without one: ISO 8601, ms, or -1h (default: none)",
    )
    group.add_argument(
        "--timestamp-type", choices=("create", "log-append"), help="log-append: a batch has one timestamp"
    )


def run(args: argparse.Namespace) -> int:
    refused = _Refused(stop=args.errors == "raise")
    fields = {
        "magic": args.magic,
        "compression": args.compression,
        "timestamp_type": {None: None, "create": 0, "log-append": 1}[args.timestamp_type],
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    has_epochs = args.magic is None or args.magic >= BATCH_MAGIC
    inputs = args.input
    demand_once(inputs)
    with (
        new_log.opened(args) as log,
        progress.bytes_shown(lambda: progress.bytes_in(inputs), progress.when(args.output)) as tick,
    ):
        if args.base_offset is not None and args.base_offset < 0:
            raise WrongUse("--base-offset must be 0 or more")
        if args.timestamp is not None and args.timestamp < 0:
            raise WrongUse("--timestamp must be in 1970 or later")
        new_log.demand_level(args.compression, args.level)
        defaults = {"partition_leader_epoch": 0} if log.is_folder and has_epochs else {}
        builders: dict[new_log.Place, RowBatches] = {}
        forms = {"key": args.key_as, "value": args.value_as}
        for path in inputs:
            with input_formats.opened(path) as file:
                for rows in input_formats.rows(file, path, args.form, forms, args.columns, refused):
                    for partition, part in _by_partition(rows, log):
                        if partition not in builders:
                            builders[partition] = RowBatches(args, fields, defaults, refused)
                        for batch in builders[partition].add(part):
                            log.write(partition, batch)
                    tick(path, file.tell() if file.seekable() else 0)
        for partition, builder in builders.items():
            for batch in builder.end():
                log.write(partition, batch)
        log.finish()
    if not is_stream(args.output):
        done = builders.values()
        say(
            f"{new_log.contents(sum(each.records for each in done), sum(each.batches for each in done), log.size)}, "
            f"in {log.description}"
        )
    return refused.finish()


class _Refused:
    """Reports and counts rows that cannot be written; if `stop` is set, the first one raises BadInput."""

    def __init__(self, stop: bool) -> None:
        self._stop = stop
        self.count = 0

    def __call__(self, place: str, problem: str) -> None:
        self.count += 1
        if self._stop:
            raise new_log.BadInput(f"{place}: {problem}")
        if self.count <= _ROWS_REPORTED:
            say(f"{place}: {problem}; left out")

    def finish(self) -> int:
        if self.count > _ROWS_REPORTED:
            say(f"and {self.count - _ROWS_REPORTED} more rows, {self.count} in total")
        return DAMAGED if self.count else FINE


def _by_partition(rows: InputRows, log: new_log.NewLog) -> Iterator[tuple[new_log.Place, InputRows]]:
    """Yield (partition, its rows); all rows with partition (None, None) if they name neither topic nor partition."""
    columns = rows.column("topic"), rows.column("partition")
    rows_of: dict[new_log.Place, list[int]] = {}
    if columns == (None, None):
        rows_of[None, None] = [0]
    else:
        for row, place in enumerate(zip(*(cells or [None] * len(rows) for cells in columns), strict=True)):
            rows_of.setdefault(place, []).append(row)
    for place, numbers in rows_of.items():
        log.begin(place, rows.where(numbers[0]))
        yield place, rows if len(rows_of) == 1 else rows.take(numbers)
