"""Runs in the workers of a pyspark without `arrow_udf`: an iterator pandas_udf whose values stay Arrow arrays.

    worker        serializer.arrow_to_pandas     function     serializer._create_batch
    as it is      Arrow -> Series of objects       ...          Series of objects -> Arrow
    here          the Arrow array                  ...          the Arrow array of an ArrowSeries, not converted

Both methods are replaced while one of our functions runs. Spark may pass the values of one iterator pandas_udf directly
to another: a user's function then gets a Series over the Arrow array, and may return any.

If the serializer has other methods, values pass as Python objects, ten times slower. Then a null struct becomes a
struct of nulls, and timestamps as arguments are refused, since they come without their zone. What one of our functions
gets from another is the Arrow array also then.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]

from .errors import NeedsNewerSpark

_METHODS = {"arrow_to_pandas": ["self", "arrow_column"], "_create_batch": ["self", "series"]}


class ArrowSeries(pd.Series):  # type: ignore[misc]
    """A Series over an Arrow array, `arrow`. What pandas makes of it is a plain Series without that."""

    arrow: pa.Array


class ArrowFrame(pd.DataFrame):  # type: ignore[misc]
    """The same for an array of structs, for which the worker wants a DataFrame."""

    arrow: pa.Array


class PandasUdfOverArrow:
    """The function for pandas_udf around `body`, which maps an iterator of Arrow arrays to another."""

    def __init__(self, body: Callable[..., Any]) -> None:
        self.body = body
        self.__name__ = body.__name__

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        arguments = (
            tuple(map(_arrow_array, each)) if isinstance(each, tuple) else _arrow_array(each) for each in batches
        )
        serializer, arrays = worker_serializer_class(), self.body(arguments)
        if serializer is None:
            yield from (_in_pandas(array, lambda one: pd.Series(one.to_pylist(), dtype=object)) for array in arrays)
            return
        # whether these are the worker's batches themselves, and not what another function makes of them
        input_too = False
        if isinstance(batches, map):
            reduced: Any = batches.__reduce__()  # (map, (function, iterator))
            function = reduced[1][0]
            input_too = inspect.isfunction(function) and function.__code__.co_filename.endswith("worker.py")
        with _serializer_patched(serializer, input_too):
            yield from (_in_pandas(array, pd.arrays.ArrowExtensionArray) for array in arrays)


def worker_serializer_class() -> Any:
    """The class of the worker's serializer; None if it has not the methods that are replaced here."""
    try:
        found = importlib.import_module("pyspark.sql.pandas.serializers").ArrowStreamPandasUDFSerializer
    except (ImportError, AttributeError):
        return None
    for name, parameters in _METHODS.items():
        method = getattr(found, name, None)
        if method is None or list(inspect.signature(method).parameters) != parameters:
            return None
    return found


@contextmanager
def _serializer_patched(serializer: Any, input_too: bool) -> Iterator[None]:
    def arrow_to_pandas(self: Any, arrow_column: pa.ChunkedArray) -> pa.Array:
        return arrow_column.chunk(0) if arrow_column.num_chunks == 1 else arrow_column.combine_chunks()

    def create_batch(self: Any, series: Any) -> pa.RecordBatch:
        if not (isinstance(series, tuple) and isinstance(series[0], ArrowSeries | ArrowFrame)):
            return before["_create_batch"](self, series)
        array, wanted = series[0].arrow, series[1]
        return pa.RecordBatch.from_arrays([array if array.type == wanted else array.cast(wanted)], ["_0"])

    before = {name: getattr(serializer, name) for name in _METHODS}
    serializer._create_batch = create_batch
    if input_too:
        serializer.arrow_to_pandas = arrow_to_pandas
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(serializer, name, method)


def _in_pandas(array: pa.Array, convert: Callable[[pa.Array], Any]) -> Any:
    if pa.types.is_struct(array.type):
        fields = zip(array.type, array.flatten(), strict=True)
        made: Any = ArrowFrame({field.name: convert(child) for field, child in fields})
    else:
        made = ArrowSeries(convert(array))
    object.__setattr__(made, "arrow", array)
    return made


def _arrow_array(column: Any) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    if isinstance(column, ArrowSeries | ArrowFrame):
        return column.arrow
    array = pa.Array.from_pandas(column)
    if "timestamp" in str(array.type):
        raise NeedsNewerSpark("timestamps as an argument need Spark 4.1; write unix_millis(timestamp), a bigint")
    return array
