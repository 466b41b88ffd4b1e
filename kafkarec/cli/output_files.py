"""The outputs of a verb: standard output, or a file that appears only when it is complete.

`demand` checks all outputs of a command line before its verb begins, by the rules of kafkarec.storage.output_rules.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kafkarec.storage import output_rules
from kafkarec.storage.output_rules import Inputs, Refused, is_stream
from kafkarec.support import durable
from kafkarec.support.text_table import system_reason

from . import progress
from .shared_options import CouldNot, WrongUse

if TYPE_CHECKING:
    from kafkarec import report

# Values of a verb's OUTPUT: it writes files, a folder, or a log, which is either (see new_log).
FILE, FOLDER, LOG = "a file", "a folder", "a log"
# argparse's names of outputs -> their options; argparse's names of inputs.
OPTIONS = {"output": "-o", "html": "--html", "plot": "--plot"}
INPUTS = ("paths", "path", "files", "a", "b", "sources", "use", "input")
_BLOCK = 1 << 20


class ClosedPipe(Exception):
    """The reader of the output has closed the pipe (`| head`). Ends the run silently."""


class Sink:
    """A binary output whose write errors name the output."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self.is_terminal = file.isatty()
        self._written = 0

    def write(self, data: bytes | memoryview) -> int:
        try:
            if self.is_terminal:
                progress.erase()
            self._file.write(data)
            if self.is_terminal:
                self._file.flush()  # not later, behind a bar
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise CouldNot(f"{self.name}: {system_reason(error)}") from error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the bytes written so far, for pyarrow: a Parquet file stores the positions of its parts."""
        return self._written

    def flush(self) -> None:
        try:
            self._file.flush()
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise CouldNot(f"{self.name}: {system_reason(error)}") from error

    @property
    def closed(self) -> bool:
        """Whether the file is closed. For pyarrow, which needs it of any file object."""
        return self._file.closed


def demand(args: argparse.Namespace, kind: str) -> Inputs:
    """Return the inputs of the run. Raise Refused if an output would replace one of them, or an existing file."""
    inputs = Inputs(_inputs(args))
    given = {option: path for name, option in OPTIONS.items() if (path := getattr(args, name, None)) is not None}
    shown: dict[str, str | None] = {f"{option} {path}": path for option, path in given.items()}
    output_rules.demand_different({"standard output": None, **shown} if "-o" not in given else shown)
    if kind == FOLDER or is_stream(given.get("-o")):
        inputs.demand_stream(1, "standard output")
    for option, path in given.items():
        if kind == FOLDER and (is_stream(path) or os.path.isfile(path)):
            raise Refused(f"{option} {path} is not a folder; name a new folder")
        if kind == FILE and path != output_rules.STANDARD_OUTPUT:
            inputs.demand_file(path, option, args.force)
        elif not is_stream(path):
            output_rules.demand_local(path, f"{option} {path}")
            inputs.demand_apart(path, f"{option} {path}")
    return inputs


def _inputs(args: argparse.Namespace) -> Iterator[str]:
    for name in INPUTS:
        given = getattr(args, name, ())
        if name == "input" and given == []:  # build reads standard input by default
            given = [output_rules.STANDARD_INPUT]
        for word in [given] if isinstance(given, str) else given:
            yield from word.split(",") if name == "files" else [word]


def demand_output_folders(args: argparse.Namespace) -> None:
    """Raise CouldNot if the folder or descriptor of an output does not exist, for verbs that open it at the end."""
    for path in filter(None, (getattr(args, name, None) for name in OPTIONS)):
        descriptor = 1 if path == output_rules.STANDARD_OUTPUT else output_rules.descriptor_of(path)
        try:
            os.stat(os.path.dirname(os.path.realpath(path))) if descriptor is None else os.fstat(descriptor)
        except OSError as error:
            raise CouldNot(f"{path}: {system_reason(error)}") from error


@contextmanager
def standard_output() -> Iterator[Sink]:
    if sys.stdout is None:
        raise CouldNot("standard output is closed")
    sink = Sink(sys.stdout.buffer, "standard output")
    yield sink
    sink.flush()


@contextmanager
def opened(args: argparse.Namespace, name: str = "output") -> Iterator[Sink]:
    """Yield the sink of an output. A regular file is written under a temporary name and renamed at the end."""
    path: str | None = getattr(args, name)
    descriptor = 1 if path is None or path == output_rules.STANDARD_OUTPUT else output_rules.descriptor_of(path)
    if path is None or descriptor == 1:
        with standard_output() as sink:
            yield sink
        return
    if is_stream(path):
        with _closing(_create(path, os.O_WRONLY, path) if descriptor is None else _duplicate(descriptor, path)) as file:
            sink = Sink(file, path)
            yield sink
            sink.flush()
        return
    place = os.path.realpath(path)
    part = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.{os.getpid()}.part")
    try:
        with _closing(_create(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path)) as file:
            sink = Sink(file, path)
            yield sink
            sink.flush()
        if args.force:
            args.inputs_read.demand_file(path, OPTIONS[name], force=True)
        _publish(part, place, f"{OPTIONS[name]} {path}", args.force)
    except BaseException as error:
        if os.path.exists(part) and not isinstance(error, _NameTaken):
            os.unlink(part)
        raise


class NewFolder(NamedTuple):
    """A folder that is being written. name: as it will be called, for messages."""

    path: str
    name: str

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CouldNot(f"{self.name}: {system_reason(error)}") from error


@contextmanager
def new_folder(args: argparse.Namespace) -> Iterator[NewFolder]:
    """Yield a folder that gets the name of -o at the end. WrongUse if that exists and is not empty, with --force, too:
    nothing tells whose files those are."""
    place = os.path.realpath(args.output)
    part = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.{os.getpid()}.part")
    folder = NewFolder(part, args.output)
    with folder.errors_named():
        if os.path.lexists(place) and os.listdir(place):
            raise WrongUse(f"-o {args.output} exists and is not empty; name a new folder")
        durable.make_folder(part)
    try:
        yield folder
        with folder.errors_named():
            os.rename(part, place)  # in place of an empty folder, too
            durable.sync_folder(os.path.dirname(place))
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_report(
    args: argparse.Namespace,
    document: report.Document,
    values: Iterable[Any],
    indent: int | None = None,
    page: report.Document | None = None,
) -> None:
    """Write a report as --format says, and as a page to --html.

    values    one result per line of JSON
    indent    of JSON for people
    page      what is on the page; None: the document
    """
    with opened(args) as sink:
        write_rendered(sink, args.format, document, values, indent)
    if getattr(args, "html", None) is not None:
        from kafkarec import report

        with opened(args, "html") as sink:
            for piece in report.html(page or document):
                sink.write(piece.encode())


def write_rendered(
    sink: Sink, form: str, document: report.Document, values: Iterable[Any], indent: int | None = None
) -> None:
    """Write the document as text, or the values as JSON, one per line. Other characters than ASCII are escaped in JSON:
    names of files may be no text."""
    import json  # with reports, a third of the time of `kafkarec --help`

    from kafkarec import report

    as_json = (json.dumps(report.jsonable(one), indent=indent) + "\n" for one in values)
    for piece in as_json if form == "json" else report.text(document):
        sink.write(piece.encode())


@contextmanager
def spooled(sink: Sink) -> Iterator[Sink]:
    """Yield the sink of a temporary file, which is copied to `sink` at the end; an error before it leaves nothing."""
    with _closing(_temporary_file()) as file:
        spool = Sink(file, "temporary file")
        yield spool
        spool.flush()
        file.seek(0)
        for block in iter(partial(file.read, _BLOCK), b""):
            sink.write(block)


def _temporary_file() -> BinaryIO:
    import tempfile

    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise CouldNot(f"temporary file: {system_reason(error)}") from error


class _NameTaken(Refused):
    """A file of the output's name was created during the run. The output keeps its temporary name."""


def _publish(part: str, place: str, shown: str, force: bool) -> None:
    try:
        output_rules.publish(part, place, force)
    except FileExistsError:
        raise _NameTaken(f"{shown} was created during this run and is not replaced; the output is in {part}") from None
    except OSError as error:
        raise CouldNot(f"{place}: {system_reason(error)}") from error


@contextmanager
def _closing(file: BinaryIO) -> Iterator[BinaryIO]:
    """Close the file. After a failed write, closing writes again and fails again; the first error is kept."""
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    file.close()


def _duplicate(descriptor: int, path: str) -> BinaryIO:
    try:
        return os.fdopen(os.dup(descriptor), "wb")
    except OSError as error:
        raise CouldNot(f"{path}: {system_reason(error)}") from error


def _create(place: str, flags: int, path: str) -> BinaryIO:
    try:
        return os.fdopen(os.open(place, flags, 0o666), "wb")
    except OSError as error:
        raise CouldNot(f"{path}: {system_reason(error)}") from error
