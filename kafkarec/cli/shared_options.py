"""The options that verbs share, and the parsers of their values."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX
from kafkarec.sources.remote_errors import display_url
from kafkarec.storage.output_rules import is_stream
from kafkarec.support.text_table import other_unit_text, system_reason

from .problems import remark

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELATIVE = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
# Other names of the format "json", which is JSON Lines for rows.
SAME_FORMAT = {"jsonl": "json", "ndjson": "json"}
# Suffix of a file of rows -> its format.
SUFFIXES = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
# Suffixes of what no verb writes: compressed files with the program that makes them, and formats of others.
_FOREIGN = (".avro", ".orc", ".tsv", ".xls", ".xlsx", ".ods", ".xml", ".yaml", ".html", ".pdf", ".db", ".sqlite")
_COMPRESSED = (".gz", ".zst", ".lz4", ".bz2", ".xz", ".zip")
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


_MOST_BY_DEFAULT = 16  # threads: the caller's own work bounds what more of them do


class WrongUse(Exception):
    """Wrong use of the command line. Printed in one line; exit status 2."""


class CouldNot(Exception):
    """The work cannot be done (file, permission, missing extra). Printed in one line; exit status 3."""


FILE, FOLDER, LOG = "a file", "a folder", "a log"
"""The kinds of an output. A log is a file or a folder: see new_log."""


class InputPath(str):
    """The type of an argument that names an input, which no output of the run may replace."""

    def __new__(cls, path: str) -> InputPath:
        if not path:
            raise argparse.ArgumentTypeError("the name is empty; name a file or folder")
        return super().__new__(cls, path)


class OutputPath(str):
    """An argument that names an output. option: by which it is given; kind: FILE, FOLDER or LOG."""

    option: str
    kind: str

    def __new__(cls, path: str, option: str, kind: str) -> OutputPath:
        made = super().__new__(cls, path)
        made.option, made.kind = option, kind
        return made


def output_path(option: str, kind: str = FILE) -> Callable[[str], OutputPath]:
    """Return the type of an argument that names an output."""
    return lambda path: OutputPath(path, option, kind)


def pyarrow_for(what: str) -> Any:
    """Return pyarrow with its modules of Parquet and CSV. what: what needs it, for CouldNot with the pip command"""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.csv  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise CouldNot(f"{what} needs pyarrow: pip install 'kafkarec[arrow]'") from None
    return pyarrow


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """CouldNot, with the name of a file, for an error of the system within."""
    try:
        yield
    except OSError as error:
        raise CouldNot(f"{name}: {system_reason(error)}") from error


@contextmanager
def value_errors_refused(start: str = "") -> Iterator[None]:
    """WrongUse for a ValueError within that is not about data. start: of its text"""
    try:
        yield
    except KafkaRecordError:
        raise
    except ValueError as error:
        raise WrongUse(f"{start}{error}") from error


def time_ms(text: str) -> int:
    """Return a time in ms: `-1h` (before now; units ms s m h d w), a number of ms, or ISO 8601 (UTC if bare)."""
    from datetime import UTC, datetime  # not at the top, as in text_table.utc_text

    relative = _RELATIVE.fullmatch(text)
    if relative:
        return _int64(str(int(time.time() * 1000) - int(relative[1]) * UNITS_MS[relative[2]]), "a time")
    if re.fullmatch(r"-?\d{1,19}", text):
        number = _int64(text, "a time")
        problem = other_unit_text(number)
        if problem is not None:
            raise argparse.ArgumentTypeError(problem)
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write 2026-01-31T12:00 (UTC), 1769860800000 (ms) or -1h"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _int64(text: str, what: str) -> int:
    if not re.fullmatch(r"-?\d{1,19}", text) or not -(1 << 63) <= int(text) < 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} of 64 bits")
    return int(text)


def offset(text: str) -> int:
    return _int64(text, "an offset")


def number_parser(what: str, most: int = 10**18 - 1, least: int = 0) -> Callable[[str], int]:
    """Return a parser of a whole number. what: what another text is no number of, in a message"""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what}")
        return int(text)

    return parse


count = number_parser("rows")
partition = number_parser(f"a partition, 0 to {INT_MAX}", most=INT_MAX)


def size_parser(least: int = 0, most: int = 1 << 70) -> Callable[[str], int]:
    """Return a parser of a number of bytes with an optional k, m or g (powers of 1024)."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"(\d{1,12})([kmg]?)", text.lower())
        if not match:
            raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 1048576, 512k, 128m or 2g")
        found = int(match[1]) * _SIZES[match[2]]
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a size from {least} to {most}")
        return found

    return parse


size = size_parser()
batch_size = size_parser(1, INT_MAX)


def known_words(text: str, noun: str, known: Sequence[str]) -> list[str]:
    """Parse comma-separated words, one at least, out of `known`. noun: what each is, in a message"""
    chosen = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in chosen if word not in known]
    if unknown or not chosen:
        what = f"no such {noun}: {', '.join(unknown)}" if unknown else f"no {noun} given"
        raise argparse.ArgumentTypeError(f"{what}; there are {', '.join(known)}")
    return chosen


