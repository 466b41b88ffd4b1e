"""verify and salvage: partitions without a folder, and first segments that are gone."""

import json
import shutil

import pytest
from cluster_folders import (
    DIRECTORY,
    METADATA,
    OTHER_DIRECTORY,
    TOPIC_IDS,
    UNASSIGNED,
    add_metadata,
    cluster_folder,
    log_directory,
    partition,
    records,
    setting,
)
from command import own_process
from plain_logs import add_checkpoint, flip
from verify_reports import kinds, verified

from kafkarec import salvage


def statuses(path):
    return verified(path).exit_status(), salvage(path, "not made", dry_run=True).exit_status()


def test_a_lost_folder_is_said_first(tmp_path):
    root = cluster_folder(tmp_path / "{data}", "grouped", "txn")
    report = verified(root)
    assert str(report).splitlines()[0] == (
        "INCOMPLETE: every batch can be read; 2 partitions without a folder: grouped-0, txn-0"
    )
    assert report.exit_status() == 1 and not report.ok
    lost = [one for one in report.own_findings if one.kind == "folder_lost"]
    assert [one.file for one in lost] == [str(root / "grouped-0"), str(root / "txn-0")]
    assert lost[0].detail == f"no folder here, but {METADATA} assigns it to broker 1 in {DIRECTORY}"
    assert report.to_dict()["next"] == [
        "(grouped-0 and 1 more: no batch is left to save; look for a backup or a replica)"
    ]
    saved = salvage(root, tmp_path / "out")
    assert str(saved).splitlines()[0] == (
        "lost: 2 partitions without a folder: grouped-0, txn-0; salvage takes them from a replica or a backup that is "
        "named as well"
    )
    assert saved.exit_status() == 1 and not saved.ok and all(one.ok for one in saved.partitions)
    written = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert written["lost_folders"] == [[one.file, one.detail] for one in lost] and not written["ok"]
    replica = log_directory(tmp_path / "replica", OTHER_DIRECTORY, ["grouped", "txn"], node=2)
    assert statuses([root, replica / "grouped-0", replica / "txn-0"]) == (0, 0)
    ran = own_process("verify", root, replica / "grouped-0")
    assert ran.status == 1
    assert ran.out.startswith(b"INCOMPLETE: every batch can be read; 1 partition without a folder: txn-0\n")


def test_damage_and_a_lost_folder(tmp_path):
    root = cluster_folder(tmp_path / "data", *(topic for topic in TOPIC_IDS if topic != "all-codecs"))
    flip(root / "all-codecs-0" / f"{0:020}.log", 9000)
    first = str(verified(root)).splitlines()[0]
    assert first.startswith("DAMAGED: ") and "; 8 partitions without a folder: __consumer_offsets-0, __tr" in first
    assert first.endswith("compacted-0, ...")


def moved(root):
    add_metadata(
        root,
        ("BrokerRegistrationChangeRecord", {"brokerId": 1, "brokerEpoch": 1, "logDirs": [DIRECTORY, OTHER_DIRECTORY]}),
        partition("grouped", directories=[OTHER_DIRECTORY]),
    )


