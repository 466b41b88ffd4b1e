"""A running broker serves logs of which salvage mended one marker each: a read_committed consumer sees nothing that was
hidden, misses nothing that was committed and proven, and is not stopped; producers write on, also those of the damaged
transactions; the log cleaner cleans.

The logs: real ones of tests/vectors, and one that this broker writes. Each marker is damaged in each way, with all side
files and with the segments alone. A usual run takes some of these cases, this one takes all of them:

    KAFKAREC_ORACLE=5000 make test ARGS=tests/jvm/test_served_markers.py
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import NamedTuple

import golden
import hurt_markers
import jvm_oracle
import pytest
from broker import Broker
from hurt_markers import CUT_OUT, DAMAGE, HurtLog
from jvm_reading import ISOLATION, consumer_lines
from verify_reports import kinds

import kafkarec
from kafkarec.ops.salvage import SalvagedPartition

pytestmark = pytest.mark.slow

_IDS = ("a", "b", "c")
_STEPS = 60
_SMALL = "internal.segment.bytes=3000:segment.index.bytes=4096"


class Served(NamedTuple):
    """broker: serves the topic `hurt`. Its partitions: first what salvage made of each of the runs, with its report,
    then the whole logs; made: the folder that was given to the broker for each; whole: source -> its partition."""

    broker: Broker
    runs: list[HurtLog]
    reports: list[SalvagedPartition]
    made: list[Path]
    whole: dict[Path, int]

    def folder(self, number):
        return self.broker.data / f"hurt-{number}"

    def consumed(self, kafka, isolation):
        """Of each partition the consumer's records by offset, one line each, and where it ended."""
        found = []
        lines = {}
        for line in kafka.lines("consume all", self.broker.address, "hurt", isolation, len(self.made)):
            first, rest = line.split(" ", 1)
            if first == "end":
                found.append((lines, int(rest)))
                lines = {}
            else:
                lines[int(first)] = line
        return found


def cases(source):
    """(marker, kind of damage, whether the log keeps its side files). Of a marker that was cut out nothing is left but
    what a side file says."""
    return [
        (marker, damage, whole)
        for marker in hurt_markers.markers(source)
        for damage in DAMAGE
        for whole in (True, False)
        if whole or damage != CUT_OUT
    ]


@pytest.fixture(scope="module")
def served(kafka, tmp_path_factory):
    work = tmp_path_factory.mktemp("hurt")
    broker = Broker(
        tmp_path_factory.mktemp("broker"),
        log_cleaner_enable="true",
        log_cleaner_backoff_ms="200",
        transaction_state_log_num_partitions="1",
    )
    try:
        broker.start()
        kafka.lines("create", broker.address, f"made:{_SMALL}")
        kafka.lines("transact", broker.address, "made", 1, 1, 2 * _STEPS, *_IDS)
        with broker.paused():
            made_log = golden.copied(broker.data / "made-0", work / "made")
        sources = [*hurt_markers.FOLDERS, made_log]
        of_each = [cases(source) for source in sources]
        chosen = [one for some in of_each for one in random.Random(1).sample(some, min(_most(), len(some)))]
        runs, reports = [], []
        for number, (marker, damage, whole) in enumerate(chosen):
            run = hurt_markers.hurt(marker, damage, work / str(number), () if whole else (".log",), f"hurt-{number}")
            runs.append(run)
            reports += kafkarec.salvage(run.folder, run.out, as_partition=True).partitions
        made = [run.out / run.folder.name for run in runs]
        whole = {source: len(made) + number for number, source in enumerate(sources)}
        made += [golden.copied(source, work / f"whole-{source.name}") for source in sources]
        broker.serve(kafka, {"hurt": made}, {"hurt": _SMALL})
        yield Served(broker, runs, reports, made, whole)
    finally:
        broker.stop()


def _most():
    """How many cases of each log."""
    return jvm_oracle.count(12)


