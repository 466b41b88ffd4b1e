"""read_committed from the middle of a partition, however it is split, returns the records that a read of the whole
partition returns."""

import json
import random
from pathlib import Path

import counted_files
import plain_logs
import pytest
from source_rows import offsets_of, read
from stream_engine import caught_up
from transaction_logs import ABORT, COMMIT, DATA, Event, write_index

from spark_udfs.source import options, planning
from spark_udfs.source.listing import Listing


def fill(broker, seed, still_open):
    rng = random.Random(seed)
    opened = set()
    if still_open:
        broker.write_in_transaction(99, 3)
    while len(broker.log()) < 6:
        producer = rng.randrange(1, 4)
        if rng.random() < 0.5:
            broker.write_in_transaction(producer, rng.randint(1, 6))
            opened.add(producer)
        elif producer in opened:
            opened.remove(producer)
            broker.end_transaction(producer, commit=rng.random() < 0.5)
        else:
            broker.write(rng.randint(1, 5))
    for producer in opened:
        broker.end_transaction(producer, commit=False)


def walk(broker, start):
    parsed = options.parse({"path": str(broker.root)}, "read")
    (partition,) = Listing(parsed).current().values()
    return planning.read_transactions(partition, parsed, start)


@pytest.mark.parametrize("still_open", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_start_offset(broker, seed, still_open):
    broker.write(40)
    fill(broker, seed, still_open)
    whole, visible = walk(broker, None), broker.visible()
    rng = random.Random(seed)
    end = broker.writer().next_offset
    for start in sorted({0, end, *rng.sample(range(end), 15)}):
        assert walk(broker, start).last_stable_offset == whole.last_stable_offset
        last = rng.randint(start, end)
        last, ending = rng.choice([(end, -1), (last, last)])
        bounds = {"startingOffsets": start, "endingOffsets": ending}
        given = {name: json.dumps({"orders": {"0": offset}}) for name, offset in bounds.items()}
        given |= {"isolationLevel": "read_committed", "maxPartitionBytes": rng.choice(["1g", "500", "1"])}
        rows = read(broker.root, **given)
        assert offsets_of(rows) == [offset for offset, _ in visible if start <= offset < last]


def test_only_the_segments_read_are_searched_for_markers(broker, monkeypatch):
    fill(broker, 1, False)
    readings = counted_files.counted(monkeypatch)

    def searched():
        found = [Path(one.path).name for one in readings if one.path.endswith(".log")]
        readings.clear()
        return list(dict.fromkeys(found))

    names = [path.name for path in broker.log()]
    start = int(names[-2][:20]) + 1
    for start_option in (start, broker.writer().next_offset):
        readings.clear()
        walk(broker, start_option)
        assert searched() == [name for name in names if name >= names[-2 if start_option == start else -1]]
    caught_up(broker.root, isolationLevel="read_committed", startingOffsets="latest")
    assert set(searched()) == {names[-1]}
    for snapshot in broker.root.glob("*/*.snapshot"):
        snapshot.write_bytes(b"")
    readings.clear()
    walk(broker, start)
    assert searched() == names, "without readable snapshots"


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_the_index_of_a_missing_segment_has_the_marker(tmp_path, mode):
    """As for kafkarec itself, the first transaction is known to be aborted."""
    events = [Event(DATA, 7, 0, 3), Event(ABORT, 7, 3, 1), Event(DATA, 7, 4, 2), Event(COMMIT, 7, 6, 1)]
    first, _, *last = (one.batch for one in events)
    folder = plain_logs.log(tmp_path / "orders-0", [first], last)
    write_index(folder, (7, 0, 3, 4), base=3)
    assert offsets_of(read(tmp_path, isolationLevel="read_committed", mode=mode)) == [4, 5]
