"""Which runs these are."""

import os

import pytest

LONG = os.environ.get("KAFKAREC_LONG", "0") == "1"
"""`make fuzz`."""

CORE = os.environ.get("KAFKAREC_CORE", "0") == "1"
"""`make test-core` and `make mutants`."""


def fewer(count: int, core: int) -> int:
    """How much of something a test takes: `count`, and in the core subset `core`."""
    return core if CORE else count


MINUTES = pytest.mark.skipif(
    not (LONG or os.environ.get("CI")),
    reason="minutes of Spark applications, so that `make test` stays short; CI=1 or KAFKAREC_LONG=1 runs them",
)
"""For tests that start an application of their own on executors, beyond the first ones."""
