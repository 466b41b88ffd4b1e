"""Folders that grow, roll, and lose their first or last records while a stream runs: every record once, in order."""

import gzip
import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples
from stream_broker import CODECS, Broker
from stream_engine import Query, Reads, caught_up

import kafkarec
from spark_udfs.source.listing import DataLoss

# ---- growth ---------------------------------------------------------------------------------------------------------


def test_an_unchanged_log_starts_no_batch(broker):
    broker.write(10)
    broker.write(3, partition=10)
    broker.write(3, partition=2)
    query = Query(broker.root)
    assert query.run() == 1
    for _ in range(3):
        assert not query.trigger()
        query.restart()
    assert query.log == ['{"orders": {"0": 10, "2": 3, "10": 3}}']


def test_offsets_in_another_json_order_start_no_batch(broker):
    broker.write(10)
    broker.write(3, topic="audit")
    query = Query(broker.root)
    query.log, query.committed = ['{"orders":{"0":10},"audit":{"0":3}}'], 1
    start = query._start()
    assert query.reader.latestOffset(start, query.reader.getDefaultReadLimit()) is start


@pytest.mark.parametrize("cut", [1, 11, 12, 17, 40, 61, 100])
@pytest.mark.parametrize("zeros", [0, 5000])
def test_half_a_batch_is_awaited(broker, cut, zeros):
    broker.write(10)
    query = caught_up(broker.root)
    finish = broker.begin_batch(cut, zeros=zeros)
    assert query.run() == 0
    query.restart()
    assert query.run() == 0
    finish()
    assert query.run() == 1
    assert query.rows == broker.rows


def test_half_a_batch_in_an_empty_log_is_awaited(broker):
    broker.writer()
    query = Query(broker.root)
    finish = broker.begin_batch(80)
    query.run()
    assert query.texts() == [{"orders": {"0": 0}}] and query.rows == {}
    finish()
    query.run()
    assert query.rows == broker.rows


def test_new_partitions_begin_at_their_start(broker):
    broker.write(10)
    query = caught_up(broker.root, startingOffsets="latest")
    broker.writer(partition=1)  # no records yet, so it is not reported
    assert query.run() == 0
    broker.write(5, partition=1)
    broker.writer("audit", 0, start_offset=700)
    broker.write(5, topic="audit")
    assert query.run() == 1
    assert query.rows == {("orders", 1): broker.rows["orders", 1], ("audit", 0): broker.rows["audit", 0]}
    assert query.texts()[-1] == {"audit": {"0": 705}, "orders": {"0": 10, "1": 5}}


def test_only_subscribed_topics_are_followed(broker):
    broker.write(10)
    broker.write(10, topic="audit")
    broker.write(10, partition=1)
    queries = [
        (Query(broker.root, subscribe="orders"), {("orders", 0), ("orders", 1), ("orders", 2)}),
        (Query(broker.root, subscribePattern="aud.*"), {("audit", 0), ("audit2", 0)}),
        (Query(broker.root, assign='{"orders": [1]}'), {("orders", 1)}),
    ]
    for query, _ in queries:
        query.run()
    broker.write(3, partition=2)
    broker.write(3, topic="audit2")
    for query, expected in queries:
        query.run()
        assert query.rows == {key: rows for key, rows in broker.rows.items() if key in expected}


# ---- starts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, first",
    [
        ({}, 0),
        ({"startingOffsets": "latest"}, 60),
        ({"startingOffsets": '{"orders": {"0": 23}}'}, 23),
        ({"startingOffsets": '{"orders": {"0": -2}}'}, 0),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, 60),
        ({"startingTimestamp": "1700000000031"}, 31),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": 1700000000032}}'}, 32),
        ({"startingTimestamp": "1800000000000", "startingOffsetsByTimestampStrategy": "latest"}, 60),
    ],
)
@pytest.mark.parametrize("crash", [False, True])
def test_options_choose_the_first_offset(broker, options, first, crash):
    for _ in range(6):
        broker.write(10)
    query = Query(broker.root, **options)
    query.trigger()
    if crash:  # as if the driver crashed after it logged the first batch's offsets; more records are appended meanwhile
        query.committed, query.rows = 0, {}
        broker.write(10)
        query.restart()
    broker.write(10)
    query.run()
    assert query.rows["orders", 0] == [row for row in broker.rows["orders", 0] if row[0] >= first]


