"""`spark.read.format("kafkarec")`: folders of Kafka segments as a Spark source and sink.

    spark_udfs.register(spark)
    spark.read.format("kafkarec").load("/kafka/data/orders-0")

| file | what |
|---|---|
| options | every option: name, type, default, use; a stream's offsets as JSON |
| paths | the options that name files to partitions and their segments, by kafkarec.find |
| listing | the same for folders that are being written to: the same names twice, current sizes |
| selection | partitions and offsets, by the options of Spark's Kafka source |
| planning | splits: what each task reads, and read_committed leaves out; in a task: opens the planned file |
| reading | in a task: reads a split as Arrow record batches |
| counters | in a task: what it has read, and what follows the last batch of each split |
| gaps | offsets that are missing between segments |
| header_counts | in a task: counts the records of a split by headers |
| columns | a user's schema or list of columns, metadata, the batches view |
| batch | the reader of `spark.read` |
| stream | the reader of `spark.readStream`: a micro-batch is the plan of two offsets of each partition |
| growing_log | one log while it grows, for streams and write_table |
| log_batches | the batches of a segment by their headers, restored where these do not follow each other |
| writing, rows_by_partition | the writers of `df.write` and `df.writeStream`: assign rows to partitions |
| staging, publishing | tasks stage their records; the driver publishes all records of a job, or none |
| folders, buckets | how that is done in a folder, in a bucket |
| worker_path | pickles that make this package importable in the processes of a stream |
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from spark_udfs.capabilities import DataSource
from spark_udfs.errors import report_cause_first

from .worker_path import PicklesWithPackage

NAME = "kafkarec"


class KafkarecDataSource(PicklesWithPackage, DataSource):
    """The entry points for Spark: schema, readers and writers, each implemented in a separate module.

    overwrites: what an overwrite without the option partitionOverwriteMode replaces: dynamic in a session with
        spark.sql.sources.partitionOverwriteMode=dynamic, which Spark does not pass on
    cores: of the session that has registered it; None: not known
    """

    overwrites = "static"
    cores: int | None = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return NAME

    @report_cause_first
    def schema(self) -> Any:
        from .batch import schema

        return schema(self.options)

    @report_cause_first
    def reader(self, schema: Any) -> Any:
        from .batch import reader

        return reader(self.options, schema, self.cores)

    @report_cause_first
    def streamReader(self, schema: Any) -> Any:
        from .stream import reader

        return reader(self.options, schema)

    @report_cause_first
    def writer(self, schema: Any, overwrite: bool) -> Any:
        from .writing import writer

        return writer(self.options, schema, self.overwrites if overwrite else None)

    @report_cause_first
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from .writing import writer

        return writer(self.options, schema, self.overwrites if overwrite else None, is_stream=True)
