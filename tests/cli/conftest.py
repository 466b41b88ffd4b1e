"""Fixtures of the tests of verbs."""

import pytest
from command import Here


@pytest.fixture
def run(capfdbinary):
    """Run the command line in this process."""
    return Here(capfdbinary)


@pytest.fixture
def server(bucket, monkeypatch):
    """Return the `bucket` of the test's module, whose counters begin at 0, with its address in the environment."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    bucket.reset()
    return bucket
