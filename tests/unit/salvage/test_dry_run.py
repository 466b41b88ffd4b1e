"""salvage --dry-run: its report is that of the run, whatever the damage and the options."""

import random
import shutil
from pathlib import Path

import pytest
from damage import damage_file
from paths import SEGMENTS
from plain_logs import batch
from random_transactions import choices, random_log
from salvage_runs import FOLDERS

from kafkarec import salvage


def said(report):
    """The report without what only a run has: the digests of the new files."""
    found = report.to_dict()
    for one in found["partitions"]:
        for file in (*one["files"], *one["snapshots"]):
            del file["sha256"]
    del found["dry_run"]
    return found


def assert_a_dry_run_says_the_same(sources, out, **options):
    tried = salvage(sources, out, dry_run=True, **options)
    assert not out.exists()
    made = salvage(sources, out, **options)
    assert said(tried) == said(made)
    *lines, last = str(tried).splitlines()
    as_made = [line.replace("would save", "saved").replace("would be written", "written") for line in lines]
    assert as_made == str(made).splitlines()[: len(lines)] and "nothing was written" in last
    shutil.rmtree(out)
    return made


@pytest.mark.parametrize("count", [1, 2])
def test_random_transactions_with_damage(tmp_path, count):
    """One log, and two replicas of which the second is damaged in other places too."""
    reasons, markers = set(), 0
    for seed in range(40):
        chance = random.Random(seed)
        source = random_log(chance, tmp_path / f"{seed}" / "orders-0")
        (source / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 9999\n")
        sources = [source]
        for number in range(1, count):
            other = tmp_path / f"{seed}-{number}" / "orders-0"
            sources.append(Path(shutil.copytree(source, other)))
            damage_file(chance, chance.choice(sorted(other.glob("*.log"))))
        report = assert_a_dry_run_says_the_same(sources, tmp_path / "out", **choices(chance))
        reasons |= {one.reason for one in report.partitions[0].set_aside}
        markers += len(report.partitions[0].markers)
    assert reasons >= {"transaction_open", "transaction_undecided"} and markers > 10


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_damaged_logs_of_kafka(folder, tmp_path):
    """With indexes and snapshots, and with KRaft snapshots; one segment only renamed to .deleted, too."""
    for seed in range(5):
        chance = random.Random(f"{folder.name} {seed}")
        source = Path(shutil.copytree(folder, tmp_path / f"{seed}" / folder.name))
        for path in sorted(source.glob("*.log")) * chance.randrange(3):
            damage_file(chance, path)
        path = chance.choice(sorted(source.glob("*.log")))
        if chance.random() < 0.3:
            shutil.copy(path, f"{path}.deleted")
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert_a_dry_run_says_the_same(source, tmp_path / "out", **choices(chance))


def test_a_file_of_several_logs_beside_a_data_folder(tmp_path):
    image = tmp_path / "disk.img"
    image.write_bytes(b"".join([batch(50, 5), batch(60, 5), batch(0, 5), batch(5, 5)]) + bytes(100))
    report = assert_a_dry_run_says_the_same([SEGMENTS, image], tmp_path / "out")
    assert len(report.partitions) > 5
