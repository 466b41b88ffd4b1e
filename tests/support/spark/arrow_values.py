"""Values of raw batches as Arrow arrays, and what kafka_decode and kafka_scan make of them in a worker."""

from __future__ import annotations

from typing import Any

import golden
import pyarrow as pa

from spark_udfs import decoding, function_options, schema

GOOD = golden.vector("v2-none-logappend").bytes
BINARY = pa.binary()


def decode(values: list[bytes | None], mode: str = "FAILFAST", type_: pa.DataType = BINARY, **more) -> pa.Array:
    options = function_options.from_keywords(mode=mode, **more)
    return _whole(decoding.decode_values(pa.array(values, type_), options), schema.RECORD_COLUMNS)


def scan(values: list[bytes | None], literal: str = "FAILFAST") -> list[Any]:
    arguments = (pa.array(values, BINARY), pa.array([literal] * len(values)))
    return _whole(decoding.kafka_scan(iter([arguments])), schema.BATCH_COLUMNS).to_pylist()


def _whole(pieces, columns: schema.Columns) -> pa.Array:
    arrays = list(pieces)
    for each in arrays:
        each.validate(full=True)
        assert each.type == schema.arrow_struct_list(columns)
    return pa.concat_arrays(arrays)
