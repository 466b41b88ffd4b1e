"""The name of an output for a command that is printed: one that the command accepts, away from the damaged source.

The place is the working directory if nothing of the source is there, else the nearest folder above it that is outside
of the source's partition folder and data folder, else the home folder or that of temporary files.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import count

from kafkarec.sources import remote

from . import names
from .output_rules import Inputs, Refused, self_and_parents


def suggested_output(name: str, sources: Iterable[str]) -> str:
    """A path of this name that does not exist, or with a number: rescued, ../rescued, ../../rescued-2."""
    local = [path for path in sources if not remote.is_url(path)]
    inputs, taken = Inputs(local), {folder for path in local for folder in _folders_of(path)}
    for place in _places():
        if os.access(place or os.curdir, os.W_OK | os.X_OK) and taken.isdisjoint(self_and_parents(place or os.curdir)):
            path = next(path for path in _numbered(os.path.join(place, name)) if not os.path.lexists(path))
            try:
                inputs.demand_apart(path, path)
            except Refused:
                continue
            return path
    return os.path.join(tempfile.gettempdir(), name)


def _folders_of(path: str) -> Iterator[str]:
    """Yields the folder of a source, and the data folder around it if it is a partition's."""
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        real = os.path.dirname(real)
        if names.folder(os.path.basename(real)) is None:
            return  # a single file may be anywhere
    yield real
    if names.folder(os.path.basename(real)) is not None:
        yield os.path.dirname(real)


def _places() -> Iterator[str]:
    """Yields the folders to try, as they are named from the working directory: that itself is empty."""
    yield ""
    parents = [parent for parent in self_and_parents(os.curdir) if os.path.dirname(parent) != parent]
    yield from (os.path.join(*[os.pardir] * steps) for steps in range(1, len(parents)))
    yield os.path.expanduser("~")
    yield tempfile.gettempdir()


def _numbered(path: str) -> Iterator[str]:
    """Yields the path, then with 2, 3 ... before its suffix, without end."""
    yield path
    stem, suffix = os.path.splitext(path)
    yield from (f"{stem}-{number}{suffix}" for number in count(2))
