"""layout="view": keys, values and header values are binary_view, over the caller's buffer where they are stored in it.

That view and copy give the same is also compared on all random bytes of tests/fuzz (`core_reading.assert_agree`).
"""

import ctypes
import gc
import mmap
import threading
import weakref

import builders
import c_stream
import golden
import polars as pl
import pyarrow as pa
import pytest
import reading
import subprocesses
from core_reading import assert_viewed_as_copied
from plain_logs import batch

import kafkarec

pytestmark = pytest.mark.core

LENGTHS = [None, 0, 1, 7, 8, 9, 11, 12, 13, 16, 100, 600]
COLUMNS = ["offset", "timestamp", "timestamp_type", "key", "value", "headers", "control_type", "sequence"]
OPTIONS = [
    {},
    {"errors": "skip", "control": True, "columns": COLUMNS},
    {"errors": "skip", "isolation": "read_committed", "header_keys": "binary", "timestamp_unit": "ns"},
    {"check_crcs": False, "max_decompressed_bytes": 2000, "columns": ["headers"]},
    {"columns": ["value"], "control": True},
    {"columns": ["key"], "errors": "skip", "restore": False},
]


CYCLE = bytes(range(251))


def filled(length, seed):
    """The bytes 0 to 250 again and again, from `seed` on."""
    return None if length is None else (CYCLE * (length // 251 + 2))[seed % 251 :][:length]


def of_all_lengths(first=0, count=48):
    """Rows for encode, whose keys, values and header values have all the lengths."""
    rows = []
    for n in range(first, first + count):
        headers = [(f"h{m}", filled(LENGTHS[(n + m) % len(LENGTHS)], m)) for m in range(n % 4)]
        key, value = LENGTHS[n % len(LENGTHS)], LENGTHS[n * 5 % len(LENGTHS)]
        rows.append((n, n * 1000, filled(key, n), filled(value, n + 7), headers))
    return rows


def encoded(codec="none"):
    return kafkarec.encode(of_all_lengths(), compression=codec, batch_size=2000)


def viewed(data, **options):
    return kafkarec.decode(data, layout="view", **options)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_golden_files(options):
    for case in [*golden.vectors(), *golden.invalid()]:
        assert_viewed_as_copied(case.bytes, **options)
    good = b"".join(case.bytes for case in golden.vectors() if case.json.get("exception") is None)
    bad = b"".join(case.bytes for case in golden.vectors() + golden.invalid()[::3])
    assert_viewed_as_copied(good, **options)
    assert_viewed_as_copied(bad, **{**options, "errors": "skip"})


def test_keys_and_values_have_the_arrow_type_binary_view():
    columns = viewed(encoded(), columns=["key", "value", "headers", "compression", "file"])
    assert [field.type for field in columns.schema] == [
        "binary_view",
        "binary_view",
        "list<struct<key: string not null, value: binary_view>>",
        "string",
        "string",
    ]
    assert repr(columns.schema).startswith("key: binary_view\nvalue: binary_view\n")
    types = pa.table(columns).schema.types
    entry = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary_view())])
    assert types == [pa.binary_view(), pa.binary_view(), pa.list_(pa.field("item", entry, False)), pa.utf8(), pa.utf8()]
    assert (
        viewed(encoded(), header_keys="binary").to_arrow().schema.field("headers").type.value_type[0].type
        == pa.binary()
    )


def test_values_are_in_the_callers_buffer_and_in_no_copy():
    data = bytearray(encoded())
    start = pa.py_buffer(data).address
    ((chunk, _, _),) = (columns := viewed(data))._slices
    value = pa.table(columns)["value"].chunk(0)
    _, _, in_memory, in_data = value.buffers()
    assert start < in_memory.address < in_memory.address + in_memory.size == start + len(data)
    assert in_data.size == 0
    assert chunk.address(4, 2) == in_memory.address
    row = next(row for row in range(len(columns)) if len(columns[row].value or b"") > 12)
    before = columns[row].value
    data[data.index(before)] ^= 0xFF
    assert columns[row].value != before == value[row].as_py()[:0] + before  # a change shows, but for the prefix
    assert kafkarec.decode(bytes(data), check_crcs=False)[row].value == columns[row].value


def mixed():
    """Batches in memory and decompressed ones, several chunks of each."""
    parts = [kafkarec.encode(of_all_lengths(n * 500, 500), compression=builders.CODECS[n % 5]) for n in range(60)]
    return b"".join(parts)