def test_a_consumer_sees_nothing_that_was_hidden_and_is_not_stopped(served, kafka):
    consumed, everything = (served.consumed(kafka, isolation) for isolation in reversed(ISOLATION))
    for number, run in enumerate(served.runs):
        lines, end = consumed[number]
        healthy, healthy_end = consumed[served.whole[run.source]]
        report = served.reports[number]
        assert hurt_markers.wrong(run, set(lines), report.markers, set(healthy)) == (set(), set()), run
        assert lines.items() <= everything[served.whole[run.source]][0].items(), run
        assert end >= healthy_end or hurt_markers.may_stay_open(run), run
        if kafkarec.open(run.source).start_offset == 0:  # see below
            assert [*lines.values()] == consumer_lines(served.made[number], "read_committed"), run
        for path in served.made[number].glob("*.log"):
            assert (served.folder(number) / path.name).read_bytes() == path.read_bytes(), path


def test_producers_write_on(served, kafka):
    """Also those of the damaged transactions, which this broker's coordinator knows. Transactions that are open at the
    log's end are ended as docs/howto/transactions.md says."""
    logs = [kafkarec.open(folder) for folder in served.made]
    before = [lines for lines, _ in served.consumed(kafka, "read_uncommitted")]
    aborted = kafka.lines("abort open", served.broker.address, "hurt", len(logs))
    ended = [tuple(map(int, line.split())) for line in aborted]
    assert sorted(one for one in ended if logs[one[0]].start_offset == 0) == sorted(
        (number, one.producer_id, one.first_offset)
        for number, log in enumerate(logs)
        if log.start_offset == 0  # below it a transaction may have begun, as only a broker knows
        for one in log.transactions().ongoing
    )
    transacted = kafka.lines("transact", served.broker.address, "hurt", len(logs), 2, _STEPS, *_IDS)
    written = [line.split() for line in transacted]
    visible = {
        isolation: [f".{value.encode().hex()}" for shown, value in written if shown == "1" or isolation == ISOLATION[0]]
        for isolation in ISOLATION
    }
    assert 0 < len(visible["read_committed"]) < len(visible["read_uncommitted"]) == len(written)
    ends, old = {}, {}
    for isolation in ISOLATION:
        consumed = served.consumed(kafka, isolation)
        ends[isolation] = [end for _, end in consumed]
        following = [log.transactions().next_offset or 0 for log in logs]
        old[isolation] = [
            {at: line for at, line in lines.items() if at < end}
            for (lines, _), end in zip(consumed, following, strict=True)
        ]
        for (lines, _), end in zip(consumed, following, strict=True):
            assert [line.split()[4] for at, line in lines.items() if at >= end] == visible[isolation]
    assert ends["read_committed"] == ends["read_uncommitted"]  # no transaction is open
    assert old["read_uncommitted"] == before
    for number, run in enumerate(served.runs):
        lines, healthy = old["read_committed"][number], old["read_committed"][served.whole[run.source]]
        assert hurt_markers.wrong(run, set(lines), served.reports[number].markers, set(healthy)) == (set(), set()), run


def test_the_log_cleaner_cleans(served, kafka):
    """What stays is the last record of each key that a consumer saw, and nothing that was hidden."""
    before = served.consumed(kafka, "read_committed")
    kafka.lines("alter", served.broker.address, "hurt", "cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
    active = {number: max(map(_base, served.folder(number).glob("*.log"))) for number in range(len(served.made))}
    deadline = time.monotonic() + 30 + len(active)
    cleaned = {}
    while cleaned != active and time.monotonic() < deadline:
        time.sleep(0.2)
        text = (served.broker.data / "cleaner-offset-checkpoint").read_text()
        cleaned = {int(number): int(offset) for number, offset in re.findall(r"^hurt (\d+) (\d+)$", text, re.MULTILINE)}
    assert cleaned == active, served.broker.log_text[-2000:]
    for number, (lines, end) in enumerate(served.consumed(kafka, "read_committed")):
        was, folder = before[number], served.made[number]
        assert lines.items() < was[0].items() and end == was[1], folder
        last = {line.split()[3]: line for line in was[0].values() if line.split()[3] != "null"}
        assert set(last.values()) <= set(lines.values()), folder
        report = kafkarec.verify(served.folder(number))
        # the logs are from other clusters, whose leader epochs were higher
        assert report.damage == () and kinds(report, "error") <= {"epoch_goes_back"}, folder


def _base(path):
    return int(path.stem)
