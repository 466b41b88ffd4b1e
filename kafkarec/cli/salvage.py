"""`kafkarec salvage`: every good batch into a new log, and a map of the rest."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkarec.errors import KafkaRecordError
from kafkarec.ops.salvage import NotEnoughSpace, SalvageReport, salvage
from kafkarec.ops.salvage.journal import REPORT
from kafkarec.support.durable import write_file
from kafkarec.support.text_table import safe

from . import inputs, output, shared_options
from .problems import DAMAGED, FINE
from .shared_options import CouldNot, WrongUse

DESCRIPTION = """Copies every good batch of a damaged log to a new one, byte for byte, with new indexes, and maps
what is lost. Reads any file (a disk image, lost+found/#12345, - for standard input), partition folders and data
folders; several sources of one partition are merged. Nothing is written to a source. A run that was killed goes on
when it is started again with the same words."""
EXAMPLES = """examples:
  kafkarec salvage /mnt/dead/orders-0 -o rescued              one partition
  kafkarec salvage /mnt/dead -o rescued --dry-run             a whole broker: what could be saved?
  kafkarec salvage a/orders-0 b/orders-0 -o new --as-partition     two replicas into a folder that a broker starts on
  kafkarec salvage 'lost+found/#12345' -o rescued --topic orders --partition 0

exit status: 0 all of it is saved, 1 something is damaged or set aside (the rest is saved), 2 wrong use, 3 could not"""

OUTPUT = output.FOLDER
_BETWEEN = 0.2  # seconds
_STDIN = "standard input"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="SRC", help="a file, a partition folder, a data folder, or -")
    parser.add_argument("-o", metavar="DIR", dest="output", help="a new or empty folder")
    parser.add_argument(
        "--dry-run", action="store_true", help="read everything, write nothing, say what would be saved"
    )
    parser.add_argument(
        "--as-partition", action="store_true", help="folders that a broker starts on: epochs, snapshots, topic id"
    )
    parser.add_argument("--topic", help="the topic, where names do not give it")
    parser.add_argument("--partition", type=int, help="the partition, likewise")
    parser.add_argument("--ignore-space", action="store_true", help="begin although the disk may get full")
    parser.add_argument(
        "--max-decompressed-bytes",
        type=shared_options.size,
        default=128 << 20,
        metavar="SIZE",
        help="a batch that decompresses to more is set aside (default: 128m)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    if args.output is None and not args.dry_run:
        raise WrongUse("where to? -o DIR names a new or empty folder (or --dry-run)")
    if (args.topic is None) != (args.partition is None):
        raise WrongUse("--topic and --partition belong together")
    out = args.output or os.path.join(tempfile.gettempdir(), "kafkarec-dry-run")
    try:
        with spooled(args.sources, out, args.dry_run) as sources, progress_line() as progress:
            spool = next((path for path, given in zip(sources, args.sources, strict=True) if path != given), None)
            report = salvage(
                sources,
                out,
                as_partition=args.as_partition,
                dry_run=args.dry_run,
                topic=args.topic,
                partition=args.partition,
                check_free_space=not args.ignore_space,
                max_decompressed_bytes=args.max_decompressed_bytes,
                progress=progress,
            )
    except KafkaRecordError:
        raise
    except NotEnoughSpace as error:
        raise CouldNot(str(error)) from error
    except ValueError as error:  # Refused, or the name of a file without batches
        raise WrongUse(str(error)) from error
    except OSError as error:
        raise CouldNot(_failed(error, out)) from error
    if spool is not None and not args.dry_run:
        _name_standard_input(os.path.join(out, REPORT), spool)
    _print(report, args.format, spool)
    return FINE if report.ok else DAMAGED


@contextmanager
def progress_line() -> Iterator[Callable[[str, int], None] | None]:
    """Shows the progress of copying on standard error, on a terminal only, and erases it at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    last = 0.0

    def show(path: str, position: int) -> None:
        nonlocal last
        if time.monotonic() - last > _BETWEEN:
            last = time.monotonic()
            print(f"\r\x1b[K{safe(path)[-60:]}: {position >> 20} MiB", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _failed(error: OSError, out: str) -> str:
    text = inputs.reason(error, out)
    if os.path.exists(os.path.join(out, "salvage.journal")):
        text += "; what is done so far is on the disk, and the same command goes on from there"
    return text


def _print(report: SalvageReport, form: str, spool: str | None) -> None:
    """spool: the file that standard input was written to, and that has been removed."""

    def named(line: str) -> str:
        return line.replace(spool, _STDIN) if spool else line

    if form == "json":
        print(named(json.dumps(report.to_dict())))
        return
    for line in report.lines():
        if spool is None or f"kafkarec explain {spool}" not in line:
            print(safe(named(line)))
    sys.stdout.flush()


def _name_standard_input(path: str, spool: str) -> None:
    """Names standard input in the report in place of the removed file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    write_file(os.path.dirname(path), REPORT, text.replace(spool, _STDIN).encode())


@contextmanager
def spooled(sources: list[str], out: str, dry_run: bool) -> Iterator[list[str]]:
    """Copies standard input to a file beside the output. It can be read only once, so such a run cannot be resumed."""
    if "-" not in sources:
        yield sources
        return
    if sources.count("-") > 1:
        raise WrongUse("standard input (-) can be read once only")
    if sys.stdin is None:
        raise CouldNot("standard input is closed")
    above = None if dry_run else os.path.dirname(os.path.abspath(out))
    with tempfile.NamedTemporaryFile(prefix=".kafkarec-stdin-", dir=above) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        yield [spool.name if source == "-" else source for source in sources]
