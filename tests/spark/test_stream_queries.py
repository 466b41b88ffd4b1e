"""Queries of Spark over growing folders: triggers, restarts, progress, a checkpoint of an earlier version."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from paths import TESTS
from stream_broker import Broker
from stream_engine import Row

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

CHECKPOINTS = TESTS / "spark" / "checkpoints"
Rows = dict[tuple[str, int], list[Row]]


class Follower:
    """One query with its checkpoint. `batches` has the returned rows by batch id; `fail_at` makes a batch fail."""

    def __init__(self, spark: Any, path: Path, checkpoint: Path, **options: str) -> None:
        self.spark, self.path, self.checkpoint, self.options = spark, path, checkpoint, options
        self.batches: dict[int, Rows] = {}
        self.fail_at: int | None = None
        self.seen_by_failed: Rows = {}

    def start(self, **trigger: Any) -> Any:
        frame = self.spark.readStream.format("kafkarec").options(**self.options).load(str(self.path))
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger or {"processingTime": "50 milliseconds"}).start()

    def _take(self, frame: Any, number: int) -> None:
        rows: Rows = {}
        for row in frame.collect():
            rows.setdefault((row.topic, row.partition), []).append((row.offset, bytes(row.value)))
        if number == self.fail_at:
            self.seen_by_failed = rows
            raise RuntimeError("the sink is full")
        assert number not in self.batches, "a batch was delivered twice"
        self.batches[number] = rows

    def run(self) -> list[dict[str, Any]]:
        """Run with AvailableNow; return the progress of each batch."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120)
        return [json.loads(each.json) for each in query.recentProgress]

    @property
    def rows(self) -> Rows:
        merged: Rows = {}
        for _, rows in sorted(self.batches.items()):
            for key, each in rows.items():
                merged.setdefault(key, []).extend(each)
        return merged


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    started = Broker(tmp_path / "data")
    yield started
    started.close()


