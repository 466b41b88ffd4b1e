"""Random transactions written by a broker's own log class: that class and kafkarec report the same state."""

import jvm_oracle
import pytest
from transaction_logs import LogState

_DELETED = 4  # TransactionLogs deletes the first segments of every fourth log


@pytest.fixture(scope="module")
def folders(kafka, tmp_path_factory):
    logs = tmp_path_factory.mktemp("transactions")
    kafka.lines("transactions", logs, 1, jvm_oracle.count(60))
    return sorted(logs.iterdir(), key=lambda folder: int(folder.name))


def test_whole_logs_have_the_same_transactions(folders):
    compared = 0
    for folder in folders:
        if int(folder.name) % _DELETED != 3:
            assert LogState.of(folder / "orders-0") == LogState.read(folder / "expected.json"), folder.name
            compared += 1
    assert compared * _DELETED >= 3 * len(folders)


def test_logs_without_their_first_segments_have_the_same_transactions(folders):
    """kafkarec stops at the first open data that the files hold, so open and aborted transactions are compared."""
    for folder in folders:
        if int(folder.name) % _DELETED == 3:
            actual, expected = LogState.of(folder / "orders-0"), LogState.read(folder / "expected.json")
            assert actual.open == expected.open, folder.name
            assert actual.aborted_from(expected.start_offset) == expected.aborted, folder.name
