"""salvage of several damaged replicas: each batch that is whole in at least one is in the output."""

import errno
from itertools import permutations

import builders
import pytest
from failing_calls import before, failing
from plain_logs import batch, batches, log
from salvage_runs import copied, set_aside

import kafkarec
from kafkarec import salvage
from kafkarec.sources.files import LocalFile


def merged(tmp_path, a, b, **options):
    """Salvages two replicas in both orders: yields the report, and the output."""
    for name, sources in {"ab": [a, b], "ba": [b, a]}.items():
        [one] = salvage(sources, tmp_path / name, **options).partitions
        yield one, tmp_path / name


def wrappers(*firsts, magic=1):
    """Wrapper messages of five messages each, from these offsets on."""
    return [
        builders.wrapper(
            [builders.message(magic=magic, offset=n if magic else first + n, value=b"%d" % n) for n in range(5)],
            magic=magic,
            offset=first + 4,
        )
        for first in firsts
    ]


@pytest.mark.parametrize("parts", [batches(9, 10), wrappers(*range(0, 45, 5))], ids=["batches", "wrapper messages"])
def test_fragments_of_one_partition_are_put_in_order(tmp_path, parts):
    """The name of a fragment does not tell where its first wrapper message begins."""
    for name, those in {"#3": parts[6:], "#1": parts[:4], "#2": parts[3:7]}.items():
        (tmp_path / name).write_bytes(b"".join(those))
    report = salvage([tmp_path / name for name in ("#3", "#1", "#2")], tmp_path / "out", topic="t", partition=0)
    assert copied(tmp_path / "out") == b"".join(parts)
    assert report.partitions[0].duplicates == 2 and report.ok


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_messages_complete_each_other(tmp_path, magic):
    """Where a wrapper message begins is not in its header; the message before it may be damaged."""
    parts, sources = wrappers(0, 5, 10, 15, magic=magic), []
    for name, hit in {"a": 1, "b": 3, "c": 0}.items():
        data = [builders.flipped(part, 30) if n == hit else part for n, part in enumerate(parts)]
        sources.append(log(tmp_path / name / "orders-0", (0, b"".join(data))))
    for order in permutations(sources):
        out = tmp_path / "-".join(one.parent.name for one in order)
        [merged] = salvage(order, out).partitions
        assert copied(out) == b"".join(parts)
        assert (merged.lost, merged.set_aside, merged.duplicates, merged.records) == ([], [], 5, 4)
    [alone] = salvage(sources[0], tmp_path / "alone").partitions
    assert alone.lost == [(5, 9)]
    (sources[0] / f"{0:020}.log").write_bytes(parts[0] + parts[2])  # without damage: as if it were compacted
    salvage(sources[:2], tmp_path / "gap")
    assert copied(tmp_path / "gap") == b"".join(parts[:3])


def test_a_wrapper_message_begins_at_the_first_offset_inside_of_it(tmp_path, monkeypatch):
    """Also where its length is restored, and where it has lower offsets than the one before it."""
    parts = wrappers(0, 10, 15, 20, 5)
    damaged = builders.flipped(parts[2], 11)
    [found] = salvage(log(tmp_path / "orders-0", [*parts[:2], damaged, *parts[3:]]), tmp_path / "out").partitions
    assert copied(tmp_path / "out") == b"".join(parts[:4])
    assert [[*one["fields"]] for one in found.restored] == [["batch_length"]]
    assert [(one.first_offset, one.last_offset) for one in found.set_aside] == [(5, 9)]
    moved = wrappers(0, 10, 15, 5, 20)
    [found] = salvage(log(tmp_path / "moved" / "orders-0", moved), tmp_path / "in_order").partitions
    assert copied(tmp_path / "in_order") == b"".join([*moved[:3], moved[4]])
    (tmp_path / "fragment").write_bytes(parts[2])
    assert salvage(tmp_path / "fragment", tmp_path / "out1").partitions[0].start_offset == 15
    lost = log(tmp_path / "lost" / "orders-0", [parts[0], builders.flipped(parts[1], 30), damaged])
    assert salvage(lost, tmp_path / "out2").partitions[0].lost == [(5, 14)]
    parts = [parts[0], builders.flipped(parts[1], 30), parts[2]]
    source, end = log(tmp_path / "worse" / "orders-0", parts), len(parts[0] + parts[1])
    of_source = failing(errno.EIO, lambda file, at, _: at >= end and file.name.startswith(str(source)))
    before(monkeypatch, LocalFile, "read_at", of_source)
    [found] = salvage(source, tmp_path / "out3").partitions
    assert copied(tmp_path / "out3") == parts[0] and [one.cause for one in found.unread] == ["disk"]


@pytest.mark.parametrize("epoch", [0, 1])
def test_exchanged_batches_cost_none_of_another_replica(tmp_path, epoch):
    """A segment whose first and last batch are exchanged: neither gets the other one's offset."""
    parts = [batch(10, 1), batch(11, 1, epoch=epoch), batch(12, 1, epoch=epoch, value=b"another %d")]
    healthy = log(tmp_path / "b" / "orders-0", [batch(0, 10)], parts)
    hurt = log(tmp_path / "a" / "orders-0", [batch(0, 10)], parts)
    (hurt / f"{10:020}.log").write_bytes(b"".join(reversed(parts)))
    assert kafkarec.open(hurt).read(errors="skip").restored == ()
    for _, out in merged(tmp_path, hurt, healthy):
        assert copied(out) == b"".join([batch(0, 10), *parts])


