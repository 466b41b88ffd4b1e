"""Loads what most applications load: see spark_submit.quick_conf."""

from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.builder.getOrCreate()
frame = spark.range(10).withColumn("key", f.col("id") % 3).withColumn("data", f.lit(b"x"))
frame.groupBy("key").agg(f.count("*"), f.max("data")).orderBy("key").collect()
frame.mapInArrow(lambda batches: batches, frame.schema).collect()
spark.sparkContext.parallelize(range(4), 2).map(lambda n: n + 1).collect()
with TemporaryDirectory() as folder:
    frame.write.parquet(f"{folder}/in")
    stream = spark.readStream.schema(frame.schema).parquet(f"{folder}/in").writeStream.format("parquet")
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start(f"{folder}/out").awaitTermination()
    spark.read.parquet(f"{folder}/out").createOrReplaceTempView("t")
    spark.sql("SELECT string(id), inline(array(named_struct('key', key))) FROM t WHERE id > 1").collect()
spark.stop()
