"""Objects and memory that end when they should: after errors, in cycles, and where private objects are used wrongly."""

from __future__ import annotations

import gc
import io
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import builders
import pytest
import reading
import subprocesses
from fake_file import FakeFile, read
from plain_logs import batch

import kafkarec
from kafkarec import codecs
from kafkarec._core import Decoder, Source
from kafkarec._verbs import writable_view

pytestmark = pytest.mark.core

PLAIN = batch(0, 3)
COLUMNS = ("offset", "value")
USUAL = reading.decode_request(columns=COLUMNS)


def decoder(**options):
    return reading.decoder(*COLUMNS, engine=options)


# ---- after errors


@dataclass
class Broken(FakeFile):
    """A file whose bytes from the third batch on cannot be read for a reason that is no damage."""

    def read_at(self, position, length):
        if position + length > 2 * len(PLAIN):
            raise RuntimeError("broken")
        return super().read_at(position, length)


@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_a_file_whose_read_raises_is_let_go(errors):
    """With the error, whose traceback has the frames that had the file."""
    fake = Broken(PLAIN * 4, window_bytes=len(PLAIN))
    alive = weakref.ref(fake)
    with pytest.raises(RuntimeError, match="broken"):
        read(fake, errors=errors)
    with pytest.raises(RuntimeError, match="broken"):
        kafkarec.open(fake).scan(errors=errors)
    del fake
    gc.collect()
    assert alive() is None


class Keeping:
    """The package `codecs`, but it keeps what it is given, and may raise."""

    CodecError, LimitReached, MissingCodec = codecs.CodecError, codecs.LimitReached, codecs.MissingCodec
    StreamNotes = codecs.StreamNotes

    def __init__(self, raised=None):
        self.kept = []
        self.raised = raised

    def decompress_by_module(self, codec, payload, limit, magic, seen):
        self.kept.append(payload)
        if self.raised is not None:
            raised, self.raised = self.raised, None
            raise raised
        return codecs.decompress_by_module(codec, payload, limit, magic)


def beyond_c(base_offset=0):
    """A gzip batch that the C core leaves to Python: its payload has two members."""
    [first, *rest] = builders.records(3)
    both = builders.compress("gzip", first) + builders.compress("gzip", b"".join(rest))
    return builders.batch([first, *rest], codec="gzip", payload=both, base_offset=base_offset)


def test_what_a_codec_was_given_stays_as_it_was():
    """A traceback's frame may have it, after the memory that it was read into has other bytes."""
    keeping = Keeping()
    one = Decoder(USUAL.layout, USUAL.options, keeping)
    data = beyond_c()
    one.feed(Source(file=FakeFile(data, 64)))
    assert not one.run()
    one.feed(Source(file=FakeFile(bytes(len(data)), 64)))
    del one
    kafkarec.release_memory()
    [payload] = keeping.kept
    assert bytes(payload) == data[61:]


def test_what_a_codec_was_given_to_compress_stays_as_it_was(monkeypatch):
    kept = []
    compress = codecs.compress

    def keep(codec, body, *arguments):
        kept.append(body)
        return compress(codec, body, *arguments)

    monkeypatch.setattr(codecs, "compress", keep)
    rows = [(0, 5, b"k" * 50, b"v" * 5000, ())]
    assert len(kafkarec.encode(rows, compression="gzip", batch_size=4096)) > 61
    kafkarec.encode([(0, 5, None, b"w" * 9000, ())], compression="gzip")
    kafkarec.release_memory()
    assert b"v" * 5000 in bytes(kept[0])


def test_a_view_of_new_bytes_keeps_them():
    view = writable_view(bytes(bytearray(100_000)))
    gc.collect()
    view[:3] = b"abc"
    assert bytes(view) == b"abc" + bytes(99_997)
    for shared in (b"", b"a"):
        with pytest.raises(ValueError, match="bytes"):
            writable_view(shared)


def test_a_view_leaves_no_reference_to_none():
    """Cython begins a view with one, which PyBuffer_FillInfo overwrites."""
    source = Source(b"abc")
    before = sys.getrefcount(None)
    assert all(source.memory == b"abc" for _ in range(1000))
    for _ in range(1000):
        with pytest.raises(TypeError):  # a refused request takes none either
            io.BytesIO(b"d").readinto(source.memory.obj)
    assert abs(sys.getrefcount(None) - before) < 500


class Restoring(SimpleNamespace):
    """Rules that read a damaged batch from its undamaged bytes."""

    restore, first_offset = True, None

    def try_to_restore(self, at, start, end, reason, fault):
        return at.read_restored(bytearray(self.right), start, {"batch_length": (0, 1, "x")})


