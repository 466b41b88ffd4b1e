"""The same salvage again, after a kill: finished files or sources that were changed meanwhile, or touched."""

import json
import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import Here
from paths import SEGMENTS
from plain_logs import batch, content, log
from salvage_runs import killed_before, leave_unfinished, make_source

from kafkarec import salvage

NAME, UNFINISHED = f"{0:020}.log", ".unfinished"
AGAIN = ("made again: ", "what was made before the sources changed is kept in ")


@pytest.fixture
def source(tmp_path):
    """Four partitions: damaged; set aside by --as-partition; with a lost marker and a batch out of order; snapshots."""
    root = make_source(tmp_path / "data")
    opened = batch(0, 3, transaction=7)
    log(root / "third-0", [opened, batch(3, 3, producer_id=7, producer_epoch=0)], [batch(6, 3)])
    lost = batch(3, 1)[:70] + b"\xff" * 9 + batch(3, 1)[79:]
    log(root / "fourth-0", [opened, lost, batch(4, 2), batch(90, 1), batch(6, 2)], [batch(20, 3)])
    shutil.copytree(SEGMENTS / "__cluster_metadata-0", root / "__cluster_metadata-0")
    return root


def result(out):
    """The digests of the new files; the report with the name that the folder has in it, and without saying what was
    made again and what was kept of an earlier run."""
    report = json.loads((out / "salvage.json").read_text().replace(str(out), "OUT"))
    for one in report["partitions"]:
        one["problems"] = [text for text in one["problems"] if not text.startswith(AGAIN)]
        assert not (one["keeps_earlier"] and report["ok"])
        one["keeps_earlier"] = False
    report.pop("ok")
    (out / "salvage.json").write_text(json.dumps(report))
    return {name: digest for name, digest in content(out).items() if not name.startswith("set-aside/earlier.")}


def finished_files(out):
    files = (path for path in out.rglob("*") if path.is_file() and path.parent.name != UNFINISHED)
    return sorted(path for path in files if path.suffix != ".part")


def unfinished_at(calls, source, out, **options):
    """Whether a run that is killed at this system call is not finished."""
    return leave_unfinished(source, out, calls, **options) and not (out / "salvage.json").exists()


def spoil(path, chance):
    """Removes a file, cuts it, or changes one byte of it."""
    data = bytearray(path.read_bytes())
    how = chance.randrange(3) if data else 0
    if not how:
        path.unlink()
        return
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data[: chance.randrange(len(data))] if how == 1 else data)


@pytest.fixture
def images(tmp_path):
    """Two files that hold several logs each."""
    made = []
    for name, bases in {"one.img": (50, 60, 0, 5), "two.img": (70, 20)}.items():
        made.append(tmp_path / name)
        made[-1].write_bytes(b"".join(batch(base, 5) for base in bases))
    return made


@pytest.mark.parametrize(
    "of_images, options", [(False, {}), (False, {"as_partition": True, "undecided": "aside"}), (True, {})]
)
def test_a_finished_file_that_is_not_as_it_was_written_is_made_again(source, images, tmp_path, of_images, options):
    given = images if of_images else source
    salvage(given, tmp_path / "whole", **options)
    assert any((tmp_path / "whole" / "set-aside").rglob("*.log")) is not of_images
    expected, chance, spoiled = result(tmp_path / "whole"), random.Random(5), 0
    for calls in range(20, 600, 29 - 14 * of_images):
        out = tmp_path / "out"
        if not unfinished_at(calls, given, out, **options):
            break
        for path in chance.sample(finished_files(out), min(len(finished_files(out)), chance.randrange(1, 3))):
            spoil(path, chance)
            spoiled += 1
        for path in (*images, *source.rglob("*")) if chance.random() < 0.5 else ():
            os.utime(path, (calls, calls))
        salvage(given, out, **options)
        assert result(out) == expected, calls
        shutil.rmtree(out)
    assert spoiled > 6


