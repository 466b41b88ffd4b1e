"""Runs a verb: checks its options and outputs, and says what an error or Ctrl-C means for the output."""

from __future__ import annotations

import os
import sys

from kafkarec.errors import KafkaRecordError
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage.output_rules import Refused, is_stream
from kafkarec.support.command_line import command
from kafkarec.support.text_table import system_reason

from . import COULD_NOT, FINE, WRONG_USE
from .output_files import ClosedPipe, demand_safe_outputs
from .problems import exit_status, remark, say
from .progress import is_stderr_terminal
from .shared_options import CouldNot, WrongUse, join_relative_times, resolve_format
from .verb_parsers import VERBS, module_of, parser_of

# Verbs that print their output while they work.
_PRINT_WHILE_THEY_WORK = ("cat", "scan", "dump", "build", "convert", "compact", "reindex")


def run(words: list[str]) -> int:
    """Run a command line and return its exit status; a closed pipe ends it silently."""
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb not in VERBS:
        known = ", ".join(VERBS)
        if verb is None:
            say(f"no verb given; verbs: {known} (see kafkarec --help)")
        elif os.path.exists(verb):
            say(f"{verb} is a path; the verb comes first: {command('cat', [verb])} or {command('scan', [verb])}")
        else:
            say(f"no such verb: {verb}; verbs: {known}")
        return WRONG_USE
    args = parser_of(verb).parse_args(join_relative_times(words))
    args.argv = words
    module = module_of(args.verb)
    note = None
    if "formats" in args:
        args.format, note = resolve_format(args)
    args.inputs_read = demand_safe_outputs(args)
    if note:
        remark(note)
    try:
        status: int = module.run(args)
    except KeyboardInterrupt:
        # What is left of the output, and what the same command does, where the verb knows it better; the empty text:
        # nothing is said, or it has said it itself.
        left = getattr(args, "after_interrupt", None)
        if is_stderr_terminal() and left != "":
            if sys.stdout is not None and sys.stdout.isatty():
                print(file=sys.stderr)  # the terminal shows ^C, perhaps behind half a line
            again = "the same command starts from the beginning"
            if not is_stream(getattr(args, "output", None)):
                again = f"nothing is written to {args.output}, and {again}"
            elif args.verb in _PRINT_WHILE_THEY_WORK:
                again = f"the output is incomplete, and {again}"
            say(f"interrupted; {left or again}")
        raise
    except ClosedPipe:
        return FINE
    return status


def report_error(error: Exception) -> int:
    """Print an error that ended the run, and return the exit status."""
    if isinstance(error, WrongUse | Refused):
        say(str(error))
        return WRONG_USE
    if isinstance(error, KafkaRecordError):
        say(str(error))
        return exit_status(error.reason)
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
