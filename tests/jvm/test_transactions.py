"""Random transactions: a broker's own log class and kafkarec report the same state of the same folder."""

import broker_logs
import jvm_oracle
import plain_logs
import pytest
from transaction_logs import LogState

import kafkarec

_DELETED = 4  # the first segments of every fourth log are deleted


@pytest.fixture(scope="module")
def logs(kafka, tmp_path_factory):
    """Number -> the folder, what Kafka says of it."""
    found = {}
    for number in range(jvm_oracle.count(60)):
        # of times that go down Kafka has the last one, and kafkarec the highest
        log = broker_logs.Log(number, most=120, rising=True)
        chance = log.random
        folder = tmp_path_factory.mktemp("transactions") / "orders-0"
        plain_logs.log(folder, *log.segments(chance.randrange(1, 6)))
        start = chance.randrange(log.offset) if number % _DELETED == 3 else 0
        answer = kafka.ask("transactions", folder, start)
        assert answer.status == 0, answer.err
        found[number] = folder, LogState.read(answer.out)
    return found


def test_whole_logs_have_the_same_transactions(logs):
    compared = opened = aborted = 0
    for number, (folder, expected) in logs.items():
        if number % _DELETED != 3:
            assert LogState.of(folder) == expected, number
            compared += 1
            opened += len(expected.open)
            aborted += len(expected.aborted)
    assert compared * _DELETED >= 3 * len(logs) and min(opened, aborted) > 5


def test_logs_without_their_first_segments_have_the_same_transactions(logs):
    """kafkarec stops at the first open data that the files hold, so open and aborted transactions are compared."""
    for number, (folder, expected) in logs.items():
        if number % _DELETED == 3:
            actual = LogState.of(folder)
            assert actual.open == expected.open, number
            assert actual.aborted_from(expected.start_offset) == expected.aborted, number


def test_a_log_that_starts_within_a_segment_is_sound_as_a_broker_recovers_it(kafka, tmp_path):
    """What is below the log start counts for nothing there: no transaction begins in it, and a .txnindex has no entry
    of one."""
    for number in range(jvm_oracle.count(60)):
        log = broker_logs.Log(number, most=120, rising=True)
        segments = log.segments(log.random.randrange(1, 6))
        start = log.random.randrange(segments[0][0], log.offset)
        data = plain_logs.data_folder(tmp_path / str(number), log_start=f"orders 0 {start}")
        plain_logs.log(data / "orders-0", *segments)
        kafka.lines("load", data / "orders-0", 256, start)
        report = kafkarec.verify(data)
        assert report.exit_status() == 0, f"{number}, start {start}:\n{report}"
