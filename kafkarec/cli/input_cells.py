"""Checks cells of input rows and converts them to the fields of a record; blocks of such rows, for `build`.

JSON Lines and CSV are both read as Python values: text, numbers, booleans, lists, None. The message for a cell of the
wrong type has its row and column and what was expected, never its content.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from kafkarec.format.schema import RECORD_FIELDS

from .json_lines import parsed_json
from .shared_options import WrongUse

BLOBS = ("key", "value")
# Columns of `cat` that `build` ignores.
IGNORED_COLUMNS = ("file", "batch_position", "control_type")
# Names of the same columns in other programs (Spark's Kafka source).
ALIASES = {"timestampType": "timestamp_type"}
ROW_COLUMNS = (
    "topic",
    "partition",
    *(name for name in RECORD_FIELDS if name not in ("topic", "partition", *IGNORED_COLUMNS)),
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS = {"l": 64, "tsm:UTC": 64, "i": 32, "s": 16, "c": 8}
_TYPE_WORDS = {type(None): "null", bool: "true or false", int: "a number", float: "a fraction", str: "text"}
_TYPE_WORDS |= {list: "a list", dict: "an object", bytes: "bytes"}
_OTHERS = {int: "a larger number", str: "other text", list: "another list"}
_UNFIT = (LookupError, TypeError, ValueError, AttributeError, OverflowError)  # what a conversion of a cell may raise

Cells = Sequence[Any]
Columns = dict[str, Sequence[Any]]


class BadCell(Exception):
    """A cell that cannot be converted: its column, what was expected and found. In a block of several rows it is not
    known which of them has it: each is then tried alone."""


class JsonText(str):
    """The text of a JSON value, unchanged: numbers keep their digits, objects their order."""

    __slots__ = ()

    @classmethod
    def checked(cls, text: str) -> JsonText:
        """Return the text. Raise ValueError if it is not JSON."""
        parsed_json(text)
        return cls(text)


def columns_by_title(
    titles: Sequence[str], columns: Sequence[str] | None, place: Callable[[str], str]
) -> dict[str, str]:
    """Return the titles of an input that are read, each with its column. WrongUse if two of these are of one column.

    columns    the columns to read, others are ignored; None: all, and WrongUse for an unknown one
    place      where a title is, for a message
    """
    named = [ALIASES.get(title, title) for title in titles]
    known = dict(zip(titles, named, strict=True))
    if columns is not None:
        known = {title: name for title, name in known.items() if _field_name(name) in columns}
    blobs = {f"{name}{suffix}" for name in BLOBS for suffix in ("", "_base64", "_hex")}
    unknown = [title for title, name in known.items() if name not in (*blobs, *RECORD_FIELDS, "control")]
    if columns is None and unknown:
        shown = (one if one.isprintable() and len(one) < 60 else "a name with unusual characters" for one in unknown)
        raise WrongUse(
            f"{place(unknown[0])}: no such column: {', '.join(shown)}; there are {', '.join(ROW_COLUMNS)}, key_base64, "
            "value_base64 (--columns offset,key,value reads these and ignores the rest)"
        )
    twice = sorted({name for name in known.values() if named.count(name) > 1})
    if twice:
        second = [title for title, name in known.items() if name == twice[0]][-1]
        raise WrongUse(f"{place(second)}: column named twice: {', '.join(twice)}")
    return known


def _field_name(name: str) -> str:
    return name.removesuffix("_base64").removesuffix("_hex")


def type_name(cell: Any) -> str:
    """Return the type of a cell, for messages."""
    return _TYPE_WORDS.get(type(cell), type(cell).__name__)


def converted_columns(columns: Mapping[str, Cells], forms: Mapping[str, str]) -> Columns:
    """Check the columns and convert them to the fields of records. BadCell for the first cell that cannot be converted.

    columns    by name, as they were read: `key`, `key_base64`, `key_hex`, `headers`, `offset`, ...
    forms      key, value -> encoding of its plain column: utf8, json, base64, hex, int32, int64
    """
    out: Columns = {}
    for name, cells in columns.items():
        if name in IGNORED_COLUMNS or name == "control" or _field_name(name) in BLOBS:
            continue
        kind = RECORD_FIELDS[name].format
        if name == "timestamp" and str in set(map(type, cells)):
            cells = converted_cells(name, cells, _ms, "milliseconds or ISO 8601 text such as 2026-01-31T12:00:00.250Z")
        if kind == "+l":
            cells = [cell or None for cell in cells]  # most records have none
            out[name] = [pairs or [] for pairs in converted_cells(name, cells, _headers, _HEADERS_WORDS, list)]
            continue
        bits = _BITS.get(kind)
        wanted, words = (int, "a whole number") if bits else (bool, "true or false") if kind == "b" else (str, "text")
        if set(map(type, cells)) - {wanted, type(None)}:
            raise BadCell(f"{name}: {words} is expected, found {type_name(cells[0])}")
        numbers = [cell for cell in cells if cell is not None] if bits else []
        if bits and numbers and not (-1 << bits - 1 <= min(numbers) and max(numbers) < 1 << bits - 1):
            raise BadCell(f"{name}: a number of {bits} bits is expected, found a larger one")
        out[name] = cells
    for name in BLOBS:
        if name in columns and forms[name] == "utf8":
            _demand_no_internal_objects(name, columns[name], columns.get("topic", ()))
        blobs = _blobs(name, columns, forms[name])
        if blobs is not None:
            out[name] = blobs
    if "control" in columns:
        flags = out.get("is_control") or [None] * len(columns["control"])
        shown = columns["control"]
        out["is_control"] = [bool(flag) or cell is not None for flag, cell in zip(flags, shown, strict=True)]
    return out


def converted_cells(
    name: str, cells: Cells, convert: Callable[[Any], Any], words: str, wanted: type = str, hint: str = ""
) -> list[Any]:
    """Return what `convert` makes of the cells that are not None. BadCell for one that it refuses.

    words    what is expected, in the message
    wanted   the type of such cells: another one of this type is found to be other text, ...
    hint     how a cell of another type is read
    """
    try:
        return [None if cell is None else convert(cell) for cell in cells]
    except _UNFIT:
        found = _OTHERS[wanted] if type(cells[0]) is wanted else type_name(cells[0]) + hint
        raise BadCell(f"{name}: {words} is expected, found {found}") from None


def _ms(cell: Any) -> Any:
    """Return a time in milliseconds, from ISO 8601 text (UTC without an offset); other cells as they are."""
    if not isinstance(cell, str):
        return cell
    moment = datetime.fromisoformat(cell)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


# ---- keys and values


def _demand_no_internal_objects(name: str, cells: Cells, topics: Cells) -> None:
    """Refuse the objects that `cat` prints of internal topics; in CSV and Arrow they are text that begins with a brace,
    which no message of these topics does."""
    if not any(str(topic).startswith("__") for topic in set(topics)):
        return
    from kafkarec.internal_topics.topics import TOPICS

    for topic, cell in zip(topics, cells, strict=True):
        if topic in TOPICS and (type(cell) is dict or (isinstance(cell, str) and cell.startswith("{"))):
            raise BadCell(f"{name}: an object of {topic} is not its bytes, which kafkarec cat --raw prints")


def _blobs(name: str, columns: Mapping[str, Cells], form: str) -> list[bytes | None] | None:
    """Return the bytes of keys or values from their columns in the input (plain, _base64, _hex); None without any."""
    parts: list[list[bytes | None]] = []
    for column, as_ in ((name, form), (f"{name}_base64", "base64"), (f"{name}_hex", "hex")):
        if column not in columns:
            continue
        (convert, words, wanted), hint = FORMS[as_], ""
        if as_ == "utf8":
            convert = str.encode if bytes not in set(map(type, columns[column])) else convert
            hint = f" (--{name}-as json accepts it, and int32 or int64 a number)"
        parts.append(converted_cells(column, columns[column], convert, words, wanted, hint))
    parts = [cells for cells in parts if cells.count(None) < len(cells)] or parts[:1]
    if len(parts) < 2:
        return parts[0] if parts else None
    merged: list[bytes | None] = []
    for cells in zip(*parts, strict=True):
        given = [cell for cell in cells if cell is not None]
        if len(given) > 1:
            raise BadCell(f"{name}: is given twice, as {name} and as {name}_base64 or {name}_hex")
        merged.append(given[0] if given else None)
    return merged


def _base64_bytes(cell: str) -> bytes:
    return base64.b64decode(cell.encode("ascii"), validate=True)


def _integer_encoder(size: int) -> Callable[[int], bytes]:
    """Return a function that writes a big-endian integer, as Kafka's IntegerSerializer and LongSerializer do."""

    def convert(cell: int) -> bytes:
        if type(cell) is not int:
            raise TypeError
        return cell.to_bytes(size, "big", signed=True)

    return convert


