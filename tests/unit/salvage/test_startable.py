"""salvage --as-partition sets aside what a broker fails on: plain batches within an open transaction."""

import random
import shutil

import builders
import pytest
from jvm_oracle import count
from plain_logs import batch, log
from random_transactions import produced, random_log
from salvage_runs import assert_kafka_loads, copied

from kafkarec import salvage
from kafkarec.cli import main

UNDECIDED = ("abort", "open", "aside")
OPEN = produced(10, 5, 7, transactional=True)
PLAIN = [produced(16, 4, 7, transactional=False), produced(25, 3, 7, transactional=False)]


@pytest.fixture
def source(tmp_path):
    """The first marker is damaged, more than one bit of it."""
    first, last = (builders.end_marker(base, 7, commit=True) for base in (15, 28))
    hurt, after = first[:61] + b"\xff" * 17, produced(29, 1, 7, transactional=False)
    return log(tmp_path / "orders-0", [batch(0, 10), OPEN, hurt, PLAIN[0]], [batch(20, 5), PLAIN[1], last, after])


@pytest.mark.parametrize("last", [False, True])
def test_the_logs_end_offset_excludes_them(tmp_path, last):
    parts = [OPEN, PLAIN[0], PLAIN[1]] if last else [OPEN, PLAIN[0], batch(20, 1)]
    source = log(tmp_path / "orders-0", parts[:1], parts[1:])
    (one,) = salvage(source, tmp_path / "out", as_partition=True).partitions
    assert (one.start_offset, one.next_offset) == (10, 16 if last else 21), "an empty segment keeps the end"
    assert [(file.first_offset, file.last_offset) for file in one.files] == [
        (10, 14),
        (None, None) if last else (20, 20),
    ]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_transaction_that_is_in_the_snapshot(is_lost, tmp_path):
    """It began before the first segment of the log, or before the first one that is left."""
    whole = log(tmp_path / "whole" / "orders-0", [OPEN], [PLAIN[0], batch(20, 1)])
    assert main(["reindex", str(whole), "-o", str(tmp_path / "files")]) == 0
    source = log(tmp_path / "orders-0", [PLAIN[0], batch(20, 1)])
    if is_lost:
        (source / f"{5:020}.log").write_bytes(bytes(100))
    shutil.copy(tmp_path / "files" / f"{16:020}.snapshot", source)
    salvage(source, tmp_path / "out", as_partition=True)
    assert copied(tmp_path / "out") == batch(20, 1), "without the plain batch in the transaction"


def test_a_broker_starts_on_it(kafka, source, tmp_path):
    (one,) = salvage(source, tmp_path / "out", as_partition=True).partitions
    assert_kafka_loads(kafka, tmp_path / "out" / "orders-0", tmp_path / "work", one.next_offset)


def test_random_transactions_with_damage(kafka, tmp_path):
    """Producers of plain and transactional batches, markers, a few damaged batches: a broker starts on the output."""
    taken = 0
    for seed in range(count(20)):
        chance = random.Random(seed)
        source = random_log(chance, tmp_path / f"in{seed}" / "orders-0", places=(50,))
        undecided = chance.choice(UNDECIDED)
        (one,) = salvage(source, tmp_path / f"out{seed}", as_partition=True, undecided=undecided).partitions
        if one.batches:
            assert_kafka_loads(kafka, tmp_path / f"out{seed}" / "orders-0", tmp_path / f"work{seed}", one.next_offset)
        taken += sum(set_aside.reason == "transaction_open" for set_aside in one.set_aside)
    assert taken


def test_a_broker_does_not_start_if_they_are_not_set_aside(kafka, source, tmp_path):
    salvage(source, tmp_path / "out", undecided="open")
    answer = kafka.ask("load", tmp_path / "out" / "orders-0", 4096)
    assert answer.status == 1 and "InvalidTxnStateException" in answer.err


def test_a_checkpoint_that_many_batches_contradict_is_left_out(tmp_path):
    """Its last line is cut: a broker would take its offset, and drop the epochs that begin after that."""
    parts = [batch(100 + at, 1, epoch=at // 4) for at in range(8)]
    source = log(tmp_path / "orders-0", parts, epochs=[(0, 100), (1, 10)])
    (one,) = salvage(source, tmp_path / "out", as_partition=True).partitions
    text = (tmp_path / "out" / "orders-0" / "leader-epoch-checkpoint").read_text()
    assert text == "0\n2\n0 100\n1 104\n"
    assert any("leader-epoch-checkpoint" in text and "is ignored" in text for text in one.problems)


def test_a_checkpoint_that_one_batch_contradicts_is_kept(tmp_path):
    """No checksum covers its epoch; and the file may be older than the last batches."""
    epochs = [0, 0, 2, 2, 3, 3]
    source = log(
        tmp_path / "orders-0",
        [batch(at, 1, epoch=epoch) for at, epoch in enumerate([0, 1])],
        [batch(at, 1, epoch=epoch) for at, epoch in enumerate(epochs) if at > 1],
        epochs=[(0, 0), (2, 2)],
    )
    salvage(source, tmp_path / "out", as_partition=True)
    text = (tmp_path / "out" / "orders-0" / "leader-epoch-checkpoint").read_text()
    assert text == "0\n3\n0 0\n2 2\n3 4\n"