def waited_for(is_done: Callable[[], bool], query: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_done():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, query.lastProgress
        time.sleep(0.05)


def test_a_folder_that_grows_while_the_query_runs(spark_session: Any, broker: Broker, tmp_path: Path) -> None:
    broker.write(10)
    follower = Follower(spark_session, broker.root, tmp_path / "checkpoint", includeHeaders="true")
    query = follower.start()
    try:
        for number in range(9):
            broker.write(40, compression=("none", "zstd")[number % 2])
            broker.write(7, partition=number // 4)
            if number % 3 == 0:
                waited_for(lambda: follower.rows == broker.rows, query)
        finish = broker.begin_batch(20, cut=90)
        waited_for(lambda: follower.rows == broker.rows, query)
        before = len(follower.batches)
        time.sleep(1)
        assert len(follower.batches) == before, "a batch without new rows"
        finish()
        waited_for(lambda: follower.rows == broker.rows, query)
    finally:
        query.stop()
    assert len(broker.log()) > 3
    assert all(any(rows.values()) for rows in follower.batches.values())


def test_available_now_and_again(spark_session: Any, broker: Broker, tmp_path: Path) -> None:
    for _ in range(10):
        broker.write(10)
    follower = Follower(spark_session, broker.root, tmp_path / "checkpoint", maxOffsetsPerTrigger="30")
    progress = follower.run()
    assert [each["numInputRows"] for each in progress] == [30, 30, 30, 10]
    (source,) = progress[1]["sources"]
    for name, offset in (("startOffset", 30), ("endOffset", 60), ("latestOffset", 100)):
        assert source[name] == {"orders": {"0": offset}}, name
    follower.run()
    assert len(follower.batches) == 4
    broker.write(10)
    broker.write(5, topic="audit")
    follower.options = {"maxBytesPerTrigger": "200"}
    follower.run()
    assert follower.rows == broker.rows and len(follower.batches) > 5


def test_a_failed_batch_is_repeated_unchanged(spark_session: Any, broker: Broker, tmp_path: Path) -> None:
    for _ in range(6):
        broker.write(10)
    for starting, times in (("earliest", 2), ("latest", 1)):
        follower = Follower(spark_session, broker.root, tmp_path / starting, startingOffsets=starting)
        first = len(broker.rows["orders", 0]) if starting == "latest" else 0
        for _ in range(times):
            follower.fail_at = number = len(follower.batches)
            with pytest.raises(Exception, match="the sink is full"):
                follower.run()
            broker.write(10)  # not part of the failed batch, whose offsets are logged
            follower.fail_at = None
            follower.run()
            assert follower.batches[number] == follower.seen_by_failed
            broker.write(10)
        follower.run()
        assert follower.rows["orders", 0] == broker.rows["orders", 0][first:]


def test_lost_offsets_end_the_query_unless_fail_on_data_loss_is_off(
    spark_session: Any, broker: Broker, tmp_path: Path
) -> None:
    for _ in range(40):
        broker.write(10)
    strict = Follower(spark_session, broker.root, tmp_path / "strict")
    lenient = Follower(spark_session, broker.root, tmp_path / "lenient", failOnDataLoss="false")
    strict.run()
    lenient.run()
    before = list(broker.rows["orders", 0])
    broker.truncate(330)
    with pytest.raises(Exception, match="orders-0: the next offset is 400, and the log ends at offset 330"):
        strict.run()
    lenient.run()
    broker.write(10)
    broker.write(10)
    lenient.run()
    assert lenient.rows["orders", 0] == before + broker.rows["orders", 0][330:]
    start = broker.delete_first()
    begun = {"startingOffsets": json.dumps({"orders": {"0": start - 1}})}
    with pytest.raises(Exception, match=f"startingOffsets asks for {start - 1}, and the log begins at offset {start}"):
        Follower(spark_session, broker.root, tmp_path / "begun", **begun).run()
    follower = Follower(spark_session, broker.root, tmp_path / "begun", failOnDataLoss="false", **begun)
    follower.run()
    assert follower.rows == broker.rows


def test_wrong_options_are_refused_when_the_query_is_created(spark_session: Any, broker: Broker) -> None:
    broker.write(1)
    reader = spark_session.readStream.format("kafkarec")
    for options, message in [
        ({"maxOffsetsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "only one of the options maxOffsetsPerTrigger"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
    ]:
        with pytest.raises(Exception, match=message):
            reader.options(**options).load(str(broker.root))
        reader = spark_session.readStream.format("kafkarec")


def test_damage_is_reported_by_a_stream(spark_session: Any, broker: Broker, tmp_path: Path) -> None:
    broker.write(10)
    path, position = broker.log()[0], broker.writer().position
    broker.write(10)
    broker.write(10)
    with open(path, "r+b") as file:
        file.seek(position + 70)
        file.write(b"\xff\xfe\xfd")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}
    frame = spark_session.readStream.format("kafkarec").options(**options).load(str(broker.root))
    query = frame.writeStream.format("memory").queryName("damaged").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    rows = spark_session.table("damaged").collect()
    assert [row.offset for row in rows if row.offset is not None] == [*range(10), *range(20, 30)]
    (damage,) = [json.loads(row._corrupt_record) for row in rows if row._corrupt_record]
    assert damage["position"] == position and damage["reason"] == "crc_mismatch"
    with pytest.raises(Exception, match="crc mismatch in"):
        Follower(spark_session, broker.root, tmp_path / "failfast").run()


def written(root: Path) -> Broker:
    """The partitions from which the checkpoints below were made."""
    broker = Broker(root)
    for _ in range(5):
        broker.write(10)
        broker.write(4, partition=10)
        broker.write(2, topic="audit", partition=3)
    return broker


@pytest.mark.parametrize("version", sorted(path.name for path in CHECKPOINTS.iterdir()))
def test_a_checkpoint_of_an_earlier_version_opens(spark_session: Any, tmp_path: Path, version: str) -> None:
    """Batches 0 and 1 are committed; of batch 2 only the offsets were logged."""
    broker = written(tmp_path / "data")
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(CHECKPOINTS / version, checkpoint)
    done, planned = (
        json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[2]) for number in (1, 2)
    )
    follower = Follower(spark_session, broker.root, checkpoint, maxOffsetsPerTrigger="20")
    follower.run()
    assert min(follower.batches) == 2
    for (topic, partition), rows in broker.rows.items():
        first, end = (offsets[topic][str(partition)] for offsets in (done, planned))
        assert follower.rows[topic, partition] == [row for row in rows if row[0] >= first]
        assert follower.batches[2].get((topic, partition), []) == [row for row in rows if first <= row[0] < end]
    broker.close()