# Value of --key-as and --value-as -> (function from a cell to bytes, what is expected, of which type).
FORMS: dict[str, tuple[Callable[[Any], bytes], str, type]] = {
    "utf8": (lambda cell: cell if isinstance(cell, bytes) else cell.encode(), "text or null", str),
    "json": (str.encode, "JSON", str),  # of JsonText
    "base64": (_base64_bytes, "base64 text", str),
    "hex": (bytes.fromhex, "hex text", str),
    "int32": (_integer_encoder(4), "a whole number of 32 bits", int),
    "int64": (_integer_encoder(8), "a whole number of 64 bits", int),
}


# ---- headers


_HEADERS_WORDS = 'a list of {"key": text, "value": text or null}, or with "value_base64" as the value,'


def _headers(cell: Any) -> list[tuple[str, bytes | None]]:
    """Convert headers: [{"key": "k", "value": "v"}] as `cat` writes them; {"k": "v"} and [["k", "v"]] are read, too."""
    if not isinstance(cell, list | dict):
        raise TypeError
    return [_header(pair) for pair in (cell.items() if isinstance(cell, dict) else cell)]


def _header(pair: Any) -> tuple[str, bytes | None]:
    if isinstance(pair, dict):
        value, packed = pair.get("value"), pair.get("value_base64")
        if not pair.keys() <= {"key", "value", "value_base64"} or None not in (value, packed):
            raise ValueError
        pair = (pair["key"], value if packed is None else _base64_bytes(packed))
    if not isinstance(pair, list | tuple):
        raise TypeError
    key, value = pair
    key.encode()  # neither bytes nor half of a surrogate pair
    return key, value if value is None or isinstance(value, bytes) else value.encode()


