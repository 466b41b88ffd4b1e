"""Each line of the table in docs/spark/write.md that says what Spark refuses is refused in those words."""

import re

import pytest
from paths import ROOT, SEGMENTS

pytestmark = pytest.mark.spark


def act(written, spark, df, path):
    """Do what the page shows: what follows df.write.format("kafkarec"), a whole call, or SQL."""
    if "writeStream" in written:
        counts = spark.readStream.format("rate").load().groupBy("value").count()
        writer = eval(written, {"df": counts.selectExpr("'t' AS topic", "'x' AS value")})
        writer.options(checkpointLocation=f"{path}-checkpoint", path=path).trigger(
            availableNow=True
        ).start().awaitTermination()
    elif written.startswith(("df.", ".")):
        written = f'df.write.format("kafkarec"){written}' if written.startswith(".") else written
        eval(written, {"df": df, "path": path})
    else:
        written = written.replace("SELECT ...", "SELECT 't' AS topic, 'x' AS value").replace("/path", str(SEGMENTS))
        spark.sql(written.replace("...", f"{SEGMENTS}/txn-0" if "CREATE" in written else path))


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


REFUSED = table()


@pytest.mark.parametrize("written", REFUSED)
def test_spark_refuses_it_in_these_words(written, spark_session, tmp_path):
    assert len(REFUSED) == 12
    columns = ("'t' AS topic", "0 AS partition", "id AS offset", "string(id) AS key", "string(id) AS value")
    frame = spark_session.range(3).selectExpr(*columns)
    path = tmp_path / "out"
    with pytest.raises(Exception, match=re.escape(REFUSED[written])):
        act(written, spark_session, frame, str(path))
    assert not list(path.glob("t-*"))


def test_what_is_to_be_written_instead_works(spark_session, tmp_path):
    frame = spark_session.range(3).selectExpr("'t' AS topic", "0 AS partition", "string(id) AS value")
    path = str(tmp_path / "out")
    frame.write.format("kafkarec").mode("append").option("numPartitions", 3).save(path)
    view = f"CREATE OR REPLACE TEMPORARY VIEW written USING kafkarec OPTIONS (path '{path}')"
    row = "SELECT NULL, CAST('x' AS BINARY), 't', 0, NULL, NULL, NULL"
    for insert, count in (("INTO", 4), ("OVERWRITE", 1)):
        spark_session.sql(view)
        spark_session.sql(f"INSERT {insert} written {row}")
        spark_session.sql(view)
        assert spark_session.table("written").count() == count
