"""Where a verb writes: standard output, or a file that appears only when it is complete."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from kafkarec.storage import Segment

from .options import CouldNot, WrongUse


class ClosedPipe(Exception):
    """The reader of our output went away (`| head`): stop, in silence."""


class Sink:
    """A binary output whose write errors say what they are."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._written = 0

    def write(self, data: bytes | memoryview) -> int:
        try:
            self._file.write(data)
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise CouldNot(f"{self._name}: {(error.strerror or str(error)).lower()}") from error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far, for pyarrow: a Parquet file tells where its parts lie."""
        return self._written

    def flush(self) -> None:
        try:
            self._file.flush()
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise CouldNot(f"{self._name}: {(error.strerror or str(error)).lower()}") from error

    @property
    def closed(self) -> bool:
        """For pyarrow, which takes any object that looks like a file."""
        return self._file.closed

    @property
    def is_terminal(self) -> bool:
        return self._file.isatty()


@contextmanager
def opened(path: str | None, sources: Sequence[Segment] = ()) -> Iterator[Sink]:
    """The sink for `-o path`. A regular file is written beside its place and renamed when all went well."""
    if path is None or path == "-":
        if sys.stdout is None:
            raise CouldNot("standard output is closed")
        sink = Sink(sys.stdout.buffer, "standard output")
        yield sink
        sink.flush()
        return
    place = os.path.realpath(path)
    for source in sources:
        if all(map(os.path.exists, (place, source.path))) and os.path.samefile(place, source.path):
            raise WrongUse(f"-o {path} is one of the inputs; choose another name")
    if os.path.exists(place) and not stat.S_ISREG(os.stat(place).st_mode):
        with _create(place, os.O_WRONLY, path) as file:  # a device or a pipe cannot be renamed to
            sink = Sink(file, path)
            yield sink
            sink.flush()
        return
    part = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.{os.getpid()}.part")
    try:
        with _create(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path) as file:
            sink = Sink(file, path)
            yield sink
            sink.flush()
        os.replace(part, place)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def _create(place: str, flags: int, path: str) -> BinaryIO:
    try:
        return os.fdopen(os.open(place, flags, 0o666), "wb")
    except OSError as error:
        raise CouldNot(f"{path}: {(error.strerror or str(error)).lower()}") from error
