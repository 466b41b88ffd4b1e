"""The SQL functions and DataFrame functions in a session: kafka_encode, LATERAL kafka_explode, damage_report, every
docstring example."""

from __future__ import annotations

import doctest
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import golden
import pytest
from paths import ROOT, SEGMENTS
from source_rows import log_folder, spoil

import kafkarec
import spark_udfs
from spark_udfs import functions, registration, schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GOOD = golden.vector("v2-none-logappend").bytes


@pytest.fixture
def values(spark_session: Any) -> Any:
    """The view `t` with a column of raw batches: all vectors of magic 2, null, empty."""
    rows = [(case.name, case.bytes) for case in golden.vectors() if case.name.startswith("v2-")]
    frame = spark_session.createDataFrame([*rows, ("null", None), ("empty", b"")], "name string, v binary")
    frame.createOrReplaceTempView("t")
    return frame


def test_decode_of_encode_returns_the_same_rows_in_sql(spark_session: Any, values: Any) -> None:
    for call in ("kafka_encode(a)", "kafka_encode(a, 'zstd')", """kafka_encode(a, '{"compression": "gzip"}')"""):
        again = f"kafka_decode({call})"
        query = f"SELECT name FROM (SELECT name, kafka_decode(v) AS a FROM t) WHERE NOT ({again} <=> a)"
        assert spark_session.sql(query).collect() == []
    query = "SELECT size(kafka_encode(kafka_decode(v))) FROM t"
    with pytest.raises(Exception, match="DATATYPE_MISMATCH"):
        spark_session.sql(query).collect()  # its type is binary, not array
    query = "SELECT name, length(kafka_encode(kafka_decode(v))) AS n FROM t WHERE name IN ('null', 'empty')"
    assert {row.name: row.n for row in spark_session.sql(query).collect()} == {"null": None, "empty": 0}


def test_the_error_of_a_bad_row_names_value_and_row(spark_session: Any) -> None:
    one = "named_struct('offset', 4L, 'value', 'a')"
    query = f"SELECT kafka_encode(array({one}, {one}))"
    with pytest.raises(Exception, match="row 0 of an input batch of 1, 2 records with offsets 4 to 4: record 1"):
        spark_session.sql(query).collect()


def test_wrong_options_fail_on_the_driver() -> None:
    with pytest.raises(ValueError, match="one of none, gzip"):
        functions.kafka_encode("a", "zst")


def test_large_arrow_types_and_other_time_zones(spark_session: Any, values: Any) -> None:
    """Both are runtime settings of the user."""
    settings = {"spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.session.timeZone": "America/New_York"}
    before = {name: spark_session.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark_session.conf.set(name, value)
        frame = values.select(functions.kafka_decode("v").alias("a"))
        again = frame.select("a", functions.kafka_decode(functions.kafka_encode("a", "lz4")).alias("b"))
        assert again.where("NOT (a <=> b)").count() == 0
        rows = "r.offset, unix_micros(r.timestamp) AS us, r.timestampType, r.key, r.value, r.headers, r._corrupt_record"
        lateral = spark_session.sql(f"SELECT name, {rows} FROM t, LATERAL kafka_explode(v) AS r")
        inline = spark_session.sql(f"SELECT name, {rows} FROM t LATERAL VIEW explode(kafka_decode(v)) AS r")
        assert in_order(lateral) == in_order(inline) and lateral.count() > 500
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)


