"""The data folders of two real brokers, which write, roll, delete, clean, move, truncate, are killed and start again:
`verify` never says that one is damaged or lost something.

A usual run is one round; `KAFKAREC_ORACLE=5 make test ARGS=tests/jvm/test_healthy_folders.py` does five.
"""

import os
import shutil
import signal
import threading
import time

import jvm_oracle
import pytest
from broker import Broker

import kafkarec

pytestmark = pytest.mark.slow

_SMALL = "internal.segment.bytes=20000"
_TOPICS = {
    "plain": _SMALL,
    "large": "segment.bytes=1048576",
    "gzip": f"{_SMALL}:compression.type=gzip",
    "snappy": f"{_SMALL}:compression.type=snappy",
    "lz4": f"{_SMALL}:compression.type=lz4",
    "zstd": f"{_SMALL}:compression.type=zstd",
    "stamped": f"{_SMALL}:message.timestamp.type=LogAppendTime",
    "preallocated": f"{_SMALL}:preallocate=true",
    "timed": "segment.ms=400:segment.bytes=1048576:preallocate=true",
    "indexed": f"{_SMALL}:index.interval.bytes=0:segment.index.bytes=600",
    "flushed": f"{_SMALL}:flush.messages=1",
    "few": f"{_SMALL}:retention.bytes=40000:file.delete.delay.ms=0",
    "short": "segment.ms=300:retention.ms=900:file.delete.delay.ms=60000",
    "deleted": f"{_SMALL}:file.delete.delay.ms=500",
    "compacted": f"{_SMALL}:cleanup.policy=compact:min.cleanable.dirty.ratio=0:delete.retention.ms=0",
    "dense": f"{_SMALL}:cleanup.policy=compact:min.cleanable.dirty.ratio=0:preallocate=true:compression.type=zstd",
    "both": f"{_SMALL}:cleanup.policy=compact,delete:retention.bytes=60000:min.cleanable.dirty.ratio=0",
    "gone": _SMALL,
    "gone-compacted": f"{_SMALL}:cleanup.policy=compact:min.cleanable.dirty.ratio=0",
}
_MOVED = ("plain", "compacted", "preallocated")
_SETTINGS = {
    "log_index_size_max_bytes": "8192",  # preallocated in each active segment, and copied with it
    "log_cleaner_enable": "true",
    "log_cleaner_backoff_ms": "200",
    "log_initial_task_delay_ms": "300",
    "log_retention_check_interval_ms": "300",
    "log_flush_offset_checkpoint_interval_ms": "500",
    "log_flush_start_offset_checkpoint_interval_ms": "500",
    "replica_high_watermark_checkpoint_interval_ms": "300",
    "replica_alter_log_dirs_io_max_bytes_per_second": "2000",
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "2",
    "metadata_log_max_record_bytes_between_snapshots": "2000",
    "num_partitions": "1",
    "broker_session_timeout_ms": "4000",
    "unclean_leader_election_enable": "true",
}


