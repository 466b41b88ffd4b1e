"""The input of `build`: detects the format and reads the rows.

The format is that of --from, else that of the name's suffix, else it is detected from the first bytes.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from kafkarec.errors import InvalidArrowError
from kafkarec.storage import other_file_types
from kafkarec.support.text_table import system_reason

from . import input_arrow, input_csv, input_json
from .input_rows import InputRows, Refuse
from .shared_options import SUFFIXES, CouldNot, WrongUse, errors_named
from .spool import copy, shown_name, standard_input

FORMATS = ("json", "csv", "arrow", "parquet")
_ARROW_FILE, _ARROW_STREAM, _PARQUET = b"ARROW1", b"\xff\xff\xff\xff", b"PAR1"
_HEAD, _STEP, _ENDLESS = 64 << 10, 1 << 20, 1 << 62
STANDARD_INPUT = "-"


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Yield the open input; `-` is standard input."""
    if path != STANDARD_INPUT:
        with errors_named(path):
            file = open(path, "rb")  # noqa: SIM115
        with file:
            yield file
        return
    yield standard_input()


def rows(
    file: BinaryIO,
    path: str,
    form: str | None,
    forms: Mapping[str, str],
    columns: Sequence[str] | None,
    refuse: Refuse,
) -> Iterator[InputRows]:
    """Yield the rows of an open input, in blocks. From a pipe, formats that are read from their end are first copied to
    a file.

    form       json, csv, arrow, parquet; None: by name and content
    forms      key, value -> encoding of the plain column (`input_cells.FORMS`)
    columns    names of the columns to read; None: all
    refuse     called with each row that cannot be converted
    """
    name = shown_name(path)
    peeked = _Peeked(file)
    source, head = cast(BinaryIO, peeked), peeked.head
    format_name = form or SUFFIXES.get(os.path.splitext(path)[1].lower()) or _by_content(name, head)
    _demand_format(name, format_name, head)
    try:
        if format_name in ("json", "csv"):
            yield from (input_json if format_name == "json" else input_csv).read(source, name, forms, columns, refuse)
        elif format_name == "parquet" or head.startswith(_ARROW_FILE):
            with _seekable(file, source) as whole:
                kind = "parquet" if format_name == "parquet" else "arrow file"
                yield from input_arrow.read(whole, name, kind, forms, columns, refuse)
        else:
            yield from input_arrow.read(source, name, "arrow", forms, columns, refuse)
    except WrongUse as error:
        raise WrongUse(f"{name}, {error}") from error
    except InvalidArrowError as error:
        place = {"file": name, "column": error.column, "row": error.row}
        raise InvalidArrowError(f"{name}, {error}", reason=error.reason, **place) from error
    except OSError as error:
        raise CouldNot(f"{name}: {system_reason(error)}") from error


class _Peeked(io.RawIOBase):
    """A file whose first bytes have already been read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = b""
        self.head = self._held = self.read(_HEAD)

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer at the end of the file. Uses one system call at a time: while Python fills a
        buffer from a pipe, a Ctrl-C would wait for more data in the pipe."""
        data, self._held = (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        parts, left = [data], _ENDLESS if size < 0 else size - len(data)
        while left and (data := self._file.read1(min(left, _STEP))):  # type: ignore[attr-defined]
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def readable(self) -> bool:
        return True


def _by_content(name: str, head: bytes) -> str:
    """Return the format by the first bytes; WrongUse if it is not recognised."""
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
    _demand_format(name, "", head)
    raise WrongUse(f"the format of {name} is not recognised: pass it with --from {'|'.join(FORMATS)}")


def _demand_format(name: str, form: str, head: bytes) -> None:
    """Raise WrongUse, with advice, for an input that is compressed, a Kafka log, or not of the given format."""
    other = other_file_types.by_head(head)
    if other is not None and other.unpack:
        path = STANDARD_INPUT if name == "standard input" else name
        raise WrongUse(f"{name} {other.sentence(path, 'build')} ...")
    if len(head) > 17 and not any(head[:4]) and not any(head[8:9]) and head[16] in (0, 1, 2):
        raise WrongUse(f"{name} looks like a Kafka log, not like rows; kafkarec convert reads logs")
    binary = {"parquet": (_PARQUET,), "arrow": (_ARROW_FILE, _ARROW_STREAM)}.get(form)
    if binary and not head.startswith(binary) and head:
        raise WrongUse(f"{name} is not {form}; pass its format with --from json|csv|arrow|parquet")


@contextmanager
def _seekable(file: BinaryIO, source: BinaryIO) -> Iterator[BinaryIO]:
    if file.seekable():
        file.seek(0)
        yield file
        return
    with tempfile.TemporaryFile(prefix="kafkarec-") as spool:
        copy(source, spool)
        spool.seek(0)
        yield spool
