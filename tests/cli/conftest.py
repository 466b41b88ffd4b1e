"""Fixtures of the tests of verbs."""

from __future__ import annotations

import pytest
from command import Here
from s3server import Server


@pytest.fixture
def run(capfdbinary) -> Here:
    """Run the command line in this process."""
    return Here(capfdbinary)


@pytest.fixture
def server(bucket, monkeypatch) -> Server:
    """Return the `bucket` of the test's module, whose counters begin at 0, with its address in the environment."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    bucket.reset()
    return bucket