MIXED = mixed()


def test_slices():
    copied, columns = kafkarec.decode(MIXED), viewed(MIXED)
    for start, stop in ((0, 1), (5, 5), (17, 900), (1000, 20_000), (len(copied) - 3, len(copied))):
        part = columns[start:stop]
        assert part.tuples() == copied[start:stop].tuples()
        table = pa.table(part)
        table.validate(full=True)
        assert table.to_pylist() == pa.table(copied[start:stop]).to_pylist()
        assert pl.DataFrame(part).rows() == pl.DataFrame(copied[start:stop]).rows()
    assert columns[77] == copied[77]
    assert columns[-1] == copied[-1]
    assert columns[5:9]._repr_html_() == copied[5:9]._repr_html_()


def test_encode_takes_views():
    assert kafkarec.encode(viewed(MIXED)) == kafkarec.encode(kafkarec.decode(MIXED))
    assert kafkarec.encode(pa.table(viewed(MIXED))) == kafkarec.encode(pa.table(kafkarec.decode(MIXED)))


def test_stream_and_batches():
    parts = [row for part in kafkarec.stream(MIXED, layout="view") for row in part.tuples()]
    assert parts == kafkarec.decode(MIXED).tuples()
    records = [record for batch in kafkarec.batches(MIXED, layout="view") for record in batch]
    assert records == list(kafkarec.decode(MIXED))


def test_files(tmp_path):
    """Values of a file are copied: it may shrink."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(MIXED)
    with kafkarec.open(path) as segment:
        copied, columns = segment.read(), segment.read(layout="view", threads=2)
        ranged = segment.read(layout="view", start_offset=1003, end_offset=1017)
        streamed = [row for part in segment.stream(layout="view") for row in part.tuples()]
    path.write_bytes(b"")
    assert columns.tuples() == streamed == copied.tuples()
    assert ranged.tuples() == copied[1003:1017].tuples()
    assert pa.table(columns).to_pylist() == pa.table(copied).to_pylist()
    assert pa.table(ranged).to_pylist() == pa.table(copied[1003:1017]).to_pylist()


def test_ranges_of_times_leave_no_bytes_of_batches_without_rows(tmp_path):
    """The bytes of rows that a range removes stay in a chunk until its end, but not those of whole batches."""
    path = tmp_path / "00000000000000000000.log"
    batches = [
        builders.batch(
            [builders.record(value=b"v" * 1000, timestamp_delta=0)] * 10,
            base_offset=n * 10,
            codec="lz4",
            base_timestamp=1000 + (n == 40) * 5000,
            max_timestamp=9000,
        )
        for n in range(80)
    ]
    path.write_bytes(b"".join(batches))
    with kafkarec.open(path) as segment:
        columns = segment.read(layout="view", start_timestamp=6000, end_timestamp=7000)
        assert columns.tuples() == segment.read(start_timestamp=6000, end_timestamp=7000).tuples()
    assert len(columns) == 10
    assert sum(part.buffers()[3].size for part in pa.table(columns)["value"].chunks) == 10 * 1000


# ---- lifetimes


class Owner(bytearray):
    """A buffer that can be referred to weakly."""


def kept_buffer():
    data = Owner(encoded())
    return data, weakref.ref(data)


KEEPERS = {
    "columns": lambda columns: columns,
    "a slice": lambda columns: columns[3:9],
    "a capsule": lambda columns: columns.__arrow_c_stream__(),
    "a table of pyarrow": pa.table,
    "a chunk of one column": lambda columns: pa.table(columns)["value"].chunk(0),
    "a table of polars": pl.DataFrame,
}


@pytest.mark.parametrize("keeper", KEEPERS)
def test_what_keeps_the_buffer(keeper):
    data, alive = kept_buffer()
    kept = KEEPERS[keeper](viewed(data))
    with pytest.raises(BufferError):
        data.append(0)
    del data
    gc.collect()
    assert alive() is not None
    del kept
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_copy_and_decompressed_values_keep_no_buffer(codec):
    for layout in ("view", "copy"):
        data = Owner(encoded(codec))
        columns = kafkarec.decode(data, layout=layout)
        if codec == "none" and layout == "view":
            with pytest.raises(BufferError):
                data.append(0)
        else:
            data.append(0)
        assert len(columns) == 48


def test_the_next_input_of_the_same_decoder_does_not_keep_the_last_one():
    data, alive = kept_buffer()
    viewed(data)
    del data
    assert alive() is None
    other, kept = kept_buffer()
    columns = viewed(other)
    viewed(bytes(other))
    del other
    assert kept() is not None
    assert columns.tuples() == of_all_lengths_as_read()
    del columns
    assert kept() is None


def of_all_lengths_as_read():
    return [(*row[:4], tuple(row[4])) for row in of_all_lengths()]


def test_release_in_a_thread_without_the_gil():
    """Arrow's release callback is called by ctypes, which lets go of the GIL, in a thread of its own."""
    data, alive = kept_buffer()
    capsule = viewed(data).__arrow_c_stream__()
    stream = c_stream.stream_of(capsule)
    arrays = list(c_stream.chunks(stream))
    stream.release(ctypes.byref(stream))
    del data, capsule, stream
    gc.collect()
    assert alive() is not None
    thread = threading.Thread(target=lambda: [array.release(ctypes.byref(array)) for array in arrays])
    thread.start()
    thread.join()
    assert alive() is None


