"""A topic whose values are raw batches, and the stream that decodes it into partition folders; runs on the driver."""

import base64

DECODE = """
    SELECT 'decoded' AS topic, partition, r.key, r.value, r.timestamp, array_append(coalesce(r.headers, array()),
           struct('source' AS key, binary(concat_ws('/', partition, offset, r.offset)) AS value)) AS headers
    FROM arriving LATERAL VIEW explode(kafka_decode(value, 'PERMISSIVE')) AS r
    WHERE r._corrupt_record IS NULL
"""


def send(spark, kafka, values):
    """Send (partition, base64 or None) to the topic, in this order."""
    rows = [(partition, None if text is None else base64.b64decode(text)) for partition, text in values]
    frame = spark.createDataFrame(rows, "partition int, value binary").coalesce(1)
    frame.write.format("kafka").options(**kafka).option("topic", "archive").save()


def arriving(spark, kafka):
    stream = spark.readStream.format("kafka").options(**kafka).option("subscribe", "archive")
    return stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20).load()


def decoded(spark, kafka):
    """Return the stream's records; each has a header with the message it was in."""
    arriving(spark, kafka).createOrReplaceTempView("arriving")
    return spark.sql(DECODE)


def start(frame, folder):
    writer = frame.writeStream.format("kafkarec").option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/decoded")