EXPLAINED = {
    "topic deleted": (
        lambda root: add_metadata(root, ("RemoveTopicRecord", {"topicId": TOPIC_IDS["grouped"]})),
        "no folder here, but replication-offset-checkpoint has offset 7",
    ),
    "in another log directory": (moved, f"no folder here, but {METADATA} assigns it to broker 1 in {OTHER_DIRECTORY}"),
    "no longer a replica": (
        lambda root: add_metadata(root, partition("grouped", replicas=[2], directories=[OTHER_DIRECTORY])),
        "no folder here, but replication-offset-checkpoint has offset 7",
    ),
    "being deleted": (lambda root: (root / f"grouped-0.{'0' * 32}-delete").mkdir(), ""),
    "stray": (lambda root: (root / f"grouped-0.{'0' * 32}-stray").mkdir(), ""),
    "coming": (lambda root: (root / f"grouped-0.{'0' * 32}-future").mkdir(), ""),
    "another broker's": (
        lambda root: log_directory(root, DIRECTORY, node=2),
        "no folder here, but replication-offset-",
    ),
    "no metadata": (
        lambda root: shutil.rmtree(root / f"{METADATA}-0"),
        "no folder here, but replication-offset-checkpoint has offset 7",
    ),
    "no meta.properties": (lambda root: (root / "meta.properties").unlink(), ""),
    "metadata begins late": (
        lambda root: (root / f"{METADATA}-0" / f"{0:020}.log").rename(root / f"{METADATA}-0" / f"{9:020}.log"),
        "no folder here, but replication-offset-checkpoint has offset 7",
    ),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_absence_that_is_explained_is_a_note(name, tmp_path):
    root = cluster_folder(tmp_path / "data", "grouped")
    add_checkpoint(root, "grouped 0 7")
    assert statuses(root) == (1, 1)
    change, note = EXPLAINED[name]
    change(root)
    report = verified(root)
    assert "folder_lost" not in kinds(report)
    notes = {one.file: one.detail for one in report.own_findings if one.kind == "log_missing"}
    assert list(notes) == ([str(root / "grouped-0")] if note else []) and "".join(notes.values()).startswith(note)
    saved = salvage(root, tmp_path / "out")
    assert not saved.lost_folders and set(notes.items()) <= set(saved.left_out)
    if name != "metadata begins late":
        assert (report.exit_status(), saved.exit_status()) == (0, 0)


def test_damaged_metadata_proves_nothing(tmp_path):
    root = cluster_folder(tmp_path / "data", "grouped")
    flip(root / f"{METADATA}-0" / f"{0:020}.log")
    assert statuses(root) == (1, 1)
    assert "folder_lost" not in kinds(verified(root))


def test_without_a_directory_id_the_high_watermark_tells_that_there_was_a_folder(tmp_path):
    root = cluster_folder(tmp_path / "data", "grouped")
    add_metadata(root, partition("grouped", directories=[UNASSIGNED]))
    assert statuses(root) == (0, 0)
    add_checkpoint(root, "grouped 0 7", name="recovery-point")
    assert statuses(root) == (0, 0)
    add_checkpoint(root, "grouped 0 7")
    assert statuses(root) == (1, 1)


def test_a_log_directory_that_the_broker_lost(tmp_path):
    """It registered with the others alone: another disk that is only not named stays registered."""
    root = cluster_folder(tmp_path / "data", "grouped")
    add_metadata(root, partition("grouped", directories=[OTHER_DIRECTORY]))
    assert statuses(root) == (1, 1)
    other = log_directory(tmp_path / "other", OTHER_DIRECTORY, ["grouped"])
    assert statuses([root, other]) == (0, 0)


def test_the_metadata_of_another_log_directory(tmp_path):
    root = cluster_folder(tmp_path / "data", "grouped", "txn")
    moved(root)
    other = log_directory(tmp_path / "other", OTHER_DIRECTORY, ["txn"])
    assert statuses(other) == (0, 0)
    assert statuses(root)[0] == 1
    add_metadata(root, partition("txn", directories=[OTHER_DIRECTORY]))
    both = [root, other]
    assert statuses(both) == (1, 1)
    assert [one.file for one in verified(both).own_findings if one.kind == "folder_lost"] == [str(other / "grouped-0")]
    for path in (root / "all-codecs-0", other / "txn-0", [root / "all-codecs-0", other / "txn-0"]):
        assert statuses(path) == (0, 0), "no folder was named as a whole"


def test_metadata_from_a_snapshot_on(tmp_path):
    root = cluster_folder(tmp_path / "data", "grouped")
    folder = root / f"{METADATA}-0"
    for path in folder.iterdir():
        path.unlink()
    topic = TOPIC_IDS["grouped"]
    replica = {"replicas": [1], "isr": [1], "removingReplicas": [], "addingReplicas": [], "directories": [DIRECTORY]}
    state = [
        ("TopicRecord", {"name": "grouped", "topicId": topic}),
        partition("grouped", "PartitionRecord", leader=1, leaderEpoch=0, partitionEpoch=0, **replica),
    ]
    (folder / f"{200:020}-{3:010}.checkpoint").write_bytes(records(*state, base=0))
    (folder / f"{190:020}.log").write_bytes(records(("RemoveTopicRecord", {"topicId": topic}), base=190))
    with open(folder / f"{190:020}.log", "ab") as log:
        log.write(records(*[("NoOpRecord", {})] * 15, base=191))
    assert "folder_lost" in kinds(verified(root)), "a record before the snapshot's end is in the snapshot"
    (folder / f"{190:020}.log").rename(folder / f"{201:020}.log")
    assert "folder_lost" not in kinds(verified(root))


# ---- first segments


def without_first_segment(root):
    folder = cluster_folder(root) / "compacted-0"
    for path in folder.glob(f"{0:020}.*"):
        path.unlink()
    return folder


PROOF = "leader-epoch-checkpoint begins at offset 0, and the topic is only compacted"


@pytest.mark.parametrize("alone", [False, True])
def test_the_first_segment_of_a_compacted_topic_is_gone(alone, tmp_path):
    folder = without_first_segment(tmp_path / "data")
    path = folder if alone else tmp_path / "data"
    report = verified(path)
    assert str(report).splitlines()[0] == ("INCONSISTENT: 1 error; every batch can be read; 568 offsets lost in gaps")
    assert f"offsets 0 to 567 are missing before the batch; {PROOF} [segment_gap]" in str(report)
    [log] = [one for one in report.partitions if one.state == "error"]
    assert (report.exit_status(), log.missing, log.lost_offsets) == (1, ((0, 567),), 568)
    remark = "(compacted-0: salvage takes what is missing from a replica, if both folders are named)"
    assert report.to_dict()["next"] == [remark]
    for dry_run in (True, False):
        saved = salvage(path, tmp_path / "out", dry_run=dry_run)
        assert str(saved).splitlines()[:2] == [
            f"compacted-0: {'would save' if dry_run else 'saved'} 1 batch, 1 record, 78 bytes (offset 568) in 1 "
            "segment, from 1 file",
            f"  missing: offsets 0 to 567: in no source, or only in batches that were set aside ({PROOF})",
        ]
        assert saved.exit_status() == 1 and not saved.ok
    [written] = [
        one
        for one in json.loads((tmp_path / "out" / "salvage.json").read_text())["partitions"]
        if one["folder"] == "compacted-0"
    ]
    assert (written["missing"], written["proofs"]) == ([[0, 567]], [PROOF])
    replica = log_directory(tmp_path / "replica", OTHER_DIRECTORY, ["compacted"]) / "compacted-0"
    assert salvage([folder, replica], tmp_path / "merged").ok


START_EXPLAINED = {
    "retention": lambda root: add_metadata(root, setting("compacted", "cleanup.policy", "compact,delete")),
    "tiered": lambda root: add_metadata(root, setting("compacted", "remote.storage.enable", "true")),
    "log start": lambda root: add_checkpoint(root, "compacted 0 568", name="log-start"),
    "epochs from there on": lambda root: (root / "compacted-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 568\n"),
    "no epochs": lambda root: (root / "compacted-0" / "leader-epoch-checkpoint").unlink(),
    "no metadata": lambda root: shutil.rmtree(root / f"{METADATA}-0"),
    "topic made again": lambda root: add_metadata(
        root,
        ("RemoveTopicRecord", {"topicId": TOPIC_IDS["compacted"]}),
        ("TopicRecord", {"topicId": OTHER_DIRECTORY, "name": "compacted"}),
    ),
    "the cleaner was killed": lambda root: shutil.copy(
        root / "compacted-0" / f"{568:020}.log", root / "compacted-0" / f"{0:020}.log.swap"
    ),
}


@pytest.mark.parametrize("name", START_EXPLAINED)
def test_a_start_that_is_explained_is_no_loss(name, tmp_path):
    folder = without_first_segment(tmp_path / "data")
    assert statuses(folder) == (1, 1)
    START_EXPLAINED[name](tmp_path / "data")
    assert verified(folder).exit_status() == 0
    assert not any(one.proofs for one in salvage(folder, tmp_path / "out").partitions)
