"""Fixtures of the tests of verbs."""

import pytest
from builders import flipped
from command import Here
from paths import SEGMENTS
from plain_logs import log


@pytest.fixture
def run(capfdbinary):
    """Run the command line in this process."""
    return Here(capfdbinary)


@pytest.fixture
def damaged(tmp_path):
    """A log with one flipped byte in the payload of its fourth batch, which has the offsets 129 to 171."""
    data = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
    return next(log(tmp_path / "orders-7", [flipped(data, 7755 + 70, 0xFF)]).glob("*.log"))


@pytest.fixture
def server(bucket, monkeypatch):
    """Return the `bucket` of the test's module, whose counters begin at 0, with its address in the environment."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    bucket.reset()
    return bucket
