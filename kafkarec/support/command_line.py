"""Command lines that are printed for the reader to paste into a shell, in the folder in which they were printed; and
the known word that a wrong one is most similar to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from .text_table import safe

PROGRAM = "kafkarec"
_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\")


def command(verb: str, paths: Iterable[str], *options: tuple[str, object]) -> str:
    """The line `kafkarec VERB PATHS OPTIONS`. options: (name, value); a value that begins with a dash follows =."""
    words = [PROGRAM, verb, *map(as_operand, paths)]
    for name, value in options:
        words += [f"{name}={value}"] if str(value).startswith("-") else [name, as_operand(str(value))]
    return " ".join(map(quoted, words))


def as_operand(path: str) -> str:
    """A path as it is named on a command line: not empty, and no option. - stays standard input."""
    return os.path.join(os.curdir, path) if path.startswith("-") and path != "-" else path or os.curdir


def quoted(word: str) -> str:
    """A word for the shell. Control characters, and bytes that are not UTF-8, as in $'a\\012b': bash, zsh, ksh."""
    if safe(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in os.fsencode(word)) + "'"
