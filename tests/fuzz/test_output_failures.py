"""Verbs that write files, where any system call fails, or the process is killed before it.

What has its final name is complete, an earlier file stays until the new one is, and the same command then writes all
of it: files with --force, folders when those that are complete are removed.
"""

import errno
import itertools
import os
import re
import shutil

import pytest
from command import Here
from failing_calls import counted_calls, failing, killed_before
from plain_logs import batch, content, log
from salvage_runs import LARGE, WRITING

from kafkarec.cli import main

CALLS = (*WRITING, "rename", "rmdir")
FULL = set(CALLS) - {"close", "unlink", "rmdir"}  # what a full disk refuses
FILES = (
    "convert {logs}/orders-0 --batch-size 100 -o {out}/all.log",
    "cat {logs}/ -o {out}/records.jsonl",
    "cat {logs}/ -o {out}/records.parquet",
)
FOLDERS = (
    "convert {logs}/ --compression lz4 -o {out}/deep/new/",
    "convert {logs}/orders-0 --compression lz4 -o {out}/orders-0",
    "compact {logs}/ -o {out}/",
    "build {records} -o {out}/",
)
REINDEX = "reindex {logs}/ -o {out}/deep/new"
TABLE = "cat {logs}/ -o {out}/ --partition-by topic,date"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for name in ("orders-0", "orders-1"):
        log(folder / "logs" / name, [batch(0, 5, value=LARGE)], [batch(5, 5)])
    records = folder / "records.jsonl"
    assert main(["cat", str(folder / "logs"), "-o", str(records)]) == 0
    return {"logs": folder / "logs", "records": records}


@pytest.fixture
def run(words, capfdbinary):
    def run(command, out, *more):
        out.mkdir(exist_ok=True)
        return Here(capfdbinary)(*command.format(out=out, **words).split(), *more)

    return run


def outputs(out):
    """Folder or file -> its content; without hidden names, which killed runs leave, and without random topic ids."""
    found = {name: digest for name, digest in content(out).items() if "/." not in f"/{name}"}
    parts = {}
    for name, digest in found.items():
        if not name.endswith("partition.metadata"):
            parts.setdefault(name.rpartition("/")[0] or name, {})[name] = digest
    return parts


def older(whole, before):
    """An earlier output of the same names."""
    for name in outputs(whole):
        (before / name).write_bytes(b"older")


@pytest.mark.parametrize(
    ("command", "replaced"),
    [*itertools.product((TABLE, REINDEX, *FOLDERS), [False]), *itertools.product(FILES, (False, True))],
)
def test_failures_at_any_call(command, replaced, run, tmp_path):
    whole, before, out = (tmp_path / name for name in ("whole", "before", "out"))
    assert run(command, whole).status == 0
    before.mkdir()
    if replaced:
        older(whole, before)
    new, old, force = outputs(whole), outputs(before), ["--force"] * replaced
    names = {path.relative_to(whole) for path in whole.rglob("*")}
    calls, failures, failed = 0, [], ""
    for number in itertools.count(1):

        def full(at, name, number=number):
            nonlocal calls, failed
            calls = at
            if at == number and name in FULL:
                failed = name
                failing(errno.ENOSPC)()

        shutil.copytree(before, out)
        with counted_calls(CALLS, full):
            ran = run(command, out, *force)
        left = outputs(out)
        if ran.status:
            synced = "fsync( of the folder)? failed: " if failed == "fsync" else ""
            named = "(.*: )?" if failed == "open" else f"{out}[^:]*: "  # it may be a log, or no name is said here
            said = re.fullmatch(f"kafkarec: {named}{synced}no space left on device", ran.complaint)
            assert ran.status == 3 and said, f"call {number}: {ran.complaint}"
            assert all(files in (new[name], old.get(name)) for name, files in left.items()), f"call {number}"
            assert left.keys() >= old.keys(), f"call {number}"
            assert {path.relative_to(out) for path in out.rglob("*")} <= (names if left else set()), f"call {number}"
            failures.append(failed)
        else:  # also where a folder cannot be synced because it cannot be opened
            assert (ran.status, left) == (0, new), f"call {number}"
        shutil.rmtree(out)
        if calls < number:
            break
    assert len(failures) >= 2 and "fsync" in failures


@pytest.mark.parametrize("command", [*FILES, *FOLDERS])
def test_killed_before_any_call(command, run, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run(command, whole).status == 0
    new = outputs(whole)
    for number in itertools.count(1, 5):
        out.mkdir()
        status = killed_before(number, CALLS, lambda: run(command, out))
        assert all(files == new[name] for name, files in outputs(out).items()), f"call {number}"
        if not os.WIFSIGNALED(status):
            break
        if command in FOLDERS:
            for name in outputs(out):
                shutil.rmtree(out / name)
        assert run(command, out, "--force").status == 0 and outputs(out) == new, f"call {number}"
        shutil.rmtree(out)
    assert number > 6
