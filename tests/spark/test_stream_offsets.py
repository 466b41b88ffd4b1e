"""Offsets of a stream as JSON, and the distribution of a limit over partitions; without files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_udfs.source import options
from spark_udfs.source.admission import Limit, PendingBatch, end_offsets
from spark_udfs.source.offsets import parse, to_json

KEYS = [("b", 10), ("b", 2), ("a", 0), ("c.d", 7)]


def test_equal_offsets_have_one_text() -> None:
    texts = set()
    for seed in range(20):
        keys = random.Random(seed).sample(KEYS, len(KEYS))
        texts.add(json.dumps(to_json({key: KEYS.index(key) for key in keys})))
    assert texts == {'{"a": {"0": 2}, "b": {"2": 1, "10": 0}, "c.d": {"7": 3}}'}


def test_offsets_are_parsed_from_text() -> None:
    offsets = {key: number for number, key in enumerate(KEYS)}
    assert parse(json.loads(json.dumps(to_json(offsets)))) == offsets
    assert parse({}) == {} and to_json({}) == {}


@pytest.mark.parametrize(
    "text", [{"a": 3}, {"a": {"x": 3}}, {"a": {"0": "3"}}, {"a": {"0": None}}, [1], {"a": {"0": True}}]
)
def test_a_checkpoint_of_another_source_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="written by another source"):
        parse(text)  # type: ignore[arg-type]


class Log:
    """Batches as (first offset, next offset, bytes); `asked` counts the batches that were yielded."""

    def __init__(self, batches: list[tuple[int, int, int]]) -> None:
        self.batches, self.asked = batches, 0

    def steps(self, start: int, end: int) -> Iterator[PendingBatch]:
        for first, next_offset, size in self.batches:
            if next_offset > start and first < end:
                self.asked += 1
                yield PendingBatch(max(first, start), next_offset, size)

    @property
    def end(self) -> int:
        return self.batches[-1][1]


@st.composite
def logs(draw: st.DrawFn) -> list[Log]:
    drawn = []
    for _ in range(draw(st.integers(1, 4))):
        at, batches = draw(st.integers(0, 50)), []
        for gap, count, size in draw(
            st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(61, 900)), min_size=1, max_size=12)
        ):
            batches.append((at + gap, at + gap + count, size))
            at += gap + count
        drawn.append(Log(batches))
    return drawn


@given(logs(), st.sampled_from(["offsets", "bytes"]), st.integers(1, 2000))
def test_a_limit_is_kept_and_all_offsets_are_returned(logs_drawn: list[Log], unit: str, most: int) -> None:
    keys = {("t", number): log for number, log in enumerate(logs_drawn)}
    at = {key: log.batches[0][0] for key, log in keys.items()}
    ends = {key: log.end for key, log in keys.items()}
    for _ in range(2000):
        if at == ends:
            break
        reached = end_offsets(at, ends, Limit(unit, most), lambda key, *span: keys[key].steps(*span))
        assert reached != at, "no progress"
        steps_by_key = {key: list(keys[key].steps(at[key], reached[key])) for key in keys if reached[key] > at[key]}
        if unit == "offsets":
            offsets = sum(
                min(s.next_offset, reached[key]) - s.first for key, steps in steps_by_key.items() for s in steps
            )
            assert offsets <= most
        else:
            sizes = [step.size for steps in steps_by_key.values() for step in steps]
            assert sum(sizes) <= most or len(sizes) == 1
        assert all(at[key] <= reached[key] <= ends[key] for key in keys)
        at = reached
    assert at == ends


def test_without_a_limit_no_batch_is_read() -> None:
    log = Log([(0, 10, 100), (10, 20, 100)])
    for limit in (None, Limit("offsets", 20)):
        assert end_offsets({("t", 0): 0}, {("t", 0): 20}, limit, lambda key, *span: log.steps(*span)) == {("t", 0): 20}
    assert log.asked == 0
    end_offsets({("t", 0): 0}, {("t", 0): 20}, Limit("offsets", 10), lambda key, *span: log.steps(*span))
    assert log.asked == 1


def test_the_partition_with_more_lag_gets_more() -> None:
    keys = {("t", 0): Log([(n, n + 1, 100) for n in range(900)]), ("t", 1): Log([(n, n + 1, 100) for n in range(100)])}
    for limit in (Limit("offsets", 100), Limit("bytes", 10_000)):
        ends = {key: log.end for key, log in keys.items()}
        reached = end_offsets(dict.fromkeys(keys, 0), ends, limit, lambda key, *span: keys[key].steps(*span))
        assert reached == {("t", 0): 90, ("t", 1): 10}


def test_a_batch_larger_than_the_limit_does_not_block_the_stream() -> None:
    keys = {("t", 0): Log([(n, n + 1, 100) for n in range(10_000)]), ("t", 1): Log([(0, 500, 5000)])}
    at, ends = dict.fromkeys(keys, 0), {key: log.end for key, log in keys.items()}
    for attempt in range(2):
        at = end_offsets(at, ends, Limit("bytes", 1000), lambda key, *span: keys[key].steps(*span), attempt)
    assert at["t", 1] == 500 and at["t", 0] == 10


def test_missing_offsets_do_not_count() -> None:
    log = Log([(0, 5, 100), (10**12, 10**12 + 5, 100)])
    ends = {("t", 0): 10**12 + 9}
    reached = end_offsets({("t", 0): 0}, ends, Limit("offsets", 10), lambda key, *span: log.steps(*span))
    assert reached == {("t", 0): 10**12 + 5}
    assert end_offsets(reached, ends, Limit("offsets", 3), lambda key, *span: log.steps(*span)) == ends


def test_a_truncated_log_returns_its_lower_end() -> None:
    limit = Limit("offsets", 5)
    assert end_offsets({("t", 0): 50}, {("t", 0): 20}, limit, lambda key, *span: iter(())) == {("t", 0): 20}


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "5k"}, "only one of the options maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5"}, "option minOffsetsPerTrigger='5': a lower limit is not supported"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number above 0"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for read, not for stream"),
        ({"view": "batches"}, "option view is for read, not for stream"),
    ],
)
def test_wrong_options_are_refused(given_options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options.parse(given_options, "stream")
