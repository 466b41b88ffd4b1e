"""salvage refuses outputs that would endanger a source, or the output of an earlier run."""

import fcntl
import os
import shutil

import pytest
from paths import SEGMENTS
from plain_logs import batch, content
from salvage_runs import leave_unfinished, make_source

import kafkarec
from kafkarec import salvage
from kafkarec.ops.salvage import Refused


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "data")


def refused(sources, out, why):
    with pytest.raises(Refused, match=why):
        salvage(sources, out)


def test_nothing_is_written_in_or_under_a_source(source, tmp_path):
    before = content(source)
    inside = source / "orders-0"
    refused(source, source, "is one of the inputs")
    for out in (source / "new", inside, inside / "new" / "deep", source / "x" / ".." / "orders-0" / "y"):
        refused(source, out, "is in .*, one of the inputs")
    refused(inside / f"{0:020}.log", inside / "new", "the partition folder of")
    refused([tmp_path / "data" / "other-1", inside], inside / "new", "is in")
    (tmp_path / "link").symlink_to(source)
    refused(source, tmp_path / "link" / "new", "link/new is a link to .*/data/new, which is in")
    refused(tmp_path / "link", source / "new", "is in .*link, one of the inputs")
    (tmp_path / "deeper").symlink_to(inside)
    refused(source, tmp_path / "deeper" / "new", "is in")
    with kafkarec.open(inside) as opened:
        refused(opened, inside / "new", "is in")
    assert content(source) == before and not (source / "new").exists()


def test_an_image_may_be_in_the_outputs_parent_folder(tmp_path):
    (tmp_path / "disk.img").write_bytes(batch(0, 3))
    assert salvage(tmp_path / "disk.img", tmp_path / "rescued").ok


def test_a_folder_that_is_not_empty(source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("do not touch")
    refused(source, out, "is not empty")
    assert content(out).keys() == {"mine.txt"}
    (tmp_path / "file").write_text("x")
    refused(source, tmp_path / "file", "is not a folder")
    salvage(source, tmp_path / "done")
    before = content(tmp_path / "done")
    refused(source, tmp_path / "done", "contains a finished salvage")
    assert content(tmp_path / "done") == before


def test_the_unfinished_run_of_another_salvage(source, tmp_path):
    out = tmp_path / "out"
    assert leave_unfinished(source, out, calls=100)
    refused(source / "orders-0", out, "unfinished run of another salvage")
    with pytest.raises(Refused, match="unfinished run of another salvage"):
        salvage(source, out, as_partition=True)
    run = out / ".unfinished" / "run.json"
    run.write_text(run.read_text().replace('"form": 2, ', ""))  # as versions wrote it whose notes have other fields
    refused(source, out, "by another version of kafkarec")
    run.write_bytes(b"rubbish\n")
    refused(source, out, "is not empty")


def test_one_run_at_a_time(source, tmp_path):
    out = tmp_path / "out"
    assert leave_unfinished(source, out)
    held = os.open(out / ".unfinished", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused(source, out, "another salvage is running")
    os.close(held)
    assert salvage(source, out).partitions


def test_the_source_may_be_read_only(tmp_path):
    source = tmp_path / "txn-0"
    shutil.copytree(SEGMENTS / "txn-0", source)
    for path in (source, *source.iterdir()):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert salvage(source, tmp_path / "out").ok
    finally:
        source.chmod(0o700)
