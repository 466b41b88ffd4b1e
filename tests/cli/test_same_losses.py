"""verify and salvage say the same of a loss: which bytes, which offsets."""

import json
import random

import pytest
from plain_logs import batch, log

_OWN = [batch(i * 10, 10, value=b"own value %d") for i in range(100)]


def both(run, folder, tmp_path):
    verified = json.loads(run("verify", folder, "--format", "json").out)["partitions"][0]
    salvaged = json.loads(run("salvage", folder, "-o", tmp_path / "out", "--dry-run", "--format", "json").out)
    return verified, salvaged["partitions"][0]


def damaged_bytes(damage):
    return {(one["file"], one["position"], one["length"], one["reason"]) for one in damage}


@pytest.mark.parametrize("first", [0, 420, 5000, 5_000_000], ids=["lower", "within", "higher", "far"])
@pytest.mark.parametrize("later", [False, True])
def test_batches_of_another_log_over_a_part(run, tmp_path, first, later):
    data, start, stop = b"".join(_OWN), sum(map(len, _OWN[:40])), sum(map(len, _OWN[:60]))
    foreign = b"".join(batch(first + i * 10, 10, value=b"foreign value %d") for i in range(40))
    following = [[batch(1000, 10)]] if later else []
    folder = log(tmp_path / "orders-0", [data[:start] + foreign[: stop - start] + data[stop:]], *following)
    verified, salvaged = both(run, folder, tmp_path)
    [one] = verified["files"][0]["damage"]
    assert damaged_bytes([one]) == damaged_bytes(salvaged["damage"])
    assert [[one["lost_from"], one["lost_to"]]] == salvaged["lost"]
    if first != 420:  # these have offsets of the hole
        assert salvaged["lost"] == [[400, 599]] and verified["lost_offsets"] == 200
    assert verified["next_offset"] == salvaged["next_offset"] == (1010 if later else 1000)


@pytest.mark.parametrize("seed", range(12))
def test_random_parts_of_another_log(run, tmp_path, seed):
    chance = random.Random(seed)
    data = b"".join(_OWN)
    base = chance.randrange(2000)
    foreign = b"".join(batch(base + i * 7, 7, value=b"foreign value %d") for i in range(60))
    at = chance.choice([sum(map(len, _OWN[: chance.randrange(100)])), chance.randrange(len(data))])
    part = foreign[: chance.choice((512, 4096, 8192))][: len(data) - at]
    folder = log(tmp_path / "orders-0", [data])
    (folder / f"{0:020}.log").write_bytes(data[:at] + part + data[at + len(part) :])
    verified, salvaged = both(run, folder, tmp_path)
    damage = verified["files"][0]["damage"]
    assert damaged_bytes(damage) == damaged_bytes(salvaged["damage"])
    lost = {
        (one["lost_from"], one["lost_to"])
        for one in damage
        if one["lost_to"] is None or one["lost_from"] <= one["lost_to"]
    }
    assert lost <= set(map(tuple, salvaged["lost"]))
    closed = sum(last - first + 1 for first, last in salvaged["lost"] if last is not None)
    assert verified["lost_offsets"] == closed
