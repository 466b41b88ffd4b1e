"""The threads of `threads`: when they are used, beside forks, interrupts, other callers, and at exit."""

from __future__ import annotations

import gc
import io
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import builders
import pyarrow as pa
import pytest
import subprocesses
from long_run import fewer
from paths import SEGMENTS
from plain_logs import batch

import kafkarec
from kafkarec._core import Decoders
from kafkarec.read.decode_options import CHUNK_BYTES, DecodeRequest, request
from kafkarec.read.passes import worth_sharing
from kafkarec.support import threads as helping

pytestmark = pytest.mark.core

RECORDS = builders.records(200)
DATA = b"".join(
    builders.batch(RECORDS, base_offset=200 * i, codec=codec)
    for i, codec in enumerate(["none", "none", "gzip", "snappy", "lz4", "zstd"] * 200)
)
PREPARED = """
import gc, os, signal, sys, threading, time
import builders, kafkarec
records = builders.records(200)
data = b"".join(builders.batch(records, base_offset=200 * i) for i in range(400))
wanted = [one.offset for one in kafkarec.decode(data)]
def check(threads=3):
    assert [one.offset for one in kafkarec.decode(data, threads=threads)] == wanted
def ours():
    return len(os.listdir("/proc/self/task")) - 1
"""


def same(one, other):
    tables = [(pa.table(columns), pa.table(columns.batches)) for columns in (one, other)]
    return tables[0][0].equals(tables[1][0]) and tables[0][1].equals(tables[1][1])


def test_small_inputs_and_limits_of_a_whole_input_have_one_thread():
    assert len(DATA) > 2 * CHUNK_BYTES
    assert worth_sharing(request(), CHUNK_BYTES + 1)
    assert not worth_sharing(request(), CHUNK_BYTES)
    subprocesses.run(
        PREPARED
        + """
assert not ours(), "started at import, or by one thread"
kafkarec.decode(data[: 1 << 20], threads=4)
assert not ours(), "started for a small input"
check()
deadline = time.monotonic() + 20
while ours():
    assert time.monotonic() < deadline, "no thread stays"
"""
    )


class WaitingDecoders(NamedTuple):
    """The Decoders of a request, which call `wait` before they read."""

    decoders: Decoders
    wait: Callable[[], object]

    def read(self, *given):
        self.wait()
        return self.decoders.read(*given)


def make_decoders_wait(monkeypatch, wait):
    made = DecodeRequest.__dict__["decoders"].func
    monkeypatch.setattr(DecodeRequest, "decoders", property(lambda asked: WaitingDecoders(made(asked), wait)))


def wait_for_all_threads(monkeypatch):
    """Each of three threads waits until the others have begun, too; the set gets them."""
    everyone, named = threading.Barrier(3, timeout=30), set()

    def wait():
        if len(named) < 3 and threading.get_ident() not in named:
            named.add(threading.get_ident())
            everyone.wait()

    make_decoders_wait(monkeypatch, wait)
    return named


def test_all_threads_take_part(monkeypatch):
    alone = kafkarec.decode(DATA)
    named = wait_for_all_threads(monkeypatch)
    assert same(kafkarec.decode(DATA, threads=3), alone)
    assert len(named) == 3


def test_where_no_thread_can_be_started_the_caller_reads_alone(monkeypatch):
    tried = []

    def refuse(*_):
        tried.append(True)
        raise RuntimeError("can't start new thread")

    alone = kafkarec.decode(DATA)
    monkeypatch.setattr(helping, "start_new_thread", refuse)
    for _ in range(3):
        assert same(kafkarec.decode(DATA, threads=4), alone)
    assert tried


def test_the_buffer_is_free_when_the_call_returns():
    data = bytearray(DATA)
    for _ in range(fewer(200, core=50)):
        kafkarec.decode(data, threads=3)
        data.append(0)  # BufferError while anything refers to it
        del data[-1]


def test_many_callers_at_once():
    alone = kafkarec.decode(DATA)
    start = threading.Barrier(12)

    def read(number):
        start.wait()
        return all(same(kafkarec.decode(DATA, threads=2 + number % 3), alone) for _ in range(5))

    with ThreadPoolExecutor(12) as callers:
        assert all(callers.map(read, range(12)))


def test_a_file_object_that_decodes_while_it_is_read():
    """It is called by helpers, too."""

    class File:
        size = len(DATA)

        def read_at(self, position, length):
            assert len(kafkarec.decode(DATA, threads=2)) == 200 * 1200
            return DATA[position : position + length]

    found = kafkarec.open(File())
    assert same(found.read(threads=3), found.read())


