"""Which errors a worker reports without a traceback, and how it is asked to."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from paths import SEGMENTS
from pyspark import util

import kafkarec
import spark_udfs
from spark_udfs import decoding, encoding, errors, function_options, functions, read_functions
from spark_udfs.errors import is_explained_by_text, report_cause_first
from spark_udfs.source import columns, options, planning

HIDE = "SPARK_HIDE_TRACEBACK"


@pytest.fixture
def worker(monkeypatch):
    """This process as one of Spark's workers; afterwards nothing is hidden."""
    module = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.delenv(HIDE, raising=False)
    yield
    errors.hide_traceback(False)


def wrong_option():
    return caught(lambda: report_cause_first(options.whole_number)("no"))


def mistake():
    return caught(lambda: report_cause_first(function_options.to_literal)({}))


def caught(action):
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "explained, action",
    [
        (True, lambda: kafkarec.decode(b"x" * 100)),
        (True, lambda: options.parse({"mode": "no"}, "read")),
        (True, lambda: options.parse({"maxPartitionBytes": "no"}, "read")),
        (True, lambda: next(decoding.argument_arrays(iter([()]), "f(a)", 1, 1))),
        (True, lambda: encoding.checked_options({"compression": "zip"})),
        (True, lambda: columns.spark_schema(columns.select_columns(options.parse({"columns": "ofset"}, "read")))),
        (True, lambda: os.stat("/missing")),
        (False, lambda: function_options.from_keywords(None)),
        (False, lambda: json.loads("{")),
        (False, lambda: function_options.to_literal({})),
        (False, lambda: b"\xff".decode()),
        (False, lambda: [][0]),
    ],
)
def test_errors_of_input_options_and_paths_are_explained_and_mistakes_of_code_are_not(explained, action):
    assert is_explained_by_text(caught(action)) == explained


def test_a_worker_hides_the_traceback_of_what_is_explained(worker, monkeypatch):
    assert "must be" in str(wrong_option())
    assert os.environ[HIDE] == "1"
    mistake()
    assert HIDE not in os.environ
    monkeypatch.setenv(errors.TRACEBACK_VARIABLE, "1")
    wrong_option()
    assert HIDE not in os.environ


def test_a_setting_of_the_user_stays(worker, monkeypatch):
    monkeypatch.setenv(HIDE, "true")
    wrong_option()
    mistake()
    assert os.environ[HIDE] == "true"


def test_a_spark_that_cannot_hide_it_gets_no_frames(worker, monkeypatch):
    """As in Spark 3.5, whose worker calls traceback.format_exc()."""
    monkeypatch.delattr(util, "handle_worker_exception")
    wrong_option()
    assert sys.tracebacklimit == 0
    assert HIDE not in os.environ
    mistake()
    assert not hasattr(sys, "tracebacklimit")


def test_an_application_is_left_alone():
    assert not errors.is_in_worker()
    wrong_option()
    assert HIDE not in os.environ
    assert not hasattr(sys, "tracebacklimit")


def test_generators_are_covered_and_nested_calls_report_once(worker, monkeypatch):
    reported = []
    monkeypatch.setattr(errors, "hide_traceback", reported.append)

    @report_cause_first
    def inner(rows):
        for row in rows:
            yield options.whole_number(row)

    @report_cause_first
    def outer(rows):
        yield from inner(rows)

    found = outer(["1", "no"])
    assert next(found) == 1
    assert reported == []
    with pytest.raises(ValueError, match="must be a whole number"):
        next(found)
    assert reported == [True]


def test_every_option_can_be_described():
    """In logs and plans, as it was given; of storageOptions the names only."""
    given = {
        "path": "s3://user:password@bucket/kafka-?",
        "basePath": "s3://user:password@bucket",
        "storageOptions": '{"secret": "hidden-value"}',
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "where": "date >= '2026-11-01' AND hour < 3",
        "checkCrcs": "false",
        "maxPartitionBytes": "8k",
    }
    for one in options.TABLE:
        if "read" in one.uses.split() and one.name not in {*given, "paths"}:
            for text in ("1", "true", "latest", "records", "tail", "error", "FAILFAST", "read_committed", "{}", "[]"):
                with suppress(ValueError):
                    assert planning.options_text(options.parse({one.name: text}, "read")).startswith(f"{one.name}=")
    assert planning.options_text(options.parse(given, "read")) == (
        "path=s3://bucket/kafka-? storageOptions=StorageOptions(secret) basePath=s3://bucket "
        "where=date >= '2026-11-01' AND hour < 3 subscribe=a,b "
        "startingOffsets=earliest checkCrcs=false maxPartitionBytes=8k"
    )


