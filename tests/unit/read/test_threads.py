"""The threads of `threads`: when they are used, beside forks, interrupts, other callers, and at exit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import builders
import pyarrow as pa
import pytest
import subprocesses

import kafkarec
from kafkarec._core import Stretches
from kafkarec.read import threads as helping
from kafkarec.read.decode_options import CHUNK_BYTES, DecodeRequest, request

pytestmark = pytest.mark.core

DATA = b"".join(
    builders.good_batch(200, base_offset=200 * i, codec=codec)
    for i, codec in enumerate(["none", "none", "gzip", "snappy", "lz4", "zstd"] * 200)
)
PREPARED = """
import os, signal, sys, threading, time
import builders, kafkarec
data = b"".join(builders.good_batch(200, base_offset=200 * i) for i in range(400))
wanted = [one.offset for one in kafkarec.decode(data)]
def check(threads=3):
    assert [one.offset for one in kafkarec.decode(data, threads=threads)] == wanted
def ours():
    return len(os.listdir("/proc/self/task")) - 1
"""


def same(one: kafkarec.RecordColumns, other: kafkarec.RecordColumns) -> bool:
    tables = [(pa.table(columns), pa.table(columns.batches)) for columns in (one, other)]
    return tables[0][0].equals(tables[1][0]) and tables[0][1].equals(tables[1][1])


def test_small_inputs_and_limits_of_a_whole_input_have_one_thread() -> None:
    assert len(DATA) > 2 * CHUNK_BYTES
    assert helping.worth_sharing(request(), CHUNK_BYTES + 1)
    assert not helping.worth_sharing(request(), CHUNK_BYTES)
    subprocesses.run(
        PREPARED
        + """
assert not ours(), "started at import, or by one thread"
kafkarec.decode(data[: 1 << 20], threads=4)
assert not ours(), "started for a small input"
check()
assert 1 <= ours() <= 2
for _ in range(20):
    check()
assert ours() <= 2, "the threads stay"
"""
    )


def test_all_threads_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits until the others have begun, too."""
    everyone = threading.Barrier(3, timeout=60)
    share = DecodeRequest.share

    def waiting(asked: DecodeRequest, stretches: Stretches) -> None:
        everyone.wait()
        share(asked, stretches)

    monkeypatch.setattr(DecodeRequest, "share", waiting)
    assert same(kafkarec.decode(DATA, threads=3), kafkarec.decode(DATA))


def test_where_no_thread_can_be_started_the_caller_reads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    helpers = helping._Helpers(2)
    monkeypatch.setattr(helping, "_helpers", helpers)
    alone = kafkarec.decode(DATA)
    with monkeypatch.context() as now:
        now.setattr(helping, "start_new_thread", refuse)
        for _ in range(3):
            assert same(kafkarec.decode(DATA, threads=4), alone)
        assert helpers._idle.empty()
    assert same(kafkarec.decode(DATA, threads=4), alone)
    assert helpers._most < 2, "later they can"


def test_the_buffer_is_free_when_the_call_returns() -> None:
    data = bytearray(DATA)
    for _ in range(200):
        kafkarec.decode(data, threads=3)
        data.append(0)  # BufferError while anything refers to it
        del data[-1]


def test_many_callers_at_once() -> None:
    alone = kafkarec.decode(DATA)
    start = threading.Barrier(12)

    def read(number: int) -> bool:
        start.wait()
        return all(same(kafkarec.decode(DATA, threads=2 + number % 3), alone) for _ in range(5))

    with ThreadPoolExecutor(12) as callers:
        assert all(callers.map(read, range(12)))


def test_a_file_object_that_decodes_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called by helpers, too, of which there may be only one."""
    monkeypatch.setattr(helping, "_helpers", helping._Helpers(1))

    class File:
        size = len(DATA)

        def read_at(self, position: int, length: int) -> bytes:
            assert len(kafkarec.decode(DATA, threads=2)) == 200 * 1200
            return DATA[position : position + length]

    found = kafkarec.open(File())
    assert isinstance(found, kafkarec.Segment)
    assert same(found.read(threads=3), found.read())


def test_errors_of_a_file_object_are_raised() -> None:
    class File:
        size = len(DATA)
        failure: Any = ConnectionError("lost")

        def read_at(self, position: int, length: int) -> bytes:
            if position + length > len(DATA) // 2:
                raise self.failure
            return DATA[position : position + length]

    with pytest.raises(ConnectionError, match="lost"):
        kafkarec.open(File()).read(threads=3)
    File.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        kafkarec.open(File()).read(threads=3)


def test_a_forked_process_has_threads_of_its_own() -> None:
    subprocesses.run(
        PREPARED
        + """
check()
for _ in range(3):
    child = os.fork()
    if child == 0:
        assert not ours()
        check()
        assert ours()
        grandchild = os.fork()
        if grandchild == 0:
            check()
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check()
"""
    )


def test_a_fork_while_other_threads_decode() -> None:
    """The lock of the recycled pages is free in the child."""
    subprocesses.run(
        PREPARED
        + """
stop = threading.Event()
def work():
    while not stop.is_set():
        check()
callers = [threading.Thread(target=work) for _ in range(3)]
for caller in callers: caller.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        check()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
for caller in callers: caller.join()
"""
    )


def test_an_interrupt_ends_the_call() -> None:
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


def test_exits_with_and_within_calls() -> None:
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