def test_records_appended_while_latest_is_resolved_survive_a_crash(broker):
    broker.write(10)
    query = Query(broker.root, startingOffsets="latest")
    query._start()
    broker.write(10)
    query.trigger(crash=True)
    query.run()
    assert query.rows["orders", 0] == broker.rows["orders", 0][10:]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"startingOffsets": '{"orders": {"0": 99}}'}, "orders-0: startingOffsets asks for 99, and the log ends at"),
        ({"startingOffsets": '{"orders": {"7": 0}}'}, "startingOffsets: cannot find orders-7"),
        (
            {"startingTimestamp": "1800000000000"},
            r"orders-0 has no record at or after 2027-01-15T08:00:00.000Z \(1800000000000 ms\)",
        ),
        ({"subscribe": "oders"}, "subscribe: cannot find oders; there are: orders"),
    ],
)
def test_missing_start_offsets_are_refused(broker, options, message):
    broker.write(10)
    with pytest.raises((ValueError, DataLoss), match=message):
        caught_up(broker.root, **options)


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_a_kafka_batch_with_more_offsets_than_the_limit_is_split(broker):
    broker.write(50, compression="gzip")
    broker.write(50)
    query = caught_up(broker.root, maxOffsetsPerTrigger="7")
    assert query.rows == broker.rows and max(query.sizes) == 7