def test_errors_of_a_file_object_are_raised():
    class File:
        size = len(DATA)
        failure: Any = ConnectionError("lost")

        def read_at(self, position, length):
            if position + length > len(DATA) // 2:
                raise self.failure
            return DATA[position : position + length]

    with pytest.raises(ConnectionError, match="lost"):
        kafkarec.open(File()).read(threads=3)
    File.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        kafkarec.open(File()).read(threads=3)


def test_a_forked_process_has_threads_of_its_own():
    subprocesses.run(
        PREPARED
        + """
check()
for _ in range(3):
    child = os.fork()
    if child == 0:
        assert not ours()
        check()
        grandchild = os.fork()
        if grandchild == 0:
            check()
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check()
"""
    )


def test_a_fork_while_other_threads_decode():
    """The lock of the recycled pages is free in the child."""
    subprocesses.run(
        PREPARED
        + """
def work():
    while True:
        check()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        check()
        os._exit(0)
    if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        os._exit(abs(code))
os._exit(0)
"""
    )


def test_a_fork_while_another_thread_opens_a_file(tmp_path):
    """The lock of the segment is free in the child."""
    subprocesses.run(
        PREPARED
        + f"""
path = {str(tmp_path / "0.log")!r}
with open(path, "wb") as file: file.write(data)
segment, held, done = kafkarec.open(path), threading.Event(), threading.Event()
open_at_once = segment.folder.open
def open_slowly(*which, **how):
    held.set()
    done.wait()
    return open_at_once(*which, **how)
segment.folder.open = open_slowly
opener = threading.Thread(target=segment.read)
opener.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    segment.folder.open = open_at_once
    assert segment.read().column("offset") == wanted
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
done.set()
opener.join()
"""
    )


def test_an_interrupt_ends_the_call():
    """No thread reads the buffer afterwards, and the next call is as usual."""
    subprocesses.run(
        PREPARED
        + """
raised = 0
signal.signal(signal.SIGALRM, signal.default_int_handler)
for turn in range(300):
    mine = bytearray(data)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + turn % 30 * 0.0001)
        while True:
            kafkarec.decode(mine, threads=3)
    except KeyboardInterrupt as interrupt:
        raised += 1
        interrupt.__traceback__ = None
        del interrupt
    mine.clear()         # BufferError while anything reads it
assert raised == 300
check()
"""
    )


def test_signals_are_handled_during_a_call():
    """Of one thread: after each chunk, and after some batches that take long to compress."""
    subprocesses.run(
        PREPARED
        + """
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(time.process_time()))
large, encoded = data * 200, data * 4
for call, options in ((kafkarec.decode, {}), (kafkarec.encode, {"compression": "gzip", "level": 9})):
    given = large if call is kafkarec.decode else kafkarec.decode(encoded)
    alone = call(given, **options)
    seen.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    again = call(given, **options)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(again) == len(alone) and (call is kafkarec.decode or again == alone)
    assert len(seen) > 2, (call, seen)
"""
    )


def test_an_interrupt_leaves_calls_that_take_long():
    subprocesses.run(
        PREPARED
        + """
from kafkarec.support.threads import run_in_threads
begun, never = threading.Event(), threading.Event()
def call(number):
    if threading.current_thread() is threading.main_thread():
        begun.wait()
        signal.raise_signal(signal.SIGINT)
    begun.set()
    never.wait(600)
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    list(run_in_threads((lambda: call(number) for number in range(9)), 2))
except KeyboardInterrupt:
    assert begun.is_set()
else:
    raise AssertionError
"""
    )


