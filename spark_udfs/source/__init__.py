"""`spark.read.format("kafkarec")`: folders of Kafka segments as a Spark source and sink.

    spark_udfs.register(spark)
    spark.read.format("kafkarec").load("/kafka/data/orders-0")

| file | what |
|---|---|
| options | every option: name, type, default, use |
| paths | paths, globs, folders and URLs to partitions and their segments |
| listing | the same while somebody writes there: names that belong together, sizes as they are now |
| selection | partitions and offsets, by the options of Spark's Kafka source |
| planning | splits: what each task reads |
| undecided | read_committed: what is aborted or open, from the segment in which reading begins |
| moved | in a task: the file that was planned, or where its records are now |
| reading | in a task: one split to Arrow record batches |
| columns | a user's schema or list of columns, metadata, the batches view |
| batch | the reader of `spark.read` |
| stream | the reader of `spark.readStream` |
| writing, dividing, partitioner | the writer of `df.write`: rows to partitions |
| places | where a job writes: a folder, or one in a bucket |
| staging, publishing, folders | what tasks stage, and how it is published: all of a job, or nothing |
| bucket_staging, bucket_publishing, bucket_segments, buckets, turns | the same in a bucket |
| stream_writing | the writer of `df.writeStream` |
| findable | what the processes of a stream need to find this package |
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource

from .worker_path import Findable

NAME = "kafkarec"


class KafkarecDataSource(Findable, DataSource):
    """What Spark asks for; each answer lives in a room of its own."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> Any:
        from .batch import schema

        return schema(self.options)

    def reader(self, schema: Any) -> Any:
        from .filters import reader

        return reader(self.options, schema)

    def streamReader(self, schema: Any) -> Any:
        from .stream import reader

        return reader(self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        from .writing import writer

        return writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from .stream_writing import writer

        return writer(self.options, schema, overwrite)
