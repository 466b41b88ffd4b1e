"""References to the objects of Python rows: the writer holds each while it points into it, and releases it once."""

import sys

import pytest
import subprocesses

import kafkarec
from kafkarec import Record, RecordBatchBuilder

NAMES = ("offset", "timestamp", "key", "value", "headers")
BIG = 1 << 40  # an int that the interpreter does not cache


def fresh(offset=BIG):
    """Return a row of objects without other references."""
    number = str(offset).encode()
    pairs = [(f"h{offset}", b"x" + number), (b"k" + number, None)]
    return offset + 0, BIG + offset, b"key" + number, b"value" + number, pairs


def parts(row):
    return [*row, *row[4], *(each for pair in row[4] for each in pair if each is not None)]


def counts(objects):
    return [sys.getrefcount(each) for each in objects]


def as_dict(row):
    return dict(zip(NAMES, row, strict=True))


SHAPES = {
    "tuple": lambda row: row,
    "headers in a tuple": lambda row: (*row[:4], tuple(row[4])),
    "dict": as_dict,
    "dict with a topic": lambda row: {**as_dict(row), "topic": "t", "partition": 3},
    "Record": lambda row: Record(*row[:2], 0, *row[2:]),
    "made before": lambda row: (*row[:4], [list(pair) for pair in row[4]]),
    "of a mapping": lambda row: {**as_dict(row), "headers": dict(row[4])},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_encode_releases_its_references(shape):
    rows = [fresh(BIG + n) for n in range(300)]
    given = [SHAPES[shape](row) for row in rows]
    referenced = [each for row in rows for each in parts(row)] + given
    before = counts(referenced)
    data = kafkarec.encode(given)
    assert counts(referenced) == before
    assert [(r.offset, r.value) for r in kafkarec.decode(data)] == [(row[0], row[3]) for row in rows]
    with pytest.raises(TypeError, match="record 300"):
        kafkarec.encode([*given, 5])
    assert counts(referenced) == before


def test_the_builder_writes_at_once_and_keeps_no_references():
    rows = [fresh(5000 + n) for n in range(100)]
    referenced = [each for row in rows for each in parts(row)]
    before = counts(referenced)
    builder = RecordBatchBuilder()
    for offset, timestamp, key, value, headers in rows:
        assert builder.has_room_for(timestamp, key, value, headers)
        builder.append(timestamp, key, value, headers, offset)
    del offset, timestamp, key, value, headers
    assert counts(referenced) == before
    assert [r.key for r in kafkarec.decode(builder.build())] == [row[2] for row in rows]
    builder = RecordBatchBuilder()
    builder.append(BIG, rows[0][2], rows[0][3], rows[0][4])
    builder.abort()
    assert counts(referenced) == before and len(builder) == 0


@pytest.mark.parametrize(
    "spoiled",
    [
        {"timestamp": -7},
        {"timestamp": "now"},
        {"key": 5},
        {"value": "text"},
        {"offset": -1},
        {"offset": 2**40},
        {"headers": [("a", b"b"), ("c", 5)]},
        {"headers": [("a", b"b"), (None, b"x")]},
        {"headers": 5},
    ],
    ids=str,
)
def test_refused_rows_are_not_referenced(spoiled):
    builder = RecordBatchBuilder(base_offset=10)
    builder.append(0, b"k", b"v", [("a", b"b")])
    row = fresh(11)
    wrong = {**as_dict(row), **spoiled}
    referenced = parts(row)
    before = counts(referenced)
    for _ in range(3):
        with pytest.raises((ValueError, TypeError)):
            builder.append(**wrong)
    if "offset" not in spoiled and spoiled != {"timestamp": -7}:
        with pytest.raises((ValueError, TypeError)):
            builder.has_room_for(*(wrong[name] for name in NAMES[1:]))
    assert counts(referenced) == before and len(builder) == 1
    builder.append(1, None, None)
    assert [(r.offset, r.key, r.headers) for r in kafkarec.decode(builder.build())] == [
        (10, b"k", [("a", b"b")]),
        (11, None, []),
    ]


def test_names_whose_comparison_runs_code():
    """A dict's key may have an __eq__ that changes the dict; that must do no harm."""
    subprocesses.run("""
import kafkarec
class Name:
    def __init__(self, like, record): self.like, self.record = like, record
    def __hash__(self): return hash(self.like)
    def __eq__(self, other):
        self.record.clear()
        [b"z%d" % n * 9 for n in range(5000)]
        return False
for name in ("offset", "timestamp", "key", "value", "headers", "topic"):
    record = {}
    record[Name(name, record)] = bytes(bytearray(b"fresh key"))
    record["key"] = bytes(bytearray(b"fresh key"))
    record["value"] = bytes(bytearray(b"fresh value"))
    try:
        data = kafkarec.encode([record] * 3)
    except (ValueError, TypeError, RuntimeError, KeyError):
        continue
    assert {r.key for r in kafkarec.decode(data)} <= {None, b"fresh key"}
class Loud(str):
    def __hash__(self): return hash("key")
    def __eq__(self, other): raise LookupError("loud")
try:
    kafkarec.encode([{Loud("x"): 1}])
except LookupError:
    pass
else:
    raise SystemExit("taken")
""")


def test_a_builder_that_threads_share():
    """A builder belongs to one thread at a time: while it is built the others are refused, nothing worse."""
    subprocesses.run("""
import sys, threading, kafkarec
sys.setswitchinterval(1e-6)
for _ in range(20):
    builder = kafkarec.RecordBatchBuilder(batch_size=1 << 30, compression="zstd")
    builder.append(0, b"k", b"v")
    stop = threading.Event()
    def add():
        n = 0
        while not stop.is_set():
            n += 1
            try:
                builder.has_room_for(n, b"k%d" % n, b"v" * 50, [("h", b"%d" % n)])
                builder.append(n, b"k%d" % n, b"v" * 50, [("h", b"%d" % n)])
            except (ValueError, RuntimeError):
                pass
    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads: thread.start()
    stop.wait(0.02)
    data = builder.build()
    builder.abort()
    stop.set()
    for thread in threads: thread.join()
    assert all(r.value in (b"v", b"v" * 50) for r in kafkarec.decode(data))
""")
