"""Indexes made from the batches, byte for byte as the broker that wrote the log left them (vectors/segments);
tests/jvm/test_segments.py compares those of random partitions with what LogSegment.recover() makes."""

import builders
import golden
import pytest
from paths import VECTORS
from plain_logs import batch

import kafkarec
from kafkarec.sidecars import leader_epochs
from kafkarec.storage.rebuild_folder import rebuild_side_files

# The index interval of each topic.
BROKER = {
    "__cluster_metadata-0": 4096,
    "__consumer_offsets-0": 4096,
    "all-codecs-0": 256,
    "compacted-0": 4096,
    "logappend-0": 256,
    "txn-0": 256,
}
SMALL = {".index", ".timeindex", ".txnindex", ".snapshot"}


def rebuilt(folder, interval=4096):
    """Return all rebuilt files by name, and the opened source."""
    parts = list(rebuild_side_files(kafkarec.open(folder), interval))
    return {name: data for part in parts for name, data in part.files.items()}, parts


def small_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in SMALL}


@pytest.mark.core
@pytest.mark.parametrize("alone", [False, True], ids=["beside the broker's files", "from the log files alone"])
@pytest.mark.parametrize("name", BROKER)
def test_rebuilt_files_are_as_the_broker_left_them(name, alone, tmp_path):
    folder = VECTORS / "segments" / name
    made, parts = rebuilt(golden.copied(folder, tmp_path / "alone", [".log"]) if alone else folder, BROKER[name])
    assert made.pop(leader_epochs.NAME) == (folder / leader_epochs.NAME).read_bytes()
    assert made == small_files(folder)
    assert not any(part.damage or part.problems for part in parts)


def test_a_transaction_that_begins_in_an_earlier_segment():
    """The segment alone, with the snapshot at its begin, is enough."""
    folder = VECTORS / "segments" / "txn-0"
    log = kafkarec.logs.logs_of(kafkarec.open(folder / f"{30:020d}.log"))[0]
    made = {name: data for part in rebuild_side_files(log, 256) for name, data in part.files.items()}
    assert made[f"{30:020d}.txnindex"] == (folder / f"{30:020d}.txnindex").read_bytes()
    assert made[f"{293:020d}.snapshot"] == (folder / f"{293:020d}.snapshot").read_bytes()


@pytest.mark.core
def test_the_first_batch_with_a_lower_epoch(tmp_path):
    """Over all segments; a batch without an epoch does not count."""
    offset = 0
    for segment in ((3, -1, 3), (4, 4), (-1, 2), (1,)):
        batches = [batch(offset + n, 1, epoch=one) for n, one in enumerate(segment)]
        (tmp_path / f"{offset:020d}.log").write_bytes(b"".join(batches))
        offset += len(segment)
    *_, log = rebuilt(tmp_path)[1]
    assert log.lower_epoch == (6, 2, 4)
    for base in (5, 7):
        (tmp_path / f"{base:020d}.log").unlink()
    *_, log = rebuilt(tmp_path)[1]
    assert log.lower_epoch is None


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_log_that_begins_with_messages_without_leader_epochs(tmp_path, is_stored):
    """A leader-epoch-checkpoint begins where a broker began to write magic 2."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    messages = [builders.message(offset=at) for at in range(3)]
    (folder / f"{0:020}.log").write_bytes(b"".join([*messages, batch(3, 2, epoch=5), batch(5, 1, epoch=6)]))
    if is_stored:
        (folder / leader_epochs.NAME).write_bytes(leader_epochs.write([(5, 3)]))
    [*_, of_log] = rebuild_side_files(kafkarec.open(folder))
    assert leader_epochs.read(of_log.files[leader_epochs.NAME]) == ((5, 3 if is_stored else 0), (6, 5))
