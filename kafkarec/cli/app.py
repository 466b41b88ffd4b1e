"""The table of verbs, and the exit status of a run.

Exit status: 0 fine, 1 damage found (the output is complete as far as asked), 2 wrong use, 3 could not
(file, permission, missing extra, limit), 130 on Ctrl-C. A closed pipe ends the run silently with 0. No traceback is
shown without --debug.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from kafkarec._version import __version__
from kafkarec.errors import KafkaRecordError
from kafkarec.storage.output_rules import Refused
from kafkarec.storage.remote_errors import RemoteError

from .output import FILE, ClosedPipe, demand
from .problems import COULD_NOT, DAMAGED, FINE, INTERRUPTED, WRONG_USE, exit_status, say
from .shared_options import CouldNot, WrongUse, join_relative_times

# verb -> what it does. A verb has a module of its name in this folder.
VERBS = {
    "ls": "partitions, segments, offsets, sizes, codecs of a folder",
    "scan": "one row per batch, headers only",
    "cat": "records as JSON Lines, CSV, Parquet, Arrow IPC",
    "dump": "kafka-dump-log's options and text",
    "verify": "is it damaged, where, what is lost",
    "explain": "every byte of one batch, annotated",
    "salvage": "copy every good batch to a new log, map the rest",
    "diff": "compare two replicas of a partition",
    "txn": "open, hanging, aborted transactions",
    "reindex": "rebuild the indexes of a log",
    "build": "make segments from JSON Lines, CSV, Arrow, Parquet",
    "convert": "change codec, level, batch size, magic",
    "compact": "run the log cleaner offline",
    "study": "what another codec, level or batch size would save",
    "doctor": "versions, codecs, CRC path, what is missing",
}


class _Parser(argparse.ArgumentParser):
    """Prints an error in one line with the help command, instead of the usage of all verbs."""

    wrong_use = WRONG_USE
    chosen: _Parser | None = None  # the verb's

    def error(self, message: str) -> NoReturn:
        verb = self.chosen or self
        head, _, words = message.partition("unrecognized arguments: ")
        if not head and words:
            message += verb.meant(words)
        say(f"{message} (see {verb.prog} --help)")
        sys.exit(self.wrong_use)

    def meant(self, words: str) -> str:
        """The option most similar to the first unknown word."""
        word = words.split()[0].partition("=")[0]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        near = difflib.get_close_matches(word, known, 1, 0.7) if word.startswith("--") else []
        return f"; did you mean {near[0]}?" if near else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit status."""
    if "_ARGCOMPLETE" in os.environ:
        _complete(os.environ.get("COMP_LINE", "").split()[1:])
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        return _run([word for word in words if word != "--debug"])
    except SystemExit as ending:  # argparse: help, version, wrong use
        return _leave(ending.code if isinstance(ending.code, int) else WRONG_USE)
    except (BrokenPipeError, ClosedPipe):
        return _leave(FINE)
    except KeyboardInterrupt:
        if argv is None:  # the program ends: a second Ctrl-C must not interrupt the interpreter's shutdown
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _leave(INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        return _report(error)


def _complete(words: Sequence[str]) -> None:
    """Shell completion, by argcomplete: eval "$(register-python-argcomplete kafkarec)"."""
    try:
        import argcomplete  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        sys.exit(COULD_NOT)
    argcomplete.autocomplete(_parser(next((word for word in words if word in VERBS), None)))


def _report(error: Exception) -> int:
    if isinstance(error, WrongUse | Refused):
        say(str(error))
        return WRONG_USE
    if isinstance(error, KafkaRecordError):
        say(str(error))
        return exit_status(error.reason or "") if error.reason else DAMAGED
    if isinstance(error, CouldNot | RemoteError):
        say(str(error))
    elif isinstance(error, MemoryError):
        say("out of memory")
    elif isinstance(error, OSError):
        say(f"{error.filename or 'input/output'}: {(error.strerror or str(error)).lower()}")
    else:
        say(f"internal error: {type(error).__name__}: {error} (please report it, with the output of --debug)")
    return COULD_NOT


def _leave(status: int) -> int:
    """Redirects standard output to the null device: the interpreter's last flush would report a closed pipe."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _run(words: list[str]) -> int:
    verb = next((word for word in words if not word.startswith("-")), None)
    leading_help = words[:1] and words[0] in ("-h", "--help", "--version")
    if not leading_help and verb not in VERBS:
        return _no_such_verb(verb, words)
    args = _parser(verb).parse_args(join_relative_times(words))
    args.argv = words
    module = _module(args.verb)
    args.reads = demand(args, getattr(module, "OUTPUT", FILE))
    status: int = module.run(args)
    return status


def _no_such_verb(verb: str | None, words: Sequence[str]) -> int:
    known = ", ".join(VERBS)
    if verb is None:
        say(f"what shall be done? Verbs: {known} (see kafkarec --help)")
    elif os.path.exists(verb):
        say(f"{verb} is a path, and a verb comes first: kafkarec cat {verb} or kafkarec scan {verb}")
    else:
        near = difflib.get_close_matches(verb, VERBS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        say(f"no such verb: {verb}{meant} Verbs: {known}" if meant else f"no such verb: {verb}; verbs: {known}")
    return WRONG_USE


def _module(verb: str):  # type: ignore[no-untyped-def]
    return importlib.import_module(f".{verb}", __package__)


def _parser(verb: str | None) -> argparse.ArgumentParser:
    """The parser of all verbs, with the options of `verb` alone, so no other verb's module is imported."""
    parser = _Parser(
        prog="kafkarec",
        description="Reads and writes Kafka's log segments and record batches without a broker.",
        epilog="Exit status: 0 fine, 1 damage found, 2 wrong use, 3 could not, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kafkarec {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for name, does in VERBS.items():
        if name != verb:
            verbs.add_parser(name, help=does)
            continue
        module = _module(name)
        one = verbs.add_parser(
            name,
            help=does,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(one)
        parser.chosen = one
        parser.wrong_use = one.wrong_use = getattr(module, "WRONG_USE", WRONG_USE)
        # main() removes it from the words first, so it works in any position and for errors of this parser.
        one.add_argument("--debug", action="store_true", help="a traceback where an error ends the run")
    return parser
