"""The command line, `kafkarec` and `python -m kafkarec`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]

FINE, DAMAGED, WRONG_USE, COULD_NOT, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit status. Without `argv` it is that of the
    program, which is to end then: Ctrl-C is ignored from there on."""
    try:
        from .app import main as run

        return run(argv)
    except KeyboardInterrupt:  # during an import, or when all is done but the process is not gone
        return INTERRUPTED
