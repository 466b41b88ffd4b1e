"""salvage and verify: batches whose header fields are restored."""

import builders
import plain_logs
import pytest
from plain_logs import batch, batches, content, log

import kafkarec


def test_batches_of_another_log_between_damage_are_set_aside(tmp_path):
    """As in a page of another file: their offsets do not fit, and prove nothing there."""
    own = batches(40, epoch=7)
    others = batches(2, base_offset=900, epoch=7)
    data = b"".join([*own[:20], own[20][:-9], *others, own[21][9:], *own[22:]])
    report = kafkarec.salvage(log(tmp_path / "orders-0", [data]), tmp_path / "out")
    assert (tmp_path / "out/orders-0" / f"{0:020d}.log").read_bytes() == b"".join(own[:20] + own[22:])
    [partition] = report.partitions
    assert partition.lost == [(60, 65)] and partition.damage[1]["reason"] == "base_offset_undecided"
    [aside] = partition.set_aside
    assert (aside.reason, aside.batches, aside.position) == ("base_offset_undecided", 2, data.index(others[0]))
    assert (tmp_path / "out" / aside.saved_as).read_bytes() == b"".join(others)


@pytest.mark.parametrize("cut", [False, True])
def test_a_block_of_another_file_in_a_batch_is_set_aside(tmp_path, cut):
    """The batch's length leads to the next one, or behind the file's end: the reader looks for nothing inside."""
    own = [batch(100 + n, 1, value=bytes([n]) * 2000) for n in range(4)]
    others = batches(2)
    block = b"".join(others)
    hurt = own[2][:512] + block + own[2][512 + len(block) :]
    data = b"".join([*own[:2], hurt[: 1800 if cut else None], *([] if cut else own[3:])])
    [partition] = kafkarec.salvage(log(tmp_path / "orders-0", [data]), tmp_path / "out").partitions
    aside = {(tmp_path / "out" / one.saved_as).read_bytes() for one in partition.set_aside}
    assert b"".join(sorted(aside)) == block and sum(one.batches for one in partition.set_aside) == 2
    assert "inside_damage" in {one.reason for one in partition.set_aside}
    assert partition.batches == (2 if cut else 3)


def test_a_block_in_a_damaged_batch_of_a_block_is_set_aside(tmp_path):
    first, inside, last = (batch(base, 3) for base in (0, 10, 20))
    around = batch(3, 1, value=bytes(500) + inside + bytes(500))
    block = first + builders.flipped(around) + last
    own = [batch(100 + n, 1, value=bytes([n]) * 4000) for n in range(4)]
    hurt = own[2][:512] + block + own[2][512 + len(block) :]
    source = log(tmp_path / "orders-0", [*own[:2], hurt, own[3]])
    [partition] = kafkarec.salvage(source, tmp_path / "out").partitions
    aside = b"".join((tmp_path / "out" / one.saved_as).read_bytes() for one in partition.set_aside)
    assert all(one in aside for one in (first, inside, last)) and around not in aside


@pytest.mark.parametrize("names", [(), (0, 18)], ids=str)
@pytest.mark.parametrize(
    ("hurt", "is_proven"),
    [
        ({5: 99}, True),
        ({5: 3}, True),
        ({5: 8, 7: 99}, True),
        ({5: 8, 6: 9}, False),
        ({0: 99}, False),
        ({10: 99}, False),
    ],
)
def test_a_second_salvage_changes_no_leader_epoch(hurt, is_proven, names, tmp_path):
    """Of batches at a segment's end, and beside others that are restored or cannot be: what is not proven stays, and
    no file that is written proves it."""
    parts = [batch(3 * n, 3, epoch=hurt.get(n, 7 if n < 11 else 8)) for n in range(12)]
    source = plain_logs.log(tmp_path / "orders-0", parts[:6], parts[6:10], parts[10:])
    if names:
        plain_logs.exchange(source, *names)
    kafkarec.salvage(source, tmp_path / "first", as_partition=True)
    made = tmp_path / "first" / "orders-0"
    [second] = kafkarec.salvage(made, tmp_path / "second", as_partition=True).partitions
    assert second.restored == [] and content(tmp_path / "second" / "orders-0") == content(made)
    epochs = [row["partition_leader_epoch"] for row in kafkarec.open(made).scan()]
    assert (epochs == [7] * 11 + [8]) == is_proven