class Cluster:
    """Two brokers; the first one has two data folders. reports: of all that was verified; bad: what was wrong."""

    def __init__(self, kafka, root, seed):
        self._kafka, self._root, self._seed = kafka, root, seed
        self.one = Broker(root / "one", log_dirs=f"{root}/one/data,{root}/one/other", **_SETTINGS)
        self.two = Broker(root / "two", self.one, **_SETTINGS)
        self.other = root / "one" / "other"
        self.bootstrap = f"{self.one.address},{self.two.address}"
        self.bad = []
        self.folders = set()
        self.verified = 0

    def ask(self, verb, *arguments):
        answer = self._kafka.ask(verb, self.bootstrap, *arguments)
        assert answer.status == 0, answer.err
        return answer.out

    def traffic(self, seconds, acks="all"):
        """Write in the background, from when this returns on."""
        self._seed += 1
        started = self._root / f"started-{self._seed}"
        thread = threading.Thread(target=self._write, args=(started, int(seconds * 1000), self._seed, acks, *_TOPICS))
        thread.start()
        while thread.is_alive() and not started.exists():
            time.sleep(0.05)
        return thread

    def _write(self, *words):
        answer = self._kafka.ask("traffic", self.bootstrap, *words)
        if answer.status or int(answer.out) < 10:
            self.bad.append(f"hardly anything was written: {words[:4]}: {answer.out} {answer.err}")

    def verify(self, label, *brokers):
        """Verify the data folders as they are."""
        for broker in brokers or (self.one, self.two):
            for folder in (broker.data, *([self.other] if broker is self.one else [])):
                self._note(f"{label}, {folder.parent.name}", kafkarec.verify(folder))

    def snapshot(self, label):
        """Verify what a snapshot of the file system has at one moment while the brokers run."""
        to = self._root / "snapshots" / label
        with self.one.paused(), self.two.paused():
            for folder in (self.one.data, self.other, self.two.data):
                shutil.copytree(folder, to / folder.parent.name / folder.name)
        for folder in sorted(to.glob("*/*")):
            self._note(f"{label}, {folder.parent.name}/{folder.name}", kafkarec.verify(folder))

    def _note(self, label, report):
        self.verified += len(report.partitions)
        self.folders |= {os.path.join(label.split(", ")[1], os.path.basename(one.path)) for one in report.partitions}
        if report.exit_status() != 0:
            for partition in report.partitions:
                where = f"{label}: {os.path.basename(partition.path)}"
                self.bad += [f"{where}: {one}" for one in partition.damage]
                self.bad += [f"{where}: {one.file} {one}" for one in partition.findings if one.severity == "error"]
            self.bad += [f"{label}: {one}" for one in report.own_findings if one.severity == "error"]


def lived(cluster):
    """What happens to the brokers."""
    cluster.one.start()
    cluster.two.start()
    cluster.ask("create", *(f"{topic}:partitions=2:replicas=2:{settings}" for topic, settings in _TOPICS.items()))
    writing = cluster.traffic(3)
    time.sleep(1)
    cluster.verify("while it writes")
    cluster.snapshot("a snapshot")
    writing.join()
    cluster.ask("move", 1, cluster.other, *_MOVED)
    cluster.verify("while replicas move")
    # The second broker alone accepts more, which is truncated when it comes back.
    writing = cluster.traffic(2, "1")
    time.sleep(1)
    with cluster.one.paused():
        writing.join()
        cluster.two.stop(signal.SIGKILL)
    cluster.verify("killed", cluster.two)
    cluster.traffic(2, "1").join()
    cluster.two.start()
    writing = cluster.traffic(3)
    time.sleep(1)
    cluster.verify("after truncation")
    writing.join()
    cluster.snapshot("later")
    writing = cluster.traffic(2)
    time.sleep(1)
    cluster.one.stop(signal.SIGKILL)
    cluster.two.stop(signal.SIGKILL)
    writing.join()
    cluster.verify("both killed")
    cluster.one.start()
    cluster.two.start()
    cluster.traffic(1).join()
    cluster.ask("delete topics", "gone", "gone-compacted")
    cluster.verify("after recovery")
    cluster.two.stop()
    cluster.one.stop()
    cluster.verify("stopped")


@pytest.fixture
def clusters(kafka, tmp_path):
    made = [Cluster(kafka, tmp_path / str(seed), seed * 100) for seed in range(jvm_oracle.count(1))]
    try:
        yield made
    finally:
        for cluster in made:
            for broker in (cluster.two, cluster.one):
                broker.stop(signal.SIGKILL)


def test_no_loss_is_claimed(clusters):
    for cluster in clusters:
        lived(cluster)
        print(f"{len(cluster.folders)} partition folders, verified {cluster.verified} times")
        assert not cluster.bad, "\n".join(cluster.bad)
        assert len(cluster.folders) > 100
        shutil.rmtree(cluster.two.data / "zstd-0")
        [lost] = [one for one in kafkarec.verify(cluster.two.data).own_findings if one.severity == "error"]
        assert (lost.kind, lost.file) == ("folder_lost", str(cluster.two.data / "zstd-0"))
