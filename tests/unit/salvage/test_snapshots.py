"""salvage: KRaft snapshots of the metadata log, missing segments, files that are not read."""

import shutil

import builders
import pytest
import reading
from command import Here
from paths import SEGMENTS
from plain_logs import batch, batches, log
from salvage_runs import copied, killed_before

import kafkarec
from kafkarec import salvage

METADATA = SEGMENTS / "__cluster_metadata-0"
NAME = "00000000000000000000-0000000000.checkpoint"
WHOLE = (METADATA / NAME).read_bytes()


@pytest.fixture
def run(capfdbinary):
    return Here(capfdbinary)


def metadata(root, snapshot):
    folder = root / METADATA.name
    folder.mkdir(parents=True)
    shutil.copy(METADATA / f"{0:020}.log", folder)
    (folder / NAME).write_bytes(snapshot)
    return folder


def first_batch(data):
    return int(kafkarec.scan(data)[0]["size_in_bytes"])


@pytest.mark.parametrize(
    "snapshot, good, reasons",
    [
        (WHOLE[:-1], None, ["length_beyond_end"]),
        (WHOLE[: first_batch(WHOLE)], first_batch(WHOLE), ["length_beyond_end"]),  # whole batches without the footer
        (WHOLE + bytes(4096), len(WHOLE), ["size_too_small"]),
        (builders.flipped(WHOLE, 80), None, ["crc_mismatch"]),
        (b"", 0, ["length_beyond_end"]),
        (b"rubbish" * 9, 0, ["unsupported_magic"]),
    ],
    ids=["cut", "no footer", "zeros behind", "flipped", "empty", "rubbish"],
)
def test_a_snapshot_that_is_not_whole_is_set_aside(tmp_path, snapshot, good, reasons):
    source = metadata(tmp_path / "in", snapshot)
    report = salvage(source, tmp_path / "out")
    (one,) = report.partitions
    assert not report.ok and not one.snapshots
    assert [damage["reason"] for damage in one.damage] == reasons
    assert not list((tmp_path / "out" / METADATA.name).glob("*.checkpoint"))
    beside = tmp_path / "out" / "set-aside" / METADATA.name / f"snapshot_incomplete-0-{NAME}"
    sound = [
        snapshot[row["position"] :][: row["size_in_bytes"]]
        for row in reading.decode_file(snapshot, errors="skip", control=True).batches
    ]
    assert (beside.read_bytes() if beside.exists() else b"") == b"".join(sound)
    assert good is None or sum(map(len, sound)) == good
    assert all(set_aside.reason == "snapshot_incomplete" for set_aside in one.set_aside)
    assert sum(set_aside.batches for set_aside in one.set_aside) == len(sound)
    assert (tmp_path / "out" / METADATA.name / f"{0:020}.log").read_bytes() == (METADATA / f"{0:020}.log").read_bytes()


def test_the_whole_copy_of_two_is_taken(tmp_path):
    a, b = metadata(tmp_path / "a", WHOLE[:-9]), metadata(tmp_path / "b", WHOLE)
    (one,) = salvage([a, b], tmp_path / "out").partitions
    assert (tmp_path / "out" / METADATA.name / NAME).read_bytes() == WHOLE
    assert [damage["file"] for damage in one.damage] == [str(a / NAME)]


def test_a_folder_of_snapshots_alone(tmp_path):
    source = metadata(tmp_path / "in", WHOLE)
    (source / f"{0:020}.log").unlink()
    for as_partition in (False, True):
        out = tmp_path / f"out{as_partition}"
        assert salvage(source, out, as_partition=as_partition).ok
        assert (out / METADATA.name / NAME).read_bytes() == WHOLE


def test_a_killed_run_continues_at_the_snapshot(tmp_path):
    source, out = metadata(tmp_path / "in", WHOLE), tmp_path / "out"
    killed_before(NAME, source, out)
    report = salvage(source, out)
    assert report.ok and report.partitions[0].batches == len(kafkarec.scan((METADATA / f"{0:020}.log").read_bytes()))
    assert (tmp_path / "out" / METADATA.name / NAME).read_bytes() == WHOLE


def test_a_missing_segment_is_named_and_where_it_may_be(run, tmp_path):
    parts = batches(6, 10)
    disk = tmp_path / "disk"
    folder = log(disk / "orders-0", parts[:2], parts[2:4], parts[4:])
    lost_and_found = disk / "lost+found" / "#12345"
    lost_and_found.parent.mkdir()
    (folder / f"{20:020}.log").rename(lost_and_found)
    (disk / "meta.properties").write_text("version=1\n")
    gone = disk / f"gone-3.{'0' * 32}-delete"
    gone.mkdir()
    text = run("salvage", disk, "--dry-run").text
    assert "missing: offsets 20 to 39: in no source, or only in batches that were set aside" in text
    assert f"not read: {disk}/lost+found: contains 1 file that fsck found without a name; " in text
    assert f"What they are: kafkarec verify {disk}/lost+found/*\n" in text
    assert f"not read: {gone}: a partition that was deleted" in text
    assert "not read: 1 more name, listed in salvage.json" in text
    text = run("salvage", folder, lost_and_found, "-o", tmp_path / "two").text
    assert "unnamed-0: saved 2 batches" in text
    assert "its offsets are missing in orders-0: if it belongs there, salvage both together with --topic orders" in text
    lost_and_found.write_bytes(b"".join(parts[1:4]))  # begins before what is missing
    text = run("salvage", folder, lost_and_found, "-o", tmp_path / "other").text
    assert "unnamed-0: saved 3 batches" in text and "its offsets are missing" not in text
    complaint = run("salvage", lost_and_found.parent, "--dry-run").complaint
    assert f"no .log file was found; kafkarec verify {lost_and_found.parent} lists other files, which" in complaint
    assert run("explain", lost_and_found.parent).complaint.endswith("has no partition; name a file in it")
    merged = salvage([folder, lost_and_found], tmp_path / "one", topic="orders", partition=0)
    assert merged.partitions[0].missing == [] and merged.partitions[0].records == 60
    assert copied(tmp_path / "one") == b"".join(parts)


def test_compaction_is_no_missing_segment(run, tmp_path):
    folder = log(tmp_path / "orders-0", [batch(0, 2), batch(7, 1)], [batch(20, 3)])
    base = folder / f"{20:020}.log"
    base.rename(folder / f"{12:020}.log")
    report = salvage(folder, tmp_path / "out")
    assert report.ok and report.partitions[0].missing == [(8, 11)] and report.partitions[0].gaps == 5 + 12
    assert "  missing: " not in str(report)
