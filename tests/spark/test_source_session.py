"""What Spark passes to a data source in Python, on which its design stands: see docs/explanation/design.md."""

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def pushing_source():
    """A source of one row, or of none after any filter was pushed. Its classes are local, so pickled as code."""

    class Reader(DataSourceReader):
        rows = 1

        def pushFilters(self, filters):
            self.rows = 0
            return filters

        def read(self, partition):
            yield from [(1,)] * self.rows

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "pushing"

        def schema(self):
            return "n int"

        def reader(self, schema):
            return Reader()

    return Source


def test_spark_keeps_pushed_filters_for_the_whole_frame(spark_session):
    """Why the source takes no filters: PythonScanBuilder.pushFilters saves the plan in the frame's source, and later
    uses of that frame read it. If this fails, Spark plans each use separately, and filters could be pushed."""
    key = "spark.sql.python.filterPushdown.enabled"
    spark_session.dataSource.register(pushing_source())
    spark_session.conf.set(key, "true")
    try:
        frame = spark_session.read.format("pushing").load()
        assert frame.count() == 1
        assert frame.where("n > 0").count() == 0
        assert frame.count() == 0
    finally:
        spark_session.conf.unset(key)


def test_spark_passes_filters_and_nothing_else_to_a_source_in_python(spark_session):
    """With columns, aggregates or limits, `df.count()` itself could be cheap: then see docs/explanation/design.md."""
    builder = "org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder"
    loader = spark_session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    interfaces = spark_session._jvm.java.lang.Class.forName(builder, True, loader).getInterfaces()
    names = {each.getSimpleName() for each in interfaces}
    assert names == {"SupportsPushDownFilters"}
