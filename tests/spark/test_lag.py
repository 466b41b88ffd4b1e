"""How far a stream is behind: from progresses of Spark itself, and in whatever form they come."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stream_broker import Broker
from stream_engine import Query

from spark_udfs import lag
from spark_udfs.stream_lag import Lag

pytestmark = pytest.mark.spark


def progress(done: Any, latest: Any) -> dict[str, Any]:
    return {"sources": [{"description": "x", "endOffset": done, "latestOffset": latest}]}


TOLD = progress({"a": {"0": 30, "1": 5}}, {"a": {"0": 100, "1": 5}, "b": {"0": 7}})
BEHIND = Lag({"a-0": 70, "a-1": 0})


@pytest.mark.parametrize(
    "of",
    [
        TOLD,
        json.dumps(TOLD),
        SimpleNamespace(json=json.dumps(TOLD)),
        SimpleNamespace(lastProgress=SimpleNamespace(json=json.dumps(TOLD))),
        SimpleNamespace(lastProgress=TOLD),
        SimpleNamespace(progress=SimpleNamespace(json=json.dumps(TOLD))),
        progress(*(json.dumps(TOLD["sources"][0][name]) for name in ("endOffset", "latestOffset"))),
    ],
)
def test_every_form_of_a_progress(of: Any) -> None:
    assert lag(of) == BEHIND


def test_what_it_says() -> None:
    assert lag(SimpleNamespace(lastProgress=None)) is None
    assert BEHIND.total == 70 and str(BEHIND) == "70 offsets behind in 2 partitions (a-0 70)"
    assert BEHIND.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "70",
        "avgOffsetsBehindLatest": "35.0",
    }
    with pytest.raises(TypeError, match="int is no query, no progress and no event"):
        lag(3)


@pytest.mark.parametrize("other", [None, "[1]", '{"logOffset": 3}', 7, {"logOffset": 3}])
def test_sources_of_another_kind_are_passed_over(other: Any) -> None:
    both = {"sources": progress(other, other)["sources"] + TOLD["sources"]}
    assert lag(both) == BEHIND


def test_of_a_log_that_begins_late_and_has_new_partitions(broker: Broker) -> None:
    broker.writer("late", 0, start_offset=1_000_000_000)
    for _ in range(4):
        broker.write(10, topic="late")
    broker.writer("late", 1)  # nothing in it
    query = Query(broker.root, maxOffsetsPerTrigger="30")
    query.trigger()
    told = progress(query.texts()[-1], query.reader.reportLatestOffset())
    assert lag(told) == Lag({"late-0": 10, "late-1": 0})


def test_of_a_query_of_spark(spark_session: Any, broker: Broker, tmp_path: Path) -> None:
    for _ in range(10):
        broker.write(10)
    frame = spark_session.readStream.format("kafkarec").option("maxOffsetsPerTrigger", 30).load(str(broker.root))
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [lag(each).total for each in query.recentProgress] == [70, 40, 10, 0]
    assert lag(query) == Lag({"orders-0": 0})
    assert lag(query) == Lag({"orders-0": 0}), "a module of this name must not take its place"
