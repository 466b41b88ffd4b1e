"""encode from Python rows, from many threads, and without the codec libraries' own symbols."""

import sys
import threading
import time
from collections import namedtuple
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import builders
import plain_logs
import pyarrow as pa
import pytest
import subprocesses
from plain_logs import batch
from reading import by_tuples

import kafkarec
from kafkarec.write import BatchHeader, record_input_of

pytestmark = pytest.mark.core

NOW = builders.NOW


# ---- rows of Python

ROWS = [
    (5, NOW, b"k", b"v", [("a", b"1"), ("é", None), ("a", b"")]),
    (6, None, None, None, []),
    (9, 0, b"", b"", [("", b"x" * 200)]),
    (2**40, 2**63 - 1, b"k" * 130, b"v" * 70_000, []),
]
NAMES = ("offset", "timestamp", "key", "value", "headers")
Named = namedtuple("Named", NAMES)


class Lazy(Mapping[str, Any]):
    """Makes each field on access and keeps none, as rows of a database driver do."""

    def __init__(self, row):
        self._row = row

    def __getitem__(self, name):
        field = self._row[NAMES.index(name)] if name in NAMES else self._row[99]
        if isinstance(field, bytes):
            return bytes(bytearray(field))
        return [(key, value and bytes(bytearray(value))) for key, value in field] if name == "headers" else field

    def __iter__(self):
        return iter(NAMES)

    def __len__(self):
        return len(NAMES)


KINDS = {
    "tuples": lambda row: row,
    "named tuples": lambda row: Named(*row),
    "dicts": lambda row: dict(zip(NAMES, row, strict=True)),
    "other mappings": Lazy,
    "records": lambda row: kafkarec.Record(row[0], row[1], 0, row[2], row[3], row[4]),
    "byte arrays": lambda row: (*row[:2], *(field and bytearray(field) for field in row[2:4]), row[4]),
    "memory views": lambda row: (*row[:2], *(field and memoryview(b"." + field)[1:] for field in row[2:4]), row[4]),
    "header keys of bytes": lambda row: (*row[:4], [(key.encode(), value) for key, value in row[4]]),
    "headers of a generator": lambda row: (*row[:4], ((k, v and bytes(bytearray(v))) for k, v in row[4])),
    "headers of a tuple": lambda row: (*row[:4], tuple(row[4])),
    "headers of lists": lambda row: (*row[:4], [list(pair) for pair in row[4]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [list, tuple, iter], ids=["list", "tuple", "iterator"])
def test_rows_of_every_kind(kind, whole):
    assert by_tuples(kafkarec.encode(whole([KINDS[kind](row) for row in ROWS]))) == ROWS


def test_a_dict_may_omit_fields():
    rows = [{"value": b"a"}, {"key": b"b", "topic": "t", "partition": 0}, {}]
    assert by_tuples(kafkarec.encode(rows)) == [
        (0, None, None, b"a", []),
        (1, None, b"b", None, []),
        (2, None, None, None, []),
    ]


@pytest.mark.parametrize(
    "time, ms",
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2020, 1, 1, 3, tzinfo=timezone(timedelta(hours=3))), 1_577_836_800_000),
        (datetime(2020, 1, 1, microsecond=1999, tzinfo=UTC), 1_577_836_800_001),
        (datetime.max.replace(tzinfo=UTC), 253_402_300_799_999),
        (-1, None),
        (None, None),
    ],
    ids=str,
)
def test_times(time, ms):
    built = kafkarec.RecordBatchBuilder()
    built.append(time, None, None)
    for data in (kafkarec.encode([(0, time, None, None, [])]), built.build()):
        assert by_tuples(data)[0][1] == ms


# ---- threads


def test_one_input_in_many_threads():
    record_input = record_input_of([(n, NOW, b"k", b"v%d" % n, [("a", b"b")]) for n in range(3000)])
    wanted = record_input.write(BatchHeader(codec=3))
    with ThreadPoolExecutor(8) as pool:
        outputs = pool.map(lambda _: record_input.write(BatchHeader(codec=3)), range(8))
        assert list(outputs) == [wanted] * 8


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_others_run_meanwhile(codec):
    """The GIL is released: a counting thread continues while a long encode runs."""
    ends = pa.py_buffer(b"".join((n * 5000).to_bytes(4, "little") for n in range(40_001)))
    array = pa.Array.from_buffers(pa.binary(), 40_000, [None, ends, pa.py_buffer(bytes(200_000_000))])
    table = pa.table({"value": array})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # no forced switch of the GIL
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    try:
        thread.start()
        began = time.perf_counter()
        kafkarec.encode(table, compression=codec)
        ended = time.perf_counter()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    inside = sum(began + 0.002 < at < ended - 0.002 for at in ticks)
    assert inside > 10, f"{inside} ticks in {ended - began:.3f} s"


