"""`cat --follow` on a partition folder that a writer changes as a broker does."""

import json
import os
import queue
import signal
import threading
import time

import builders
import plain_logs
import pytest
from command import interruptible
from paths import SEGMENTS


def batch(offset, count=1, **fields):
    return plain_logs.batch(offset, count, **fields)


class Following:
    """A running `cat --follow`, whose output lines are read as they arrive."""

    def __init__(self, path, *arguments):
        self.child = interruptible("cat", path, "--follow", *arguments)
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.child.stdout:
            self._lines.put(line)

    def lines(self, count):
        return [self._lines.get(timeout=20) for _ in range(count)]

    def offsets(self, count):
        return [json.loads(line)["offset"] for line in self.lines(count)]

    def quiet(self, seconds=0.8):
        """Whether no line arrives for a while."""
        time.sleep(seconds)
        return self._lines.empty()

    def stop(self):
        """Send Ctrl-C; return the status, standard error, and the lines that were not read before."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self):
        status = self.child.wait(20)
        self._reader.join(20)
        left = []
        while not self._lines.empty():
            left.append(self._lines.get())
        return status, self.child.stderr.read().decode(), left

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(20)
        for pipe in (self.child.stdout, self.child.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def follow():
    running = []

    def start(path, *arguments):
        running.append(Following(path, *arguments))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def log(tmp_path):
    """A partition with offsets 0 to 4 in one segment."""
    return plain_logs.log(tmp_path / "orders-7", map(batch, range(5)))


def append(log, data, base=0):
    with (log / f"{base:020}.log").open("ab") as file:
        file.write(data)


def test_appended_batches_are_printed_until_ctrl_c(follow, log):
    tail = follow(log)
    assert tail.offsets(5) == [0, 1, 2, 3, 4]
    append(log, batch(5, 3))
    assert tail.offsets(3) == [5, 6, 7]
    append(log, batch(8) + batch(9))
    assert tail.offsets(2) == [8, 9]
    assert tail.stop() == (130, "", [])


@pytest.mark.parametrize(
    "arguments, first",
    [
        (["--last", 2], [3, 4]),
        (["--from-offset", 3], [3, 4]),
        (["--from-time", builders.NOW + 1], []),
        (["--key", "none such"], []),
    ],
)
def test_options_choose_the_first_offset(follow, log, arguments, first):
    tail = follow(log, *arguments)
    assert tail.offsets(len(first)) == first
    assert tail.quiet()
    record = builders.record(key=b"none such", timestamp_delta=5)
    append(log, builders.batch([record], base_offset=5, max_timestamp=builders.NOW + 5))
    assert tail.offsets(1) == [5]


def test_last_0_prints_only_new_records(follow, log):
    tail = follow(log, "--last", 0)
    at = 5
    while tail.quiet(0.3) and at < 70:
        append(log, batch(at))
        at += 1
    assert tail.offsets(1)[0] >= 5


def test_a_truncated_log_is_followed_from_its_new_end(follow, log):
    path = log / f"{0:020}.log"
    size = path.stat().st_size
    tail = follow(log)
    assert tail.offsets(5) == [0, 1, 2, 3, 4]
    os.truncate(path, size // 5 * 3)
    assert tail.quiet()
    append(log, batch(3, 2, epoch=9))
    assert tail.offsets(2) == [3, 4]
    status, message, _ = tail.stop()
    assert status == 130
    assert message == f"kafkarec: note: {log}: the log was truncated; continuing from offset 3\n"


def test_a_log_that_is_cut_within_its_last_batch_behind_the_head_is_truncated(follow, log):
    """The fingerprint of the batch, its first bytes, is still there."""
    path = log / f"{0:020}.log"
    size = path.stat().st_size
    tail = follow(log)
    assert tail.offsets(5) == [0, 1, 2, 3, 4]
    os.truncate(path, size - 1)
    assert tail.quiet()
    append(log, batch(4)[-1:])
    assert tail.offsets(1) == [4]
    status, message, _ = tail.stop()
    assert status == 130
    assert message == f"kafkarec: note: {log}: the log was truncated; continuing from offset 4\n"


def test_read_committed_shows_records_when_their_transaction_ends(follow, log):
    tail = follow(log, "--isolation", "read_committed")
    assert tail.offsets(5) == [0, 1, 2, 3, 4]
    for offset, producer in ((5, 1), (6, 2)):
        append(log, batch(offset, transaction=producer))
    append(log, batch(7))
    assert tail.quiet()
    append(log, builders.end_marker(8, 1, commit=True))
    assert tail.offsets(1) == [5]
    assert tail.quiet(0.5)
    append(log, builders.end_marker(9, 2, commit=False))
    assert tail.offsets(1) == [7]
    assert tail.stop() == (130, "", [])


def test_damage_is_reported_when_good_batches_follow_it(follow, log):
    skipping, stopping = follow(log, "--last", 1, "--errors", "skip"), follow(log, "--last", 1)
    assert skipping.offsets(1) == stopping.offsets(1) == [4]
    append(log, builders.flipped(batch(5)))
    assert skipping.quiet() and stopping.quiet(0)
    append(log, batch(6))
    assert skipping.offsets(1) == [6]
    status, message, left = stopping.ended()
    assert (status, left) == (1, [])
    assert "crc mismatch" in message and "lost: " in message and "--errors skip" in message
    append(log, batch(7))
    assert skipping.offsets(1) == [7]
    status, message, _ = skipping.stop()
    assert (status, message.count("crc mismatch")) == (130, 1)


def test_csv_with_a_number_of_rows_ends(follow, log):
    tail = follow(log, "--format", "csv", "--columns", "offset,key", "-n", 7)
    assert tail.lines(3) == [b"offset,key,key_base64\n", b'0,"k",\n', b'1,"k",\n']
    append(log, batch(5, 9))
    status, message, left = tail.ended()
    assert (status, message, left[-1]) == (0, "", b'6,"k",\n')


def test_one_file_is_followed_alone_and_deletion_ends_the_run(follow, log):
    file, folder = follow(log / f"{0:020}.log", "--last", 1), follow(log, "--last", 1)
    assert file.offsets(1) == folder.offsets(1) == [4]
    append(log, batch(5))
    append(log, batch(6), base=6)
    assert folder.offsets(2) == [5, 6]
    assert file.offsets(1) == [5]
    log.rename(log.parent / "orders-7.0123456789abcdef0123456789abcdef-delete")
    for one in (file, folder):
        status, message, _ = one.ended()
        assert (status, message.count("\n")) == (3, 1)
        assert "no longer exists: " in message


def test_lines_are_whole_under_ctrl_c(follow, tmp_path):
    path = tmp_path / "long.log"
    path.write_bytes(sorted((SEGMENTS / "all-codecs-0").glob("*.log"))[0].read_bytes() * 100)
    tail = follow(path)
    tail.lines(10)
    status, message, left = tail.stop()
    assert (status, message) == (130, "")
    assert all(json.loads(line) for line in left)
    assert len(left) < 80_000  # of 86,500 lines: it stopped before the end
