"""`kafkarec verify`: damage, its position, what is lost, and what to do."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkarec import storage
from kafkarec.ops import verify
from kafkarec.ops.verify import report_html, report_text
from kafkarec.ops.verify.parallel import Tick
from kafkarec.ops.verify.run import DEFAULT_LIMIT
from kafkarec.storage import LogDir
from kafkarec.support import text_table

from . import inputs, output, shared_options
from .problems import COULD_NOT
from .shared_options import CouldNot, WrongUse

DESCRIPTION = """Reads every byte of segments, partition folders or a broker's whole data folder: checksums, structure,
decompression, offsets, indexes, leader epochs, and what Kafka passes over in silence. Says what is damaged, which
offsets are lost, and the command to type next. Nothing is written or changed."""
EXAMPLES = """examples:
  kafkarec verify /kafka-logs                        one line a partition, worst first
  kafkarec verify /kafka-logs/orders-0 --sequences   duplicates and gaps of producers, what explains offset gaps
  kafkarec verify /kafka-logs --html damage.html     a page with a map of each file
  kafkarec verify /kafka-logs --format json | jq '.partitions[] | select(.state != "ok") | .path'

Exit status: 0 fine, 1 damage or an error found (--strict: or an anomaly), 2 wrong use, 3 could not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="segments (.log, .checkpoint, any file of batches), partition folders, a broker's data folder, URLs, "
        "or - for standard input",
    )
    parser.add_argument("--topic", help="the topic, where the folder's name does not give it")
    parser.add_argument("--partition", type=int, help="the partition, likewise")
    parser.add_argument(
        "--sequences", action="store_true", help="follow producers' sequences, and explain each offset gap"
    )
    parser.add_argument(
        "--deep",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="walk every record byte by byte for oddities; default: where there are 32 MiB at most",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 for anomalies too")
    parser.add_argument("--all", action="store_true", help="print everything, not one screen of it")
    parser.add_argument("--html", metavar="FILE", help="also write a page with a map of each file to FILE")
    parser.add_argument(
        "--threads", type=_workers, metavar="N", help="segments side by side; default: as many as there are processors"
    )
    parser.add_argument(
        "--max-decompressed-bytes",
        type=shared_options.size,
        default=DEFAULT_LIMIT,
        metavar="N",
        help="cap for one compressed payload, such as 512m; default 128m",
    )
    shared_options.add_output(parser, ("text", "json"))


def _workers(text: str) -> int:
    number = shared_options.count(text)
    if not 1 <= number <= 256:
        raise argparse.ArgumentTypeError(f"{text} workers: 1 to 256")
    return number


def run(args: argparse.Namespace) -> int:
    output.demand_ways(args)
    with _progress() as tick:
        report = verify.verify(
            _opened(args),
            sequences=args.sequences,
            deep=args.deep,
            max_decompressed_bytes=args.max_decompressed_bytes,
            threads=args.threads,
            processes=args.threads or os.cpu_count() or 1,
            progress=tick,
        )
    if args.html:
        with output.opened(args, "html") as sink:
            for piece in report_html.render(report):
                sink.write(piece.encode())
    text = report.to_json() + "\n" if args.format == "json" else report_text.render(report, args.all)
    with output.opened(args) as sink:
        sink.write(text.encode())
    return report.exit_status(args.strict) if report.files else COULD_NOT


def _opened(args: argparse.Namespace) -> Any:
    """The path itself where there is only one: a data folder has checkpoint files to check, too."""
    paths = args.paths
    if len(paths) > 1 or paths == [inputs.STANDARD_INPUT]:
        logs = inputs.find(paths, args.topic, args.partition)
        if paths == [inputs.STANDARD_INPUT]:
            logs[0].path = inputs.STANDARD_INPUT
        return logs[0] if len(logs) == 1 else LogDir(", ".join(paths), logs)
    try:
        return storage.open(paths[0], topic=args.topic, partition=args.partition)
    except OSError as error:
        raise CouldNot(inputs.reason(error, paths[0])) from error
    except ValueError as error:
        raise WrongUse(str(error)) from error


_BETWEEN = 0.2


@contextmanager
def _progress() -> Iterator[Tick | None]:
    """Shows a line of progress on standard error, on a terminal only, and erases it at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    lock, done, begin = threading.Lock(), dict[str, int](), time.monotonic()
    last = begin

    def tick(path: str, read: int, size: int) -> None:
        nonlocal last
        with lock:
            done[path] = read
            now = time.monotonic()
            if now - last < _BETWEEN:
                return
            last = now
            total = sum(done.values())
            speed = total / (now - begin) / 1e6
            name = path.rsplit("/", 1)[-1][-40:]
            line = f"{report_text.amount(total)} read, {speed:.0f} MB/s, {name} {100 * read // max(size, 1)} %"
            sys.stderr.write(f"\r\x1b[K{text_table.safe(line)}")
            sys.stderr.flush()

    try:
        yield tick
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
