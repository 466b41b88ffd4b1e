"""The kind of test run, by environment variables: the usual one, long, or the core subset."""

import os
import random
from collections.abc import Iterator

import pytest

LONG = os.environ.get("KAFKAREC_LONG", "0") == "1"
"""True under `make fuzz`."""

CORE = os.environ.get("KAFKAREC_CORE", "0") == "1"
"""True under `make test-core` and `make mutants`."""


def fewer(count: int, core: int) -> int:
    """Return `core` in a run of the core subset, else `count`."""
    return core if CORE else count


def examples(usual: int) -> int:
    """Return how many examples a slow property test makes, of which a long run makes 20 times as many as usual."""
    return usual * 20 if LONG else fewer(usual, usual // 7)


def seeds(usual: int, core: int) -> Iterator[int]:
    """Yield the seeds of random inputs: always the same ones, but in a long run others each time, and 20 times as many.
    pytest shows the last one that a failing test printed."""
    first, count = (random.randrange(1 << 32), usual * 20) if LONG else (0, fewer(usual, core))
    for seed in range(first, first + count):
        print("seed", seed)
        yield seed


MINUTES = pytest.mark.skipif(
    not (LONG or os.environ.get("CI")),
    reason="minutes of Spark applications, so that `make test` stays short; CI=1 or KAFKAREC_LONG=1 runs them",
)
"""Marks tests that start one more Spark application on executors, which takes minutes."""
