"""Damaged logs: rows before the damage are printed, the error names the position, `--errors skip` continues after
it."""

import gzip
import json
import os
import shlex
from pathlib import Path

import builders
import golden
import pytest
from command import own_process
from paths import SEGMENTS
from plain_logs import batch, exchange, log

import kafkarec

CODECS = sorted((SEGMENTS / "all-codecs-0").glob("*.log"))[0]
BATCHES = json.loads(Path(f"{CODECS}.json").read_text())["batches"]
DAMAGED_BATCH = BATCHES[3]


def offsets_of(batches):
    return [record["offset"] for batch in batches for record in batch["records"]]


def test_the_next_command_prints_everything(run, damaged, tmp_path):
    target = tmp_path / "out.json"
    for options in ([], ["-n", 400], [CODECS], ["-o", target]):
        line = run("cat", damaged, *options).complaint
        command = shlex.split(line.partition(" that is good: ")[2])
        assert ("--force" in command) == (target in options)
        ran = run(*command[1:])
        lines = target.read_bytes() if target in options else ran.out
        printed = [json.loads(line)["offset"] for line in lines.splitlines()]
        expected = offsets_of(BATCHES[:3] + BATCHES[4:]) + (offsets_of(BATCHES) if CODECS in options else [])
        assert ran.status == 1 and printed == (expected[:400] if "-n" in options else expected)


def test_the_next_command_writes_another_folder(run, damaged, tmp_path):
    """A folder is never replaced."""
    options = ["--partition-by", "topic", "-o", tmp_path / "table/"]
    command = shlex.split(run("cat", damaged, *options).complaint.partition(" that is good: ")[2])
    assert run(*command[1:]).status == 1 and (tmp_path / "table-2").is_dir() and (tmp_path / "table").is_dir()


def test_a_hole_of_64_gib_takes_no_time(run, tmp_path):
    """Read, it would take a minute for each of the verbs."""
    data, at, size = CODECS.read_bytes(), DAMAGED_BATCH["position"], 64 << 30
    path = tmp_path / "orders-0" / CODECS.name
    path.parent.mkdir()
    with path.open("wb") as file:
        file.write(data[:at])
        file.seek(size, os.SEEK_CUR)
        file.write(data[at:])
    verified = run("verify", path)
    assert f"    bytes {at} to {at + size - 1}: no offset lost; zeros [size_too_small]\n" in verified.text
    skipped = run("cat", path, "--errors", "skip")
    assert [row["offset"] for row in skipped.rows] == offsets_of(BATCHES)
    assert f"lost: {size} bytes, no offset; next good batch at byte {at + size} " in skipped.complaint
    salvaged = run("salvage", path, "-o", tmp_path / "out", "--ignore-space")
    assert f"lost: {size} bytes in 1 range; all of their offsets are in the new log\n" in salvaged.text
    assert (tmp_path / "out" / "orders-0" / CODECS.name).read_bytes() == data
    assert {verified.status, skipped.status, salvaged.status} == {1}


def test_many_damaged_ranges_are_reported_in_few_lines(run, tmp_path):
    data, one = b"", golden.vector("v2-none-single").bytes
    for number in range(60):
        batch = builders.patched(one, 0, number.to_bytes(8, "big"))
        data += builders.flipped(batch) if number % 2 else batch
    path = tmp_path / "x.log"
    path.write_bytes(data)
    ran = run("cat", path, "--errors", "skip")
    assert (ran.status, len(ran.rows)) == (1, 30)
    lines = ran.err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "kafkarec: and 10 more damaged ranges, 30 in total"


def test_an_exceeded_limit_is_no_damage_and_names_the_option(run):
    path = golden.vector("v2-gzip-random-70k").bin_path
    stopped = run("cat", path, "--max-decompressed-bytes", "64k")
    assert (stopped.status, stopped.out) == (3, b"")
    command = shlex.split(stopped.complaint.partition(" that is good: ")[2])
    assert "--max-decompressed-bytes" in command and "64k" not in command
    ran = run(*command[1:])
    assert (ran.status, len(ran.rows)) == (0, 1)


def test_damage_and_an_unreadable_file_in_one_run(damaged, tmp_path):
    ran = own_process("cat", damaged, tmp_path / "missing.log", "--errors", "skip")
    assert ran.status == 3
    assert "missing.log: no such file or directory" in ran.err
    assert len(ran.rows) == len(offsets_of(BATCHES)) - len(DAMAGED_BATCH["records"])


@pytest.mark.parametrize("verb", ["compact", "convert"])
def test_what_a_rewritten_log_leaves_out_of_its_end_is_said(run, tmp_path, verb):
    """A last batch whose length is damaged looks like an incomplete one, and a text like a long batch."""
    folder, good = log(tmp_path / "orders-0", [batch(0, 5), batch(5, 5)[:-1]]), len(batch(0, 5))
    ran = run(verb, folder, "-o", tmp_path / "new" / "orders-0")
    path = folder / f"{0:020}.log"
    assert ran.status == 0
    assert f"note: {path} ends at byte {path.stat().st_size} inside the batch at byte {good}: cut off" in ran.err
    path.write_bytes(gzip.compress(path.read_bytes()))
    ran = run(verb, folder, "-o", tmp_path / "other" / "orders-0")
    assert ran.status == 1, ran.err


@pytest.mark.parametrize("verb", ["compact", "convert"])
def test_a_log_whose_names_are_wrong_is_refused_with_the_command_that_names_it(run, tmp_path, verb):
    folder = log(tmp_path / "orders-0", [batch(0, 5)], [batch(5, 5)])
    exchange(folder, 0, 5)
    ran = run(verb, folder, "-o", tmp_path / "new" / "orders-0")
    assert ran.status == 1 and "names of segments contradict their offsets" in ran.complaint
    command = shlex.split(ran.complaint.partition("To name them by their batches: ")[2])
    command[command.index("-o") + 1] = str(tmp_path / "rescued")
    assert run(*command[1:]).status == 0
    assert run(verb, tmp_path / "rescued" / "orders-0", "-o", tmp_path / "new" / "orders-0").status == 0


def test_a_search_that_ends_at_its_limit_is_said(run, tmp_path):
    """Headers that claim large batches use up its work: what is left may be good. Behind them it goes on."""
    header = builders.flipped(batch(7, 1, value=bytes(14_000))[:100], 17)
    parts = [batch(0, 5), b"\xff" * 40, header * 3000, *(batch(10 + 5 * each, 5) for each in range(900))]
    folder = log(tmp_path / "orders-0", parts)
    end = len(parts[0]) + 40 + 300_000
    for words in (("verify", folder), ("salvage", folder, "-o", tmp_path / "out")):
        ran = run(*words)
        assert ran.status == 3 and "search_limit" in ran.text, words
        assert "a search of damaged bytes ended at its limit of work: copy them into their own file" in ran.text
    assert f"bytes {len(parts[0])} to {end - 1} were not searched to their end" in ran.text
    assert kafkarec.open(tmp_path / "out" / "orders-0").next_offset == 10 + 5 * 900
