"""The memory that encode reads: changing lists, arrays that are released, no byte beyond a buffer."""

import sys
import weakref

import pyarrow as pa
import pytest
import subprocesses

import kafkarec

# ---- rows of Python


def test_a_list_that_changes_while_it_is_read():
    """A mapping may run any code; if it extends the list, encode must not write beyond its table."""
    subprocesses.run("""
import kafkarec
from collections.abc import Mapping
rows = []
class Grows(Mapping):
    def __len__(self): return 1
    def __iter__(self): return iter(["value"])
    def __getitem__(self, name):
        if name != "value":
            raise KeyError(name)
        if len(rows) < 100_000:
            rows.extend([(1, 5, b"k", b"v", [])] * 50_000)
        rows.pop()
        return bytes(bytearray(b"fresh"))
rows.extend(Grows() for _ in range(10))
try:
    data = kafkarec.encode(rows)
except ValueError:
    pass
else:
    assert {record.value for record in kafkarec.decode(data)} <= {b"fresh", b"v"}
""")


def test_rows_that_another_thread_deletes():
    """While the GIL is released only encode may hold keys and values: they must not be freed."""
    subprocesses.run("""
import sys, threading, kafkarec
sys.setswitchinterval(1e-6)
def fresh():
    return [(n, n, b"k%d" % n, (b"%d" % n) * 9, [("h", b"%d" % n)]) for n in range(20_000)]
wanted = kafkarec.encode(fresh())
for delay in range(12):
    rows = fresh()
    def clear():
        for row in rows:
            row[4].clear()
        rows.clear()
        return [b"z%d" % n * 9 for n in range(50_000)]
    thread = threading.Timer(delay / 2000, clear)
    thread.start()
    data = kafkarec.encode(rows)
    thread.join()
    got = {record.offset: record.value for record in kafkarec.decode(data)}
    assert all(value == b"%d" % n * 9 for n, value in got.items()), delay
""")


SHORT_OF_MEMORY = (
    subprocesses.PEAK
    + """
import os, kafkarec
value, whole = os.urandom(8 << 20), resource.getrlimit(resource.RLIMIT_AS)
for codec in ("none", "lz4", "gzip"):
    made = kafkarec.RecordBatchBuilder(compression=codec)
    for _ in range(4):
        made.append(0, b"k", value)
    built, refused = None, 0
    while built is None:
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + refused * (6 << 20), whole[1]))
        try:
            built = made.build()
        except MemoryError:
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, whole)
        if built is None:
            made.append(0, b"after a failed build", None)
    keys = [b"k"] * 4 + [b"after a failed build"] * refused
    assert refused > 2 and kafkarec.decode(built).column("key") == keys, (codec, refused)
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/self/status and limits the address space")
def test_a_builder_without_memory_for_its_batch_loses_no_record():
    """Whatever was short, of the compressed records or the bytes that are returned, it is open as before."""
    subprocesses.run(SHORT_OF_MEMORY)


# ---- Arrow


def test_input_is_released():
    values = bytearray(b"v" * 1000)
    buffer = pa.py_buffer(values)
    alive = weakref.ref(buffer)
    array = pa.Array.from_buffers(pa.binary(10), 100, [None, buffer])
    del buffer
    assert len(kafkarec.decode(kafkarec.encode(pa.table({"value": array})))) == 100
    del array
    assert alive() is None
    values.append(0)  # BufferError while it is referenced


GUARD = """
import ctypes, mmap, random, kafkarec, pyarrow as pa
libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
areas = []
def guarded(data):
    '''The bytes in memory that ends where no page may be touched.'''
    pages = -(-max(len(data), 1) // PAGE)
    area = mmap.mmap(-1, (pages + 1) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert libc.mprotect(ctypes.c_void_p(start + pages * PAGE), PAGE, 0) == 0
    address = start + pages * PAGE - len(data)
    ctypes.memmove(address, data, len(data))
    areas.append(area)
    return pa.foreign_buffer(address, len(data))
def moved(array):
    '''The same array, each of its buffers at the end of its own pages and not a byte longer than it must be.'''
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        wide = 8 if pa.types.is_large_list(kind) else 4
        valid, ends = array.buffers()[:2]
        own = [valid and guarded(valid.to_pybytes()[: (len(array) + 7) // 8])]
        own.append(guarded(ends.to_pybytes()[: (len(array) + 1) * wide]))
        return pa.Array.from_buffers(kind, len(array), own, children=[moved(array.values)])
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([moved(array.field(n)) for n in range(kind.num_fields)], fields=list(kind))
    sizes = {pa.int64(): 8, pa.binary_view(): 16, pa.string_view(): 16, pa.timestamp("ns"): 8}
    first, *others = array.buffers()
    own = [first and guarded(first.to_pybytes()[: (len(array) + 7) // 8])]
    if kind == pa.bool_():
        own.append(guarded(others[0].to_pybytes()[: (len(array) + 7) // 8]))
    elif kind in sizes:
        own.append(guarded(others[0].to_pybytes()[: len(array) * sizes[kind]]))
        own += [guarded(one.to_pybytes()) for one in others[1:]]
    else:
        wide = 8 if kind in (pa.large_binary(), pa.large_string()) else 4
        ends = others[0].to_pybytes()[: (len(array) + 1) * wide]
        content = others[1].to_pybytes() if others[1] else b""
        own += [guarded(ends), guarded(content[: int.from_bytes(ends[-wide:], "little")])]
    return pa.Array.from_buffers(kind, len(array), own)
chance = random.Random(7)
def blob():
    size = chance.choice([None, 0, 1, 3, 7, 8, 12, 13, 15, 16, 31, 33, 100, 300])
    return None if size is None else chance.randbytes(size)
count = 0
for n in [*list(range(1, 40)) * 3, 64, 64, 72, 128]:
    data = chance.choice([pa.binary(), pa.large_binary(), pa.binary_view()])
    text = chance.choice([pa.string(), pa.large_string(), pa.string_view()])
    pairs = pa.struct([("key", text), ("value", data)])
    of = chance.choice([pa.list_, pa.large_list])
    header = lambda: {"key": "h" * chance.randrange(20), "value": blob()}
    headers = [[header() for _ in range(chance.randrange(3))] for _ in range(n)]
    times = [chance.choice([None, 10**18]) for _ in range(n)]
    table = {
        "offset": pa.array(range(n)), "timestamp": pa.array(times, pa.timestamp("ns")),
        "key": pa.array([blob() for _ in range(n)], data), "value": pa.array([blob() for _ in range(n)], data),
        "headers": pa.array(headers, of(pairs)), "is_transactional": pa.array([False] * n),
    }
    if chance.random() < 0.5:
        del table["headers"], table["is_transactional"]
    wanted = pa.table(table)
    ours = pa.table({name: moved(array) for name, array in table.items()})
    assert ours.equals(wanted)
    for options in ({}, {"batch_size": 100}, {"compression": "zstd", "batch_size": 100}):
        assert kafkarec.encode(ours, **options) == kafkarec.encode(wanted, **options)
    read = kafkarec.decode(kafkarec.encode(ours))
    for name in ("key", "value"):
        assert read.column(name) == wanted[name].to_pylist()
    count += 1
assert count > 100
"""


@pytest.mark.core
def test_nothing_is_read_beyond_a_buffer():
    subprocesses.run(GUARD)
