"""A query of Spark continues with a checkpoint of an earlier version."""

import json
import shutil

import pytest
from paths import TESTS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHECKPOINTS = TESTS / "spark" / "checkpoints"


@pytest.mark.parametrize("version", sorted(path.name for path in CHECKPOINTS.iterdir()))
def test_a_checkpoint_of_an_earlier_version_opens(spark_session, broker, tmp_path, version):
    """Batches 0 and 1 are committed; of batch 2 only the offsets were logged."""
    for _ in range(5):  # the partitions from which the checkpoints were made
        broker.write(10)
        broker.write(4, partition=10)
        broker.write(2, topic="audit", partition=3)
    checkpoint = shutil.copytree(CHECKPOINTS / version, tmp_path / "checkpoint")
    done, planned = (
        json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[2]) for number in (1, 2)
    )
    batches = {}

    def take(frame, number):
        rows = batches.setdefault(number, {})
        for row in frame.collect():
            rows.setdefault((row.topic, row.partition), []).append((row.offset, bytes(row.value)))

    frame = spark_session.readStream.format("kafkarec").option("maxOffsetsPerTrigger", 20).load(str(broker.root))
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert min(batches) == 2
    for (topic, partition), rows in broker.rows.items():
        first, end = (offsets[topic][str(partition)] for offsets in (done, planned))
        found = [row for _, batch in sorted(batches.items()) for row in batch.get((topic, partition), [])]
        assert found == [row for row in rows if row[0] >= first]
        assert batches[2].get((topic, partition), []) == [row for row in rows if first <= row[0] < end]
