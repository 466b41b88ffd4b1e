"""`cat --follow` in the folder of a broker that rolls segments, preallocates files and ends transactions meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker
from command import interruptible, own_process
from jvm_oracle import TOOLS, Oracle, tool

RECORDS = 5000


@pytest.fixture
def broker(kafka: Oracle, tmp_path: Path) -> Iterator[Broker]:
    """A broker with one empty topic, t."""
    settings = {"log_segment_bytes": "1048576", "log_preallocate": "true"}
    started = Broker(tmp_path / "broker", **settings)
    try:
        started.start()
        answer = kafka.ask("create", started.address, "t")
        assert answer.status == 0, answer.err
        yield started
    finally:
        started.stop()


def producer(broker: Broker, *arguments: str) -> subprocess.Popen[bytes]:
    java = [str(tool("java")), "-cp", f"{TOOLS}/*", "org.apache.kafka.tools.ProducerPerformance"]
    what = ["--topic", "t", "--num-records", str(RECORDS), "--record-size", "300", "--throughput", "2000"]
    return subprocess.Popen([*java, *what, "--bootstrap-server", broker.address, *arguments], stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_follow_prints_the_records_of_the_final_log(broker: Broker, tmp_path: Path) -> None:
    folder = broker.data / "t-0"
    append = producer(broker, "--transactional-id", "x", "--transaction-duration-ms", "700")
    while not any(path.stat().st_size for path in folder.glob("*.log")):
        time.sleep(0.1)  # `--follow` refuses a folder without a .log file
    files = {isolation: tmp_path / isolation for isolation in ("read_uncommitted", "read_committed")}
    tails = []
    for isolation, path in files.items():
        with path.open("wb") as out:
            tails.append(interruptible("cat", folder, "--follow", "--isolation", isolation, stdout=out))
    try:
        assert producer(broker).wait(90) == append.wait(90) == 0
        deadline = time.monotonic() + 30
        while any(path.read_bytes().count(b"\n") < 2 * RECORDS for path in files.values()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        for tail in tails:
            tail.send_signal(signal.SIGINT)
    for tail in tails:
        assert (tail.communicate(timeout=20)[1], tail.returncode) == (b"", 130)
    assert len(list(folder.glob("*.log"))) > 2
    for isolation, path in files.items():
        followed = path.read_bytes()
        assert followed == own_process("cat", folder, "--isolation", isolation).out
        assert [json.loads(line)["offset"] for line in followed.splitlines()][-1] >= 2 * RECORDS - 1
