"""`kafkarec compact`: the log cleaner, without a broker."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial

from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log
from kafkarec.ops.compact import CleanerStats, cleaned
from kafkarec.ops.compact.cleaner import Cleaning
from kafkarec.storage.output_rules import suggested_output
from kafkarec.support.command_line import command

from . import FINE, input_logs, new_log, shared_options
from .problems import report_tail, rerun_command
from .shared_options import WrongUse, add_option

DESCRIPTION = """Keeps the last record of each key, as the cleaner of Kafka 4.4 does. Removes older records, records
without a key, data of aborted transactions, and tombstones and markers past their delete horizon. Offsets do not
change. The first run that reads a tombstone sets its delete horizon, and a later run over the new log removes it: both
with --delete-retention-ms 0 remove all of them. Everything from the first open transaction on is kept. A broker does
not clean the active segment; this command does."""
EXAMPLES = """examples:
  kafkarec compact /kafka-logs/users-0 -o new/            one partition: new/users-0
  kafkarec compact users-0 | kafkarec convert - -o small.log --compression zstd --batch-size 1m"""

_milliseconds = shared_options.number_parser("milliseconds", most=2**63 - 1)
_LARGEST_LIMIT = 2**31 - 9  # of max.decompressed.message.bytes
# Field of CleanerStats -> its name in the summary.
_REASONS = {
    "messages_superseded": "records with a later record of the same key",
    "messages_invalid": "records without a key",
    "tombstones_removed": "tombstones past their delete horizon",
    "messages_aborted": "records of aborted transactions",
    "markers_removed": "transaction markers without data",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    new_log.add_output(parser)
    group = parser.add_argument_group("the cleaner's settings")
    for name, what in (
        ("delete-retention-ms", "how long tombstones and markers are kept (delete.retention.ms, default a day)"),
        ("producer-expiration-ms", "how long a producer's state is kept (producer.id.expiration.ms, default a day)"),
    ):
        add_option(group, f"--{name} MS", what, _milliseconds, default=86_400_000)
    add_option(
        group,
        "--now T",
        "the time that these are counted from: ISO 8601, ms, -1h (default: now)",
        shared_options.time_ms,
    )
    add_option(
        group,
        "--max-decompressed-message-bytes SIZE",
        "stop at a larger record in a compressed batch, as a cleaner with this max.decompressed.message.bytes",
        shared_options.size_parser(1, _LARGEST_LIMIT),
    )
    shared_options.add_decompressed_limit(parser)
    new_log.add_format(parser)


def run(args: argparse.Namespace) -> int:
    if args.now is not None and args.now < 0:
        raise WrongUse("--now must be in 1970 or later")
    logs = input_logs.find(args)
    if args.now is None:
        args.now = int(time.time() * 1000)  # the same for all partitions
    options = shared_options.arguments_for(cleaned, args)
    status = FINE

    def report(log: Log, made: Cleaning) -> None:
        nonlocal status
        status = max(status, report_tail(log.segments[-1], made.remaining, args.argv[0]))

    try:
        done = new_log.rewrite(args, logs, partial(cleaned, **options), report, passes=2)
    except KafkaRecordError as error:
        if error.reason == "record_too_large":
            anew = rerun_command(args.argv, {"--max-decompressed-message-bytes": str(error.found)})
            return new_log.report_damage(error, args, anew, "With a higher limit")
        salvage = command("salvage", args.paths, ("-o", suggested_output("rescued", args.paths)))
        return new_log.report_damage(error, args, salvage, "Leave the batch out, then compact the result")
    new_log.print_summary(args.format, done, _lines)
    return status


def _lines(source: str, output: str, stats: CleanerStats) -> Iterator[str]:
    before = stats.messages_read + stats.messages_aborted + stats.markers_removed
    left = stats.batches_copied + stats.batches_rewritten + stats.batches_emptied
    read = before, stats.batches_read, stats.bytes_read
    yield new_log.change_text(source, output, read, (stats.messages_retained, left, stats.bytes_retained))
    for name, description in _REASONS.items():
        if removed := getattr(stats, name):
            yield f"  removed: {description}: {removed}"
    if stats.bytes_left_alone:
        where = f"from offset {stats.first_uncleanable_offset} on (an open transaction)"
        yield f"  not cleaned: {stats.bytes_left_alone} bytes {where}"
