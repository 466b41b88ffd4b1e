"""The input of `build`: which format it has, and its rows.

The format follows from --from, else from the name, else from how the input begins.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from kafkarec.errors import InvalidArrowError

from . import input_arrow, input_csv, input_json
from .input_rows import InputRows, Refuse
from .shared_options import CouldNot, WrongUse

FORMATS = ("json", "csv", "arrow", "parquet")
_SUFFIXES = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_ARROW_FILE, _ARROW_STREAM, _PARQUET = b"ARROW1", b"\xff\xff\xff\xff", b"PAR1"
_HEAD, _STEP, _ENDLESS = 64 << 10, 1 << 20, 1 << 62
# Inputs that hold no rows: their first bytes, and advice.
_PACKED = {b"\x1f\x8b": "gzip: zcat", b"\x28\xb5\x2f\xfd": "zstd: zstdcat", b"\x04\x22\x4d\x18": "lz4: lz4cat"}
STANDARD_INPUT = "-"


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The input; standard input is `-`."""
    if path != STANDARD_INPUT:
        try:
            file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise CouldNot(f"{path}: {(error.strerror or str(error)).lower()}") from error
        with file:
            yield file
        return
    if sys.stdin is None:
        raise CouldNot("standard input is closed")
    yield sys.stdin.buffer


def rows(
    file: BinaryIO,
    path: str,
    form: str | None,
    forms: Mapping[str, str],
    columns: Sequence[str] | None,
    refuse: Refuse,
) -> Iterator[InputRows]:
    """The rows of an open input, in blocks. Formats that are read from their end are first copied to a file when they
    come through a pipe.

    form       json, csv, arrow, parquet; None: by name and content
    forms      key, value -> how the plain column is meant (`rowcells.FORMS`)
    columns    the names to take; None: all
    refuse     called with each row that does not fit
    """
    name = "standard input" if path == STANDARD_INPUT else path
    peeked = _Peeked(file)
    source, head = cast(BinaryIO, peeked), peeked.head
    found = form or _SUFFIXES.get(os.path.splitext(path)[1].lower()) or _by_content(name, head)
    _demand_rows(name, found, head)
    try:
        if found in ("json", "csv"):
            yield from (input_json if found == "json" else input_csv).read(source, forms, columns, refuse)
        elif found == "parquet" or head.startswith(_ARROW_FILE):
            with _seekable(file, source) as whole:
                kind = "parquet" if found == "parquet" else "arrow file"
                yield from input_arrow.read(whole, kind, forms, columns, refuse)
        else:
            yield from input_arrow.read(source, "arrow", forms, columns, refuse)
    except WrongUse as error:
        raise WrongUse(f"{name}, {error}") from error
    except InvalidArrowError as error:
        place = {"file": name, "column": error.column, "row": error.row}
        raise InvalidArrowError(f"{name}, {error}", reason=error.reason, **place) from error
    except OSError as error:
        raise CouldNot(f"{name}: {(error.strerror or str(error)).lower()}") from error


class _Peeked(io.RawIOBase):
    """A file of which the first bytes have been read already."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = b""
        self.head = self._held = self.read(_HEAD)

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer at the end of the file. One system call at a time: a Ctrl-C that comes while Python
        fills a buffer from a pipe would otherwise wait until there is more in the pipe."""
        data, self._held = (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        parts, left = [data], _ENDLESS if size < 0 else size - len(data)
        while left and (data := self._file.read1(min(left, _STEP))):  # type: ignore[attr-defined]
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def readable(self) -> bool:
        return True


def _by_content(name: str, head: bytes) -> str:
    """The format by the first bytes, for an input whose name does not give it."""
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start or start[:1] in b"{[":
        return "json"
    titles = start.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "").strip().split(",")
    if {"key", "value", "key_base64", "value_base64", "key_hex", "value_hex", "offset"} & set(titles):
        return "csv"
    _demand_rows(name, "", head)
    raise WrongUse(f"{name} begins as none of the formats does: --from {'|'.join(FORMATS)} says which it is")


def _demand_rows(name: str, form: str, head: bytes) -> None:
    """Raises the advice for an input that holds no rows."""
    shown = "FILE" if name == "standard input" else name
    for start, what in _PACKED.items():
        if head.startswith(start):
            packed, _, tool = what.partition(": ")
            raise WrongUse(f"{name} is compressed with {packed}: {tool} {shown} | kafkarec build - ...")
    if len(head) > 17 and not any(head[:4]) and not any(head[8:9]) and head[16] in (0, 1, 2):
        raise WrongUse(f"{name} looks like a Kafka log, not like rows: kafkarec convert makes a log of a log")
    binary = {"parquet": (_PARQUET,), "arrow": (_ARROW_FILE, _ARROW_STREAM)}.get(form)
    if binary and not head.startswith(binary) and head:
        raise WrongUse(f"{name} does not begin as {form} does; --from json|csv|arrow|parquet says what it is")


@contextmanager
def _seekable(file: BinaryIO, source: BinaryIO) -> Iterator[BinaryIO]:
    if file.seekable():
        file.seek(0)
        yield file
        return
    with tempfile.TemporaryFile(prefix="kafkarec-") as spool:
        shutil.copyfileobj(source, spool, 1 << 20)
        spool.seek(0)
        yield spool
