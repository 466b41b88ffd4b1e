"""Files that hold no record batches: each verb says what kind of file it is, and what shows it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import Here
from paths import SEGMENTS

TXN = SEGMENTS / "txn-0"
LOG, FOLLOWING = f"{0:020}", f"{30:020}"
VERBS = ("verify", "ls", "cat", "scan", "txn", "explain", "study")
# A file of a partition folder -> its kind, and the command that shows it.
SIDE_FILES = {
    f"{LOG}.index": ("an offset index", "name its .log file, or print it: kafkarec dump "),
    f"{LOG}.timeindex": ("a time index", "name its .log file, or print it: kafkarec dump "),
    f"{FOLLOWING}.txnindex": ("a transaction index", "name its .log file, or print it: kafkarec dump "),
    f"{FOLLOWING}.snapshot": ("a producer snapshot", "name its .log file, or print it: kafkarec dump "),
    "leader-epoch-checkpoint": ("the first offset of each leader epoch", "it is text: less "),
    "partition.metadata": ("the topic's id", "it is text: less "),
}


@pytest.mark.parametrize("name", SIDE_FILES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_side_file_is_named_by_its_kind_with_the_command_that_shows_it(run: Here, verb: str, name: str) -> None:
    ran, (kind, shown) = run(verb, TXN / name), SIDE_FILES[name]
    assert ran.status == 2
    assert kind in ran.complaint
    assert ran.complaint.endswith(f"{shown}{TXN / name}")
    command, _, _ = shown.rpartition(": ")[2].partition(" ")
    if command == "kafkarec":
        assert run("dump", TXN / name).status == 0


@pytest.mark.parametrize("state", [".deleted", ".swap", ".cleaned"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_side_file_that_a_broker_renamed_is_no_log(run: Here, tmp_path: Path, verb: str, state: str) -> None:
    path = shutil.copy(TXN / f"{LOG}.index", tmp_path / f"{LOG}.index{state}")
    ran = run(verb, path)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.complaint.endswith("is an offset index and holds no records; name its .log file")


def test_verify_and_ls_do_not_take_a_copied_index_for_batches(run: Here, tmp_path: Path) -> None:
    """The bytes of an .index can look like the header of a batch."""
    shutil.copytree(TXN, tmp_path / "txn-0")
    lost = tmp_path / "txn-0" / "lost+found"
    lost.mkdir()
    for place in (tmp_path / "txn-0" / "copy of 0.index", lost / f"{LOG}.index"):
        shutil.copy(TXN / f"{LOG}.index", place)
    assert b"record batches" not in run("verify", tmp_path / "txn-0", "--all").out
    assert b"an offset index, by its suffix, but not a name that Kafka gives" in run("ls", tmp_path / "txn-0").out
