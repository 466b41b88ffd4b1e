"""The arguments of a SQL function, as Spark passes them: an array for each argument and batch of rows.

    f(a)       an array, or a tuple of one
    f(a, b)    a tuple of two; a literal is an array that repeats it for each row
    f()        an empty tuple for each batch

Spark does not check the arguments of an Arrow function, so their number and types are checked here. A wrong call fails
the query at the first batch, so the message shows how the function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

T = TypeVar("T")
FROM_TEXT = ". Bytes as text: unbase64(...) or unhex(...)"


def arrays_of(batches: Iterator[Any], call: str, least: int, most: int) -> Iterator[tuple[pa.Array, ...]]:
    """The argument arrays of each batch. TypeError unless there are `least` to `most`; its message shows `call`, such
    as kafka_decode(value[, mode])."""
    for batch in batches:
        arrays = batch if isinstance(batch, tuple) else (batch,)
        if not least <= len(arrays) <= most:
            number = "1 argument was" if len(arrays) == 1 else f"{len(arrays)} arguments were"
            raise TypeError(f"the call is {call}, and {number} given")
        yield arrays


def as_binary(array: pa.Array, name: str, what: str = "column") -> pa.Array:
    """The array itself, or binary nulls for untyped NULLs. TypeError, with Spark's type, if it is not binary."""
    return _checked(array, (pa.binary(), pa.large_binary()), f"{name} takes a binary {what}", FROM_TEXT)


def as_string(array: pa.Array, name: str, what: str) -> pa.Array:
    """The same for strings."""
    return _checked(array, (pa.string(), pa.large_string()), f"{name} takes a string {what}")


def _checked(array: pa.Array, types: tuple[pa.DataType, ...], wanted: str, advice: str = "") -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(types[0])
    if array.type not in types:
        raise TypeError(f"{wanted}, not {sql_type(array.type)}{advice if array.type == pa.string() else ''}")
    return array


def sql_type(kind: pa.DataType) -> str:
    """An Arrow type in the words of Spark SQL."""
    from pyspark.sql.pandas.types import from_arrow_type

    return str(from_arrow_type(kind).simpleString())


class LiteralArgument(Generic[T]):
    """An optional last argument with the same value in all rows of a query, parsed once.

    description: what the argument is, for error messages
    default: the parsed value if the argument is missing
    """

    def __init__(self, description: str, default: T, parse: Callable[[str | None], T]) -> None:
        self.description, self.parsed, self.parse = description, default, parse
        self.seen: list[str | None] = []

    def value(self, column: pa.Array | None) -> T:
        """The parsed value of this column; ValueError if rows differ."""
        if column is not None and len(column):
            distinct = pc.unique(column).to_pylist()
            if len(distinct) > 1 or (self.seen and distinct != self.seen):
                raise ValueError(f"{self.description} must be a literal, the same in every row")
            if not self.seen:
                self.parsed, self.seen = self.parse(distinct[0]), distinct
        return self.parsed
