"""Java behaviour that the text depends on: optional numbers, java.io.File's paths, Long.parseLong"""

from __future__ import annotations

import os
import re

from kafkarec.errors import InvalidRecordError
from kafkarec.format.java_integers import wrapped


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def java_path(path: str) -> str:
    """java.io.File.toString on a Unix system: no repeated and no trailing slash."""
    short = re.sub("/+", "/", path)
    return short.rstrip("/") if len(short) > 1 else short


def absolute_path(path: str) -> str:
    """java.io.File.getAbsolutePath: `..` and links stay as they are."""
    display_path = java_path(path)
    return display_path if display_path.startswith("/") else f"{os.getcwd().rstrip('/')}/{display_path}"


def parse_long(text: str) -> int:
    """Long.parseLong; InvalidRecordError for its NumberFormatException."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        value = int(text)
        if value == wrapped(value, 64):
            return value
    raise InvalidRecordError(f"the file's name does not begin with an offset: {text[:40]!r}")
