"""Index, snapshot and epoch files of random partitions, rebuilt by kafkarec and by Kafka's recovery."""

import shutil

import jvm_oracle
from broker_logs import partition

from kafkarec.cli import main

_SUFFIXES = {".index", ".timeindex", ".txnindex", ".snapshot"}


def _sidecars(folder):
    names = [path for path in folder.iterdir() if path.suffix in _SUFFIXES or path.name == "leader-epoch-checkpoint"]
    return {path.name: path.read_bytes() for path in names}


def test_indexes_snapshots_and_epochs_equal_those_of_log_segment_recover(kafka, tmp_path):
    for seed in range(jvm_oracle.count(40)):
        ours, theirs = tmp_path / f"ours{seed}" / "t-0", tmp_path / f"theirs{seed}" / "t-0"
        random = partition(seed, ours).random
        shutil.copytree(ours, theirs)
        interval = random.choice([1, 100, 256, 4096])
        answer = kafka.ask("recover", theirs, interval)
        assert (answer.status, answer.err) == (0, ""), f"seed {seed}"
        rebuilt = tmp_path / f"rebuilt{seed}"
        assert main(["reindex", str(ours), "-o", str(rebuilt), "--index-interval", str(interval)]) == 0
        assert _sidecars(rebuilt) == _sidecars(theirs), f"seed {seed}"
