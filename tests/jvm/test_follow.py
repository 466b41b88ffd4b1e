"""`cat --follow` in the folder of a broker that rolls segments, preallocates files and ends transactions meanwhile."""

import signal
import time

import pytest
from broker import Broker
from command import interruptible, own_process


@pytest.fixture
def broker(kafka, tmp_path):
    """A broker with one empty topic, t."""
    started = Broker(tmp_path / "broker")
    try:
        started.start()
        kafka.lines("create", started.address, "t:internal.segment.bytes=20000:preallocate=true")
        yield started
    finally:
        started.stop()


def transacted(kafka, broker, *, seed, steps):
    """Write records and transactions; return a line for each record, with a 1 in front if it is not aborted."""
    return kafka.lines("transact", broker.address, "t", 1, seed, steps, "a", "b")


@pytest.mark.slow
def test_follow_prints_the_records_of_the_final_log(kafka, broker, tmp_path):
    folder = broker.data / "t-0"
    lines = transacted(kafka, broker, seed=1, steps=20)  # `--follow` refuses a folder without a .log file
    files = {isolation: tmp_path / isolation for isolation in ("read_uncommitted", "read_committed")}
    tails = []
    for isolation, path in files.items():
        with path.open("wb") as out:
            tails.append(interruptible("cat", folder, "--follow", "--isolation", isolation, stdout=out))
    try:
        lines += transacted(kafka, broker, seed=2, steps=2000)
        visible = [len(lines), sum(line.startswith("1 ") for line in lines)]
        assert 1000 < visible[1] < visible[0]
        deadline = time.monotonic() + 20
        while [path.read_bytes().count(b"\n") for path in files.values()] != visible:
            assert time.monotonic() < deadline, (
                [path.read_bytes().count(b"\n") for path in files.values()],
                visible,
                [own_process("cat", folder, "--isolation", i).out.count(b"\n") for i in files],
            )
            time.sleep(0.2)
    finally:
        for tail in tails:
            tail.send_signal(signal.SIGINT)
    for tail in tails:
        assert (tail.communicate()[1], tail.returncode) == (b"", 130)
    assert len(list(folder.glob("*.log"))) > 2
    for isolation, path in files.items():
        assert path.read_bytes() == own_process("cat", folder, "--isolation", isolation).out