def test_a_limit_is_divided_in_proportion_to_the_lag(broker):
    for number in range(100):
        broker.write(10, partition=number % 10 // 9)
    query = Query(broker.root, maxOffsetsPerTrigger="100")
    query.trigger()
    assert query.texts() == [{"orders": {"0": 90, "1": 10}}]


def test_a_limit_below_the_number_of_partitions_starves_none(broker):
    for _ in range(10):
        broker.write(50)
    for partition in range(1, 6):
        broker.write(2, partition=partition)
    query = Query(broker.root, maxOffsetsPerTrigger="2")
    query.trigger()
    query.trigger()
    assert query.sizes == [6, 6], "one offset of each"
    assert [query.texts()[-1]["orders"][str(partition)] for partition in range(1, 6)] == [2] * 5


def test_a_limit_in_bytes_follows_the_mean_size_of_an_offset(tmp_path):
    broker = Broker(tmp_path / "data", segment_bytes=1 << 20)
    for number in range(40):
        broker.write(10, partition=number % 4 // 3)
    broker.close()
    total = sum(path.stat().st_size for path in (*broker.log(), *broker.log(partition=1)))
    query = Query(broker.root, maxBytesPerTrigger=str(total // 10 + 1))
    query.trigger()
    assert query.texts() == [{"orders": {"0": 30, "1": 10}}]
    query.run()
    assert query.rows == broker.rows and max(query.sizes) == 40, query.sizes


def test_compressed_segments_are_limited_by_their_size(broker):
    for _ in range(40):
        broker.write(10)
    broker.close()
    for path in broker.log():
        path.with_suffix(".log.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    size = sum(path.stat().st_size for path in broker.root.glob("*/*.gz"))
    query = caught_up(broker.root, maxBytesPerTrigger=str(size // 5))
    assert query.rows == broker.rows and 5 <= len(query.sizes) < 20, query.sizes


def test_all_available_overrides_the_limit(broker):
    for _ in range(10):
        broker.write(10)
    query = Query(broker.root, maxOffsetsPerTrigger="10")
    query.trigger(all_available=True)
    assert query.rows == broker.rows


def test_lag_of_a_query(broker):
    for _ in range(10):
        broker.write(10)
    query = Query(broker.root, maxOffsetsPerTrigger="30")
    assert query.reader.reportLatestOffset() is None
    query.trigger()
    assert query.reader.reportLatestOffset() == {"orders": {"0": 100}}
    assert query.texts()[-1] == {"orders": {"0": 30}}


def test_large_segments_are_split_into_tasks(broker):
    broker.segment_bytes = 1 << 20
    for _ in range(100):
        broker.write(10)
    query = caught_up(broker.root, maxPartitionBytes="1000")
    assert query.rows == broker.rows
    tasks = query.reader.partitions({"orders": {"0": 500}}, {"orders": {"0": 900}})
    assert len(tasks) >= 5
    returned = [row["offset"] for task in tasks for row in query._task(task)]
    assert returned == list(range(500, 900))
    assert len(query.reader.partitions({"orders": {"0": 900}}, {"orders": {"0": 900}})) == 0


# ---- AvailableNow ---------------------------------------------------------------------------------------------------


def test_available_now_ends_at_the_offsets_of_its_start(broker):
    for _ in range(10):
        broker.write(10)
    query = Query(broker.root, maxOffsetsPerTrigger="30")
    query.restart(available_now=True)
    assert query.trigger()
    broker.write(10)
    broker.write(10, partition=1)
    assert query.run() == 3
    assert query.rows == {("orders", 0): broker.rows["orders", 0][:100]}
    query.restart(available_now=True)
    query.run()
    assert query.rows == broker.rows


def test_available_now_tells_of_a_batch_that_is_not_whole(broker, caplog):
    broker.write(10)
    for cut in (0, 40):  # zeros; then the first bytes of a batch in their place
        broker.begin_batch(cut, zeros=5000 - cut)
        query = Query(broker.root)
        query.restart(available_now=True)
        query.run()
        assert query.rows == broker.rows
        said = [each.message for each in caplog.records if "mid-batch" in each.message]
        assert len(said) == bool(cut)
    assert "orders-0: the log stops in mid-batch after offset 9" in said[0] and "5000 bytes" in said[0]


def test_available_now_after_a_crash_in_the_first_batch(broker):
    broker.write(10)
    query = Query(broker.root, startingOffsets="latest")
    query.trigger()
    query.committed = 0
    broker.write(10)
    query.restart(available_now=True)
    query.run()
    assert query.rows["orders", 0] == broker.rows["orders", 0][10:]


# ---- restarts -------------------------------------------------------------------------------------------------------


def test_crashes_lose_nothing_and_repeat_nothing(broker):
    rng = random.Random(3)
    broker.write(5)
    query = Query(broker.root, maxOffsetsPerTrigger="13")
    for _ in range(60):
        broker.write(rng.randint(1, 9), partition=rng.randint(0, 2))
        query.trigger(crash=rng.random() < 0.4)
    query.run()
    assert query.rows == broker.rows


class Plan:
    def __init__(self, draw, root):
        self.draw, self.broker = draw, Broker(root, draw(st.sampled_from([700, 2000, 1 << 20])))
        self.unfinished = None

    def act(self, query):
        what = self.draw(st.sampled_from(["write"] * 4 + ["trigger"] * 3 + ["crash", "restart", "half", "delete"]))
        partition = self.draw(st.integers(0, 2))
        if self.unfinished and what in ("write", "half"):
            self.unfinished()
            self.unfinished = None
        elif what == "write":
            count, codec = self.draw(st.integers(1, 30)), self.draw(st.sampled_from(CODECS))
            self.broker.write(count, partition=partition, compression=codec)
        elif what == "half" and ("orders", partition) in self.broker.writers:
            cut, zeros = self.draw(st.integers(1, 140)), self.draw(st.sampled_from([0, 300]))
            self.unfinished = self.broker.begin_batch(cut, partition, zeros)
        elif what in ("trigger", "crash"):
            query.trigger(crash=what == "crash")
        elif what == "restart":
            query.restart()


@st.composite
def query_options(draw):
    source_options = {}
    limit = draw(st.sampled_from(["", "maxOffsetsPerTrigger", "maxBytesPerTrigger"]))
    if limit:
        source_options[limit] = str(draw(st.integers(1, 500)))
    if draw(st.booleans()):
        source_options["isolationLevel"] = "read_committed"
    if draw(st.booleans()):
        source_options["maxPartitionBytes"] = "300"
    return source_options


@given(st.data(), query_options())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_random_growth_limits_and_restarts(tmp_path_factory, data, options):
    plan = Plan(data.draw, tmp_path_factory.mktemp("random") / "data")
    plan.broker.write(3)
    query = Query(plan.broker.root, **options)
    for _ in range(data.draw(st.integers(1, 25))):
        plan.act(query)
    if plan.unfinished:
        plan.unfinished()
    query.run()
    plan.broker.close()
    assert query.run() == 0  # closing a log adds no batch
    assert query.rows == plan.broker.rows
    if "maxOffsetsPerTrigger" in options:
        assert max(query.sizes) <= int(options["maxOffsetsPerTrigger"]) + 2, "at least one of each of three partitions"


# ---- cost -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """A log of one segment of 10 MB."""
    broker = Broker(tmp_path_factory.mktemp("long") / "data", segment_bytes=64 << 20)
    for number in range(500):
        rows = [(number * 2, 1_700_000_000_000, None, bytes(20_000), [])]
        broker.writer().append(kafkarec.encode(rows, base_offset=None))
        broker.write(1)
    broker.close()
    return broker.root


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="bytes that a process reads are counted on Linux only")
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "5"}, {"maxBytesPerTrigger": "50k"}])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_trigger_reads_what_is_new_however_long_the_log_is(tmp_path, long_log, limit, isolation, indexed):
    shutil.copytree(long_log, tmp_path / "data")
    broker = Broker(tmp_path / "data", segment_bytes=64 << 20)
    broker.write(3)
    if indexed:  # a broker writes it while it appends, a SegmentWriter at the end
        shutil.copy(next(long_log.glob("*/*.index")), broker.log()[0].parent)
    start = {"startingOffsets": '{"orders": {"0": 500}}'} if limit else {}
    query = Query(broker.root, isolationLevel=isolation, **limit, **start)
    query.trigger()
    for _ in range(4):
        broker.write_in_transaction(7, 3)
        broker.end_transaction(7, commit=True)
        with Reads() as reads:
            assert query.trigger()
        most = 1.2 * (1 << 20) if limit else 3000  # files are read in pieces of 1 MiB
        assert reads.bytes < most < os.path.getsize(broker.log()[0]) / 8
    broker.close()
