"""Estimates of sizes and of compression ratios; tests/jvm/test_builder.py compares them with Kafka's."""

from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest
import typed_control

import kafkarec
from kafkarec import RecordBatchBuilder, estimate_size
from kafkarec.write.sizes import ESTIMATOR, CompressionRatioEstimator

pytestmark = pytest.mark.core


def test_the_estimator_learns_per_topic_and_codec():
    for expected in (1.0, 0.995, 0.99):
        made = RecordBatchBuilder(compression="gzip", topic="learnt")
        assert abs(made.estimated_compression_ratio - expected) < 1e-6
        made.append(0, None, b"v" * 2000)
        made.build()
    assert ESTIMATOR.estimation("learnt", "zstd") == ESTIMATOR.estimation("not learnt", "gzip") == 1.0
    worse = RecordBatchBuilder(compression="gzip", topic="learnt")
    worse.append(0, None, b"")
    worse.build()
    assert ESTIMATOR.estimation("learnt", "gzip") == worse.compression_ratio > 2
    control = RecordBatchBuilder(compression="gzip", topic="not learnt", is_control=True)
    control.append_control(0, typed_control.control("SNAPSHOT_FOOTER"))
    control.build()
    assert ESTIMATOR.estimation("not learnt", "gzip") == 1.0, "control batches teach nothing"


def test_the_estimator_counts_every_threads_step():
    estimator = CompressionRatioEstimator()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(lambda: [estimator.update_estimation("t", "lz4", 50.0 + n) for n in range(300)])
    assert estimator.estimation("t", "lz4") >= 349
    with pytest.raises(ValueError, match="none, gzip, snappy, lz4, zstd"):
        estimator.estimation("t", "brotli")


def test_estimates():
    rows = [(n, 1000 + n, b"k", b"v" * 100, [("h", b"x")]) for n in range(50)]
    data = kafkarec.encode(rows)
    assert estimate_size(rows) == estimate_size(list(kafkarec.decode(data))) == len(data)
    assert estimate_size([]) == 0 and estimate_size([], compression="gzip") == 1024
    assert estimate_size([{"key": b"k"}]) == estimate_size([(0, None, b"k", None, [])])
    for record in ((0, 1), None):
        with pytest.raises(TypeError, match="a Record, a dict or a tuple"):
            estimate_size([record])
    wide = (0, None, array("i", [1, 2]), memoryview(b"abcd")[::2], [(b"h", array("i", [1]))])
    assert estimate_size([wide]) == len(kafkarec.encode([wide]))
    for record in ((0, 0, "k", b"v", ()), (0, 0, None, None, [("h", "v")])):
        with pytest.raises(TypeError, match="bytes or None, not str"):
            estimate_size([record])
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        estimate_size([(0, 0, None, None, [("\ud800", b"")])])
    with pytest.raises(TypeError, match="offset: an int, not NoneType"):
        estimate_size([(None, 0, None, None, ())], base_offset=0)
    far = [(2**20 + n, 0, None, None, None) for n in range(2)]
    assert [estimate_size(far, base_offset=base) for base in (None, 2**20, 0)] == [75, 75, 81]
    assert estimate_size([(0, None, b"x" * 300_000, None, ())], compression="lz4") == 65_536