AT_EXIT = """
import ctypes, threading, time
import c_stream, kafkarec, plain_logs
kept = kafkarec.decode(bytearray(plain_logs.batch(0, 50)), layout="view")
kept_capsule = kept.__arrow_c_stream__()
def release():
    while True:
        capsule = kafkarec.decode(plain_logs.batch(0, 50), layout="view").__arrow_c_stream__()
        stream = c_stream.stream_of(capsule)
        for array in c_stream.chunks(stream):
            array.release(ctypes.byref(array))
        stream.release(ctypes.byref(stream))
for _ in range(3):
    threading.Thread(target=release, daemon=True).start()
time.sleep(0.2)
print("end")
"""


def test_columns_may_be_released_while_the_interpreter_ends():
    for _ in range(2):
        assert subprocesses.run(AT_EXIT) == "end\n"


# ---- bounds


@pytest.mark.slow  # and the mutants' address space is limited, which a map of 2 GiB exceeds
def test_values_more_than_2_gib_behind_the_chunks_first_are_copied(tmp_path):
    """Two batches with an aborted one of nearly 2 GiB between them, which is not read: a file with a hole."""
    first, last = (
        builders.batch(
            [builders.record(value=b"%d" % n * 500, headers=[(b"h", b"x" * 50)])] * 3, base_offset=n, producer_id=9
        )
        for n in (0, 2**20)
    )
    length = 2**31 - 100
    hole = builders.batch(base_offset=5, producer_id=7, attributes=0x10, count=1, length=length)
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(first + hole)
        file.seek(len(first) + 12 + length)
        file.write(last)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as area:
        columns = reading.decode_source(area, layout="view", check_crcs=False, engine={"aborted": ((7, 5, 5),)})
        assert [record.value for record in columns] == [b"0" * 500] * 3 + [b"%d" % 2**20 * 500] * 3
        (value,) = pa.table(columns)["value"].chunks
        value.validate(full=True)
        sizes = [buffer.size for buffer in value.buffers()[2:]]
        assert sizes == [len(first) - 61, 3 * 7 * 500]
        assert [record.headers for record in columns] == [[("h", b"x" * 50)]] * 6
        del columns, value
        gc.collect()


def test_no_byte_is_viewed_outside_of_the_payloads():
    data = batch(0, 1, value=b"v" * 13)
    for behind in (b"", b"\0" * 11):
        (value,) = pa.table(viewed(data + behind))["value"].chunks
        assert value.buffers()[2].to_pybytes() == data[61:]


def test_restored_and_damaged_batches():
    """A restored batch is read from other bytes than the caller's; refused ones leave nothing."""
    batches = [kafkarec.encode(of_all_lengths(n * 48), batch_size=1 << 20) for n in range(6)]
    batches[1] = builders.flipped(batches[1], 11, 0x40)  # its length
    batches[2] = builders.flipped(batches[2], 16, 3)  # its magic
    batches[4] = builders.flipped(batches[4])
    data = b"".join(batches)
    columns = viewed(data, errors="skip")
    assert len(columns.restored) == 2
    assert len(columns.damage) == 1
    assert len(columns) == 5 * 48
    assert_viewed_as_copied(data, errors="skip")
