"""Each line of the table in docs/spark/write.md that says what Spark refuses is refused in those words."""

import re

import pytest
from paths import ROOT, SEGMENTS

pytestmark = pytest.mark.spark


def stream(spark, frame, path):
    counts = spark.readStream.format("rate").load().groupBy("value").count().selectExpr("'t' AS topic", "'x' AS value")
    writer = (
        counts.writeStream.format("kafkarec").outputMode("update").option("checkpointLocation", f"{path}-checkpoint")
    )
    writer.trigger(availableNow=True).start(path).awaitTermination()


def append(frame):
    return frame.write.format("kafkarec").mode("append")


ACTIONS = {
    'df.write.format("kafkarec").save(path)': lambda spark, frame, path: frame.write.format("kafkarec").save(path),
    '.mode("ignore").save(path)': lambda spark, frame, path: append(frame).mode("ignore").save(path),
    '.mode("append").partitionBy("topic").save(path)': lambda spark, frame, path: (
        append(frame).partitionBy("topic").save(path)
    ),
    '.mode("append").bucketBy(3, "key").save(path)': lambda spark, frame, path: (
        append(frame).bucketBy(3, "key").save(path)
    ),
    '.mode("append").sortBy("offset").save(path)': lambda spark, frame, path: append(frame).sortBy("offset").save(path),
    '.mode("append").saveAsTable("t")': lambda spark, frame, path: append(frame).saveAsTable("t"),
    '.insertInto("t")': lambda spark, frame, path: append(frame).insertInto("t"),
    'df.writeTo("t").using("kafkarec").create()': lambda spark, frame, path: (
        frame.writeTo("t").using("kafkarec").create()
    ),
    "CREATE TABLE t USING kafkarec OPTIONS (path '...')": lambda spark, frame, path: spark.sql(
        f"CREATE TABLE t USING kafkarec OPTIONS (path '{SEGMENTS}/txn-0')"
    ),
    "SELECT * FROM kafkarec.`/path`": lambda spark, frame, path: spark.sql(f"SELECT * FROM kafkarec.`{SEGMENTS}`"),
    "INSERT OVERWRITE DIRECTORY '...' USING kafkarec SELECT ...": lambda spark, frame, path: spark.sql(
        f"INSERT OVERWRITE DIRECTORY '{path}' USING kafkarec SELECT 't' AS topic, 'x' AS value"
    ),
    'df.writeStream.format("kafkarec").outputMode("update")': stream,
}


def table():
    """What is written -> the words, from the page."""
    page = (ROOT / "docs" / "spark" / "write.md").read_text(encoding="utf-8")
    rows = page.partition("<!-- refused -->")[2].partition("<!-- end of refused -->")[0].strip().splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {_code(written): _code(words) for written, words, _ in cells}


def _code(cell):
    match = re.fullmatch(r"(`+)(.*?) ?\1", cell)
    assert match is not None, cell
    return match[2]


def test_every_line_is_tried():
    assert list(table()) == list(ACTIONS)


@pytest.mark.parametrize("written", ACTIONS)
def test_spark_refuses_it_in_these_words(written, spark_session, tmp_path):
    columns = ("'t' AS topic", "0 AS partition", "id AS offset", "string(id) AS key", "string(id) AS value")
    frame = spark_session.range(3).selectExpr(*columns)
    path = tmp_path / "out"
    with pytest.raises(Exception, match=re.escape(table()[written])):
        ACTIONS[written](spark_session, frame, str(path))
    assert not list(path.glob("t-*"))


def test_what_is_to_be_written_instead_works(spark_session, tmp_path):
    frame = spark_session.range(3).selectExpr("'t' AS topic", "0 AS partition", "string(id) AS value")
    path = str(tmp_path / "out")
    append(frame).option("numPartitions", 3).save(path)
    view = f"CREATE OR REPLACE TEMPORARY VIEW written USING kafkarec OPTIONS (path '{path}')"
    row = "SELECT NULL, CAST('x' AS BINARY), 't', 0, NULL, NULL, NULL"
    for insert, count in (("INTO", 4), ("OVERWRITE", 1)):
        spark_session.sql(view)
        spark_session.sql(f"INSERT {insert} written {row}")
        spark_session.sql(view)
        assert spark_session.table("written").count() == count
