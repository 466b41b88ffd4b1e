"""The commands on a log that was longer: text, exit status, JSON and HTML of verify and salvage."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from command import Here
from verify_reports import data_folder, good, made
from witness_folders import cut_golden, golden

import kafkarec

HEADLINE = f"at least 520 offsets after 344 are missing, according to {865:020}.snapshot"


@pytest.fixture
def short(tmp_path: Path) -> Path:
    return cut_golden(tmp_path / "data", ".snapshot", ".index", ".timeindex")


def test_verify_says_how_much_is_missing_at_the_end(run: Here, short: Path, tmp_path: Path) -> None:
    ran = run("verify", short)
    lines = ran.out.decode().splitlines()
    assert ran.status == 1 and ran.err == ""
    assert lines[0] == f"INCOMPLETE: every batch can be read; {HEADLINE}"
    assert lines[-1] == f"next: kafkarec salvage {short} -o rescued"
    found = json.loads(run("verify", short, "--format", "json").out)["partitions"][0]
    assert (found["beyond_end"], found["next_offset"], found["state"]) == (520, 345, "error")
    assert [(one["file"], one["end"], one["meaning"]) for one in found["recorded_ends"]] == [
        (f"{865:020}.snapshot", 865, "lost"),
        (f"{0:020}.index", 865, "longer"),
    ]
    assert run("verify", short, "--html", tmp_path / "page.html").status == 1
    assert HEADLINE in (tmp_path / "page.html").read_text()


def test_the_printed_commands_lead_to_a_log_that_verifies(
    run: Here, short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = run("verify", short).out.decode().rpartition("next: kafkarec ")[2]
    ran = run(*shlex.split(command))
    assert ran.status == 1 and f"  {HEADLINE}\n" in ran.out.decode()
    assert "--keep-end lets the log end at 865" in ran.out.decode()
    [following] = [line for line in ran.out.decode().splitlines() if line.startswith("next: kafkarec verify")]
    assert run(*shlex.split(following)[2:]).status == 0
    assert run("salvage", short, "-o", "kept", "--keep-end").status == 1
    assert kafkarec.open(tmp_path / "kept" / "all-codecs-0").next_offset == 865
    assert run("verify", "kept").status == 0


def test_a_whole_log_is_status_0(run: Here, tmp_path: Path) -> None:
    folder = golden(tmp_path, "all-codecs-0")
    assert run("verify", folder).status == run("salvage", folder, "-o", tmp_path / "out").status == 0


def test_zeros_that_no_file_reaches_past_tell_nothing(run: Here, tmp_path: Path) -> None:
    ran = run("verify", made(tmp_path, {0: [bytes(1 << 20)]}))
    assert ran.status == 0 and ran.out.startswith(
        b"NO BATCHES: nothing is damaged, but there are only zeros: the log is empty, or its records are lost; "
        b"this folder cannot tell which\n"
    )


def test_damage_or_a_loss_beside_a_file_that_cannot_be_read_is_status_3(run: Here, tmp_path: Path) -> None:
    made(tmp_path, {0: [good(0)[:-1] + b"x", good(5)]}, "bad-0")
    made(tmp_path, {0: [good(0)]}, "short-0")
    data_folder(tmp_path, replication="short 0 9")
    assert run("verify", tmp_path).status == 1
    folder = made(tmp_path, {0: [good(0)]}, "gone-0")
    os.symlink(tmp_path / "nowhere", folder / f"{5:020}.log")
    ran = run("verify", tmp_path)
    assert ran.status == 3
    assert ran.out.decode().splitlines()[0] == (
        "DAMAGED: 1 range, 136 B lost, at most 5 offsets; at least 4 offsets after 4 are missing, according to "
        "replication-offset-checkpoint (short-0); 1 file or folder could not be read completely"
    )