def names_parser(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names out of `known`; it keeps their order."""

    def parse(text: str) -> list[str]:
        chosen = known_words(text, "column", known)
        twice = sorted({name for name in chosen if chosen.count(name) > 1})
        if twice:
            raise argparse.ArgumentTypeError(f"column named twice: {', '.join(twice)}")
        return chosen

    return parse


def add_inputs(
    parser: argparse.ArgumentParser,
    text: str = "files of record batches (.log, .checkpoint or any other name), partition folders (their .log files in "
    "offset order), or - for standard input",
    **others: Any,
) -> None:
    """Add the paths of logs, and the options that name their partition. others: parameters of add_argument"""
    parser.add_argument("paths", type=InputPath, metavar="PATH", help=text, **{"nargs": "+", **others})
    add_partition(parser)


def add_flags(parser: argparse.ArgumentParser, flags: Mapping[str, str]) -> None:
    """Add options without a value. flags: name -> help"""
    for flag, text in flags.items():
        parser.add_argument(flag, action="store_true", help=text)


def add_columns(parser: argparse.ArgumentParser, known: Sequence[str], purpose: str, more: str = "") -> None:
    """Add --columns, out of `known`."""
    text = f"{purpose}; there are {', '.join(known)}{more}"
    parser.add_argument("--columns", type=names_parser(known), metavar="A,B", help=text)


def add_partition(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the partition of files."""
    parser.add_argument("--topic", help="the topic, if the folder's name does not contain it")
    parser.add_argument("--partition", type=partition, help="the partition, if the folder's name does not contain it")


def add_range(parser: argparse.ArgumentParser, rows: str) -> None:
    group = parser.add_argument_group(f"which {rows}")
    group.add_argument("--from-offset", type=offset, metavar="N", help="the first offset")
    group.add_argument("--to-offset", type=offset, metavar="N", help="the end offset (exclusive)")
    group.add_argument(
        "--from-time",
        type=time_ms,
        metavar="T",
        help="the earliest timestamp: ISO 8601 (UTC without an offset), ms since 1970, or -1h",
    )
    group.add_argument("--to-time", type=time_ms, metavar="T", help="the end timestamp (exclusive)")
    some = group.add_mutually_exclusive_group()
    some.add_argument("-n", type=count, metavar="N", dest="first", help=f"the first N {rows} only")
    some.add_argument("--last", type=count, metavar="N", help=f"the last N {rows} only")


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=number_parser("threads, 1 to 256", most=256, least=1),
        metavar="N",
        help=f"how many threads work; the result is the same (default: one per processor, up to {_MOST_BY_DEFAULT})",
    )


def threads(args: argparse.Namespace) -> int:
    """Return the number of threads for local files."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return args.threads or min(usable, _MOST_BY_DEFAULT)


def add_errors(
    parser: argparse.ArgumentParser,
    text: str = "at damage: print everything before it and stop (raise), or leave it out (skip)",
) -> None:
    parser.add_argument("--errors", choices=("raise", "skip"), default="raise", help=f"{text}; both exit 1")


def add_decompressed_limit(
    parser: argparse.ArgumentParser, text: str = "limit of the decompressed size of one batch (default 128m)"
) -> None:
    from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES  # not at the top: --help does without the core

    parser.add_argument(
        "--max-decompressed-bytes", type=size, default=MAX_DECOMPRESSED_BYTES, metavar="SIZE", help=text
    )


def add_page(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--html", type=output_path("--html"), metavar="FILE", help=f"also write {what} to FILE")


def add_format_and_output(parser: argparse.ArgumentParser, formats: Sequence[str] = ("text", "json")) -> None:
    parser.add_argument(
        "--format",
        type=lambda name: SAME_FORMAT.get(name, name),
        choices=formats,
        help=f"default: by the suffix of -o, else {formats[0]}",
    )
    parser.set_defaults(formats=formats)
    add_output_file(parser)


def resolved_format(args: argparse.Namespace) -> str:
    """Return the format of a verb, and remark that the suffix of its output file is that of another one."""
    path = args.output
    if getattr(args, "partition_by", None) is not None:
        if path is None or is_stream(path) or args.format not in (None, "parquet"):
            raise WrongUse("--partition-by writes a new folder of Parquet files; name it with -o DIR")
        args.output = OutputPath(path, "-o", FOLDER)
        return "parquet"
    suffix = "" if path is None or is_stream(path) else os.path.splitext(path)[1].lower()
    named = SUFFIXES.get(suffix)
    foreign = suffix in _FOREIGN or (named is not None and named not in args.formats)
    shown = f"-o {display_url(path or '')}"
    if suffix in _COMPRESSED or (args.format is None and foreign):
        other = "; --html FILE writes a page" if suffix == ".html" and "html" in args else ""
        raise WrongUse(f"{shown}: {args.verb} writes {', '.join(args.formats)}, not {named or suffix[1:]}{other}")
    chosen: str = args.format or named or args.formats[0]
    if named not in (None, chosen):
        remark(f"{shown} gets {chosen}, as --format says, and not {named}")
    return chosen


def add_output_file(parser: argparse.ArgumentParser) -> None:
    """Add -o and --force of a verb that writes one file."""
    parser.add_argument(
        "-o",
        type=output_path("-o"),
        metavar="FILE",
        dest="output",
        help="write to FILE, which must not exist and appears when it is complete; default, and -: standard output",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace an existing FILE, but never an input, a file in a folder that contains one, or a file of a log",
    )
