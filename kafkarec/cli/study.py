"""`kafkarec study`: what another codec, level or batch size would save."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from kafkarec.ops.study import BATCH_SIZES, CODECS, NothingToTry, Study, codec_and_level, study
from kafkarec.storage import Log

from . import inputs, new_log, output, progress, shared_options, study_text
from .problems import DAMAGED, FINE, say
from .shared_options import CouldNot, WrongUse

DESCRIPTION = """Tells what a log would be with other codecs, levels and batch sizes. It tries each of them on pieces
spread over the log, with the code that convert runs, and writes nothing. Sizes come with what they may be off by;
--all reads everything. Speeds are this machine's, one processor, checksums included."""
EXAMPLES = """examples:
  kafkarec study /kafka-logs/orders-0                            codecs, levels and batch sizes, side by side
  kafkarec study /kafka-logs                                     a line a partition, the largest saving first
  kafkarec study orders-0 --codecs zstd:3,zstd:12,zstd:19 --batch-sizes 64k,256k,1m
  kafkarec study orders-0 --plot orders.svg                      size against speed (pip install 'kafkarec[study]')

exit status: 0 fine, 1 damage in the pieces (left out), 2 wrong use, 3 could not"""

AS_CUT = "keep"
_SAMPLE, _SAMPLE_IN_ALL, _SAMPLE_AT_LEAST = 16 << 20, 128 << 20, 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    group = parser.add_argument_group("what to try")
    group.add_argument(
        "--codecs",
        type=_codecs,
        default=CODECS,
        metavar="LIST",
        help=f"codecs, with or without a level (default {','.join(CODECS)})",
    )
    group.add_argument(
        "--batch-sizes",
        type=_sizes,
        default=BATCH_SIZES,
        metavar="LIST",
        help=f"bytes before compression, as convert takes them; {AS_CUT}: as they are cut (default "
        f"{','.join(map(study_text.size, BATCH_SIZES))})",
    )
    some = parser.add_mutually_exclusive_group()
    some.add_argument(
        "--sample",
        type=shared_options.size,
        metavar="SIZE",
        help="how much of each partition to look at (default 16m, less where there are many)",
    )
    some.add_argument("--all", action="store_true", help="look at everything")
    parser.add_argument("--full", action="store_true", help="a table for each partition, where there are several")
    parser.add_argument(
        "--max-decompressed-bytes",
        type=shared_options.size,
        default=128 << 20,
        metavar="SIZE",
        help="how far one batch may decompress (default 128m)",
    )
    parser.add_argument("--plot", metavar="FILE", help="a picture, .svg, .png or .pdf: size against speed of writing")
    shared_options.add_output(parser, ("text", "json"))


def _codecs(text: str) -> list[str]:
    words = _words(text)
    for word in words:
        try:
            codec_and_level(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return words


def _sizes(text: str) -> list[int | None]:
    sizes = [None if word == AS_CUT else shared_options.size(word) for word in _words(text)]
    if 0 in sizes or any(size and size >= 1 << 31 for size in sizes):
        raise argparse.ArgumentTypeError("a batch holds 1 byte to 2 GiB")
    return sizes


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError("nothing is named")
    return words


def run(args: argparse.Namespace) -> int:
    output.demand_ways(args)
    logs = inputs.find(args.paths, args.topic, args.partition)
    if args.plot and len(logs) > 1:
        raise WrongUse(f"--plot draws one partition, and there are {len(logs)}")
    draw = _drawing(args.plot) if args.plot is not None else None
    found = _studied(logs, args)
    write = study_text.as_json if args.format == "json" else study_text.as_text
    with output.opened(args) as sink:
        for text in write(found, args.full or len(found) == 1):
            sink.write(text.encode())
    if draw is not None:
        with output.opened(args, "plot") as sink:
            sink.write(draw(*found[0]))
    damaged = [(name, one.damage) for name, one in found if one.damage]
    for name, count in damaged:
        places = f"damaged at {count} place{'s' * (count != 1)} in the pieces, left out"
        say(f"{name}: {places}; see: kafkarec verify {name}")
    return DAMAGED if damaged else FINE


def _studied(logs: Sequence[Log], args: argparse.Namespace) -> list[tuple[str, Study]]:
    spread = max(_SAMPLE_AT_LEAST, min(_SAMPLE, _SAMPLE_IN_ALL // len(logs)))
    sample = None if args.all else spread if args.sample is None else args.sample
    found = []
    with progress.share_shown() as tick:
        for number, log in enumerate(logs):
            name = new_log.shown(log, args.paths)
            try:
                one = study(
                    log,
                    codecs=args.codecs,
                    batch_sizes=args.batch_sizes,
                    sample=sample,
                    max_decompressed_bytes=args.max_decompressed_bytes,
                    done=partial(_report, tick, number, len(logs)),
                )
            except NothingToTry as error:
                say(f"{name}: {error}, left out")
                continue
            found.append((name, one))
    if not found:
        raise CouldNot("nothing to try")
    return found


def _report(tick: Callable[[float], None], number: int, of: int, share: float) -> None:
    tick((number + share) / of)


def _drawing(path: str) -> Callable[[str, Study], bytes]:
    """Imports matplotlib before the study begins."""
    from . import study_plot

    return study_plot.drawing(path)
