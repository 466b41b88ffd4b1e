"""salvage: undamaged batches are in the output byte for byte, and nothing else, whatever the damage."""

import os
import random
from itertools import pairwise

import builders
import damages
import hurt_logs
import pytest
from builders import flipped
from paths import SEGMENTS
from plain_logs import batch, batches, content, log
from salvage_runs import FOLDERS, copied, set_aside

import kafkarec
from kafkarec import salvage
from kafkarec.ops.salvage import Refused

# verify's findings in a log with missing batches. An epoch may be damaged, as no checksum covers it; a
# marker may be among the lost batches.
GAPS = {"gaps_salvaged", "offset_gap", "offsets_compacted", "transaction_hanging", "empty_file"}
GAPS |= {"epoch_goes_back", "leader_epoch_negative"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_random_damage(folder, tmp_path):
    """Of one source, or of replicas: each batch that is whole in one of them is there once, as the report says, in a
    log in which verify finds gaps only. That nothing else is there is in tests/fuzz/test_damage_random.py"""
    log = hurt_logs.golden_log(folder)
    for turn in range(20):
        chance, sources, alive = random.Random(f"{folder.name} {turn}"), [], set()
        for number in range(chance.randint(1, 3)):
            sources.append(tmp_path / f"{turn}-{number}" / folder.name)
            parts = hurt_logs.damaged(chance, log, chance.randint(0, 3))
            hurt_logs.write_folder(sources[-1], log, parts)
            for segment, part in zip(log.segments, parts, strict=True):
                read = kafkarec.decode(part.data, errors="skip").batches.column("position")
                alive |= {batch.raw for at, batch in damages.untouched(segment, part) if at in read}
        before, out = [*map(content, sources)], tmp_path / f"out{turn}"
        [report] = salvage(sources, out, as_partition=chance.random() < 0.5).partitions
        assert [*map(content, sources)] == before
        kept = copied(out)
        batches = [bytes(batch.raw) for batch in kafkarec.batches(kept)]
        with_transaction = b"".join(path.read_bytes() for path in out.glob("set-aside/*/transaction_*"))
        assert all(raw in with_transaction for raw in alive - set(batches)), report.set_aside
        assert len(batches) == len(set(batches)) == report.batches
        assert sum(map(len, batches)) == len(kept) == report.size
        assert all(one["last_offset"] < other["base_offset"] for one, other in pairwise(kafkarec.scan(kept)))
        assert sum(one.size for one in report.set_aside) == len(set_aside(out))
        checks = {finding.kind for finding in kafkarec.verify(out / folder.name).findings} if batches else set()
        assert checks <= GAPS, checks


def test_lost_offsets_at_segment_borders_and_ends(tmp_path):
    source = log(
        tmp_path / "orders-0",
        [flipped(batch(100, 10), 80), batch(110, 10), flipped(batch(120, 10), 80)],
        [flipped(batch(130, 10), 80), batch(140, 10)],
        [batch(150, 10), flipped(batch(160, 10), 80)],
    )
    (one,) = salvage(source, tmp_path / "out").partitions
    assert one.lost == [(100, 109), (120, 139), (160, None)]
    assert [file.name for file in one.files] == [f"{base:020}.log" for base in (100, 130, 150)]
    (source / f"{170:020}.log").touch()
    report = salvage(source, tmp_path / "rolled")
    assert report.partitions[0].lost == [(100, 109), (120, 139), (160, 169)]
    assert "offsets 100 to 109, offsets 120 to 139, offsets 160 to 169 (fewer if" in str(report)


@pytest.mark.parametrize("count, middle", [(40, (20,)), (5000, (2047, 4095))])
def test_blocks_of_another_file_do_not_exclude_the_logs_batches(tmp_path, count, middle):
    """A file system error: batches with other offsets in the middle of a log. Of a long log 2048 batches are compared
    with each other at a time."""
    own = batches(count, 10)
    for number, start in enumerate((100_000, 0, 5)):
        foreign = [batch(start + i * 3, 3, epoch=7) for i in range(3)]
        for at in (0, 1, *middle, count - 2):
            source = log(tmp_path / f"{number}-{at}" / "orders-0", [*own[:at], *foreign, *own[at:]])
            if at == 0:
                (source / f"{start:020}.log").rename(source / f"{0:020}.log")
            out = tmp_path / f"out{number}-{at}"
            salvage(source, out)
            assert copied(out).endswith(b"".join(own[at + 3 :])), (start, at)
            assert len(copied(out)) >= len(own[0]) * (count - 4)


@pytest.mark.parametrize("own_behind", [1, 2])
def test_a_block_found_between_damage_does_not_exclude_batches_that_reach_the_end(tmp_path, own_behind):
    """Two batches of another log, with higher offsets, in place of some of the last ones."""
    own = batches(20, 10)
    foreign = [batch(5000 + i * 10, 10, epoch=7) for i in range(2)]
    torn = [own[-own_behind - 3][:-5], b"\xff" * 9]
    between = [torn[1], *own[5 : -own_behind - 3]]  # of the log itself, between damage, too
    source = log(tmp_path / "orders-0", [*own[:5], *between, torn[0], *foreign, torn[1], *own[-own_behind:]])
    report = salvage(source, tmp_path / "out")
    assert copied(tmp_path / "out") == b"".join([*own[: -own_behind - 3], *own[-own_behind:]])
    assert sum(one.batches for one in report.partitions[0].set_aside) == 2


def test_the_segments_of_a_long_log_do_not_stay_open(tmp_path):
    counts = []
    source = log(tmp_path / "orders-0", *([batch(i, 1)] for i in range(70)))
    salvage(source, tmp_path / "out", progress=lambda path, at: counts.append(len(os.listdir("/proc/self/fd"))))
    assert len(counts) == 70 and max(counts) - counts[0] < 5


def test_a_batch_with_a_good_checksum_and_an_unreadable_payload_is_set_aside(tmp_path):
    broken = builders.batch(payload=b"no gzip at all", codec="gzip", count=3, base_offset=10)
    source = log(tmp_path / "orders-0", [batch(0, 10), broken, batch(13, 1)])
    report = salvage(source, tmp_path / "out")
    assert set_aside(tmp_path / "out") == broken and copied(tmp_path / "out") == batch(0, 10) + batch(13, 1)
    assert report.partitions[0].lost == [(10, 12)] and report.damage[0]["reason"] == "payload_corrupt"


def test_a_file_of_several_logs(tmp_path):
    """A disk image: decreasing offsets begin another log, unless topic and partition are given."""
    image = tmp_path / "disk.img"
    image.write_bytes(batch(50, 5) + batch(55, 5) + b"x" * 700 + batch(0, 5) + batch(5, 5) + batch(2, 1, epoch=1))
    report = salvage(image, tmp_path / "out")
    assert [one.folder for one in report.partitions] == ["unnamed-0", "unnamed-0-1", "unnamed-0-2"]
    assert (tmp_path / "out" / "unnamed-0-1" / f"{0:020}.log").read_bytes() == batch(0, 5) + batch(5, 5)
    assert "this file holds 3 pieces of several logs" in report.partitions[0].problems[0]
    one = salvage(image, tmp_path / "one", topic="t", partition=0)
    assert copied(tmp_path / "one") == batch(2, 1, epoch=1) + batch(5, 5) + batch(50, 5) + batch(55, 5)
    assert set_aside(tmp_path / "one") == batch(0, 5)
    assert [a.reason for a in one.partitions[0].set_aside] == ["conflict_epoch"]


def test_opened_sources(tmp_path):
    with kafkarec.open(SEGMENTS / "txn-0") as opened:
        salvage(opened, tmp_path / "a")
        salvage(opened.segments[1], tmp_path / "b")
    assert copied(tmp_path / "a").endswith(copied(tmp_path / "b"))
    listed = salvage(sorted((SEGMENTS / "txn-0").glob("*.log")), tmp_path / "c")
    assert copied(tmp_path / "c") == copied(tmp_path / "a") and listed.partitions[0].folder == "txn-0"
    with pytest.raises(FileNotFoundError):
        salvage(tmp_path / "nope", tmp_path / "d")
    with pytest.raises(Refused, match="nothing to salvage"):
        salvage(SEGMENTS.parent / "invalid", tmp_path / "d")


@pytest.mark.parametrize("dry_run", [True, False])
def test_progress_is_told_while_the_sources_are_read(tmp_path, dry_run):
    """Each byte once, before the batches are written: of an image nothing can be written until all of it is read."""
    image = tmp_path / "image"
    image.write_bytes((SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes() + b"x" * 500)
    seen = []

    def progress(path, position):
        seen.append((path, position, any((tmp_path / "out").rglob("*.log*"))))

    salvage(image, tmp_path / "out", dry_run=dry_run, progress=progress)
    assert seen[-1] == (str(image), image.stat().st_size, False)
    assert [position for _, position, _ in seen] == sorted(position for _, position, _ in seen)


def test_batches_of_two_files_that_are_set_aside_are_two_ranges(tmp_path):
    """One ends in its file where the other one begins in the next file."""
    folder = log(tmp_path / "orders-0", [batch(50, 5), batch(0, 5)], [batch(20, 5), batch(3, 5)])
    size = len(batch(50, 5))
    (folder / f"{50:020}.log").rename(folder / f"{0:020}.log")
    [one] = salvage(folder, tmp_path / "out").partitions
    assert [(os.path.basename(each.file), each.position, each.first_offset) for each in one.set_aside] == [
        (f"{0:020}.log", 0, 50),
        (f"{20:020}.log", size, 3),
    ]
