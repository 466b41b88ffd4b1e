"""Memory stays flat over hundreds of calls: the allocator's own counts show a leak of some bytes per call, or of one
object in two calls; what a call maps itself shows as resident pages."""

import subprocesses

PREPARED = f"""
{subprocesses.PEAK}
import plain_logs, c_stream, ctypes, gc, kafkarec, sys, pyarrow as pa
from kafkarec.read.decode_options import request
from kafkarec.read.walk import walk
audited = request(columns=["key"], control=True, errors="skip", restore=False).with_options(audit=True)
data = plain_logs.batch(0, 50)
columns = kafkarec.decode(plain_logs.batch(0, 50, codec="lz4"))
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
for made in (table, rows, fill().build()):  # what this imports, each copy of the process would import again
    pa.table(kafkarec.decode(made if isinstance(made, bytes) else kafkarec.encode(made)))
refused(lambda: kafkarec.encode(broken()))
gc.freeze()
"""
CALLS = {
    "exports released without an import": "columns.__arrow_c_stream__()",
    "schemas released without an import": "columns.__arrow_c_schema__()",
    "exports read by pyarrow": "pa.table(columns)",
    "read by pyarrow through __arrow_c_stream__": "pa.table(c_stream.StreamMethodOnly(columns))",
    "read through the C structs": "c_stream.stream_addresses(columns)",
    "batch tables": "columns.batches.__arrow_c_stream__()",
    "decoded again": "pa.table(kafkarec.decode(data))",
    "audited, as verify reads": "list(walk([data], audited))",
    "bytes refused": "refused(lambda: kafkarec.decode(data[:-1] + b'?'))",
    "records": "[r.value for r in columns]",
    "encode": "kafkarec.encode(table)",
    "encode, compressed": "kafkarec.encode(table, compression='zstd', batch_size=300)",
    "encode of kafkarec's columns": "kafkarec.encode(columns, batch_size=200)",
    "encode of an array": "kafkarec.encode(batch)",
    "encode of rows": "kafkarec.encode(rows, compression='lz4')",
    "encode of dicts": "kafkarec.encode(dicts)",
    "encode of Records": "kafkarec.encode(records)",
    "a record refused": "refused(lambda: kafkarec.encode(table.set_column(0, 'timestamp', [[-9] * 50])))",
    "a type refused": "refused(lambda: kafkarec.encode(pa.table({'value': [1]})))",
    "a row refused": "refused(lambda: kafkarec.encode([*rows, (3, 'now', None, None, [])]))",
    "a dict refused": "refused(lambda: kafkarec.encode([*dicts, {'valeu': b'v'}]))",
    "a stream that fails": "refused(lambda: kafkarec.encode(broken()))",
    "a builder": "fill().build()",
    "a builder that refuses": "refused(lambda: fill().append(1, b'k', b'v', [('a', b'b' * 99), ('c', 5)]))",
    "a builder that is deleted": "fill()",
}
OF_PYARROW = {"a stream that fails": 2}
"""Objects that pyarrow itself loses in a call: the lines of a traceback."""
MEASURED = """
class Heap(ctypes.Structure):  # of glibc 2.33; another library's allocations show as pages only
    _fields_ = [(name, ctypes.c_size_t) for name in "arena a b c mapped d e used f g".split()]
count = getattr(ctypes.CDLL(None), "mallinfo2", Heap)
count.restype = Heap
def repeated(times):
    for _ in range(times):
        CALL
    gc.collect()
    heap = count()
    return heap.used + heap.mapped, sys.getallocatedblocks(), _status("VmRSS")
repeated(100)
before = repeated(100)
used, objects, pages = (after - one for one, after in zip(before, repeated(400)))
assert used < 400 * 8 and objects < 400 * OBJECTS and pages < 1 << 20, (used, objects, pages)
"""


def test_memory_stays_flat():
    codes = {
        name: MEASURED.replace("CALL", call).replace("OBJECTS", str(OF_PYARROW.get(name, 0) + 0.5))
        for name, call in CALLS.items()
    }
    subprocesses.run_each(PREPARED, codes)