def test_exits_with_and_within_calls():
    subprocesses.run(
        PREPARED
        + """
import atexit
atexit.register(check)
check()
"""
    )
    subprocesses.run(
        PREPARED
        + """
def work():
    while True:
        check()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    )


def test_the_interpreter_ends_after_the_calls_that_have_begun():
    """And no other one begins, though the generator of the results is never closed."""
    printed = subprocesses.run(
        PREPARED
        + """
from kafkarec.support.threads import run_in_threads
begun = threading.Event()
def call():
    if threading.current_thread() is threading.main_thread():
        begun.wait()
    else:
        os.write(1, b"begun ")
        begun.set()
        time.sleep(0.2)
        os.write(1, b"made ")
results = run_in_threads((call for _ in range(9)), 2)
next(results)
"""
    ).split()
    assert 1 <= printed.count("begun") == printed.count("made") < 9


def test_pieces_are_read_ahead_by_all_threads(monkeypatch):
    named = wait_for_all_threads(monkeypatch)
    read = list(kafkarec.stream(DATA * 4, threads=3))
    assert len(named) == 3
    monkeypatch.undo()
    alone = list(kafkarec.stream(DATA * 4))
    assert len(read) == len(alone) and all(map(same, read, alone))


def test_only_a_few_calls_are_made_ahead():
    made = []

    def call(number):
        made.append(number)
        return number

    for threads in (1, 2, 4):
        made.clear()
        results = helping.run_in_threads((partial(call, number) for number in range(100)), threads)
        for number in range(20):
            assert next(results) == number
            assert len(made) <= number + 2 * threads
        results.close()
        assert len(made) <= 20 + 2 * threads, "none after it is closed"
        assert list(helping.run_in_threads((partial(call, number) for number in range(50)), threads)) == list(range(50))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_errors_come_in_order(threads):
    def fail():
        raise LookupError

    def calls():
        yield from (partial(int, number) for number in "0123")
        yield fail
        raise AssertionError("wanted for later results only")

    results = helping.run_in_threads(calls(), threads)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(LookupError):
        next(results)

    def broken():
        yield from (partial(int, number) for number in "01")
        raise OSError

    results = helping.run_in_threads(broken(), threads)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(OSError):
        next(results)


def test_calls_in_order_within_calls_in_order():
    def inner(number):
        return list(helping.run_in_threads((partial(int, number * k) for k in range(9)), 3))

    found = list(helping.run_in_threads((partial(inner, number) for number in range(30)), 3))
    assert found == [[number * k for k in range(9)] for number in range(30)]


def test_a_closed_stream_lets_go_of_its_buffer():
    data = bytearray(DATA * 3)
    for turn in range(60):
        pieces = kafkarec.stream(data, threads=3)
        for _ in range(turn % 4):
            next(pieces)
        del pieces
        data.append(0)  # BufferError while anything refers to it
        del data[-1]


def test_a_stream_of_many_segments_may_be_left(tmp_path):
    paths = [tmp_path / f"{n:020}.log" for n in range(0, 60, 3)]
    for path in paths:
        path.write_bytes(batch(int(path.stem), 3))
    log = kafkarec.open(tmp_path)
    with closing(log.stream(threads=2)) as pieces:
        assert next(pieces).column("offset") == [0, 1, 2]
    assert [piece.column("offset")[0] for piece in log.stream(threads=4)] == list(range(0, 60, 3))
    paths[7].unlink()
    with pytest.raises(FileNotFoundError), closing(log.stream(threads=4)) as pieces:
        assert [len(next(pieces)) for _ in range(7)] == [3] * 7
        next(pieces)


def test_an_interrupt_ends_a_stream():
    """Soon no thread reads the buffer any more, and the next call is as usual."""
    subprocesses.run(
        PREPARED
        + """
raised = 0
signal.signal(signal.SIGALRM, signal.default_int_handler)
for turn in range(300):
    mine = bytearray(data)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + turn % 30 * 0.0001)
        while True:
            for piece in kafkarec.stream(mine, threads=3):
                pass
    except KeyboardInterrupt as interrupt:
        raised += 1
        interrupt.__traceback__ = piece = None
        del interrupt
    deadline = time.monotonic() + 20
    while mine:
        try:
            mine.clear()
        except BufferError:      # while anything reads it
            assert time.monotonic() < deadline
            gc.collect()
            time.sleep(0.001)
assert raised == 300
check()
"""
    )


def test_exit_in_the_middle_of_a_stream():
    for keep in ("", "sys.modules['kept'] = pieces", "kept = [pieces]; kept += [kept]"):
        subprocesses.run(
            PREPARED
            + f"""
pieces = kafkarec.stream(data * 20, threads=4)
next(pieces)
{keep}
"""
        )


def test_a_memoryview_in_a_cycle_that_is_collected(monkeypatch):
    """The collector used to clear the memoryview while a Source held its buffer; CPython crashed."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    for threads in (1, 2):
        for _ in range(20):
            pieces = kafkarec.stream(memoryview(DATA), threads=threads)
            next(pieces)
            cycle = [pieces]
            cycle.append(cycle)
            del pieces, cycle
            gc.collect()
    assert unraisable == []


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", None])
def test_what_is_no_number_of_threads(threads, tmp_path):
    for call in (
        partial(kafkarec.decode, b""),
        partial(kafkarec.stream, b""),
        partial(kafkarec.convert, b""),
        partial(kafkarec.open(io.BytesIO(DATA)).stream),
        partial(kafkarec.salvage, SEGMENTS / "txn-0", tmp_path / "out"),
        partial(kafkarec.study, SEGMENTS / "txn-0"),
    ):
        with pytest.raises(ValueError, match="1 or more"):
            call(threads=threads)