def test_a_codec_that_raises_in_a_restored_batch_leaves_the_decoder_its_input():
    right = beyond_c(base_offset=3)
    wrong = builders.patched(right, 8, (len(right) - 15).to_bytes(4, "big"))
    data = PLAIN + wrong + batch(6, 2)
    one = Decoder(USUAL.layout, USUAL.options, Keeping(KeyboardInterrupt()), skip=True, rules=Restoring(right=right))
    one.feed(data)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    gc.collect()
    assert one.size == len(data)
    one.feed(data)
    assert not one.run()
    assert one.filled[0] >= 8
    assert len(one.take().restored) == 1


# ---- estimates

ESTIMATES = """
import plain_logs, resource, reading
value = bytes(30 << 20)
large = [plain_logs.batch(n, 1, value=value, codec="zstd") for n in range(10)]
data = b"".join(large) + plain_logs.batch(10, 3)
one = reading.decoder("value", engine={"chunk_bytes": 300 << 20})
one.feed(data)
assert one.run()
[first] = one.take(more=True).chunks
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
assert not one.run()
[second] = one.take().chunks
print(len(first), len(second))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/self/statm and limits the address space")
def test_an_estimate_refuses_no_batch():
    """After a chunk of 300 MB there is no memory for another one, which the next, of three records, is not."""
    assert subprocesses.run(ESTIMATES) == "10 3\n"


ALTERNATING = (
    subprocesses.PEAK
    + """
import kafkarec, plain_logs
small, large = plain_logs.batch(0, 1), plain_logs.batch(0, 100, value=bytes(160))
data = (small + large) * 2000
before = _status("VmSize")
kept = list(kafkarec.stream(data, check_crcs=False))
print((_status("VmSize") - before) // len(data))
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/self/status")
def test_the_memory_reserved_after_a_small_first_batch_is_that_of_a_stretch():
    """Several times the size of the data, not twenty times: as many batches as small payloads fill a chunk."""
    assert int(subprocesses.run(ALTERNATING)) < 8


# ---- cycles


def collected(make):
    alive = make()
    gc.collect()
    assert isinstance(alive, weakref.ref)
    return alive() is None


class Holder:
    """An object that can be in a cycle and referred to weakly."""

    one: Any = None


def test_a_cycle_through_the_headers_of_a_record_is_collected():
    def cycle_of(record):
        holder = Holder()
        holder.one = record
        record.headers.append(("me", holder))
        return weakref.ref(holder)

    assert collected(lambda: cycle_of(kafkarec.decode(PLAIN)[0]))
    assert collected(lambda: cycle_of(kafkarec.Record(0, 1, 0, b"k", b"v", [])))


def test_records_that_cannot_be_in_a_cycle_cost_the_collector_nothing():
    [record, *_] = kafkarec.decode(batch(0, 1, headers=[(b"h", b"x")]))
    assert not gc.is_tracked(record)
    headers = record.headers
    assert headers == [("h", b"x")]
    assert headers is record.headers
    assert gc.is_tracked(record)


def test_headers_may_be_read_while_they_are_read():
    """Up to Python 3.11 the collector runs where the list is made, and with it other threads."""
    subprocesses.run(
        """
import gc
import builders, kafkarec
class Reader:
    def __init__(self, record):
        self.cycle, self.record = self, record
    def __del__(self):
        assert self.record.headers == [("h", b"x")]
def lists():  # more than the interpreter keeps for new ones
    return [[] for _ in range(500)]
gc.disable()
kept = lists()
[record] = kafkarec.decode(builders.batch([builders.record(headers=[(b"h", b"x")])]))
Reader(record)
kept += lists()
gc.set_threshold(1)
gc.enable()
assert record.headers == [("h", b"x")] and gc.is_tracked(record)
gc.collect()
"""
    )


def test_a_cycle_through_a_list_of_headers_that_was_appended_is_collected():
    class Headers:
        def __init__(self):
            self.pairs = [("h", b"x")]
            self.builder = kafkarec.RecordBatchBuilder()
            self.builder.append(5, b"k", b"v", self.pairs)
            self.pairs.append(self)

    assert collected(lambda: weakref.ref(Headers()))


# ---- private objects that are used wrongly


@dataclass
class Meddling(FakeFile):
    """A file of which each read has another thread use the Decoder."""

    use: Callable[[], object] = object
    raised: list[str] = field(default_factory=list)

    def read_at(self, position, length):
        def meddle():
            try:
                self.use()
            except RuntimeError as error:
                self.raised.append(str(error))

        thread = threading.Thread(target=meddle)
        thread.start()
        thread.join()
        return super().read_at(position, length)


def test_a_decoder_that_another_thread_uses_is_refused():
    one = decoder()
    fake = Meddling(PLAIN * 4, window_bytes=len(PLAIN))
    one.feed(Source(file=fake))
    for use in (one.run, one.take, lambda: one.feed(PLAIN)):
        fake.use = use
        fake.raised.clear()
        one.feed(Source(file=fake))
        assert not one.run()
        assert fake.raised
        assert set(fake.raised) == {"another thread uses this object"}
        assert one.take().tables[0].count == 4