# The columns of a block that are written, in the order of a record's tuple.
RECORD = ("offset", "timestamp", "key", "value", "headers")
# Called with the position and problem of each row that cannot be converted; may raise to end the run.
Refuse = Callable[[str, str], None]
Raw = TypeVar("Raw", bound=tuple[Any, ...])


class RowBlock:
    """Consecutive rows of the input. columns: as `converted_columns` returns them; places: of each row the file and
    what is counted in it, and the position: ("orders.jsonl, line", 7)"""

    def __init__(self, columns: Columns, places: Sequence[tuple[str, int]]) -> None:
        self._columns = columns
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def column(self, name: str) -> Sequence[Any] | None:
        """Return the cells of a column; None if the input has no such column."""
        return self._columns.get(name)

    def set_column(self, name: str, cells: Sequence[Any]) -> None:
        """Replace a column by a column of integers."""
        self._columns[name] = cells

    def take(self, rows: Sequence[int]) -> RowBlock:
        columns: Columns = {name: [cells[row] for row in rows] for name, cells in self._columns.items()}
        return RowBlock(columns, [self._places[row] for row in rows])

    def joined(self, *others: RowBlock) -> RowBlock:
        """Return these rows followed by those of `others`."""
        blocks = (self, *others)
        names = {name: None for block in blocks for name in block._columns}
        columns: Columns = {name: list(chain.from_iterable(block._cells(name) for block in blocks)) for name in names}
        return RowBlock(columns, list(chain.from_iterable(block._places for block in blocks)))

    def has_headers(self, row: int) -> bool:
        return bool("headers" in self._columns and self._columns["headers"][row])

    def records(self) -> list[tuple[Any, ...]]:
        """Return the rows as an argument of kafkarec.encode."""
        return list(zip(*map(self._cells, RECORD), strict=True))

    def position_text(self, row: int) -> str:
        """Return the position of a row in the input, for a message: `orders.jsonl, line 7`."""
        unit, number = self._places[row]
        return f"{unit} {number}"

    def _cells(self, name: str) -> Sequence[Any]:
        none: Any = [] if name == "headers" else None
        return self._columns[name] if name in self._columns else [none] * len(self)


class RowSource(NamedTuple):
    """An input of rows, and how they are read.

    name       for messages
    forms      key, value -> encoding of the plain column: a key of FORMS
    columns    names of the columns to read, others are ignored; None: all, and WrongUse for an unknown one
    refuse     called with each row that cannot be converted
    defaults   column -> its value in rows without it, where other rows of the block have it; others are null. Only in
               JSON Lines may rows lack a column
    """

    name: str
    forms: Mapping[str, str]
    columns: Sequence[str] | None
    refuse: Refuse
    defaults: Mapping[str, Any]


def good_rows(
    source: RowSource, what: str, block: Sequence[Raw], columns_of_block: Callable[[Sequence[Raw]], Columns]
) -> Iterator[RowBlock]:
    """Yield the rows of a block of raw rows, each a tuple that begins with its position, in one piece. Where one of
    them cannot be converted, each is tried alone, and those that cannot are refused. what: is counted"""
    unit = f"{source.name}, {what}"
    try:
        yield RowBlock(columns_of_block(block), [(unit, one[0]) for one in block])
        return
    except BadCell:
        pass
    good = []
    for one in block:
        try:
            columns_of_block([one])
        except BadCell as bad:
            source.refuse(f"{unit} {one[0]}", str(bad))
        else:
            good.append(one)
    if good:
        yield RowBlock(columns_of_block(good), [(unit, one[0]) for one in good])
