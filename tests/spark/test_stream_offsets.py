"""Offsets of a stream as JSON, and its options; without files."""

import json
import random

import pytest

from spark_udfs.source import options
from spark_udfs.source.options import offsets_from_json, offsets_to_json

KEYS = [("b", 10), ("b", 2), ("a", 0), ("c.d", 7)]


def test_equal_offsets_have_one_text():
    texts = set()
    for seed in range(20):
        keys = random.Random(seed).sample(KEYS, len(KEYS))
        texts.add(json.dumps(offsets_to_json({key: KEYS.index(key) for key in keys})))
    assert texts == {'{"a": {"0": 2}, "b": {"2": 1, "10": 0}, "c.d": {"7": 3}}'}


@pytest.mark.parametrize(
    "text", [{"a": 3}, {"a": {"x": 3}}, {"a": {"0": "3"}}, {"a": {"0": None}}, [1], {"a": {"0": True}}]
)
def test_a_checkpoint_of_another_source_is_refused(text):
    with pytest.raises(ValueError, match="written by another source"):
        offsets_from_json(text)


@pytest.mark.parametrize(
    "given_options, message",
    [
        ({"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "5k"}, "only one of the options maxOffsetsPerTrigger"),
        ({"startingOffsets": '{"orders": {"0": 50, "00": 3}}'}, "startingOffsets"),
        ({"minOffsetsPerTrigger": "5"}, "no option 'minOffsetsPerTrigger'; did you mean maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number above 0"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for read, count, write_table, not for stream"),
        ({"view": "batches"}, "option view is for read, not for stream"),
    ],
)
def test_wrong_options_are_refused(given_options, message):
    with pytest.raises(ValueError, match=message):
        options.parse(given_options, "stream")
