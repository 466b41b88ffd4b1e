"""The SQL functions and DataFrame functions in a session: kafka_encode, LATERAL kafka_explode, damage_report, every
docstring example."""

import doctest
import runpy
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import run_demo
from paths import ROOT, SEGMENTS

import spark_udfs
from spark_udfs import functions, registration

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_untyped_nulls_are_accepted(spark_session):
    query = "SELECT kafka_decode(NULL) a, kafka_internal('__consumer_offsets', NULL, NULL).problem b"
    row = spark_session.sql(query).first()
    assert row.a is None and row.b


@pytest.mark.parametrize("name", functions.__all__)
def test_every_function_has_an_example_and_is_on_the_page(name):
    examples = [line for line in getattr(functions, name).__doc__.splitlines() if line.strip().startswith(">>> ")]
    assert any(f"{name}(" in line for line in examples)
    assert f"{name}(" in (ROOT / "docs" / "spark" / "decode.md").read_text()


@pytest.mark.parametrize("module", [functions, spark_udfs], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(spark_session, module, tmp_path, monkeypatch):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)  # write_table writes a folder there

    def segments(partition):
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


def test_register_says_and_sets_how_many_values_spark_holds(spark_session):
    name, before = registration.ROWS, spark_session.conf.get(registration.ROWS)
    try:
        spark_session.conf.set(name, registration.DEFAULT_ROWS)
        assert f"Memory: Spark holds 10000 values at once for a SQL function ({name})" in str(
            spark_udfs.register(spark_session)
        )
        printed = str(spark_udfs.register(spark_session, rows_at_once=500))
        assert spark_session.conf.get(name) == "500" and "Memory" not in printed
        for wrong in (0, "500", True):
            with pytest.raises(ValueError, match=rf"^rows_at_once={wrong!r}: must be a whole number above 0$"):
                spark_udfs.register(spark_session, rows_at_once=wrong)
        assert spark_session.conf.get(name) == "500"
    finally:
        spark_session.conf.set(name, before)


def test_register_says_why_the_workers_python_does_not_serve(tmp_path):
    bare, older = tmp_path / "bare", tmp_path / "older"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # without site-packages
    older.write_text("#!/bin/sh\necho 3.1 pandas\n")  # what such a Python answers
    for each in (bare, older):
        each.chmod(0o755)
    own = "{}.{}".format(*sys.version_info)
    for executable, why in (
        (bare, f"{bare}, the Python of Spark's workers, has no pyarrow and pandas: "),
        (
            older,
            f"{older}, the Python of Spark's workers, is 3.1, and the driver's is {own}: Spark refuses every query. ",
        ),
        (sys.executable, None),
    ):
        session = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=str(executable)))
        with warnings.catch_warnings(record=True) as caught:
            problem = registration._problem(session)
        assert (why is not None) == bool(caught)
        assert problem is None if why is None else why in problem


def test_doctor_reports_workers_that_lack_what_all_functions_need(spark_session, monkeypatch, tmp_path):
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


def test_jobs_of_verbs_are_named(spark_session):
    context, path = spark_session.sparkContext, str(SEGMENTS / "txn-0")
    store = context._jsc.sc().statusStore()
    spark_udfs.count(spark_session, path)
    spark_udfs.damage_report(spark_session, path)
    names = [store.job(number).description() for number in (store.jobsList(None).apply(at).jobId() for at in (1, 0))]
    assert [name.get() for name in names] == [f"kafkarec count {path!r}", f"kafkarec damage_report {path!r}"]
    assert context.getLocalProperty("spark.job.description") is None


def test_the_steps_of_the_demo(spark_session, tmp_path, monkeypatch, capsys):
    """Those of examples/decode_segments.py, which `make demo` runs, without the measurement of 1 GiB."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", ["decode_segments.py"])
    demo = runpy.run_path(str(ROOT / "examples" / "decode_segments.py"))["register"].__globals__
    run_demo.make_flipped((demo["DATA"] / run_demo.SOURCE / f"{0:020}.log").read_bytes(), tmp_path / "flipped")
    demo |= {"DEMO": tmp_path, "FOLDER": demo["DATA"]}
    for _, step in (*demo["SHIPPED"], *demo["YOURS"]):
        if step is not demo["speed"]:
            step()
    printed = capsys.readouterr().out
    partitions = len([*demo["DATA"].glob("*/read_uncommitted.json")])
    assert printed.count("from the consumer: equal") == partitions > 1 and "DIFFERENT" not in printed
    assert "CorruptRecordError" in printed and "crc_mismatch" in printed
