"""SegmentWriter when everything goes wrong: killed at any moment, power failures, a full disk, calls that fail.

What flush said is on the disk is there; what is behind it is whole batches and a torn end; the next writer goes on, and
its folder is at last the one that a single writer would have made.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed_writer import CALLS, SETTINGS, Disk, batches, check_what_is_left, content, ends, run
from long_run import LONG
from salvaging import count_calls, run_in_child

import kafkarec
from kafkarec.ops.segment_writer import SegmentWriter

HARMLESS = ("unlink",)  # what fails there was about to go anyway


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The folder of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "t-0"
    run(folder)
    assert len(list(folder.glob("*.log"))) > 3
    return content(folder)


def _acknowledging(path: Path) -> Callable[[int], object]:
    """Notes, outside of what is counted, how far the writer said it was."""
    file = path.open("a", buffering=1)
    return lambda offset: file.write(f"{offset}\n")


def _acknowledged(path: Path) -> int:
    return max(map(int, path.read_text().split()), default=0) if path.exists() else 0


def test_killed_before_every_call(tmp_path: Path, whole: dict[str, bytes]) -> None:
    moment = 1
    while True:
        folder, notes = tmp_path / f"{moment}" / "t-0", tmp_path / f"notes{moment}"
        folder.parent.mkdir()

        def action(moment: int = moment, folder: Path = folder, notes: Path = notes) -> None:
            acknowledge = _acknowledging(notes)

            def at(number: int, name: str) -> None:
                if number == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

            next(count_calls(CALLS, at))
            run(folder, acknowledge)

        status = run_in_child(action)
        check_what_is_left(folder, _acknowledged(notes))
        run(folder)
        assert content(folder) == whole, f"killed in front of call {moment}"
        shutil.rmtree(folder)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        moment += 1 if moment < 50 or LONG else 3
    assert moment > 100


def test_killed_again_and_again_at_any_time(tmp_path: Path) -> None:
    """One folder, twenty writers, each killed by the clock in the midst of larger batches."""
    folder, notes, dice = tmp_path / "t-0", tmp_path / "notes", random.Random(5)
    values = [dice.randbytes(3000) for _ in range(20)]
    kills = 0
    for _ in range(20):
        child = os.fork()
        if not child:
            acknowledge = _acknowledging(notes)
            try:
                with SegmentWriter(folder, segment_bytes=300_000) as writer:
                    while True:
                        rows = ((at, at, None, values[at % 20], []) for at in range(20)[writer.next_offset % 20 :])
                        writer.write(rows, compression="lz4")
                        acknowledge(writer.flush())
            finally:
                os._exit(9)
        time.sleep(dice.uniform(0.005, 0.12))
        os.kill(child, signal.SIGKILL)
        kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        with SegmentWriter(folder, segment_bytes=300_000) as writer:
            assert writer.next_offset >= _acknowledged(notes)
        with kafkarec.open(folder) as log:
            found = log.read(columns=("offset", "value"))
            assert list(found.column("offset")) == list(range(writer.next_offset))
            assert all(value == values[i % 20] for i, value in enumerate(found.column("value")))
        assert kafkarec.verify(folder).damage == ()
    assert kills == 20 and _acknowledged(notes) > 100


@pytest.mark.parametrize("seed", range(3))
def test_a_power_failure_at_any_moment(seed: int, tmp_path: Path, whole: dict[str, bytes]) -> None:
    """What was not synced is gone, or there in part, names too; nothing that was acknowledged is."""
    moment, dice = seed + 1, random.Random(seed)
    while True:
        folder, left = tmp_path / f"{moment}" / "t-0", tmp_path / f"left{moment}" / "t-0"
        folder.parent.mkdir()
        left.parent.mkdir()
        disk, said = Disk(folder), [0]

        class Gone(BaseException):
            pass

        def at(number: int, name: str, moment: int = moment, gone: type[Gone] = Gone) -> None:
            if number >= moment:
                raise gone

        real = {name: getattr(os, name) for name in CALLS}
        with disk.watching():
            next(count_calls(CALLS, at))
            try:
                run(folder, said.append)
                finished = True
            except Gone:
                finished = False
            finally:
                for name, call in real.items():
                    setattr(os, name, call)
        if folder.exists():
            disk.leave(left, dice)
            disk.forget()
            check_what_is_left(left, said[-1])
            run(left)
            assert content(left) == whole, f"failed at call {moment}"
        shutil.rmtree(folder.parent)
        if finished:
            break
        moment += 1 if LONG else 4
    assert moment > 100


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", [name for name in CALLS if name != "close"])  # a file that fails there was synced
def test_a_call_that_fails_ends_the_writer(
    call: str, number: int, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each n-th call fails. Who reports to have written has; behind the failure nothing more is written, not even by a
    second fsync, which would say that all is well."""
    moment = 1 if number == errno.EIO or LONG else 2
    while True:
        folder, said = tmp_path / f"{moment}" / "t-0", [0]
        folder.parent.mkdir()
        failing = _Failing(call, moment, number)
        with monkeypatch.context() as patched:
            for name in CALLS:
                patched.setattr(os, name, getattr(os, name))
            next(count_calls(CALLS, failing.at))
            try:
                run(folder, said.append)
            except OSError as error:
                assert error.errno == number
            else:
                assert not failing.failed or call in HARMLESS, f"the failure of call {moment} was passed over"
        assert failing.written_later == [] or call in HARMLESS
        check_what_is_left(folder, said[-1])
        run(folder)
        assert content(folder) == whole, f"call {moment} failed"
        shutil.rmtree(folder.parent)
        if not failing.failed:
            break
        moment += 1 if LONG else 2
    assert moment > 1