def test_each_finished_file(source, tmp_path):
    """Killed when all is done but the report; then one file is removed, or its first byte is changed."""
    salvage(source, tmp_path / "whole", as_partition=True)
    expected, late = result(tmp_path / "whole"), tmp_path / "late"
    killed_before("salvage.json", source, late, as_partition=True)
    files = finished_files(late)
    assert {path.name for path in files} >= {
        "partition.metadata",
        "leader-epoch-checkpoint",
        "transaction_open-0.log",
    }
    assert len(files) + 1 == len(expected)
    for number, path in enumerate(files):
        out = Path(shutil.copytree(late, tmp_path / f"copy{number}"))
        copy = out / path.relative_to(late)
        copy.unlink()
        if number % 2:
            copy.write_bytes(b"x" + path.read_bytes()[1:])
        salvage(source, out, as_partition=True)
        assert result(out) == expected, path


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("at", ["kept", "damaged", "set aside"])
def test_what_was_made_of_sources_that_changed_since_stays(tmp_path, at, again):
    """Bytes of a batch in the new log, of damage, of a batch that is set aside. Killed again, or changed again."""
    parts = {
        "kept": batch(0, 5),
        "damaged": batch(5, 5)[:-1] + b"?",
        "last": batch(10, 5),
        "set aside": batch(0, 5, value=b"other %d"),
    }
    folder, out = log(tmp_path / "data" / "orders-0", list(parts.values())), tmp_path / "out"
    log(tmp_path / "data" / "other-0", [batch(0, 5)])
    killed_before("salvage.json", tmp_path / "data", out)
    before = {path.relative_to(out): path.read_bytes() for path in finished_files(out) if "orders-0" in path.parts}
    parts[at] = {"kept": batch(0, 5, value=b"VALUE %d"), "set aside": batch(0, 5, value=b"OTHER %d")}.get(
        at, batch(5, 5)[:-1] + b"!"
    )
    size, data = (folder / NAME).stat().st_size, b"".join(parts.values())
    assert len(data) == size
    (folder / NAME).write_bytes(data)
    kept = [out / "set-aside" / "earlier.1"]
    os.utime(folder / NAME, (1, 1))
    if again:
        assert unfinished_at(50, tmp_path / "data", out)
        os.utime(folder / NAME, (2, 2))
        kept.append(out / "set-aside" / "earlier.2")
    report = salvage(tmp_path / "data", out)
    assert {path: (kept[0] / path).read_bytes() for path in before} == before
    one, other = report.partitions
    assert f"made again: the source {folder / NAME} has changed since an earlier run" in one.problems
    [where] = [text for text in one.problems if text.startswith(AGAIN[1])]
    assert where == AGAIN[1] + ", ".join(str(path) for path in kept if path.exists())
    assert one.keeps_earlier and report.exit_status() == 1 and not other.keeps_earlier
    assert (out / "orders-0" / NAME).read_bytes() == parts["kept"] + parts["last"]
    assert (out / "set-aside" / "orders-0" / "offset_out_of_order-0.log").read_bytes() == parts["set aside"]


def test_space_for_sources_that_changed_since_is_needed_again(tmp_path, monkeypatch):
    folder, out = log(tmp_path / "orders-0", [batch(0, 50, value=b"x" * 100)]), tmp_path / "out"
    killed_before("salvage.json", folder, out)
    os.utime(folder / NAME, (1, 1))
    killed_before(NAME, folder, out)
    (out / "orders-0" / f"{NAME}.part").unlink()
    assert (out / "set-aside" / "earlier.1" / "orders-0" / NAME).exists()
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=(1 << 20) + 9, f_frsize=1))
    with pytest.raises(ValueError, match=f"{(1 << 20) + 9} bytes free"):
        salvage(folder, out)


def test_space_for_batches_that_are_read_once_is_needed_twice(tmp_path, monkeypatch):
    folder = log(tmp_path / "orders-0", [batch(0, 50, value=b"x" * 100)])
    size = (folder / NAME).stat().st_size
    free = (1 << 20) + size + size // 64
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    with pytest.raises(ValueError, match=f"{free} bytes free, and up to {(1 << 20) + 2 * size + 2 * size // 64} may"):
        salvage(folder, tmp_path / "once", read_once=True)
    assert salvage(folder, tmp_path / "twice").ok


