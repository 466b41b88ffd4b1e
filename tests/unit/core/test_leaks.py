"""Memory stays flat over thousands of calls: a leak of a few bytes per call shows, or of one page per hundred calls."""

import subprocesses

PREPARED = f"""
{subprocesses.PEAK}
import builders, c_stream, gc, kafkarec, pyarrow as pa
data = builders.good_batch(50)
columns = kafkarec.decode(builders.good_batch(50, codec="lz4"))
pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
table = pa.table({{"timestamp": list(range(50)), "value": [b"v" * 30] * 50,
                  "headers": pa.array([[{{"key": "a", "value": b"b"}}]] * 50, pairs)}})
batch = table.to_batches()[0]
rows = [(n, n, b"key", bytearray(b"value"), [("a", memoryview(b"b")), (b"c", None)]) for n in range(50)]
dicts = [dict(zip(("offset", "timestamp", "key", "value", "headers"), row)) for row in rows]
records = list(kafkarec.decode(kafkarec.encode(rows)))
def refused(call):
    try:
        call()
    except (ValueError, TypeError):
        return
    raise SystemExit("taken")
def failing():
    yield batch
    raise OSError("gone")
def broken():
    return pa.RecordBatchReader.from_batches(batch.schema, failing())
def fill():
    builder = kafkarec.RecordBatchBuilder()
    for offset, timestamp, key, value, headers in rows:
        if builder.has_room_for(timestamp, key, value, headers):
            builder.append(timestamp, key + b"%d" % offset, value, [(b"h%d" % offset, b"x" * 30)])
    return builder
"""
CALLS = {
    "exports released without an import": ("columns.__arrow_c_stream__()", 100_000),
    "schemas released without an import": ("columns.__arrow_c_schema__()", 100_000),
    "exports read by pyarrow": ("pa.table(columns)", 10_000),
    "read by pyarrow through __arrow_c_stream__": ("pa.table(c_stream.StreamMethodOnly(columns))", 10_000),
    "read through the C structs": ("c_stream.stream_addresses(columns)", 5_000),
    "batch tables": ("columns.batches.__arrow_c_stream__()", 30_000),
    "decoded again": ("pa.table(kafkarec.decode(data))", 10_000),
    "bytes refused": ("refused(lambda: kafkarec.decode(data[:-1] + b'?'))", 30_000),
    "records": ("[r.value for r in columns]", 3_000),
    "encode": ("kafkarec.encode(table)", 10_000),
    "encode, compressed": ("kafkarec.encode(table, compression='zstd', batch_size=300)", 10_000),
    "encode of kafkarec's columns": ("kafkarec.encode(columns, batch_size=200)", 10_000),
    "encode of an array": ("kafkarec.encode(batch)", 10_000),
    "encode of rows": ("kafkarec.encode(rows, compression='lz4')", 10_000),
    "encode of dicts": ("kafkarec.encode(dicts)", 4_000),
    "encode of Records": ("kafkarec.encode(records)", 4_000),
    "a record refused": ("refused(lambda: kafkarec.encode(table.set_column(0, 'timestamp', [[-9] * 50])))", 10_000),
    "a type refused": ("refused(lambda: kafkarec.encode(pa.table({'value': [1]})))", 10_000),
    "a row refused": ("refused(lambda: kafkarec.encode([*rows, (3, 'now', None, None, [])]))", 10_000),
    "a dict refused": ("refused(lambda: kafkarec.encode([*dicts, {'valeu': b'v'}]))", 4_000),
    "a stream that fails": ("refused(lambda: kafkarec.encode(broken()))", 10_000),
    "a builder": ("fill().build()", 4_000),
    "a builder that refuses": ("refused(lambda: fill().append(1, b'k', b'v', [('a', b'b' * 99), ('c', 5)]))", 4_000),
    "a builder that is deleted": ("fill()", 4_000),
}
MEASURED = """
def repeated(times):
    for _ in range(times):
        CALL
    gc.collect()
    return _status("VmRSS")
before = repeated(TIMES // 10)
grown = repeated(TIMES) - before
assert grown < TIMES * 60 + (1 << 20), f"{grown} bytes in TIMES calls"
"""


def test_memory_stays_flat():
    codes = {name: MEASURED.replace("CALL", call).replace("TIMES", str(times)) for name, (call, times) in CALLS.items()}
    subprocesses.run_each(PREPARED, codes)
