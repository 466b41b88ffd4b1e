"""Which Spark can do what: the table that docs/spark/reference.md shows and `tests/spark/test_versions.py` proves.

A line is a step of tests/support/spark/apps/versions.py. On each version it has the rows that the standalone library
has, or fails with one known error.
"""

from __future__ import annotations

from typing import NamedTuple

from doc_text import table

# The newest release of each version, as it was tried. The last one is that of requirements/executor.txt.
RELEASES = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}


class Line(NamedTuple):
    """step: its name in the application; since: the first version that can do it; before that, `error` is part of the
    message, and `instead` does the same."""

    step: str
    what: str
    since: str = "3.5"
    error: str = ""
    instead: str = ""

    def works_on(self, version: str) -> bool:
        return list(RELEASES).index(version) >= list(RELEASES).index(self.since)


_NO_SOURCE = "Failed to find the data source: kafkarec"
LINES = (
    Line("register", "`spark_udfs.register(spark)`, again too"),
    Line("doctor", "`doctor(spark)`"),
    Line("arrow_values", "values stay Arrow arrays in the workers"),
    Line("sql_decode", "SQL `kafka_decode`"),
    Line("sql_decode_permissive", "SQL `kafka_decode`, PERMISSIVE, damaged values"),
    Line("failfast", "the error of FAILFAST names byte and offset"),
    Line("sql_scan", "SQL `kafka_scan`"),
    Line("sql_encode", "SQL `kafka_encode`"),
    Line("sql_internal", "SQL `kafka_internal`"),
    Line("column_functions", "the SQL functions as Column functions, with options"),
    Line("beside_a_function_of_the_user", "`kafka_decode` of and inside an iterator `pandas_udf`"),
    Line("in_new_york", "times, in a session whose zone is not UTC"),
    Line("explode", "`functions.kafka_explode(df, col)`"),
    Line("damage_report", "`damage_report(spark, path)`"),
    Line("count", "`count(spark, path, **options)`"),
    Line("offsets_at", "`offsets_at(spark, path, time)`"),
    Line("read_log", "`read_log(spark, path, **options)`"),
    Line("end_of_log", "`endOfLog`, `end_of_log`: logs and values that stop in mid-batch"),
    Line("write_log", "`write_log(df, path)`, appending"),
    Line("write_table", "`write_table(spark, path, out)`, and again"),
    Line(
        "lateral",
        "`LATERAL kafka_explode(value)`",
        "4.0",
        "UNRESOLVABLE_TABLE_VALUED_FUNCTION",
        "`inline_outer(kafka_decode(value))`",
    ),
    Line("read", '`spark.read.format("kafkarec")`, SQL views', "4.0", _NO_SOURCE, "`read_log(spark, path)`"),
    Line("write", '`df.write.format("kafkarec")`', "4.0", _NO_SOURCE, "`write_log(df, path)`"),
    Line("stream", "`readStream`: restarts, new segments and partitions, `lag`", "4.0", _NO_SOURCE, "`read_log` again"),
    Line("stream_data_loss", "`readStream` of a truncated log fails", "4.0", _NO_SOURCE, "`read_log` again"),
    Line(
        "stream_limit",
        "`readStream` with `maxOffsetsPerTrigger`",
        "4.2",
        "NeedsNewerSpark: maxOffsetsPerTrigger needs Spark 4.2",
        "no limit",
    ),
    Line("write_stream", "`df.writeStream`, restarted", "4.0", _NO_SOURCE, "`write_log` in `foreachBatch`"),
)


def expected_error(line: Line, version: str) -> str | None:
    """Part of the message of a step that this version cannot do; None: it can."""
    if line.works_on(version):
        return None
    # Without Python data sources Spark itself refuses, before any code of ours.
    return line.error if line.step == "lateral" or version != "3.5" else _NO_SOURCE


def block() -> str:
    """What each version can do as a list, the rest as a table: what a version cannot do is written as what does the
    same there."""
    everywhere = "".join(f"* {line.what}\n" for line in LINES if line.works_on("3.5"))
    rows = [
        (line.what, *("yes" if line.works_on(version) else line.instead for version in RELEASES))
        for line in LINES
        if not line.works_on("3.5")
    ]
    return f"On each:\n\n{everywhere}\n{table(('', *RELEASES.values()), rows)}"
