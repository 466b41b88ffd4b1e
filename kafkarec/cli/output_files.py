"""The outputs of a verb: standard output, or a file that appears only when it is complete.

`demand_safe_outputs` checks all outputs of a command line before its verb begins, by the rules of
kafkarec.storage.output_rules.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from kafkarec.sources.remote_errors import display_url
from kafkarec.storage import output_rules
from kafkarec.storage.output_rules import Inputs, Refused, is_stream
from kafkarec.support import durable

from . import progress
from .shared_options import FILE, FOLDER, CouldNot, InputPath, OutputPath, WrongUse, errors_named

if TYPE_CHECKING:
    from kafkarec import report

P = TypeVar("P", InputPath, OutputPath)


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
        with self._errors_named():
            if self.is_terminal:
                progress.erase()
            self._file.write(data)
            if self.is_terminal:
                self._file.flush()  # not later, behind a bar
        self._written += len(data)
        return len(data)

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        with errors_named(self.name):
            try:
                yield
            except BrokenPipeError:
                raise ClosedPipe from None

    def tell(self) -> int:
        """Return the bytes written so far, for pyarrow: a Parquet file stores the positions of its parts."""
        return self._written

    def flush(self) -> None:
        with self._errors_named():
            self._file.flush()

    @property
    def closed(self) -> bool:
        """Whether the file is closed. For pyarrow, which needs it of any file object."""
        return self._file.closed


def demand_safe_outputs(args: argparse.Namespace) -> Inputs:
    """Return the inputs of the run. Raise WrongUse if two are standard input, Refused if an output would replace one of
    them, or an existing file; CouldNot if the folder or descriptor of a file does not exist."""
    paths = list(_arguments_of_type(args, InputPath))
    if paths.count(InputPath(output_rules.STANDARD_INPUT)) > 1:
        raise WrongUse("standard input (-) can be read only once")
    inputs = Inputs(paths)
    outputs = sorted(_arguments_of_type(args, OutputPath), key=lambda path: path.option != "-o")
    shown: dict[str, str | None] = {f"{path.option} {display_url(path)}": path for path in outputs}
    written = outputs[0] if outputs and outputs[0].option == "-o" else None
    output_rules.demand_different({"standard output": None, **shown} if written is None else shown)
    if written is None or written.kind == FOLDER or is_stream(written):
        inputs.demand_stream(1, "standard output")
    for named, path in zip(shown, outputs, strict=True):
        output_rules.demand_local(path, named)
        if path.kind == FOLDER and (is_stream(path) or os.path.isfile(path)):
            raise Refused(f"{named} is not a folder; name a new folder")
        if path.kind == FILE and path != output_rules.STANDARD_OUTPUT:
            inputs.demand_file(path, path.option, args.force)
            descriptor = output_rules.descriptor_of(path)
            with errors_named(path):  # here, as some verbs open their output when their work is done
                os.stat(os.path.dirname(os.path.realpath(path))) if descriptor is None else os.fstat(descriptor)
        elif not is_stream(path):
            inputs.demand_apart(path, named)
    return inputs


def _arguments_of_type(values: Any, kind: type[P]) -> Iterator[P]:
    """Yield the arguments of a type, also those in lists."""
    for each in vars(values).values() if isinstance(values, argparse.Namespace) else values:
        if isinstance(each, kind):
            yield each
        elif isinstance(each, list):
            yield from _arguments_of_type(each, kind)


@contextmanager
def standard_output() -> Iterator[Sink]:
    if sys.stdout is None:
        raise CouldNot("standard output is closed")
    name, file = "standard output", sys.stdout.buffer
    if isinstance(file, io.RawIOBase):  # PYTHONUNBUFFERED: as a disk gets full, it writes a part and raises nothing
        with _closing_sink(open(file.fileno(), "wb", closefd=False), name) as sink:
            yield sink
        return
    sink = Sink(file, name)
    yield sink
    sink.flush()


@contextmanager
def opened(args: argparse.Namespace, name: str = "output") -> Iterator[Sink]:
    """Yield the sink of an output. A regular file is written under a temporary name and renamed at the end."""
    path = getattr(args, name) or OutputPath(output_rules.STANDARD_OUTPUT, "-o", FILE)
    descriptor = output_rules.descriptor_of(path)
    if descriptor == 1:
        with standard_output() as sink:
            yield sink
        return
    if is_stream(path):
        with errors_named(path):
            file = os.fdopen(os.open(path, os.O_WRONLY) if descriptor is None else os.dup(descriptor), "wb")
        with _closing_sink(file, path) as sink:
            yield sink
        return
    place = os.path.realpath(path)
    part = temporary_path(place)
    try:
        with errors_named(path):
            file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
        with _closing_sink(file, path) as sink:
            yield sink
            sink.flush()
            with errors_named(path):  # else it may be empty under its name after a power failure
                durable.fsync(file.fileno(), path)
        if args.force:
            args.inputs_read.demand_file(path, path.option, force=True)
        with errors_named(place):
            is_published = output_rules.rename_into_place(part, place, args.force)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    if not is_published:
        taken = f"{path.option} {path} was created during this run and is not replaced"
        raise Refused(f"{taken}; the output is in {part}")


@contextmanager
def _closing_sink(file: BinaryIO, name: str) -> Iterator[Sink]:
    """Yield the sink of a file, which is then flushed and closed. After a failed write, closing writes again and fails
    again; the first error is kept."""
    sink = Sink(file, name)
    try:
        yield sink
        sink.flush()
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    with errors_named(name):
        file.close()


def temporary_path(place: str) -> str:
    """Return a new temporary name for an output, beside it.

    Not by the process's number: in a container that is always the same, also after a kill. And with a part of the name
    only, which may be as long as a file system allows.
    """
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{name[:50]}.{os.urandom(8).hex()}.part")


@contextmanager
def new_folder(path: str) -> Iterator[str]:
    """Yield the temporary path of a folder, which is renamed at the end. WrongUse if `path` exists and is not an empty
    folder, with --force, too: nothing tells whose files those are."""
    place = os.path.realpath(path)
    part = temporary_path(place)
    missing = [each for each in output_rules.self_and_parents(os.path.dirname(place)) if not os.path.lexists(each)]
    with errors_named(path):
        if os.path.lexists(place) and (not os.path.isdir(place) or os.listdir(place)):
            raise WrongUse(f"-o {path} exists and is not an empty folder; name a new one")
    try:
        with errors_named(path):
            durable.make_folder(part)
        yield part
        with errors_named(path):
            os.rename(part, place)  # in place of an empty folder, too
            durable.sync_folder(os.path.dirname(place))
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        for parent in missing:
            with suppress(OSError):  # another run writes there
                os.rmdir(parent)
        raise


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
def deferred_interrupts() -> Iterator[None]:
    """The first Ctrl-C within takes effect at the end, so that a row is written as a whole; a second one at once."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets them
        yield
        return
    interrupts: list[int] = []

    def handle(number: int, _: object) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