class _Failing:
    """Lets the n-th call of one function fail, and notes what is written behind that."""

    def __init__(self, call: str, moment: int, number: int) -> None:
        self._call, self._left, self._number = call, moment, number
        self.failed = False
        self.written_later: list[str] = []

    def at(self, count: int, name: str) -> None:
        if self.failed and name in ("pwrite", "fsync", "replace"):
            self.written_later.append(name)
        self._left -= name == self._call
        if not self._left and not self.failed:
            self.failed = True
            raise OSError(self._number, os.strerror(self._number))


def test_after_a_failed_fsync_everything_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SegmentWriter(tmp_path / "t-0")
    writer.append(batches()[0])
    writer.flush()
    writer.append(batches()[1])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", _failing(errno.EIO))
        with pytest.raises(OSError) as first:
            writer.flush()
    assert first.value.errno == errno.EIO
    for again in (writer.flush, writer.close, lambda: writer.append(batches()[2]), lambda: writer.write([])):
        with pytest.raises(OSError, match="below offset 3 is on the disk"):
            again()
    assert writer.recovery_point == ends()[0] and "failed" in repr(writer)
    with SegmentWriter(tmp_path / "t-0") as following:  # the lock is free
        assert following.next_offset == ends()[1]


def _failing(number: int) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


def test_an_exception_inside_the_with_leaves_a_sealed_log(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    with pytest.raises(KeyError), SegmentWriter(folder, **SETTINGS) as writer:
        writer.append(batches()[0])
        raise KeyError
    assert (folder / f"{ends()[0]:020d}.snapshot").exists()
    assert kafkarec.open(folder).next_offset == ends()[0]


def test_the_exception_of_the_caller_is_not_hidden_by_a_failing_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError), SegmentWriter(tmp_path / "t-0") as writer:
        writer.append(batches()[0])
        monkeypatch.setattr(os, "fsync", _failing(errno.EIO))
        raise KeyError
    assert "is not sealed" in caplog.text


def test_interrupted_between_writing_and_noting_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the worst moment: what was noted is not trusted, and the next writer looks at the file."""
    folder = tmp_path / "t-0"

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), SegmentWriter(folder) as writer:
        writer.append(batches()[0])
        with monkeypatch.context() as patched:
            patched.setattr("kafkarec.state.index_builders.SegmentRebuild.add", interrupted)
            writer.append(batches()[1])
    with SegmentWriter(folder) as writer:
        assert writer.next_offset == ends()[1]


def test_a_full_disk(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the kernel writes a part of the batch, then says that the file is too large."""
    folder = tmp_path / "t-0"

    def action() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with SegmentWriter(folder) as writer:
            try:
                for batch in batches():
                    writer.append(batch)
            except OSError as error:
                assert error.errno == errno.EFBIG
            whole = writer.segments[-1].size
            assert 0 < whole == (folder / "00000000000000000000.log").stat().st_size  # no torn end
            os._exit(5)

    assert os.waitstatus_to_exitcode(run_in_child(action)) == 5
    with SegmentWriter(folder) as writer:
        assert writer.cut == 0 and writer.next_offset in ends()


def test_short_writes_are_gone_on_with(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, dice = os.pwrite, random.Random(3)

    def pwrite(descriptor: int, data: Any, position: int) -> int:
        return real(descriptor, memoryview(data)[: dice.randrange(1, 40)], position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    run(tmp_path / "t-0")
    assert content(tmp_path / "t-0") == whole
