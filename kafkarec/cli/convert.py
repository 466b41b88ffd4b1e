"""`kafkarec convert`: a log with another codec, level, batch size or magic."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from kafkarec.errors import KafkaRecordError, UnsupportedCompressionError
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import LATEST_CODECS, MAGICS
from kafkarec.logs import Log
from kafkarec.ops.convert import LOSSES, Conversion, ConversionStats, LossError, converted_batches
from kafkarec.storage.output_rules import is_stream

from . import DAMAGED, input_logs, new_log, shared_options
from .problems import DamageReporter, rerun_command, say
from .shared_options import WrongUse, add_option

DESCRIPTION = """Rewrites a log with another codec, level, batch size or magic. Offsets, timestamps, keys, values,
headers, producers and transactions do not change. Batches that need no change are copied byte for byte. Conversion to
magic 1 and 0 follows Kafka's rules: headers, producer fields and control records are lost, and counted."""
EXAMPLES = """examples:
  kafkarec convert orders-0 -o new/ --compression zstd --level 19 --batch-size 1m
  kafkarec convert old.log -o new.log                       magic 0 and 1 to 2, as Kafka 4 requires
  kafkarec convert orders-0 -o down/ --magic 1 --on-loss raise
  kafkarec convert packed.log --compression none | kafkarec cat -

exit status: 0 fine, 1 damage (or a loss with --on-loss raise), 2 wrong usage, 3 failed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    new_log.add_output(parser)
    group = parser.add_argument_group("the new batches")
    add_option(
        group, f"--magic {'|'.join(map(str, reversed(MAGICS)))}|keep", "the record format (default 2); keep: unchanged"
    )
    new_log.add_compression(group, "unchanged")
    add_option(
        group,
        "--batch-size SIZE",
        "join adjacent batches up to this size before compression, and split larger ones (default: unchanged)",
        shared_options.batch_size,
    )
    add_option(
        group,
        "--on-loss count|raise",
        "what magic 1 and 0 cannot store: count it, or write nothing and report it (raise), which needs -o",
    )
    text = "at damage: stop and write no file (raise), or leave damaged batches out (skip)"
    shared_options.add_errors(parser, text)
    shared_options.add_threads(parser)
    shared_options.add_decompressed_limit(parser)
    new_log.add_format(parser)


def run(args: argparse.Namespace) -> int:
    new_log.demand_level(args.compression, args.level)
    if args.on_loss == "raise" and is_stream(args.output):
        raise WrongUse("--on-loss raise needs -o FILE or -o FOLDER: a stream gets batches before all of them are read")
    magic = None if args.magic == "keep" else int(args.magic)
    if magic is not None and CODEC_NAMES.index(args.compression or "none") > LATEST_CODECS[magic]:
        usable = ", ".join(CODEC_NAMES[: LATEST_CODECS[magic] + 1])
        raise WrongUse(f"--magic {magic} does not support {args.compression}; use one of {usable}")
    logs = input_logs.find(args)
    damage_reporter = DamageReporter(args, input_logs.segments(logs)[-1].path)
    options = shared_options.arguments_for(converted_batches, args) | {"magic": magic}

    def report(log: Log, conversion: Conversion) -> None:
        """Report damage that was left out, what was restored, and an incomplete batch at the end."""
        segments = {one.path: one for one in log.segments}
        for damage in conversion.damage:
            damage_reporter.add(segments.get(damage.file or "", log.segments[0]), damage)
        for restored in conversion.restored:
            damage_reporter.report_restored(segments.get(restored.file or "", log.segments[0]), restored)
        damage_reporter.report_tail(log.segments[-1], conversion.remaining)

    try:
        done = new_log.rewrite(args, logs, partial(converted_batches, **options), report)
    except LossError as error:
        say(f"nothing is written: magic {magic} cannot store")
        for word, count in error.lost.items():
            say(f"  {LOSSES[word]}: {count}")
        return DAMAGED
    except KafkaRecordError as error:
        if isinstance(error, UnsupportedCompressionError) and args.compression is None and magic in (0, 1):
            other_codec = rerun_command(args.argv, {"--compression": CODEC_NAMES[LATEST_CODECS[magic]]})
            return new_log.report_damage(error, args, other_codec, "With a codec that it supports")
        return new_log.report_damage(error, args, rerun_command(args.argv, {"--errors": "skip"}))
    new_log.print_summary(args.format, done, _lines)
    return damage_reporter.finish()


def _lines(source: str, output: str, stats: ConversionStats) -> Iterator[str]:
    before = stats.records_in, stats.batches_in, stats.bytes_in
    yield new_log.change_text(source, output, before, (stats.records_out, stats.batches_out, stats.bytes_out))
    for word, count in stats.losses.items():
        yield f"  lost: {LOSSES[word]}: {count}"
