"""Partitions of keys, compared with Utils.murmur2 and BuiltInPartitioner of Kafka 4.4."""

import random

import pyarrow as pa
import pytest

from spark_udfs.source.rows_by_partition import assign_partitions, murmur2

# key in hex, partitionForKey of 7 and of 50, as Kafka's classes print them
VECTORS = [
    ("", 2, 31),
    ("61", 5, 24),
    ("666f6f626172", 0, 16),
    ("612d6c6974746c652d6269742d6c6f6e672d737472696e67", 1, 12),
    ("7363686cc3bc7373656c", 5, 6),
    ("09d32a595d", 0, 32),
    ("0016175aa147e1f3e98ee81edf7fae40", 6, 48),
    ("bfe793d9fced52b202e34d15e5c4caaf166fc2edcea4fb1b65e240a4e944b3", 1, 13),
    ("0705e6c8b71cf8bdfc97c696693058b22edd1479f1953297e1c82141a6a46d9936", 1, 37),
    ("000000000000000000", 4, 39),
]


def keys(*values):
    return pa.array(values, pa.large_binary())


@pytest.mark.parametrize("column, count", [(1, 7), (2, 50)])
def test_partitions_equal_those_of_kafka(column, count):
    all_keys = keys(*(bytes.fromhex(key) for key, *_ in VECTORS))
    actual = assign_partitions(all_keys, 3, count)
    assert actual.tolist() == [vector[column] for vector in VECTORS]


def test_columns_and_slices_hash_as_single_keys_do():
    rng = random.Random(5)
    many = [rng.randbytes(rng.choice([0, 1, 2, 3, 4, 5, 9, 16, 17, 40, 1000])) for _ in range(500)]
    one_by_one = [murmur2(keys(key)).item() for key in many]
    assert murmur2(keys(*many)).tolist() == one_by_one
    assert murmur2(keys(*many).slice(123, 200)).tolist() == one_by_one[123:323]
    assert murmur2(keys()).tolist() == []


def test_records_without_keys_have_one_partition_after_the_other():
    assert assign_partitions(keys(*[None] * 7), 1, 3).tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert assign_partitions(keys(b"21", None, b"foobar", None), 0, 7).tolist() == [3, 1, 0, 3]
    assert assign_partitions(keys(), 1, 3).tolist() == []
