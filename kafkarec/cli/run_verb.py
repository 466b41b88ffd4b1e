"""Runs a verb: checks its options and outputs, and says what an error or Ctrl-C means for the output."""

from __future__ import annotations

import os

from kafkarec.errors import KafkaRecordError
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage.output_rules import Refused
from kafkarec.support.command_line import command
from kafkarec.support.text_table import system_reason

from . import COULD_NOT, FINE, WRONG_USE
from .output_files import ClosedPipe, demand_safe_outputs
from .problems import exit_status, say
from .progress import is_stderr_terminal
from .shared_options import CouldNot, WrongUse, resolved_format
from .verb_parsers import VERBS, module_of, parser_of


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
    args = parser_of(verb).parse_args(words)
    args.argv = words
    module = module_of(args.verb)
    if "formats" in args:
        args.format = resolved_format(args)
    try:
        args.inputs_read = demand_safe_outputs(args)
        status: int = module.run(args)
    except KeyboardInterrupt as stop:  # with what the verb knows about its output
        if stop.args or is_stderr_terminal():
            say("; ".join(["interrupted", *map(str, stop.args)]))
        raise
    except ClosedPipe:
        return FINE
    except CouldNot as error:
        error.status = getattr(module, "FAILED", COULD_NOT)
        raise
    return status


def report_error(error: Exception) -> int:
    """Print an error that ended the run, and return the exit status."""
    if isinstance(error, WrongUse | Refused):
        say(str(error))
        return WRONG_USE
    if isinstance(error, KafkaRecordError):
        say(str(error))
        return exit_status(error.reason)
    if isinstance(error, CouldNot):
        say(str(error))
        return error.status
    if isinstance(error, RemoteError):
        say(str(error))
    elif isinstance(error, MemoryError):
        say("out of memory")
    elif isinstance(error, OSError):
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        say(f"{where}{system_reason(error)}")
    else:
        say(f"internal error: {type(error).__name__}: {error} (please report it, with the output of --debug)")
    return COULD_NOT
