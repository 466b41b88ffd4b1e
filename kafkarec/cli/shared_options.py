"""The options that verbs share, and the parsers of their values."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX
from kafkarec.sources.remote_errors import display_url
from kafkarec.storage.output_rules import is_stream
from kafkarec.support.text_table import other_unit_text, system_reason

from . import COULD_NOT
from .problems import remark

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELATIVE = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
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
    """The work cannot be done (file, permission, missing extra). Printed in one line; exit status 3, or the verb's
    FAILED."""

    status = COULD_NOT


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


def output_path_parser(option: str, kind: str = FILE) -> Callable[[str], OutputPath]:
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


def row_format(name: str) -> str:
    """Return a format; jsonl and ndjson are other names of json, which is JSON Lines for rows."""
    return {"jsonl": "json", "ndjson": "json"}.get(name, name)


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


def add_option(
    group: argparse._ActionsContainer, usage: str, text: str, parse: Callable[[str], Any] = str, **others: Any
) -> None:
    """Add an option. usage: as the help shows it, its names, then the word for its value, or the values that it takes,
    of which the first is the default: "--last N", "--errors raise|skip". Without either it has no value"""
    names = [word for word in usage.split() if word.startswith("-")]
    shown = usage.split()[len(names) :]
    if "|" in usage:
        choices = shown[0].split("|")
        others = {"type": parse, "choices": choices, "default": choices[0], **others}
    elif shown:
        others |= {"type": parse, "metavar": shown[0]}
    else:
        others["action"] = "store_true"
    group.add_argument(*names, help=text, **others)


def add_inputs(
    parser: argparse.ArgumentParser,
    text: str = "files of record batches (.log, .checkpoint or any other name), partition folders (their .log files in "
    "offset order), or - for standard input",
    **others: Any,
) -> None:
    """Add the paths of logs, and the options that name their partition. others: parameters of add_argument"""
    parser.add_argument("paths", type=InputPath, metavar="PATH", help=text, **{"nargs": "+", **others})
    add_option(parser, "--topic TOPIC", "the topic, if the folder's name does not contain it")
    text = "the partition, if the folder's name does not contain it"
    add_option(parser, "--partition PARTITION", text, partition)


def add_flags(parser: argparse.ArgumentParser, flags: Mapping[str, str]) -> None:
    """Add options without a value. flags: name -> help"""
    for flag, text in flags.items():
        add_option(parser, flag, text)


def add_columns(parser: argparse.ArgumentParser, known: Sequence[str], purpose: str, more: str = "") -> None:
    """Add --columns, out of `known`."""
    text = f"{purpose}; there are {', '.join(known)}{more}"
    add_option(parser, "--columns A,B", text, names_parser(known))


def add_range(parser: argparse.ArgumentParser, rows: str) -> None:
    group = parser.add_argument_group(f"which {rows}")
    add_option(group, "--from-offset N", "the first offset", offset)
    add_option(group, "--to-offset N", "the end offset (exclusive)", offset)
    add_option(
        group,
        "--from-time T",
        "the earliest timestamp: ISO 8601 (UTC without an offset), ms since 1970, or -1h",
        time_ms,
    )
    add_option(group, "--to-time T", "the end timestamp (exclusive)", time_ms)
    some = group.add_mutually_exclusive_group()
    add_option(some, "-n N", f"the first N {rows} only", count, dest="first")
    add_option(some, "--last N", f"the last N {rows} only", count)


def add_threads(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--threads N",
        f"how many threads work; the result is the same (default: one per processor, up to {_MOST_BY_DEFAULT})",
        number_parser("threads, 1 to 256", most=256, least=1),
    )


def threads(args: argparse.Namespace) -> int:
    """Return the number of threads for local files."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return args.threads or min(usable, _MOST_BY_DEFAULT)


def arguments_for(operation: Callable[..., Any], args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that have the names of parameters of an operation."""
    taken = signature(operation).parameters
    found = {name: value for name, value in vars(args).items() if name in taken}
    return found | {"threads": threads(args)} if "threads" in found else found


def add_errors(
    parser: argparse.ArgumentParser,
    text: str = "at damage: print everything before it and stop (raise), or leave it out (skip)",
) -> None:
    add_option(parser, "--errors raise|skip", f"{text}; both exit 1")


def add_decompressed_limit(
    parser: argparse.ArgumentParser, text: str = "limit of the decompressed size of one batch (default 128m)"
) -> None:
    from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES  # not at the top: --help does without the core

    add_option(parser, "--max-decompressed-bytes SIZE", text, size, default=MAX_DECOMPRESSED_BYTES)


def add_page(parser: argparse.ArgumentParser, what: str) -> None:
    add_option(parser, "--html FILE", f"also write {what} to FILE", output_path_parser("--html"))


def add_format_and_output(parser: argparse.ArgumentParser, formats: Sequence[str] = ("text", "json")) -> None:
    text = f"default: by the suffix of -o, else {formats[0]}"
    add_option(parser, f"--format {'|'.join(formats)}", text, row_format, default=None)
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
    add_option(
        parser,
        "-o FILE",
        "write to FILE, which must not exist and appears when it is complete; default, and -: standard output",
        output_path_parser("-o"),
        dest="output",
    )
    add_option(
        parser,
        "--force",
        "replace an existing FILE, but never an input, a file in a folder that contains one, or a file of a log",
    )
