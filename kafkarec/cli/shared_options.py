"""The options that verbs share, and the parsers of their values."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELATIVE = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
# Other names of JSON Lines, which is what json means for rows.
SAME_FORMAT = {"jsonl": "json", "ndjson": "json"}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class WrongUse(Exception):
    """Wrong use of the command line: one line, exit 2."""


class CouldNot(Exception):
    """The work cannot be done (file, permission, missing extra): one line, exit 3."""


def when(text: str) -> int:
    """A time as ms: `-1h` (units ms s m h d w, before now), a number of ms, or ISO 8601 (UTC if bare)."""
    relative = _RELATIVE.fullmatch(text)
    if relative:
        return int(time.time() * 1000) - int(relative[1]) * _UNITS_MS[relative[2]]
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write 2026-01-31T12:00 (UTC), 1769860800000 (ms) or -1h"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def count(text: str) -> int:
    """A number of rows, zero or more."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return int(text)


def size(text: str) -> int:
    """A number of bytes with an optional k, m or g (powers of 1024)."""
    match = re.fullmatch(r"(\d{1,12})([kmg]?)", text.lower())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 1048576, 512k, 128m or 2g")
    return int(match[1]) * _SIZES[match[2]]


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A comma-separated choice of `known`, in the caller's order."""

    def parse(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in chosen if name not in known]
        if unknown or not chosen:
            what = f"no such column: {', '.join(unknown)}" if unknown else "no column named"
            raise argparse.ArgumentTypeError(f"{what}; there are {', '.join(known)}")
        twice = sorted({name for name in chosen if chosen.count(name) > 1})
        if twice:
            raise argparse.ArgumentTypeError(f"column named twice: {', '.join(twice)}")
        return chosen

    return parse


def add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files of record batches (.log, .checkpoint, any blob), partition folders (their *.log in "
        "offset order), or - for standard input",
    )
    parser.add_argument("--topic", help="the topic, where the folder's name does not give it")
    parser.add_argument("--partition", type=int, help="the partition, likewise")


def add_range(parser: argparse.ArgumentParser, rows: str) -> None:
    group = parser.add_argument_group(f"which {rows}")
    group.add_argument("--from-offset", type=int, metavar="N", help="the first offset")
    group.add_argument("--to-offset", type=int, metavar="N", help="the offset to stop before")
    group.add_argument(
        "--from-time",
        type=when,
        metavar="T",
        help="the earliest timestamp: ISO 8601 (UTC if bare), ms, or -1h",
    )
    group.add_argument("--to-time", type=when, metavar="T", help="the timestamp to stop before")
    some = group.add_mutually_exclusive_group()
    some.add_argument("-n", type=count, metavar="N", dest="first", help=f"the first N {rows} only")
    some.add_argument("--last", type=count, metavar="N", help=f"the last N {rows} only")


def add_errors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--errors",
        choices=("raise", "skip"),
        default="raise",
        help="at damage: stop after everything before it (raise), or continue after it (skip); both exit 1",
    )


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    parser.add_argument(
        "--format",
        type=lambda name: SAME_FORMAT.get(name, name),
        choices=formats,
        default=formats[0],
        help=f"default: {formats[0]}",
    )
    add_file(parser)


def add_file(parser: argparse.ArgumentParser) -> None:
    """-o of a verb that writes one file."""
    parser.add_argument(
        "-o",
        metavar="FILE",
        dest="output",
        help="write to FILE, a new one, which appears when it is complete; - or nothing: standard output",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a file that is there; never an input, nor anything in a folder that holds one",
    )


TIME_OPTIONS = ("--from-time", "--to-time", "--timestamp", "--now")


def join_relative_times(argv: Sequence[str]) -> list[str]:
    """`--from-time -1h` as `--from-time=-1h`: argparse would take -1h for an option."""
    out: list[str] = []
    for arg in argv:
        if out and out[-1] in TIME_OPTIONS and _RELATIVE.fullmatch(arg):
            out[-1] += f"={arg}"
        else:
            out.append(arg)
    return out
