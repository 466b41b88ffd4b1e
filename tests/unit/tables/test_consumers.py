"""polars and DuckDB import the columns in an interpreter without pyarrow; what needs it says so."""

import pytest
import subprocesses

SETUP = (
    subprocesses.BLOCK_PYARROW
    + """
import golden, kafkarec
columns = kafkarec.decode(golden.vector("v2-multi-batch").bytes)
wanted = [(r.offset, r.timestamp, r.key, r.value, len(r.headers)) for r in columns]
assert wanted and "pyarrow" not in sys.modules
"""
)
CONSUMERS = {
    "polars": """
import polars as pl
frame = pl.DataFrame(columns)
assert frame.columns == ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
got = frame.select(
    pl.col("offset"), pl.col("timestamp").dt.epoch("ms"), pl.col("key"), pl.col("value"),
    pl.col("headers").list.len().cast(pl.Int64),
).rows()
assert got == wanted, got[:3]
assert pl.DataFrame(columns.batches).height == len(columns.batches)
assert columns.to_polars().equals(frame)
assert pl.DataFrame(columns[2:4]).height == 2
""",
    "duckdb": """
import duckdb
got = duckdb.sql(
    "select \\"offset\\", epoch_ms(timestamp), key, value, len(headers) from columns order by 1"
).fetchall()
assert got == sorted(wanted), got[:3]
batches = columns.batches
assert duckdb.sql("select count(*) from batches").fetchall() == [(len(batches),)]
assert duckdb.sql("select count(*) from columns").fetchall() == [(len(columns),)]
""",
    "pandas by pyarrow is refused with advice": """
for call in (columns.to_arrow, columns.to_pandas):
    try:
        call()
    except ImportError as error:
        assert "pyarrow" in str(error) and "pip install" in str(error), error
    else:
        raise SystemExit(f"{call} worked without pyarrow")
""",
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_columns_without_pyarrow(name):
    subprocesses.run(SETUP + CONSUMERS[name] + "\nassert 'pyarrow' not in sys.modules\n")


def test_the_core_imports_no_consumer_and_no_codec_it_does_not_need():
    code = "import sys, kafkarec; print(' '.join(sys.modules))"
    modules = set(subprocesses.run(code).split())
    heavy = {"pyarrow", "pandas", "polars", "duckdb", "numpy", "pyspark", "fsspec", "rich"}
    assert not heavy & modules