@pytest.mark.parametrize("epoch", [-5, 0, 2, 1 << 30])
@pytest.mark.parametrize("hit", [0, 1, 2])
def test_a_leader_epoch_that_was_damaged_in_one_replica(tmp_path, epoch, hit):
    parts = batches(3, 10, epoch=1)
    wrong = [*parts]
    wrong[hit] = parts[hit][:12] + epoch.to_bytes(4, "big", signed=True) + parts[hit][16:]
    a, b = (log(tmp_path / name / "orders-0", pieces) for name, pieces in (("a", parts), ("b", wrong)))
    for _, out in merged(tmp_path, a, b, as_partition=True):
        assert copied(out) == b"".join(parts)
        assert set_aside(out) == (b"" if hit == 1 else wrong[hit]), "its neighbours prove the one in the middle"


def test_a_stale_tail_stays_out_of_a_brokers_folder(tmp_path):
    a = log(tmp_path / "a" / "orders-0", [batch(0, 10), batch(10, 5, epoch=3), batch(15, 5, epoch=3)])
    b = log(tmp_path / "b" / "orders-0", [batch(0, 10), batch(10, 5, epoch=3), batch(20, 5, epoch=1)])
    loose = salvage([a, b], tmp_path / "log")
    assert loose.partitions[0].next_offset == 25
    report = salvage([a, b], tmp_path / "broker", as_partition=True)
    assert report.partitions[0].next_offset == 20
    assert [one.reason for one in report.partitions[0].set_aside] == ["stale_epoch"]
    assert (tmp_path / "broker/orders-0/leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 10\n"


def test_a_deleted_segment_fills_what_is_lost(tmp_path):
    """Named in addition to its folder, 0.log.deleted is another copy of 0.log."""
    parts = [batch(0, 5), batch(5, 5), batch(10, 5)]
    source = log(tmp_path / "orders-0", [parts[0], parts[1][:-1] + b"\7", parts[2]], [batch(15, 5)])
    old = source / f"{0:020}.log.deleted"
    old.write_bytes(b"".join(parts[:2]))
    report = salvage([source, old], tmp_path / "out")
    assert copied(tmp_path / "out") == b"".join([*parts, batch(15, 5)])
    assert not report.partitions[0].lost and not report.partitions[0].set_aside


def test_a_gap_of_a_whole_replica_is_no_loss_of_the_other_one(tmp_path):
    """A has no offset 3, as the log cleaner left it; in B the batch before is damaged."""
    parts = [
        batch(0, 1, transaction=7),
        batch(2, 1),
        batch(4, 1, transaction=7, base_sequence=1),
        builders.end_marker(5, 7, commit=True),
    ]
    whole = log(tmp_path / "a" / "t-0", parts)
    hurt = log(tmp_path / "b" / "t-0", [parts[0], builders.patched(parts[1], 60, b"?"), *parts[2:]])
    for report, out in merged(tmp_path, whole, hurt):
        assert (report.lost, report.markers) == ([], [])
        kept = kafkarec.open(out / "t-0").read(isolation="read_committed")
        assert [one.offset for one in kept] == [0, 2, 4]


@pytest.mark.parametrize("first", [0, 20], ids=["a segment is missing", "it begins later"])
def test_a_replica_that_has_nothing_there_does_not_show_that_nothing_was(first, tmp_path):
    data = batches(3, 10)
    hurt = log(tmp_path / "a" / "t-0", [data[0], bytes(len(data[1]) - 1), b"x", data[2]])
    other = log(tmp_path / "b" / "t-0", *([data[number]] for number in range(first // 10, 3, 2)))
    assert all(report.lost == [(10, 19)] for report, _ in merged(tmp_path, hurt, other))


@pytest.mark.parametrize("with_file", ["ab", "a", "b"])
def test_the_leader_epoch_of_the_checkpoint_wins(with_file, tmp_path):
    """Where one leader's last batch is, its neighbours prove nothing. The file of one source is enough."""
    parts = [batch(0, 1), batch(1, 1, epoch=1), batch(2, 1, epoch=3)]
    epochs = [(0, 0), (1, 1), (3, 2)]
    sources = [
        log(tmp_path / name / "orders-0", batches, epochs=epochs if name in with_file else None)
        for name, batches in (("a", parts), ("b", [parts[0], batch(1, 1)]))
    ]
    assert all(copied(out) == b"".join(parts) for _, out in merged(tmp_path, *sources))


def test_a_wrong_base_offset_behind_damage_costs_no_batch_of_another_replica(tmp_path):
    parts = [batch(0, 1), batch(1, 4), batch(5, 4), batch(10, 3), batch(13, 3)]
    wrong = [bytes(len(parts[0] + parts[1])), builders.patched(parts[2], 0, bytes(8)), *parts[3:]]
    sources = (log(tmp_path / name / "orders-0", pieces) for name, pieces in (("a", parts), ("b", wrong)))
    assert all(copied(out) == b"".join(parts) for _, out in merged(tmp_path, *sources))
