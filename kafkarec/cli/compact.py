"""`kafkarec compact`: the log cleaner, without a broker."""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.ops.compact import CleanerStats, cleaned
from kafkarec.storage import Log, Segment
from kafkarec.storage.folders import LocalFolder
from kafkarec.storage.output_rules import is_stream

from . import inputs, new_log, output, shared_options
from .problems import FINE
from .shared_options import CouldNot

DESCRIPTION = """Keeps the last record of each key, as the cleaner of Kafka 4.3 does: older ones go, and records without
a key, data of aborted transactions, and tombstones and markers whose time has come. Offsets stay. Tombstones get their
time in the first pass that finds them and go in a later one: --passes 2 --delete-retention-ms 0 is rid of them at
once. From the first open transaction on everything stays. A broker leaves the active segment alone; here it is cleaned
as well."""
EXAMPLES = """examples:
  kafkarec compact /kafka-logs/users-0 -o new/            one partition: new/users-0
  kafkarec compact users-0 -o new/ --passes 2 --delete-retention-ms 0        no tombstones either
  kafkarec compact users-0 | kafkarec convert - -o small.log --compression zstd --batch-size 1m"""

OUTPUT = output.LOG
_PASSES = 10
# Reasons for removing records: a field of CleanerStats, its name in the summary.
_REASONS = {
    "messages_superseded": "with a later record of their key",
    "messages_invalid": "without a key",
    "tombstones_removed": "tombstones whose time had come",
    "messages_aborted": "of aborted transactions",
    "markers_removed": "transaction markers without data",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    new_log.add_output(parser)
    group = parser.add_argument_group("the cleaner's settings")
    for name, what in (
        ("delete-retention-ms", "how long tombstones and markers stay (delete.retention.ms, default a day)"),
        ("producer-expiration-ms", "how long a producer is remembered (producer.id.expiration.ms, default a day)"),
    ):
        group.add_argument(f"--{name}", type=_milliseconds, default=86_400_000, metavar="MS", help=what)
    group.add_argument(
        "--min-compaction-lag-ms",
        type=_milliseconds,
        default=0,
        metavar="MS",
        help="leave everything from the first batch on that is younger (min.compaction.lag.ms, default 0)",
    )
    group.add_argument(
        "--now",
        type=shared_options.when,
        metavar="T",
        help="the time that these count from: ISO 8601, ms, -1h (default: now)",
    )
    group.add_argument("--passes", type=_passes, default=1, metavar="N", help="run the cleaner N times (default 1)")
    parser.add_argument(
        "--max-decompressed-bytes",
        type=shared_options.size,
        default=128 << 20,
        metavar="SIZE",
        help="how far one batch may decompress (default 128m)",
    )
    new_log.add_format(parser)


def _milliseconds(text: str) -> int:
    if not text.isdigit() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds")
    return int(text)


def _passes(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _PASSES:
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to {_PASSES} passes")
    return int(text)


def run(args: argparse.Namespace) -> int:
    logs = inputs.find(args.paths, args.topic, args.partition)
    options = {
        "now": int(time.time() * 1000) if args.now is None else args.now,
        "delete_retention_ms": args.delete_retention_ms,
        "producer_expiration_ms": args.producer_expiration_ms,
        "min_compaction_lag_ms": args.min_compaction_lag_ms,
        "max_decompressed_bytes": args.max_decompressed_bytes,
    }
    done: list[tuple[str, str, list[CleanerStats]]] = []
    try:
        with new_log.opened(args, any(map(os.path.isdir, args.paths))) as out:
            for log in logs:
                out.check((log.topic, log.partition), log.path)
            for log in logs:
                place = log.topic, log.partition
                out.begin(place, log.path, new_log.origin_of(log))
                with ExitStack() as passes:
                    stats, source = [], log
                    for _ in range(args.passes - 1):
                        source, found = _between(source, passes, options, args.output)
                        stats.append(found)
                    cleaning = cleaned(source, **options)
                    for batches in cleaning:
                        out.write(place, batches)
                done.append((new_log.shown(log, args.paths), out.shown(place), [*stats, cleaning.stats]))
            out.finish()
    except KafkaRecordError as error:
        rescue = f"kafkarec salvage {' '.join(map(shlex.quote, args.paths))} -o rescued"
        return new_log.refused(error, args, f"{rescue} (leaves it out), then compact that")
    new_log.report(args.format, (_summary(*each) for each in done), (line for each in done for line in _lines(*each)))
    return FINE


def _between(source: Log, passes: ExitStack, options: dict[str, Any], path: str | None) -> tuple[Log, CleanerStats]:
    """Runs one pass of several into a temporary file beside the output, which the next pass reads."""
    above = os.path.dirname(os.path.realpath(path)) if path is not None and not is_stream(path) else None
    try:
        file = tempfile.NamedTemporaryFile(prefix=".kafkarec-", suffix=".log", dir=above)  # noqa: SIM115
        passes.enter_context(file)
        cleaning = cleaned(source, **options)
        for batches in cleaning:
            file.write(batches)
        file.flush()
    except OSError as error:
        raise CouldNot(f"between two passes: {(error.strerror or str(error)).lower()}") from error
    segment = passes.enter_context(Segment(file.name, os.path.basename(file.name), folder=LocalFolder(above or "/tmp")))
    return Log(file.name, [segment]), cleaning.stats


def _summary(source: str, output: str, stats: list[CleanerStats]) -> dict[str, Any]:
    return {"source": source, "output": output, "passes": [_numbers(one) for one in stats]}


def _numbers(stats: CleanerStats) -> dict[str, int]:
    return {name: getattr(stats, name) for name in dir(stats) if isinstance(getattr(stats, name), int)}


def _lines(source: str, output: str, stats: list[CleanerStats]) -> Iterator[str]:
    first, last = stats[0], stats[-1]
    before = first.messages_read + first.messages_aborted + first.markers_removed
    left = last.batches_copied + last.batches_rewritten + last.batches_emptied
    yield (
        f"{source}: {new_log.contents(before, first.batches_read, first.bytes_read)}"
        f" -> {output}: {new_log.contents(last.messages_retained, left, last.bytes_retained, first.bytes_read)}"
    )
    for name, words in _REASONS.items():
        if gone := sum(getattr(one, name) for one in stats):
            yield f"  gone: {words}: {gone}"
    if last.bytes_left_alone:
        why = f"from offset {last.first_uncleanable_offset} on (an open transaction, or too young)"
        yield f"  left alone: {last.bytes_left_alone} bytes {why}"