def in_order(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def test_lateral_kafka_explode_in_sql(spark_session: Any, values: Any) -> None:
    columns = [column.name for column in schema.RECORD_COLUMNS]
    frame = spark_session.sql("SELECT r.* FROM t, LATERAL kafka_explode(t.v) AS r WHERE name = 'v2-none-logappend'")
    assert frame.columns == columns and frame.count() == len(kafkarec.decode(GOOD))
    outer = "SELECT r.offset FROM t LEFT JOIN LATERAL kafka_explode(t.v) AS r ON TRUE WHERE name IN ('null', 'empty')"
    assert [row.offset for row in spark_session.sql(outer).collect()] == [None, None]
    bad = GOOD.hex()[:-2] + "ff"
    query = f"SELECT count(_corrupt_record) FROM kafka_explode(unhex('{bad}'), mode => 'PERMISSIVE')"
    assert spark_session.sql(query).first()[0] == 1
    with pytest.raises(Exception, match="crc mismatch"):
        spark_session.sql(f"SELECT * FROM kafka_explode(unhex('{bad}'))").collect()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'text'", "takes a binary column, not string. Bytes as text: unbase64"),
        ("X'00', 'LENIENT'", "the modes are FAILFAST and PERMISSIVE"),
        ("X'00', mod => 'PERMISSIVE'", "no argument 'mod'"),
    ],
)
def test_wrong_arguments_fail_when_the_query_is_planned(spark_session: Any, arguments: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark_session.sql(f"SELECT * FROM kafka_explode({arguments})")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("kafka_decode()", "the call is kafka_decode"),
        ("kafka_scan(5)", "kafka_scan takes a binary column, not int"),
        ("kafka_encode()", "the call is kafka_encode"),
        ("kafka_encode(5)", "kafka_encode takes array<struct<.*>>, not int"),
        ("kafka_decode(struct(1 AS a))", "kafka_decode takes a binary column, not struct<a:int>"),
        ("kafka_internal('__consumer_offsets')", "the call is kafka_internal"),
        ("kafka_internal('__consumer_offsets', 1, X'00')", "kafka_internal takes a binary key, not int"),
    ],
)
def test_errors_of_wrong_calls_name_the_right_call(spark_session: Any, call: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark_session.sql(f"SELECT {call} FROM range(3)").collect()


def test_untyped_nulls_are_accepted(spark_session: Any) -> None:
    query = "SELECT kafka_decode(NULL) a, kafka_internal('__consumer_offsets', NULL, NULL).problem b"
    row = spark_session.sql(query).first()
    assert row.a is None and row.b


def test_damage_report_reports_a_folder(spark_session: Any, tmp_path: Path) -> None:
    data = (SEGMENTS / "txn-0" / "00000000000000000000.log").read_bytes()
    for partition in range(3):
        log_folder(tmp_path / f"orders-{partition}", (0, spoil(data, 1, 4) if partition else data))
    frame = spark_udfs.damage_report(spark_session, str(tmp_path), minPartitions=2)
    assert [each["damaged"] > 0 for each in frame.files] == [False, True, True]
    rows = [row.asDict() for row in frame.frame.orderBy("file", "position").collect()]
    assert tuple(rows) == frame.rows and len(rows) >= 2
    assert frame.frame.groupBy("partition").sum("length").count() == 2


def test_register_lists_all_functions(spark_session: Any) -> None:
    text = str(spark_udfs.register(spark_session))
    for name in ("kafka_encode(records[, options])", "LATERAL kafka_explode", "help(spark_udfs)"):
        assert name in text


@pytest.mark.parametrize("name", functions.__all__)
def test_every_function_has_an_example_and_is_on_the_page(name: str) -> None:
    examples = [line for line in getattr(functions, name).__doc__.splitlines() if line.strip().startswith(">>> ")]
    assert any(f"{name}(" in line for line in examples)
    assert f"{name}(" in (ROOT / "docs" / "spark" / "decode.md").read_text()


@pytest.mark.parametrize("module", [functions, spark_udfs], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(
    spark_session: Any, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)  # write_table writes a folder there

    def segments(partition: str) -> Any:
        files = spark_session.read.format("binaryFile").load(f"{ROOT}/tests/vectors/segments/{partition}/*.log")
        return files.selectExpr("reverse(split(path, '/'))[0] AS file", "content AS value")

    records = functions.kafka_explode(segments("__consumer_offsets-0"), "value")
    source = records.selectExpr("'__consumer_offsets' AS topic", "offset", "key", "value")
    public = {name: getattr(module, name) for name in module.__all__}
    names = {**vars(module), **public, "spark": spark_session, "df": segments("txn-0"), "source": source}
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name, each in public.items():
        for example in finder.find(each, name, globs=dict(names)):
            runner.run(example)
    assert runner.failures == 0 and runner.tries >= 1


def test_register_says_and_sets_how_many_values_spark_holds(spark_session: Any) -> None:
    name, before = registration.ROWS, spark_session.conf.get(registration.ROWS)
    try:
        spark_session.conf.set(name, registration.DEFAULT_ROWS)
        assert f"Memory: Spark holds 10000 values at once for a SQL function ({name})" in str(
            spark_udfs.register(spark_session)
        )
        printed = str(spark_udfs.register(spark_session, rows_at_once=500))
        assert spark_session.conf.get(name) == "500" and "Memory" not in printed
    finally:
        spark_session.conf.set(name, before)


def test_register_says_what_the_workers_python_lacks(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # without site-packages
    python.chmod(0o755)
    for executable, lacks in ((str(python), True), (sys.executable, False)):
        session = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=executable))
        with warnings.catch_warnings(record=True) as caught:
            problem = registration._problem(session)
        assert (problem is not None) == bool(caught) == lacks
        assert not lacks or f"{python}, the Python of Spark's workers, has no pyarrow and pandas" in str(problem)


def test_doctor_reports_workers_that_lack_what_all_functions_need(
    spark_session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import py4j
    import pyspark

    assert spark_udfs.doctor(spark_session).healthy
    python = tmp_path / "python"
    for package in (pyspark, py4j):  # of the site-packages these alone
        (tmp_path / package.__name__).symlink_to(Path(package.__file__).parent)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{tmp_path}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark_session.sparkContext, "pythonExec", str(python))
    found = spark_udfs.doctor(spark_session)
    assert not found.healthy
    assert "has no pyarrow and pandas: queries with kafkarec will fail" in str(found)


def test_jobs_of_verbs_are_named(spark_session: Any) -> None:
    context, path = spark_session.sparkContext, str(SEGMENTS / "txn-0")
    store = context._jsc.sc().statusStore()
    spark_udfs.count(spark_session, path)
    spark_udfs.damage_report(spark_session, path)
    names = [store.job(number).description() for number in (store.jobsList(None).apply(at).jobId() for at in (1, 0))]
    assert [name.get() for name in names] == [f"kafkarec count {path!r}", f"kafkarec damage_report {path!r}"]
    assert context.getLocalProperty("spark.job.description") is None
