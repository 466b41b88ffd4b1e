"""SegmentWriter under failures: killed at any call, power failures, a full disk, failing calls.

Data that flush() acknowledged is on the disk, followed by whole batches and perhaps a cut one; the next writer
continues, and the folder at last equals that of a single writer.
"""

import errno
import os
import random
import resource
import shutil
import signal
from functools import partial

import pytest
from failing_calls import counted_calls, failing, killed_before, run_in_child, without_power_from
from killed_writer import CALLS, SETTINGS, Disk, batches, check_what_is_left, content, ends, run
from long_run import LONG

import kafkarec
from kafkarec import SegmentWriter

HARMLESS = ("unlink",)  # a failure here only leaves a file that was to be removed


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run without failures."""
    folder = tmp_path_factory.mktemp("whole") / "t-0"
    run(folder)
    assert len(list(folder.glob("*.log"))) > 3
    return content(folder)


def test_killed_before_every_call(tmp_path, whole):
    call_number = 1
    while True:
        folder, notes = tmp_path / f"{call_number}" / "t-0", tmp_path / f"notes{call_number}"
        folder.parent.mkdir()
        with notes.open("a", buffering=1) as file:  # its writes are not counted
            status = killed_before(call_number, CALLS, partial(run, folder, partial(print, file=file)))
        check_what_is_left(folder, max(map(int, notes.read_text().split()), default=0))
        run(folder)
        assert content(folder) == whole, f"killed before call {call_number}"
        shutil.rmtree(folder)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        call_number += 1 if LONG else 3
    assert call_number > 100


@pytest.mark.parametrize("seed", range(3))
def test_a_power_failure_at_any_call(seed, tmp_path, whole):
    """Unsynced data and names are lost in whole or in part; acknowledged data is not."""
    call_number, rng = seed + 1, random.Random(seed)
    while True:
        folder, left = tmp_path / f"{call_number}" / "t-0", tmp_path / f"left{call_number}" / "t-0"
        folder.parent.mkdir()
        left.parent.mkdir()
        disk, acknowledged = Disk(folder), [0]
        with disk.watching():
            finished = without_power_from(call_number, CALLS, partial(run, folder, acknowledged.append))
        if folder.exists():
            disk.leave(left, rng)
            disk.forget()
            check_what_is_left(left, acknowledged[-1])
            run(left)
            assert content(left) == whole, f"failed at call {call_number}"
        shutil.rmtree(folder.parent)
        if finished:
            break
        call_number += 1 if LONG else 4
    assert call_number > 100


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", [name for name in CALLS if name != "close"])  # close() fails only after the sync
def test_a_call_that_fails_ends_the_writer(call, number, tmp_path, whole):
    """Each n-th call fails. A writer that reported data has written it; after the failure it writes nothing more, also
    not by a second fsync, which would report success."""
    call_number = 1 if number == errno.EIO or LONG else 2
    while True:
        folder, acknowledged = tmp_path / f"{call_number}" / "t-0", [0]
        folder.parent.mkdir()
        names = []

        def at(_, name, names=names, last=call_number):
            names.append(name)
            if name == call and names.count(call) == last:
                failing(number)()

        with counted_calls(CALLS, at):
            try:
                run(folder, acknowledged.append)
            except OSError as error:
                assert error.errno == number
            else:
                assert names.count(call) < call_number or call in HARMLESS, f"call {call_number} failed unnoticed"
        failed = [place for place, name in enumerate(names) if name == call][call_number - 1 : call_number]
        for place in failed:
            assert not {"pwrite", "fsync", "replace"} & {*names[place + 1 :]} or call in HARMLESS
        check_what_is_left(folder, acknowledged[-1])
        run(folder)
        assert content(folder) == whole, f"call {call_number} failed"
        shutil.rmtree(folder.parent)
        if not failed:
            break
        call_number += 1 if LONG else 2
    assert call_number > 1


def test_after_a_failed_fsync_everything_is_refused(tmp_path, monkeypatch):
    writer = SegmentWriter(tmp_path / "t-0")
    writer.append(batches()[0])
    writer.flush()
    writer.append(batches()[1])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(OSError) as first:
            writer.flush()
    assert first.value.errno == errno.EIO
    for again in (writer.flush, writer.close, lambda: writer.append(batches()[2]), lambda: writer.write([])):
        with pytest.raises(OSError, match="below offset 3 are on the disk"):
            again()
    assert writer.recovery_point == ends()[0] and "failed" in repr(writer)
    disk = Disk(tmp_path / "t-0")
    with disk.watching(), SegmentWriter(tmp_path / "t-0") as following:  # the lock is released
        assert following.next_offset == following.recovery_point == ends()[1]
        for number in range(8):
            disk.leave(tmp_path / f"left-{number}", random.Random(number))
            check_what_is_left(tmp_path / f"left-{number}", ends()[1])
    disk.forget()


def test_an_exception_inside_the_with_block_leaves_a_finished_log(tmp_path):
    folder = tmp_path / "t-0"
    with pytest.raises(KeyError), SegmentWriter(folder, **SETTINGS) as writer:
        writer.append(batches()[0])
        raise KeyError
    assert (folder / f"{ends()[0]:020d}.snapshot").exists()
    assert kafkarec.open(folder).next_offset == ends()[0]


def test_the_exception_of_the_caller_is_not_hidden_by_a_failing_close(tmp_path, monkeypatch, caplog):
    with pytest.raises(KeyError), SegmentWriter(tmp_path / "t-0") as writer:
        writer.append(batches()[0])
        monkeypatch.setattr(os, "fsync", failing(errno.EIO))
        raise KeyError
    assert "was not finished" in caplog.text


def test_interrupted_between_the_write_and_its_bookkeeping(tmp_path, monkeypatch):
    """Ctrl-C between the write and the update of the writer's state: the next writer reads the file instead of trusting
    the state."""
    folder = tmp_path / "t-0"

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), SegmentWriter(folder) as writer:
        writer.append(batches()[0])
        with monkeypatch.context() as patched:
            patched.setattr("kafkarec.state.index_builders.SegmentIndexBuilder.add", interrupted)
            writer.append(batches()[1])
    with SegmentWriter(folder) as writer:
        assert writer.next_offset == ends()[1]


def test_a_full_disk_leaves_whole_batches(tmp_path):
    """RLIMIT_FSIZE: the kernel writes a part of the batch, then reports that the file is too large."""
    folder = tmp_path / "t-0"

    def action():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with SegmentWriter(folder) as writer:
            try:
                for batch in batches():
                    writer.append(batch)
            except OSError as error:
                assert error.errno == errno.EFBIG
            whole = writer.segments[-1].size
            assert 0 < whole == (folder / "00000000000000000000.log").stat().st_size  # no cut batch remains
            os._exit(5)

    assert os.waitstatus_to_exitcode(run_in_child(action)) == 5
    with SegmentWriter(folder) as writer:
        assert writer.cut == 0 and writer.next_offset in ends()


def test_short_writes_are_continued(tmp_path, whole, monkeypatch):
    real, rng = os.pwrite, random.Random(3)

    def pwrite(descriptor, data, position):
        return real(descriptor, memoryview(data)[: rng.randrange(1, 40)], position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    run(tmp_path / "t-0")
    assert content(tmp_path / "t-0") == whole
