"""`kafkarec study`: estimates what another codec, level or batch size would save."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kafkarec.logs import Log
from kafkarec.ops.study import (
    BATCH_SIZES,
    CODECS,
    FORMATS,
    NothingToTry,
    codec_and_level,
    format_name,
    study,
)
from kafkarec.ops.study.sampling import sample_shares
from kafkarec.support.command_line import command
from kafkarec.support.text_table import counted

from . import DAMAGED, FINE, input_logs, new_log, output_files, progress, shared_options, study_output
from .problems import say
from .shared_options import CouldNot, WrongUse, output_path
from .study_output import Studies

DESCRIPTION = """Estimates the size of a log with other codecs, levels, batch sizes and formats. Tries each of them on
pieces spread over the log, with the code of convert, and writes nothing. Sizes are printed with their margin of error;
--all reads everything. Speeds are those of this machine on one processor, including checksums."""
EXAMPLES = """examples:
  kafkarec study /kafka-logs/orders-0                            codecs, levels and batch sizes, side by side
  kafkarec study /kafka-logs                                     a line per partition read, the largest saving first
  kafkarec study orders-0 --codecs zstd:3,zstd:12,zstd:19 --batch-sizes 64k,256k,1m
  kafkarec study orders-0 --formats 0,1,2 --codecs lz4,zstd      also other formats
  kafkarec study orders-0 --html study.html                      the same as a page
  kafkarec study orders-0 --plot orders.svg                      size against speed (pip install 'kafkarec[study]')

exit status: 0 fine, 1 damage in the pieces (left out), 2 wrong usage, 3 failed"""

UNCHANGED = "keep"
_SAMPLE = 16 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    group = parser.add_argument_group("what to try")
    group.add_argument(
        "--formats",
        dest="record_formats",
        type=_listed(format_name),
        default=("2",),
        metavar="LIST",
        help=f"record formats of {','.join(FORMATS)} (default 2); "
        "0 and 1 lose headers, producers and markers; no broker reads 3 and header-first",
    )
    group.add_argument(
        "--codecs",
        type=_listed(_codec),
        default=CODECS,
        metavar="LIST",
        help=f"codecs, with or without a level (default {','.join(CODECS)})",
    )
    group.add_argument(
        "--batch-sizes",
        type=_listed(_batch_size),
        default=BATCH_SIZES,
        metavar="LIST",
        help=f"bytes before compression, as for convert; {UNCHANGED}: as they are (default "
        f"{','.join(map(study_output.size, BATCH_SIZES))})",
    )
    some = parser.add_mutually_exclusive_group()
    some.add_argument(
        "--sample",
        type=shared_options.size,
        metavar="SIZE",
        default=_SAMPLE,
        help="how much to read, of all partitions together (default 16m); of many small ones, some are read",
    )
    some.add_argument("--all", action="store_true", help="read everything")
    parser.add_argument("--full", action="store_true", help="print a table for each of several partitions")
    shared_options.add_threads(parser)
    shared_options.add_limit(parser)
    for option, what in (
        ("--html", "also write the report as an HTML page to FILE"),
        ("--plot", "plot size against write speed to a .svg, .png or .pdf file"),
    ):
        parser.add_argument(option, type=output_path(option), metavar="FILE", help=what)
    shared_options.add_output(parser, ("text", "json"))


def _listed(parse: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return the parser of a list: words with commas."""

    def parsed(text: str) -> list[Any]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        try:
            if words:
                return list(map(parse, words))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        raise argparse.ArgumentTypeError("the list is empty")

    return parsed


def _codec(word: str) -> str:
    codec_and_level(word)
    return word


def _batch_size(word: str) -> int | None:
    found = None if word == UNCHANGED else shared_options.size(word)
    if found is not None and not 0 < found < 1 << 31:
        raise argparse.ArgumentTypeError("a batch size is 1 byte to 2 GiB")
    return found


def run(args: argparse.Namespace) -> int:
    output_files.demand_output_folders(args)
    logs = input_logs.find(args.paths, args.topic, args.partition)
    if args.plot and len(logs) > 1:
        raise WrongUse(f"--plot needs a single partition, and there are {len(logs)}")
    if args.plot is not None:
        from . import study_plot  # matplotlib may be missing: it is looked for before the study begins

        image_format = study_plot.image_format(args.plot)
    studies = _run_studies(logs, args)
    output_files.write_report(args, study_output.document(studies, args.full), study_output.values(studies))
    if args.plot is not None:
        with output_files.opened(args, "plot") as sink:
            sink.write(study_plot.drawn(image_format, *studies.found[0]))
    status = FINE
    for name, one in studies.found:
        if one.damage:
            ranges = f"{counted(one.damage, 'damaged range')} in what was read, left out"
            say(f"{name}: {ranges}; see {command('verify', [name])}")
            status = DAMAGED
    return status


def _run_studies(logs: Sequence[Log], args: argparse.Namespace) -> Studies:
    found, other_sizes = [], []
    with progress.share_shown() as tick:
        sizes = [sum(map(progress.size_of, log.segments)) for log in logs]
        samples = sizes if args.all else sample_shares(sizes, args.sample)
        done, whole = 0, max(1, sum(samples))
        for log, size, sample in zip(logs, sizes, samples, strict=True):
            if size and not sample:
                other_sizes.append(size)
                continue
            name = new_log.shown(log, args.paths)
            try:
                one = study(
                    log,
                    formats=args.record_formats,
                    codecs=args.codecs,
                    batch_sizes=args.batch_sizes,
                    sample=None if args.all else sample,
                    max_decompressed_bytes=args.max_decompressed_bytes,
                    threads=shared_options.threads(args),
                    done=partial(_tick_share, tick, done / whole, sample / whole),
                )
                found.append((name, one))
            except NothingToTry as error:
                say(f"{name}: {error}, left out")
            done += sample
    if not found:
        raise CouldNot("no good batch in any input" if not other_sizes else "no good batch in what was read")
    return Studies(found, other_sizes)


def _tick_share(tick: Callable[[float], None], before: float, own: float, share: float) -> None:
    tick(before + own * share)
