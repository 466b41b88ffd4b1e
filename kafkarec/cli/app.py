"""The main function of the command line, and the exit status of a run.

Exit status: 0 fine, 1 damage found (the output is complete as far as asked), 2 wrong usage, 3 failed
(file, permission, missing extra, limit), 130 on Ctrl-C. A closed pipe ends the run silently with 0. A traceback is
printed only with --debug.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from . import COULD_NOT, FINE, INTERRUPTED, WRONG_USE
from .verb_parsers import VERBS, parser_of

_OPEN_FILES = 10_240  # macOS refuses more
_ABOUT_ALL = ("-h", "--help", "--version")  # options without a verb


def main(argv: Sequence[str] | None = None) -> int:
    """See kafkarec.cli.main."""
    if "_ARGCOMPLETE" in os.environ:
        # a command line of the shell: eval "$(register-python-argcomplete kafkarec)"
        try:
            import argcomplete  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            sys.exit(COULD_NOT)
        typed = os.environ.get("COMP_LINE", "").split()[1:]
        argcomplete.autocomplete(parser_of(next((word for word in typed if word in VERBS), None)))
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        words = [word for word in words if word != "--debug"]
        if words[:1] and words[0] in _ABOUT_ALL:
            parser_of(None).parse_args(words)
        from .run_verb import run  # not at the top: --help needs none of it

        if argv is None:
            _allow_more_open_files()
        return _flush_output(run(words))
    except SystemExit as stop:  # argparse: help, version, wrong usage
        return _flush_output(stop.code if isinstance(stop.code, int) else WRONG_USE)
    except BrokenPipeError:
        return _flush_output(FINE)
    except KeyboardInterrupt:
        _ignore_interrupts(argv)
        return _flush_output(INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        from .run_verb import report_error

        return _flush_output(report_error(error))
    finally:
        _ignore_interrupts(argv)


def _allow_more_open_files() -> None:
    """Raise the soft limit of open files, often 1024 or 256, to the hard one, as the runtimes of Java and Go do."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _ignore_interrupts(argv: Sequence[str] | None) -> None:
    """If the program ends now: keeps a late Ctrl-C from the interpreter's shutdown, which would end by the signal."""
    if argv is None:
        with suppress(ValueError):  # not in the main thread, which alone gets it
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _flush_output(status: int) -> int:
    """Flush standard output, and return the exit status.

    If that fails, redirect it to the null device, as the interpreter flushes it once more at its end.
    """
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError) as error:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and status == FINE:
            from kafkarec.support.text_table import system_reason

            from .problems import say

            say(f"standard output: {system_reason(error)}")
            return COULD_NOT
    return status