# ---- without the codec libraries' own symbols


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_python_calls_of_the_codecs_give_the_same_records(codec):
    code = f"""
import os
os.environ["KAFKAREC_NATIVE_CODECS"] = FLAG
import kafkarec
rows = [(n, n, b"k%d" % n, bytes([n % 251]) * (n * 37 % 3000), [("h", b"x")]) for n in range(400)]
for magic in (2, 1, 0) if "{codec}" == "lz4" else (2,):
    some = rows if magic == 2 else [(*row[:4], []) for row in rows]
    for level in (None, 1, 12) if "{codec}" == "lz4" else (None, 1, -5, 9):
        for size in (500, 16384, 1_000_000):
            data = kafkarec.encode(some, magic=magic, compression="{codec}", level=level, batch_size=size)
            found = kafkarec.decode(data, check_crcs="all")
            assert [(r.offset, r.key, r.value) for r in found] == [row[:1] + row[2:4] for row in some], (magic, level)
            assert set(kafkarec.scan(data).column("compression")) == {{"{codec}"}}
from kafkarec.codecs import native
print(sorted(native.in_use))
"""
    native, python = (subprocesses.run(code.replace("FLAG", repr(flag))).strip() for flag in ("1", "0"))
    assert (native, python) == (f"[{codec!r}]", "[]")


# ---- options and fields of the input

LOG = (
    batch(0, 3, base_sequence=7, transaction=3)
    + builders.end_marker(3, 3, commit=False)
    + builders.batch([], base_offset=4, last_offset_delta=2, producer_id=3, producer_epoch=1, base_sequence=9)
    + batch(7, 2, epoch=4)
)
REPLACED = {
    "leader epoch": ({"partition_leader_epoch": 5}, {"partition_leader_epoch": [5, 5, 5, 5]}),
    "append time": (
        {"timestamp_type": "log_append_time", "log_append_time": NOW + 99},
        {"timestamp_type": [1, 1, 1, 1], "max_timestamp": [NOW + 99] * 4},
    ),
    "producer": (
        {"producer_id": 8, "producer_epoch": 2, "base_sequence": 0},
        {"producer_id": [8] * 4, "producer_epoch": [2] * 4},
    ),
    "base offset": (
        {"base_offset": 100},
        {"base_offset": [100, 103, 104, 107], "last_offset": [102, 103, 106, 108], "next_offset": [103, 104, 107, 109]},
    ),
    "no transaction": ({"is_transactional": False}, {"is_transactional": [False] * 4}),
}


@pytest.mark.parametrize("name", REPLACED)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_an_option_replaces_its_own_field(name, codec):
    """Producers, flags and control batches are kept unless the option is their own."""
    options, wanted = REPLACED[name]
    columns = kafkarec.decode(LOG, control=True)
    tables = [kafkarec.scan(kafkarec.encode(columns, compression=codec, **more)) for more in ({}, options)]
    before, after = ({field: table.column(field) for field in table.schema.names} for table in tables)
    derived = {"crc", "attributes", "base_timestamp", "position", "batch_length", "size_in_bytes"}
    if name == "producer":
        derived |= {"base_sequence", "last_sequence"}
    assert {field: after[field] for field in wanted} == wanted
    assert {field for field in after if after[field] != before[field]} - derived == set(wanted)


def test_control_records_do_not_become_data():
    columns = kafkarec.decode(LOG, control=True)
    with pytest.raises(ValueError, match="record 3 is a control record"):
        kafkarec.encode(list(columns))
    for options in ({}, {"batch_size": 1000}, {"partition_leader_epoch": 1}, {"compression": "lz4"}):
        decoded = kafkarec.decode(kafkarec.encode(columns, **options), control=True)
        assert [record.is_control for record in decoded] == [record.is_control for record in columns]
        assert len(kafkarec.decode(kafkarec.encode(columns, **options), isolation="read_committed")) == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_unused_attribute_bits_of_messages_are_no_flags(magic):
    """Bits 4 and 5 say transactional and control in magic 2 only; Kafka ignores those of messages."""
    message = bytearray(kafkarec.encode([(5, 1000, b"k", b"v", ())], magic=magic))
    message[17] |= 0x30
    columns = kafkarec.decode(builders.with_legacy_crc(bytes(message)))
    for to_magic in (2, magic):
        batches = kafkarec.scan(kafkarec.encode(columns, magic=to_magic))
        assert batches.column("attributes") == [0]
    assert [record.value for record in kafkarec.decode(kafkarec.encode(columns))] == [b"v"]


def test_partitions_are_not_mixed(tmp_path):
    for number in range(2):
        plain_logs.log(tmp_path / f"t-{number}", [batch(0, 2)])
    with pytest.raises(ValueError, match="2 partitions"):
        kafkarec.encode(kafkarec.open(tmp_path).read())
    one = kafkarec.open(tmp_path / "t-0").read()
    assert kafkarec.encode(one) == batch(0, 2)


def test_the_length_of_a_record_takes_as_many_bytes_as_it_needs():
    """Around each size from which on it takes one more: by the value alone, or with deltas of 5 and 10 bytes."""
    for border in (1 << 6, 1 << 13, 1 << 20):
        for size in range(border - 32, border + 1):
            for offset, timestamp in ((1, 0), (2**31 - 2, 2**62)):
                values = {0: b"", offset: bytes(size), offset + 1: bytes(100)}
                rows = [(at, timestamp if at else 0, None, value, []) for at, value in values.items()]
                decoded = kafkarec.decode(kafkarec.encode(rows, batch_size=1 << 22))
                assert [(one.offset, one.timestamp, None, one.value, one.headers) for one in decoded] == rows
