"""Arrow and Parquet files of random rows, and random damage to them."""

from __future__ import annotations

import io
import random
import struct

import pyarrow as pa
import pyarrow.parquet
from foreign_arrow import PAIR


def written(table: pa.Table, form: str) -> bytes:
    out = io.BytesIO()
    if form == "parquet":
        pa.parquet.write_table(table, out, compression="none")
    else:
        with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(out, table.schema) as writer:
            writer.write_table(table)
    return out.getvalue()


def random_table(chance: random.Random) -> pa.Table:
    rows = 20
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view()]
    lists = [pa.list_(PAIR), pa.large_list(PAIR), pa.map_(pa.string(), pa.binary())]
    columns = {
        "offset": range(rows),
        "timestamp": [1_700_000_000_000 + i for i in range(rows)],
        "key": pa.array([b"k%d" % i if i % 5 else None for i in range(rows)], chance.choice([*kinds, pa.string()])),
        "value": pa.array([b"v" * i * 3 for i in range(rows)], chance.choice(kinds)),
        "headers": pa.array([[("a", b"1")] * (i % 3) for i in range(rows)], chance.choice(lists)),
    }
    return pa.table(columns)


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some int32 values changed."""
    area = bytearray(data)
    for _ in range(chance.choice([1, 2, 2, 4])):
        at = chance.randrange(8, len(area) - 12) // 4 * 4
        (old,) = struct.unpack_from("<i", area, at)
        bit = old ^ 1 << chance.randrange(31)
        struct.pack_into("<i", area, at, chance.choice([old ^ 1, 0, -1, 13298, chance.randrange(-(2**31), 2**31), bit]))
    return bytes(area)
