"""`stream` and `follow` with first, last and keys: the same records as those of all that one would choose in Python."""

import random
from contextlib import closing, suppress
from itertools import islice

import broker_logs
import builders
import plain_logs
import pytest
from plain_logs import flip

import kafkarec
from kafkarec.sidecars import offset_index

KEYS = (b"", b"key", b"key 1", b"key 10", b"key 3", b"key 4" * 4)
"""Two of them no record has."""


def some_log(chance, folder):
    """A partition of up to four segments, some with an .index, some with a damaged byte."""
    log = broker_logs.Log(chance.getrandbits(32), magics=(1, *[2] * 4), most=60)
    plain_logs.log(folder, *log.segments(chance.randrange(1, 5)))
    for path in sorted(folder.glob("*.log")):
        batches = list(kafkarec.open(path).scan())
        entries = [(row["last_offset"], row["position"]) for row in batches[1::2]]
        if chance.random() < 0.5:
            path.with_suffix(".index").write_bytes(offset_index.write(entries, int(path.stem)))
        if chance.random() < 0.3:
            flip(path, chance.randrange(path.stat().st_size), 4)
    return folder


def some_options(chance, folder):
    """Options of `stream` that choose no records by number or key."""
    options = {"columns": ["partition", "offset", "key", "value"]}
    base = int(min(folder.glob("*.log")).stem)
    choices = {
        "start_offset": base + chance.randrange(200),
        "end_offset": base + chance.randrange(300),
        "start_timestamp": builders.NOW + chance.randrange(40_000),
        "isolation": "read_committed",
        "control": True,
        "layout": "view",
        "threads": 3,
        "batch_bytes": chance.choice([1, 200]),
    }
    return options | {name: choices[name] for name in choices if chance.random() < 0.3}


def rows_of(pieces):
    """The rows, and whether they end with an error."""
    rows = []
    with suppress(kafkarec.KafkaRecordError):
        for piece in pieces:
            rows += zip(*map(piece.column, ("partition", "offset", "key", "value")), strict=True)
        return rows, False
    return rows, True


@pytest.mark.parametrize("seed", range(60))
def test_the_records_are_those_that_one_would_choose(seed, tmp_path):
    chance = random.Random(seed)
    for partition in range(chance.choice([1, 1, 3])):
        some_log(chance, tmp_path / f"orders-{partition}")
    logs = kafkarec.open(tmp_path if chance.random() < 0.5 else tmp_path / "orders-0")
    options = some_options(chance, tmp_path / "orders-0") | {"errors": "skip"}
    keys = chance.choice([None, chance.sample(KEYS, chance.randrange(4))])
    first, last = chance.choice([None, 0, 1, 7, 1000]), chance.choice([None, 0, 1, 7, 1000])
    every, _ = rows_of(logs.stream(**options))
    wanted = [row for row in every if keys is None or row[2] in keys]
    wanted = wanted if last is None else wanted[max(len(wanted) - last, 0) :]
    found, failed = rows_of(logs.stream(**options, first=first, last=last, keys=keys))
    assert not failed
    assert found == wanted[:first]


@pytest.mark.parametrize("seed", range(30))
def test_damage_is_raised_after_the_records_before_it(seed, tmp_path):
    chance = random.Random(seed)
    folder = some_log(chance, tmp_path / "orders-0")
    log, options = kafkarec.open(folder), some_options(chance, folder)
    options.pop("isolation", None)  # with errors="skip" it leaves out more
    keys, first = chance.choice([None, [b"key 1", b""]]), chance.choice([None, 3, 1000])

    def chosen(rows):
        return [row for row in rows if keys is None or row[2] in keys]

    every, fails = rows_of(log.stream(**options))
    found, failed = rows_of(log.stream(**options, first=first, keys=keys))
    assert found == chosen(every)[:first]
    assert failed == (fails and (first is None or len(found) < first))
    good, _ = rows_of(log.stream(**options, errors="skip", restore=False))
    found, failed = rows_of(log.stream(**options, last=5, keys=keys))
    if fails:  # perhaps before what is read
        assert set(found) <= {*good, *every}
    else:
        assert (found, failed) == (chosen(every)[-5:], False)


def test_follow_begins_with_the_last_records_and_ends_after_the_first_ones(tmp_path):
    one = plain_logs.log(tmp_path / "orders-0", *([plain_logs.batch(base, 10)] for base in range(0, 50, 10)))
    plain_logs.log(tmp_path / "orders-1", [plain_logs.batch(0, 10)])
    found = kafkarec.open(tmp_path).follow(last=2, first=7, keys=["k"], interval=0.01, columns=["partition", "offset"])
    with closing(found):
        rows = [
            row for piece in islice(found, 2) for row in zip(*map(piece.column, ("partition", "offset")), strict=True)
        ]
        assert rows == [(0, 48), (0, 49), (1, 8), (1, 9)]
        with (one / f"{40:020}.log").open("ab") as file:
            file.write(plain_logs.batch(50, 10))
        assert [piece.column("offset") for piece in found] == [[50, 51, 52]]
