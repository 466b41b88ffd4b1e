"""read_committed in a stream: records up to the last stable offset without aborted ones, whatever the micro-batches
are."""

import random

import pytest
from builders import end_marker, flipped, patched
from plain_logs import batch, log
from source_rows import offsets_of, read
from stream_engine import Query, caught_up

import kafkarec

READ_COMMITTED = "read_committed"


def test_an_aborted_transaction_is_left_out_also_from_its_middle(broker):
    broker.write(10)
    for _ in range(3):
        broker.write_in_transaction(7, 5)
        broker.write_in_transaction(8, 2)
    options = {"kafka.isolation.level": "read_committed"}
    middle = caught_up(broker.root, startingOffsets='{"orders": {"0": 18}}', **options)
    assert middle.rows == {} and middle.log == ['{"orders": {"0": 18}}']
    broker.end_transaction(8, commit=True)
    assert middle.run() == 0
    broker.end_transaction(7, commit=False)
    broker.write(3)
    middle.run()
    whole = caught_up(broker.root, maxOffsetsPerTrigger="3", **options)
    assert whole.rows["orders", 0] == broker.visible()
    assert middle.rows["orders", 0] == [row for row in broker.visible() if row[0] >= 18]
    assert len(whole.rows["orders", 0]) == 10 + 6 + 3


@pytest.mark.parametrize("restarts", [False, True])
def test_a_marker_that_waits_for_the_one_behind_it_ends_no_transaction_at_its_wrong_offset(broker, restarts):
    broker.segment_bytes = 1 << 20
    broker.write_in_transaction(7, 5)
    position = broker.writer().position
    broker.end_transaction(7, commit=False)
    path = broker.log()[0]
    data = path.read_bytes()
    path.write_bytes(flipped(data, position + 7, 64))  # 5 -> 69
    query = caught_up(broker.root, mode="PERMISSIVE", isolationLevel="read_committed")
    assert query.rows == {}
    for _ in range(30):
        broker.write_in_transaction(7, 3)
        broker.end_transaction(7, commit=True)
        if restarts:
            query.restart()
        query.run()
    assert query.offsets == [6 + 4 * n + m for n in range(30) for m in range(3)]


@pytest.mark.parametrize("zeros", [0, 4096])
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "4"}])
@pytest.mark.parametrize("number, offset", [(1, 0), (2, 1), (2, 60_000), (6, 60_000)])
def test_a_wrong_offset_publishes_nothing_that_was_aborted_and_hides_nothing_else(
    tmp_path, number, offset, limit, zeros
):
    """Offsets are missing before each batch, so that none can be restored. The third and fourth were aborted."""
    batches = [batch(5 * at, 2, transaction=7 if at in (2, 3) else None) for at in range(24)]
    batches[4] = end_marker(20, 7, commit=False)
    batches[number] = patched(batches[number], 0, offset.to_bytes(8, "big"))
    end = batch(5 * 24 - 3, 2)
    log(tmp_path / "orders-0", [*batches, end, bytes(zeros)])
    options = {"mode": "DROPMALFORMED", "isolationLevel": READ_COMMITTED}
    query = caught_up(tmp_path, **limit, **options)
    expected = [
        one.offset for one in kafkarec.open(tmp_path / "orders-0").read(isolation=READ_COMMITTED, errors="skip")
    ]
    assert len(expected) == 2 * 22
    assert query.offsets == expected
    assert offsets_of(read(tmp_path, maxPartitionBytes="300", **options)) == expected


def test_latest_is_the_last_stable_offset(broker):
    broker.write(10)
    broker.write_in_transaction(7, 5)
    query = caught_up(broker.root, startingOffsets="latest", isolationLevel="read_committed")
    broker.end_transaction(7, commit=True)
    query.run()
    assert query.offsets == list(range(10, 15))


@pytest.mark.parametrize("seed", range(25))
def test_the_rows_at_any_time_are_those_of_a_consumer(broker, seed):
    rng = random.Random(seed)
    limit = rng.choice([{}, {"maxOffsetsPerTrigger": "11"}, {"maxBytesPerTrigger": "300"}])
    broker.write(3)
    query = Query(broker.root, isolationLevel="read_committed", **limit)
    opened = set()
    for _ in range(60):
        producer = rng.randrange(1, 4)
        what = rng.randrange(10)
        if what < 4:
            broker.write_in_transaction(producer, rng.randint(1, 6))
            opened.add(producer)
        elif what < 7 and opened:
            producer = rng.choice(sorted(opened))
            opened.remove(producer)
            broker.end_transaction(producer, commit=rng.random() < 0.5)
        elif what == 7:
            broker.write(rng.randint(1, 5))
        elif what == 8:
            query.trigger(crash=rng.random() < 0.5)
        else:
            if rng.random() < 0.3:
                query.restart()
            query.run()
            assert query.rows.get(("orders", 0), []) == broker.visible()
    for producer in opened:
        broker.end_transaction(producer, commit=False)
    query.run()
    assert len(broker.log()) > 1
    assert query.rows["orders", 0] == broker.visible()


def test_a_transaction_that_damage_leaves_undecided_is_told_once(tmp_path, caplog):
    """Its marker is unreadable, and nothing says what it was."""
    data = batch(0, 4, transaction=7)
    marker = b"\xff" * len(end_marker(4, 7, commit=True))
    log(tmp_path / "t-0", [data, marker, batch(5, 2)])
    told = f"{tmp_path}/t-0: the transaction of producer 7, offsets 0 to 3, is left out: its marker may be in the"
    options = {"mode": "PERMISSIVE", "isolationLevel": "read_committed"}
    assert offsets_of(read(tmp_path, **options)) == [5, 6]
    assert [one.getMessage().startswith(told) for one in caplog.records].count(True) == 1
    caplog.clear()
    query = caught_up(tmp_path, **options)
    with open(tmp_path / "t-0" / f"{0:020}.log", "ab") as file:
        file.write(batch(7, 2))
    query.run()
    assert [row[0] for row in query.rows["t", 0]] == [5, 6, 7, 8]
    assert [one.getMessage().startswith(told) for one in caplog.records].count(True) == 1
