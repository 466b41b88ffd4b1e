"""Streams over logs that are cleaned while a micro-batch runs, which then fails and is repeated, and over folders that
do not change for a while."""

import json
import os
import random
import time
from contextlib import suppress
from pathlib import Path

import log_cleaning
import pytest
from log_cleaning import RepeatingThread
from stream_engine import Query, Reads, caught_up

import kafkarec
from spark_udfs.source.listing import DataLoss


def planned(query, start, end):
    return query.reader.partitions({"orders": {"0": start}}, {"orders": {"0": end}})


def got(query, tasks):
    return [row["offset"] for task in tasks for row in query._task(task)]


# ---- while a micro-batch runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["1g", "500"])
@pytest.mark.parametrize("begin, end", [(0, 1), (1, 2), (0, 3), (2, 5)])
def test_a_replaced_segment_fails_a_task_and_is_read_by_the_batch_that_repeats_it(broker, size, begin, end):
    broker.fill(6)
    query = Query(broker.root, maxPartitionBytes=size)
    start, stop = 17, broker.offsets[-1] - 5
    query.trigger()
    tasks = planned(query, start, stop)
    assert got(query, tasks) == list(range(start, stop))
    chosen, cleaned = broker.log()[begin:end], broker.cleaned(begin, end)
    log_cleaning.clean(chosen)
    with pytest.raises(DataLoss, match=f"data loss in orders-0: {chosen[0]} is another file than when the query was"):
        got(query, tasks)
    query.restart()
    assert got(query, planned(query, start, stop)) == [each for each in cleaned if start <= each < stop]


def test_a_segment_replaced_by_one_of_its_name_between_two_plans(broker):
    """The folder has the same names as before, so only opening the file shows that the listing is too old."""
    broker.fill(6)
    query = Query(broker.root, maxPartitionBytes="500")
    query.trigger()
    stop = broker.offsets[-1] - 5
    planned(query, 0, stop)
    cleaned = broker.cleaned(1, 2)
    log_cleaning.clean(broker.log()[1:2])
    assert got(query, planned(query, 0, stop)) == [each for each in cleaned if each < stop]


def test_the_active_segment_is_rolled_and_cleaned(broker):
    broker.fill(3)
    query = Query(broker.root)
    query.trigger()
    stop = broker.offsets[-1] + 1
    tasks = planned(query, 5, stop)
    broker.fill(5)
    chosen, cleaned = broker.log()[1:4], broker.cleaned(1, 4)
    log_cleaning.clean(chosen)
    with pytest.raises(DataLoss, match=f"data loss in orders-0: {chosen[0]} is another file than when the query was"):
        got(query, tasks)
    query.restart()
    assert got(query, planned(query, 5, stop)) == [each for each in cleaned if 5 <= each < stop]


def test_a_cleaner_that_runs_all_the_time(broker):
    rng = random.Random(5)
    broker.fill(6)
    query = Query(broker.root, maxOffsetsPerTrigger="150", maxPartitionBytes="900")

    def step():
        segments = broker.log()
        if len(segments) > 300:  # a machine with other work: the query is far behind, and would be for ever
            time.sleep(0.05)
            return
        broker.write(rng.randint(1, 9))
        log_cleaning.clean_sometimes(segments, rng)
        time.sleep(0.005)

    with RepeatingThread(step):
        while len(query.sizes) < 50:
            try:
                if rng.random() < 0.2:
                    query.restart()
                query.trigger(crash=rng.random() < 0.2)
            except DataLoss:  # in a task: the query ends, and its next start repeats the batch
                failed = True
                while failed:
                    with suppress(DataLoss):
                        query.restart()
                        failed = False
    query.run()
    offsets = query.offsets
    assert offsets == sorted(set(offsets))
    kept = list(filter(log_cleaning.third, broker.offsets))
    assert list(filter(log_cleaning.third, offsets)) == kept


# ---- unchanged folders ----------------------------------------------------------------------------------------------


def clock(monkeypatch):
    """Return a function to call instead of `time.sleep`: a file is settled when it is unchanged for three seconds."""
    real, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + sum(passed))
    return passed.append


def test_an_unchanged_folder_is_not_opened(broker, monkeypatch):
    wait = clock(monkeypatch)
    for partition in range(20):
        broker.write(10, partition=partition)
    query = caught_up(broker.root)
    wait(3.5)
    query.trigger()
    with Reads() as reads:
        for _ in range(3):
            assert not query.trigger()
    assert reads.opened == []
    broker.write(3, partition=7)
    with Reads() as reads:
        assert query.run() == 1
    assert {Path(path).parent.name for path in reads.opened if ".log" in path} == {"orders-7"}
    assert query.rows == broker.rows


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_file_that_is_preallocated_in_full(broker, monkeypatch, isolation):
    wait = clock(monkeypatch)
    broker.segment_bytes = 4 << 20  # more zeros than are searched
    broker.writer(preallocate=True)
    query = Query(broker.root, isolationLevel=isolation)
    for _ in range(4):
        broker.write(10)
        assert query.run() == 1
        wait(3.5)
        assert not query.trigger() and not query.trigger()
    assert query.rows == broker.rows
    begin = broker.writer().position
    broker.write(10)
    size = broker.writer().position - begin
    broker.write(10)
    with open(broker.log()[-1], "r+b") as file:  # a batch that was not written, before one that was
        file.seek(begin)
        file.write(bytes(size))
    with pytest.raises(kafkarec.KafkaRecordError, match=f"at byte {begin} "):
        query.run()


def test_a_segment_with_its_old_size_and_new_content_is_noticed(broker, monkeypatch):
    wait = clock(monkeypatch)
    broker.fill(2)
    query = caught_up(broker.root)
    wait(3.5)
    query.trigger()
    assert not query.trigger()
    path = broker.log()[-1]
    broker.writers.pop(("orders", 0)).close()
    size = os.path.getsize(path)
    rows = [(offset, None, None, value[::-1], []) for offset, value in broker.rows["orders", 0] if value is not None]
    rewritten = [kafkarec.encode(rows[at : at + 10]) for at in range(int(path.stem), len(rows), 10)]
    path.write_bytes(b"".join(rewritten))
    assert os.path.getsize(path) == size
    with pytest.raises(DataLoss, match="the log was truncated before it and written again"):
        query.trigger()


def test_new_partitions_segments_and_topics_are_seen_at_once(broker):
    broker.write(3)
    query = Query(broker.root)
    for number in range(1, 8):
        broker.write(3, topic=f"app.log{number}", partition=number)  # a folder may have .log in its name
        broker.write(40)
        assert query.run() == 1
    assert query.rows == broker.rows
    texts = [json.loads(each) for each in query.log]
    assert len(texts[-1]) == 8
