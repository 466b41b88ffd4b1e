"""The parsers of the command line: of all verbs for `kafkarec --help`, of one verb with its options."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from functools import cache
from types import ModuleType
from typing import NoReturn

from kafkarec._version import __version__

from . import WRONG_USE

# verb -> its description. The module of a verb has the verb's name.
VERBS = {
    "ls": "list partitions, segments, offsets, sizes, codecs",
    "scan": "print one row per batch, from headers only",
    "cat": "print records as JSON Lines, CSV, Parquet, Arrow IPC",
    "dump": "print files as kafka-dump-log does, with its options",
    "verify": "find damage, and which offsets are lost",
    "explain": "print every byte of one batch, annotated",
    "salvage": "copy every good batch to a new log, report the rest",
    "diff": "compare two replicas of a partition",
    "txn": "list open, hanging and aborted transactions",
    "reindex": "rebuild the indexes of a log",
    "build": "build segments from JSON Lines, CSV, Arrow, Parquet",
    "convert": "change codec, level, batch size, magic",
    "compact": "run the log cleaner offline",
    "study": "estimate what another codec or batch size would save",
    "doctor": "print versions, codecs, CRC routine, what is missing",
}


class _Parser(argparse.ArgumentParser):
    """Prints an error in one line with the help command, instead of the usage text."""

    wrong_use = WRONG_USE

    def error(self, message: str) -> NoReturn:
        from .problems import say  # not at the top: it is loaded with any verb, and not needed for --help

        say(f"{message} (see {self.prog} --help)")
        sys.exit(self.wrong_use)


def module_of(verb: str) -> ModuleType:
    return importlib.import_module(f".{verb}", __package__)


@cache
def parser_of(verb: str | None) -> argparse.ArgumentParser:
    """Return the parser of all verbs. Only `verb` has its options, so no other verb's module is imported. Kept, as a
    process may run many command lines."""
    parser = _Parser(
        prog="kafkarec",
        description="Reads and writes Kafka's log segments and record batches without a broker.",
        epilog="Exit status: 0 fine, 1 damage found, 2 wrong usage, 3 failed, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kafkarec {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for name, description in VERBS.items():
        if name != verb:
            verbs.add_parser(name, help=description)
            continue
        module = module_of(name)
        one = verbs.add_parser(
            name,
            help=description,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        one._negative_number_matcher = re.compile(r"-\d")  # `--from-time -1h`: a value, not an option
        module.add_arguments(one)
        one.wrong_use = getattr(module, "WRONG_USE", WRONG_USE)
        parser.error = one.error  # type: ignore[method-assign]  # of the whole command line
        # Only for --help: main() removes it from the words first, so that it works in any position.
        one.add_argument("--debug", action="store_true", help="print a traceback if an error ends the run")
    return parser
