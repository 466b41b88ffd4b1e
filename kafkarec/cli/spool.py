"""Copies a pipe to a temporary file, for what is read twice or from its end."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from typing import IO, BinaryIO

from kafkarec.support.text_table import system_reason

from . import progress
from .shared_options import CouldNot, WrongUse

_STEP = 1 << 20


def standard_input() -> BinaryIO:
    """Return standard input. CouldNot if it is closed."""
    if sys.stdin is None:
        raise CouldNot("standard input is closed")
    return sys.stdin.buffer


def shown_name(path: str) -> str:
    """Return the name of an input for messages."""
    return "standard input" if path == "-" else path


def demand_once(paths: Sequence[str]) -> None:
    """Raise WrongUse for paths that name standard input twice."""
    if paths.count("-") > 1:
        raise WrongUse("standard input (-) can be read only once")


def copy(pipe: BinaryIO, spool: IO[bytes], folder: str | None = None) -> None:
    """Copy the rest of a pipe. folder: of `spool`; None: that for temporary files. CouldNot if the disk is full."""
    size = 0
    with progress.bytes_counted("copying standard input") as tick:
        while block := pipe.read(_STEP):
            try:
                spool.write(block)
            except OSError as error:
                raise _failed(error, folder) from error
            size += len(block)
            tick(size)
    try:
        spool.flush()
    except OSError as error:
        raise _failed(error, folder) from error


def _failed(error: OSError, folder: str | None) -> CouldNot:
    why = system_reason(error)
    advice = "" if folder else " (TMPDIR names another folder)"
    return CouldNot(f"copy of standard input in {folder or tempfile.gettempdir()}: {why}{advice}")
