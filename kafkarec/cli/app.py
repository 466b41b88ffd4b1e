"""The main function of the command line: the table of verbs, and the exit status of a run.

Exit status: 0 fine, 1 damage found (the output is complete as far as asked), 2 wrong usage, 3 failed
(file, permission, missing extra, limit), 130 on Ctrl-C. A closed pipe ends the run silently with 0. A traceback is
printed only with --debug.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from kafkarec._version import __version__
from kafkarec.errors import KafkaRecordError
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage.output_rules import Refused, is_stream
from kafkarec.support.command_line import command
from kafkarec.support.text_table import system_reason

from .output_files import FILE, FOLDER, ClosedPipe, demand
from .problems import COULD_NOT, DAMAGED, FINE, INTERRUPTED, WRONG_USE, exit_status, say
from .progress import is_terminal
from .shared_options import CouldNot, WrongUse, format_of, join_relative_times

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


# Verbs that print their output while they work.
_PRINT_WHILE_THEY_WORK = ("cat", "scan", "dump", "build", "convert", "compact", "reindex")


class _Parser(argparse.ArgumentParser):
    """Prints an error in one line with the help command, instead of the usage text."""

    wrong_use = WRONG_USE
    chosen: _Parser | None = None  # the parser of the verb

    def error(self, message: str) -> NoReturn:
        verb = self.chosen or self
        head, _, words = message.partition("unrecognized arguments: ")
        if not head and words:
            message += verb.similar_option(words)
        say(f"{message} (see {verb.prog} --help)")
        sys.exit(self.wrong_use)

    def similar_option(self, words: str) -> str:
        """Return a hint with the option that is most similar to the first unknown word."""
        word = words.split()[0].partition("=")[0]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        return _nearest(word, known, 0.7) if word.startswith("--") else ""


def _nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a hint with the most similar of the known words; the empty text: none is similar."""
    import difflib  # not at the top: no verb needs it

    near = difflib.get_close_matches(word, list(known), 1, cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit status."""
    if "_ARGCOMPLETE" in os.environ:
        _complete(os.environ.get("COMP_LINE", "").split()[1:])
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        return _leave(_run([word for word in words if word != "--debug"]))
    except SystemExit as stop:  # argparse: help, version, wrong usage
        return _leave(stop.code if isinstance(stop.code, int) else WRONG_USE)
    except (BrokenPipeError, ClosedPipe):
        return _leave(FINE)
    except KeyboardInterrupt:
        _ignore_interrupts(argv)
        return _leave(INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        return _leave(_report(error))
    finally:
        _ignore_interrupts(argv)


def _ignore_interrupts(argv: Sequence[str] | None) -> None:
    """If the program ends now: keeps a late Ctrl-C from the interpreter's shutdown, which would end by the signal."""
    if argv is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _complete(words: Sequence[str]) -> None:
    """Complete a command line of the shell with argcomplete: eval "$(register-python-argcomplete kafkarec)"."""
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
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        say(f"{where}{system_reason(error)}")
    else:
        say(f"internal error: {type(error).__name__}: {error} (please report it, with the output of --debug)")
    return COULD_NOT


def _leave(status: int) -> int:
    """Flush standard output, and return the exit status.

    If that fails, redirect it to the null device, as the interpreter flushes it once more at its end.
    """
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError) as error:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and status == FINE:
            say(f"standard output: {system_reason(error)}")
            return COULD_NOT
    return status


def _run(words: list[str]) -> int:
    verb = next((word for word in words if not word.startswith("-")), None)
    leading_help = words[:1] and words[0] in ("-h", "--help", "--version")
    if not leading_help and verb not in VERBS:
        return _no_such_verb(verb, words)
    args = _parser(verb).parse_args(join_relative_times(words))
    args.argv = words
    module = _module(args.verb)
    note = None
    if "formats" in args:
        args.format, note = format_of(args)
    into_folder = getattr(args, "partition_by", None) is not None
    args.inputs_read = demand(args, FOLDER if into_folder else getattr(module, "OUTPUT", FILE))
    if note:
        say(f"note: {note}")
    try:
        status: int = module.run(args)
    except KeyboardInterrupt:
        left = getattr(args, "after_interrupt", None)
        if is_terminal() and left != "":
            if sys.stdout is not None and sys.stdout.isatty():
                print(file=sys.stderr)  # the terminal shows ^C, perhaps behind half a line
            say(f"interrupted; {left or _after_interrupt(args)}")
        raise
    return status


def _after_interrupt(args: argparse.Namespace) -> str:
    """Return what is left of the output, and what the same command does. A verb that knows it better sets
    `args.after_interrupt`; the empty text: nothing is said, or it has said it itself."""
    again = "the same command starts from the beginning"
    if not is_stream(getattr(args, "output", None)):
        return f"nothing is written to {args.output}, and {again}"
    return f"the output is incomplete, and {again}" if args.verb in _PRINT_WHILE_THEY_WORK else again


def _no_such_verb(verb: str | None, words: Sequence[str]) -> int:
    known = ", ".join(VERBS)
    if verb is None:
        say(f"no verb given; verbs: {known} (see kafkarec --help)")
    elif os.path.exists(verb):
        say(f"{verb} is a path; the verb comes first: {command('cat', [verb])} or {command('scan', [verb])}")
    else:
        hint = _nearest(verb, VERBS)
        say(f"no such verb: {verb}{hint} Verbs: {known}" if hint else f"no such verb: {verb}; verbs: {known}")
    return WRONG_USE


def _module(verb: str):  # type: ignore[no-untyped-def]
    return importlib.import_module(f".{verb}", __package__)


def _parser(verb: str | None) -> argparse.ArgumentParser:
    """Return the parser of all verbs. Only `verb` has its options, so no other verb's module is imported."""
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
        module = _module(name)
        one = verbs.add_parser(
            name,
            help=description,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(one)
        parser.chosen = one
        parser.wrong_use = one.wrong_use = getattr(module, "WRONG_USE", WRONG_USE)
        # Only for --help: main() removes it from the words first, so that it works in any position.
        one.add_argument("--debug", action="store_true", help="print a traceback if an error ends the run")
    return parser
