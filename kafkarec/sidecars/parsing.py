"""What parsers of side files share: the refusal of bad bytes, whole entries, and the common format of text files.

    line 1   version of the file: 0
    line 2   number of lines that follow
    line 3.. one entry each, its fields separated by blanks

(Kafka: CheckpointFile.) Brokers write NAME.tmp and rename it, so partial files do not occur, but zeros after a crash
do.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from kafkarec.damage import error

VERSION = 0
INT32, INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)


def refuse(reason: str, detail: str, **fields: Any) -> NoReturn:
    """Raises CorruptRecordError; detail: the text for its message.

    fields: position (in the file; 0 without it), expected, found, file
    """
    raise error(reason, {"position": 0, "detail": detail, **fields}) from None


def demand_whole_entries(data: bytes, size: int, file: str | None) -> None:
    """CorruptRecordError if the bytes of an index are not whole entries of `size` bytes."""
    left_over = len(data) % size
    if left_over:
        detail = f"{len(data)} bytes are no multiple of {size}, the size of an entry"
        refuse("index_invalid", detail, position=len(data) - left_over, file=file)


class Lines:
    """The lines of a text file. Errors name a line by its number from 1, never by its content."""

    def __init__(self, data: bytes, reason: str, file: str | None) -> None:
        self._reason = reason
        self._file = file
        self._raw = re.split(rb"\r\n?|\n", data)
        if self._raw[-1] == b"":
            self._raw.pop()
        if data and not data.strip(b"\0"):
            self.refuse(1, f"{len(data)} zero bytes: the file was created, and a crash came before its content")

    def __len__(self) -> int:
        return len(self._raw)

    def text(self, number: int) -> str:
        """Line `number` (from 1) without its end."""
        try:
            return self._raw[number - 1].decode()
        except UnicodeDecodeError:
            self.refuse(number, "the line is not UTF-8")

    def words(self, number: int, between: str) -> list[str]:
        """Line `number` split at a pattern as Java's String.split does it: with an empty word before what it begins
        with, and none at the end. Blanks are those of ASCII."""
        words = re.split(between, self.text(number), flags=re.ASCII)
        while words and not words[-1]:
            words.pop()
        return words

    def integer(self, number: int, word: str, what: str, limits: tuple[int, int]) -> int:
        """The decimal number `word` within `limits`, as Java's parseInt and parseLong accept it; what: for errors."""
        digits = word[1:] if word[:1] in ("-", "+") else word
        if not (digits.isdecimal() and len(digits) <= 20):
            self.refuse(number, f"{what} is no number")
        value = int(word)
        if not limits[0] <= value <= limits[1]:
            self.refuse(number, f"{what} {value} is outside of {limits[0]} to {limits[1]}")
        return value

    def refuse(self, number: int, why: str) -> NoReturn:
        position = sum(len(line) + 1 for line in self._raw[: number - 1])
        refuse(self._reason, f"line {number}: {why}", position=position, file=self._file)


def read_table(data: bytes, fields: int, what: str, file: str | None) -> tuple[Lines, list[tuple[int, list[str]]]]:
    """(the lines, [(line number, its fields)]) of a checkpoint file; an empty file has no entries, as for Kafka.

    CorruptRecordError (checkpoint_invalid) for another version, a line without `fields` fields, a wrong count.
    """
    lines = Lines(data, "checkpoint_invalid", file)
    version = lines.integer(1, lines.text(1), "the version", INT32) if len(lines) else VERSION
    if version != VERSION:
        lines.refuse(1, f"version {version} is not {VERSION}")
    if len(lines) < 2:
        return lines, []
    count = lines.integer(2, lines.text(2), "the number of entries", INT32)
    rows = []
    for number in range(3, len(lines) + 1):
        words = lines.words(number, r"\s+")
        if len(words) != fields:
            lines.refuse(number, f"{len(words)} fields where {what} are expected")
        rows.append((number, words))
    if count != len(rows):
        lines.refuse(2, f"{count} entries are declared and {len(rows)} follow")
    return lines, rows