def test_values_of_storage_options_that_are_no_json_are_not_printed():
    with pytest.raises(TypeError, match=r"option storageOptions=StorageOptions\(key, secret\): .*bytes") as caught:
        read_functions.option_texts("a", {"storageOptions": {"key": "hidden", "secret": b"hidden"}})
    assert "hidden" not in str(caught.value)


# ---- in a session ----------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_data_frame_functions_check_types_on_the_driver(spark_session):
    from spark_udfs import functions as K

    frame = spark_session.range(1).selectExpr("'a' AS name", "X'00' AS key", "id")
    with pytest.raises(TypeError, match=r"^kafka_explode takes a binary column; name is string\. Bytes as text: unba"):
        K.kafka_explode(frame, "name", keep=["id"])
    assert K.kafka_explode(frame, "key", keep=["id"]).count() == 0
    assert K.kafka_explode(frame, "key", keep="id").columns[0] == "id"


@pytest.mark.parametrize("given", [None, "a path", Path("orders-0")], ids=lambda given: type(given).__name__)
def test_what_is_no_session_is_told(given, tmp_path):
    for call in (
        lambda: spark_udfs.register(given),
        lambda: spark_udfs.register(given, rows_at_once=500),
        lambda: spark_udfs.doctor(given),
        lambda: spark_udfs.count(given, SEGMENTS),
        lambda: spark_udfs.damage_report(given, SEGMENTS),
        lambda: spark_udfs.read_log(given, SEGMENTS),
        lambda: spark_udfs.offsets_at(given, SEGMENTS, 0),
        lambda: spark_udfs.write_table(given, SEGMENTS, tmp_path / "table"),
    ):
        with pytest.raises(TypeError, match=f"^spark must be a SparkSession, not {type(given).__name__}$"):
            call()


def test_what_is_no_data_frame_is_told(tmp_path):
    with pytest.raises(TypeError, match=r"^the call is kafka_explode\(df, col\); df must be a DataFrame, not str$"):
        functions.kafka_explode("value", None)
    with pytest.raises(TypeError, match=r"^the call is write_log\(df, path\); df must be a DataFrame, not str$"):
        spark_udfs.write_log(str(tmp_path), None)
    with pytest.raises(TypeError, match=r"not int$"):
        spark_udfs.sweep(7)
    with pytest.raises(TypeError, match=r"^spark must be a SparkSession, not str$"):
        spark_udfs.sweep(tmp_path, spark="x")


@pytest.mark.spark
def test_explain_names_what_a_read_reads(spark_session, capsys):
    import spark_udfs

    path = str(SEGMENTS / "txn-0")
    secret = {"storageOptions": {"secret": "hidden-value"}}
    size = sum(file.stat().st_size for file in Path(path).glob("*.log"))
    planned = f"{size} bytes: path={path} storageOptions=StorageOptions(secret)"
    spark_udfs.read_log(spark_session, path, maxPartitionBytes="8k", **secret).explain()
    shown = capsys.readouterr().out
    assert f"read_log[3 tasks, 3 splits, {planned} maxPartitionBytes=8k" in shown
    spark_udfs.read_log(spark_session, path, subscribe="txn", **secret).explain()
    shown += capsys.readouterr().out
    assert f"read_log[1 task, 2 splits, {planned}" in shown
    assert "hidden-value" not in shown
    spark_session.read.format("kafkarec").load(path).explain()
    shown = capsys.readouterr().out
    assert "BatchScan kafkarec[" in shown and path not in shown  # if Spark ever shows it, docs/spark/read.md can say so