def test_sources_that_are_as_before_again_after_a_kill(tmp_path):
    """Killed while folders are moved, or before the partition is planned; then changed once more."""
    folder, out, calls = log(tmp_path / "data" / "orders-0", [batch(0, 5), batch(9, 1), batch(6, 1)]), tmp_path / "o", 0
    for calls in range(1, 100, 3):
        os.utime(folder / NAME, (1, 1))
        killed_before("salvage.json", folder, out)
        os.utime(folder / NAME, (2, 2))
        if not unfinished_at(calls, folder, out):
            break
        os.utime(folder / NAME, (1, 1))
        killed_before("salvage.json", folder, out)
        os.utime(folder / NAME, (3, 3))
        [one] = salvage(folder, out).partitions
        kept = sorted(map(str, (out / "set-aside").glob("earlier.*")))
        assert AGAIN[1] + ", ".join(kept) in one.problems, calls
        shutil.rmtree(out)
    assert calls > 30


@pytest.mark.parametrize("as_partition", [False, True])
def test_a_file_of_an_earlier_run_that_is_not_made_again_is_not_left(tmp_path, as_partition):
    """Killed at any moment; then the source has the same batches in one segment less."""
    parts, data = [batch(5 * i, 5) for i in range(4)], tmp_path / "data"
    out, second = tmp_path / "out", data / "orders-0" / f"{10:020}.log"
    for calls in range(10, 200, 11):
        shutil.rmtree(data, ignore_errors=True)
        folder = log(data / "orders-0", parts[:2], parts[2:])
        if not unfinished_at(calls, data, out, as_partition=as_partition):
            break
        (folder / NAME).write_bytes(b"".join(parts))
        second.unlink()
        salvage(data, out, as_partition=as_partition)
        assert salvage(data, tmp_path / "whole", as_partition=as_partition).ok
        assert result(out) == result(tmp_path / "whole"), calls
        shutil.rmtree(out)
        shutil.rmtree(tmp_path / "whole")
    assert 50 < calls < 199


def test_a_source_that_changed_before_it_was_copied(tmp_path):
    folder, out = log(tmp_path / "data" / "orders-0", [batch(0, 5)]), tmp_path / "out"
    killed_before("orders-0", tmp_path / "data", out)
    assert (out / UNFINISHED / "run.json").exists()
    (folder / NAME).write_bytes(batch(0, 5, value=b"VALUE %d"))
    os.utime(folder / NAME, (1, 1))
    assert salvage(tmp_path / "data", out).ok
    assert (out / "orders-0" / NAME).read_bytes() == (folder / NAME).read_bytes()


def test_a_finished_partition_is_not_repeated(capfdbinary, tmp_path):
    """Killed, a finished .log removed, the same command again."""
    source, out, run = make_source(tmp_path / "data"), tmp_path / "out", Here(capfdbinary)
    killed_before("salvage.json", source, out)
    path, kept = min((out / "orders-0").glob("*.log")), sorted((out / "other-1").iterdir())
    before = [one.stat().st_ino for one in kept]
    path.unlink()
    ran = run("salvage", source, "-o", out)
    assert ran.status == 1 and "orders-0: saved 8 batches" in ran.text and "other-1: saved 2 batches" in ran.text
    assert "offsets 40 to 49" in ran.text and f"note: made again: {path} has changed" in ran.text
    assert path.read_bytes() == (source / "orders-0" / path.name).read_bytes()
    assert [one.stat().st_ino for one in kept] == before, "a repeated file is a new one"


@pytest.mark.parametrize("read_once", [False, True])
def test_the_longest_name_of_a_topic(tmp_path, read_once):
    name = f"{'t' * 249}-0"
    log(tmp_path / name, [batch(0, 5)])
    assert leave_unfinished(tmp_path / name, tmp_path / "out", read_once=read_once)
    report = salvage(tmp_path / name, tmp_path / "out", read_once=read_once)
    assert report.ok and (tmp_path / "out" / name / NAME).stat().st_size == (tmp_path / name / NAME).stat().st_size
