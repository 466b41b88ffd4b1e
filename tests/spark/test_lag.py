"""The lag of a stream, from Spark's own progress reports in each of their forms."""

import json
from types import SimpleNamespace

import pytest

from spark_udfs import lag
from spark_udfs.stream_lag import Lag


def progress(done, latest):
    return {"sources": [{"description": "x", "endOffset": done, "latestOffset": latest}]}


PROGRESS = progress({"a": {"0": 30, "1": 5}}, {"a": {"0": 100, "1": 5}, "b": {"0": 7}})
EXPECTED_LAG = Lag({"a-0": 70, "a-1": 0})


@pytest.mark.parametrize(
    "of",
    [
        PROGRESS,
        json.dumps(PROGRESS),
        SimpleNamespace(json=json.dumps(PROGRESS)),
        SimpleNamespace(lastProgress=SimpleNamespace(json=json.dumps(PROGRESS))),
        SimpleNamespace(lastProgress=PROGRESS),
        SimpleNamespace(progress=SimpleNamespace(json=json.dumps(PROGRESS))),
        progress(*(json.dumps(PROGRESS["sources"][0][name]) for name in ("endOffset", "latestOffset"))),
    ],
)
def test_every_form_of_a_progress_is_accepted(of):
    assert lag(of) == EXPECTED_LAG


def test_the_lag_as_text():
    assert lag(SimpleNamespace(lastProgress=None)) is None
    assert EXPECTED_LAG.total == 70 and str(EXPECTED_LAG) == "70 offsets behind in 2 partitions (a-0 70)"
    with pytest.raises(TypeError, match="int is not a query, a progress report or an event"):
        lag(3)


@pytest.mark.parametrize("other", [None, "[1]", '{"logOffset": 3}', 7, {"logOffset": 3}])
def test_other_sources_are_ignored(other):
    both = {"sources": progress(other, other)["sources"] + PROGRESS["sources"]}
    assert lag(both) == EXPECTED_LAG


@pytest.mark.spark
def test_the_lag_of_a_spark_query(spark_session, broker, tmp_path):
    for _ in range(10):
        broker.write(10)
    frame = spark_session.readStream.format("kafkarec").option("maxOffsetsPerTrigger", 30).load(str(broker.root))
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [lag(each).total for each in query.recentProgress] == [70, 40, 10, 0]
    assert lag(query) == Lag({"orders-0": 0})
    assert lag(query) == Lag({"orders-0": 0}), "a module of the same name has replaced the function"
