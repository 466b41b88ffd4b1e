"""Salvaged partitions back in running brokers: by the lines that `salvage` prints, where two replicas start in either
order; in another cluster, whose producers get the ids of the old one; with the end that the log once had.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import plain_logs
import pytest
from broker import Broker, serving
from command import Here
from confluent_kafka import Consumer, TopicPartition
from jvm_reading import consumer_lines
from paths import ROOT
from subprocesses import run_program

import kafkarec
from kafkarec.support.command_line import quoted

pytestmark = pytest.mark.slow

_SMALL = "internal.segment.bytes=3000"
_STOP = "# stop the broker"


def steps(run, *words):
    """The lines for a broker that a salvage prints."""
    ran = run("salvage", *words)
    assert ran.status in (0, 1), ran.err
    return re.findall(r"^  [0-9]\. (.*)$", ran.text, re.MULTILINE)


class Serving:
    """The printed lines, pasted into a shell for this broker. They wait where they say that it is to be stopped."""

    def __init__(self, broker, lines, work):
        self._waits = work / f"{broker.address}.waits"
        broker.script(work)
        wait = f"touch {self._waits}; while [ -e {self._waits} ]; do sleep 0.1; done"
        script = "\n".join(wait if line == _STOP else line for line in lines)
        script = script.replace("/var/lib/kafka;", f"{quoted(str(broker.data))};").replace(
            "localhost:9092", broker.address
        )
        script = script.replace("&& SAME=yes", "; SAME=yes")  # of each replica's broker, and of the one that it is from
        environment = os.environ | {"PATH": f"{work}:{os.environ['PATH']}"}
        self._shell = subprocess.Popen(["bash", "-c", script], env=environment, stdout=subprocess.PIPE)
        while self._shell.poll() is None and not self._waits.exists():
            time.sleep(0.05)

    def finish(self):
        """Go on after the broker is stopped."""
        self._waits.unlink()
        out, _ = self._shell.communicate()
        assert self._shell.returncode == 0 and out.endswith(b"done: start the broker\n"), out


@pytest.fixture
def run(capfdbinary):
    return Here(capfdbinary)


@pytest.fixture
def cluster(tmp_path):
    """A controller and two brokers."""
    small = {"log_initial_task_delay_ms": "300", "log_retention_check_interval_ms": "300"}
    controller = Broker(tmp_path / "controller", process_roles="controller")
    one, two = (Broker(tmp_path / node, controller, node_id=node, **small) for node in ("2", "3"))
    nodes = [controller, one, two]
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.stop(signal.SIGKILL)


def test_two_replicas_that_start_in_either_order(run, kafka, cluster, tmp_path):
    """Neither makes the other one delete what it has; deleted records of another partition stay deleted."""
    brokers = cluster[1:]
    address = ",".join(broker.address for broker in brokers)
    topics = ("orders", "other")
    kafka.lines("create", address, *(f"{topic}:replicas=2:{_SMALL}:retention.ms=3600000" for topic in topics))
    for topic in topics:
        kafka.lines("transact", address, topic, 1, 5, 60, "a", "b")
    kafka.lines("group", address, "cut", "other:0:40")
    time.sleep(1)  # the checkpoint of the log start is written
    first = brokers[0].data / "orders-0" / f"{0:020}.log"
    plain_logs.flip(first, first.stat().st_size // 2, 4)
    out = tmp_path / "rescued"
    lines = steps(run, brokers[0].data / "orders-0", "-o", out, "--as-partition")
    expected = consumer_lines(out / "orders-0", "read_committed")
    assert len(expected) > 10

    def assert_served(alive):
        *consumed, _ = kafka.lines("consume", alive, "orders", "read_committed")
        assert consumed == expected, f"from {alive}"
        kept, *_ = kafka.lines("consume", alive, "other", "read_uncommitted")
        assert int(kept.split()[0]) >= 40, "deleted records are back"

    def start(*started):
        for broker in started:
            broker.start()
        for topic in topics:
            kafka.lines("in sync", address, topic, 2)

    for first, second in (brokers, brokers[::-1]):
        shells = [Serving(broker, lines, tmp_path) for broker in brokers]
        for broker in (second, first):
            broker.stop()
        for shell in shells:
            shell.finish()
        for broker in brokers:
            shutil.rmtree(f"{broker.data}.replaced")
        start(first, second)
        assert_served(address)
    second.stop()
    assert_served(first.address)
    assert consumer_lines(second.data / "orders-0", "read_committed") == expected


@pytest.fixture(scope="module")
def old(kafka, tmp_path_factory):
    """Its topics: `orders`, written by producers with and without transactions; `kept`, the same log without its last
    segment as it was rescued with --keep-end; and two that are empty."""
    work = tmp_path_factory.mktemp("old")
    broker = Broker(work / "broker")
    try:
        broker.start()
        topics = (f"orders:{_SMALL}", f"kept:{_SMALL}", "sent", "small:max.message.bytes=1000")
        kafka.lines("create", broker.address, *topics)
        kafka.lines("produce", broker.address, "orders", 5)
        kafka.lines("transact", broker.address, "orders", 1, 3, 90, "a", "b", "c")
        broker.stop()
        shutil.copytree(broker.data / "orders-0", work / "orders-0")
        *_, last = sorted((work / "orders-0").glob("*.log"))
        last.unlink()
        kafkarec.salvage(work / "orders-0", work / "out", as_partition=True, keep_end=True)
        broker.serve(kafka, {"kept": work / "out" / "orders-0"})
        yield broker
    finally:
        broker.stop()


def test_producers_of_another_cluster(old, kafka, tmp_path):
    """They get the producer ids of the old cluster."""
    log, out = old.data / "orders-0", tmp_path / "out"
    kafkarec.salvage(log, out, as_partition=True, new_cluster=True)
    with serving(kafka, tmp_path / "new", {"orders": out / "orders-0"}) as new:
        before = consumer_lines(log, "read_committed")
        *consumed, end = kafka.lines("consume", new.address, "orders", "read_uncommitted")
        assert consumed == before and end == f"end {kafkarec.open(log).next_offset}"
        offsets = kafka.lines("produce", new.address, "orders", 5)
        *everything, _ = kafka.lines("consume", new.address, "orders", "read_uncommitted")
        assert [line.split()[0] for line in everything[len(before) :]] == offsets and len(offsets) == 30
        ids, new_ids = (
            {row["producer_id"] for row in kafkarec.open(one / "orders-0").scan()} for one in (old.data, new.data)
        )
        assert len(ids & new_ids - {None}) == 2, "the same ids, of other producers"


def test_a_consumer_reaches_the_end_that_is_kept(old, kafka):
    end = kafkarec.open(old.data / "orders-0").next_offset
    *consumed, ended = kafka.lines("consume", old.address, "kept", "read_uncommitted")
    whole = consumer_lines(old.data / "orders-0", "read_uncommitted")
    assert consumed == whole[: len(consumed)] != whole and ended == f"end {end}"
    place = TopicPartition("kept", 0, 0)
    consumer = Consumer({"bootstrap.servers": old.address, "group.id": "one"})  # librdkafka
    consumer.assign([place])
    deadline = time.monotonic() + 60
    while consumer.position([place])[0].offset < end and time.monotonic() < deadline:
        consumer.poll(0.2)
    assert consumer.position([place])[0].offset == end
    assert kafka.lines("produce", old.address, "kept", 1)[0] == str(end)
    message = consumer.poll(30)
    assert message is not None and message.offset() == end
    consumer.close()


def test_the_producer_of_the_page_sends_every_byte_or_fails(old, kafka, tmp_path):
    page = (ROOT / "docs" / "howto" / "back-into-kafka.md").read_text()
    send, count = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with kafkarec.RecordBatchBuilder() as builder:
        builder.append(1000, None, None)
        builder.append(2000, b'\0\xff\n\t"', b"\xfe\r\n", [("h\u00e9", b"\0"), ("n", None), ("n", b"")])
        builder.append(3000, b"", b"", [("", b"x")])
        builder.append(4000, b"tombstone", None)
        builder.append(5000, None, b"v" * 3000)
        log = plain_logs.log(tmp_path / "new" / "orders-0", [builder.build()])

    def run(code, topic):
        code = code.replace("localhost:9092", old.address).replace('"orders"', f'"{topic}"')
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return run_program(sys.executable, "-c", code, cwd=tmp_path, env=environment)

    assert run(send, "sent").stdout == "5 records sent\n"
    assert run(count, "sent").stdout == "5 records arrived\n"
    *consumed, _ = kafka.lines("consume", old.address, "sent", "read_committed")
    assert consumed == consumer_lines(log, "read_committed")
    refused = run(send, "small")
    assert refused.returncode and " records did not arrive: " in refused.stderr
