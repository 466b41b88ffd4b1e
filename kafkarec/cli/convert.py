"""`kafkarec convert`: a log with another codec, level, batch size or magic."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.ops.convert import LOSSES, Conversion, ConversionStats, LossError, converted
from kafkarec.storage import Log

from . import inputs, new_log, output, shared_options
from .problems import DAMAGED, Troubles, command, say
from .shared_options import WrongUse

DESCRIPTION = """Writes a log anew with another codec, level, batch size or magic: offsets, timestamps, keys, values,
headers, producers and transactions stay as they are. What already is as it should be is copied byte for byte. Down to
magic 1 and 0 Kafka's own rules hold: headers, producers, control records are lost, and counted."""
EXAMPLES = """examples:
  kafkarec convert orders-0 -o new/ --compression zstd --level 19 --batch-size 1m
  kafkarec convert old.log -o new.log                       magic 0 and 1 up to 2, which Kafka 4 wants
  kafkarec convert orders-0 -o down/ --magic 1 --on-loss raise
  kafkarec convert packed.log --compression none | kafkarec cat -

exit status: 0 fine, 1 damage (or a loss with --on-loss raise), 2 wrong use, 3 could not"""

OUTPUT = output.LOG


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    new_log.add_output(parser)
    group = parser.add_argument_group("the new batches")
    group.add_argument(
        "--magic",
        choices=("2", "1", "0", "keep"),
        default="2",
        help="the record format (default 2); keep: each batch its own",
    )
    new_log.add_compression(group, "each its own")
    group.add_argument(
        "--batch-size",
        type=shared_options.size,
        metavar="SIZE",
        help="put neighbours together up to so many bytes, before compression, and cut above (default: as they are)",
    )
    group.add_argument(
        "--on-loss",
        choices=("count", "raise"),
        default="count",
        help="what magic 1 and 0 have no place for: count it, or write nothing and say what (raise)",
    )
    parser.add_argument(
        "--errors",
        choices=("raise", "skip"),
        default="raise",
        help="at damage: end, and no file appears (raise), or leave such batches out (skip); both exit 1",
    )
    parser.add_argument(
        "--max-decompressed-bytes",
        type=shared_options.size,
        default=128 << 20,
        metavar="SIZE",
        help="how far one batch may decompress (default 128m)",
    )
    new_log.add_format(parser)


def run(args: argparse.Namespace) -> int:
    new_log.demand_level(args.compression, args.level)
    magic = None if args.magic == "keep" else int(args.magic)
    if magic in (0, 1) and args.compression == "zstd":
        raise WrongUse(f"--magic {magic} has no zstd: none, gzip, snappy or lz4")
    logs = inputs.find(args.paths, args.topic, args.partition)
    done: list[tuple[str, str, ConversionStats]] = []
    troubles = Troubles(
        args.argv, stop_at_first=False, last_path=inputs.segments(logs)[-1].path, limit=args.max_decompressed_bytes
    )
    options = {
        "magic": magic,
        "compression": args.compression,
        "level": args.level,
        "batch_size": args.batch_size,
        "on_loss": args.on_loss,
        "errors": args.errors,
        "max_decompressed_bytes": args.max_decompressed_bytes,
    }
    try:
        with new_log.opened(args, any(map(os.path.isdir, args.paths))) as out:
            for log in logs:
                out.check((log.topic, log.partition), log.path)
            for log in logs:
                place = log.topic, log.partition
                out.begin(place, log.path, new_log.origin_of(log))
                conversion = converted(log, **options)
                for batches in conversion:
                    out.write(place, batches)
                _report(log, conversion, troubles)
                done.append((new_log.shown(log, args.paths), out.shown(place), conversion.stats))
            out.finish()
    except LossError as error:
        say(f"nothing is written: magic {magic} has no place for")
        for word, count in error.lost.items():
            file, position, offset = error.first_lost[word]
            name = "standard input" if file in (None, inputs.STANDARD_INPUT) else file
            first = f"{name} at byte {position} (up to offset {offset})"
            say(f"  {LOSSES[word]}: {count}, first in the batch in {first}")
        return DAMAGED
    except KafkaRecordError as error:
        return new_log.refused(error, args, command(args.argv, "--errors", "skip"))
    new_log.report(args.format, (_summary(*each) for each in done), (line for each in done for line in _lines(*each)))
    return troubles.finish()


def _report(log: Log, conversion: Conversion, troubles: Troubles) -> None:
    """Reports damage that was left out, and a cut tail."""
    for damage in conversion.damage:
        segment = next((one for one in log.segments if one.path == damage.file), log.segments[0])
        troubles.add(segment, damage)
    if conversion.remaining:
        troubles.tail(log.segments[-1], conversion.remaining)


def _summary(source: str, output: str, stats: ConversionStats) -> dict[str, Any]:
    return {"source": source, "output": output, **stats.as_dict()}


def _lines(source: str, output: str, stats: ConversionStats) -> Iterator[str]:
    yield (
        f"{source}: {new_log.contents(stats.records_in, stats.batches_in, stats.bytes_in)}"
        f" -> {output}: {new_log.contents(stats.records_out, stats.batches_out, stats.bytes_out, stats.bytes_in)}"
    )
    for word, count in stats.losses.items():
        yield f"  lost: {LOSSES[word]}: {count}"
