"""Pipes, sockets and devices with the name of a segment: each verb refuses them by name and does the other files."""

import errno
import gzip
import os
import shutil
import stat

import pytest
from failing_calls import failing
from plain_logs import batch, log
from unreadable_files import linked_device, listening_socket, pipe, refuse_listing


def device(kind, major):
    """A device node, which only root can make; others get a link to one."""

    def spoil(path, monkeypatch):
        path.unlink()
        try:
            os.mknod(path, kind | 0o600, os.makedev(major, 0))
        except PermissionError:
            path.symlink_to(os.devnull)

    return spoil


KINDS = {
    "link to a device": linked_device,
    "character device": device(stat.S_IFCHR, 1),
    "block device": device(stat.S_IFBLK, 7),
    "pipe": pipe,
    "socket": listening_socket,
}
BAD = f"{20:020}.log"
# Command lines, and what is printed of the other files.
LINES = {
    "verify DATA": "the rest is not damaged",
    "salvage DATA -o OUT": "saved 4 batches",
    "ls DATA": "other-1",
    "ls DATA --full": "other-1",
    "ls LOG": f"{40:020}.log",
    "cat LOG": '"offset":19,',
    "cat LOG --errors skip": '"offset":19,',
    "scan LOG": "",
    "txn DATA": "other-1: 1 segment, log end 10",
    "reindex LOG -o OUT": "",
    "study LOG": "",
    "diff LOG COPY": "",
    "diff COPY LOG": "",
    "convert LOG -o OUT/ --compression lz4": "",
    "compact LOG -o OUT/": "",
    "verify FILE": "",
    "scan FILE": "",
    "explain FILE": "",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_refused_by_name(run, tmp_path, monkeypatch, kind, line):
    segments = [[batch(base, 10), batch(base + 10, 10)] for base in (0, 20, 40)]
    folder = log(tmp_path / "data" / "orders-0", *segments)
    log(tmp_path / "data" / "other-1", [batch(0, 5), batch(5, 5)])
    shutil.copytree(folder, tmp_path / "copy" / "orders-0")
    KINDS[kind](folder / BAD, monkeypatch)
    places = {"DATA": "data", "LOG": "data/orders-0", "COPY": "copy/orders-0", "FILE": f"data/orders-0/{BAD}"}
    words = [
        str(tmp_path / places.get(word, word)) + "/" * word.endswith("/") if word.isupper() else word
        for word in line.split()
    ]
    ran = run(*words)
    said = ran.text + ran.err
    assert (ran.status, BAD in said) == (3, True), said
    assert LINES[line] in said
    assert not os.path.exists(tmp_path / "OUT") or line.startswith("salvage")


@pytest.mark.parametrize("words", ["cat", "scan", "study", "convert -o OUT/", "compact -o OUT/"])
def test_a_partition_that_cannot_be_listed_is_not_left_out_silently(run, tmp_path, monkeypatch, words):
    for name in ("orders-0", "other-1"):
        log(tmp_path / "data" / name, [batch(0, 5)])
    refuse_listing(monkeypatch, "orders-0", errno.EACCES)
    verb, *more = words.split()
    ran = run(verb, tmp_path / "data", *(word.replace("OUT", str(tmp_path / "OUT")) for word in more))
    line = f"{tmp_path}/data/orders-0: cannot be listed: permission denied; name the other folders to leave it out"
    assert (ran.status, ran.out, ran.complaint) == (3, b"", f"kafkarec: {line}")
    assert not (tmp_path / "OUT").exists()
    ran = run("ls", tmp_path / "data")
    assert ran.status == 3 and b"left out: orders-0: cannot be listed: permission denied" in ran.out


@pytest.mark.parametrize("verb", ["ls", "cat", "scan", "verify"])
def test_no_space_to_unpack_is_no_damage(run, tmp_path, monkeypatch, verb):
    folder = log(tmp_path / "orders-0", [batch(0, 10)])
    path = folder / f"{0:020}.log"
    path.with_suffix(".log.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    ran = run(verb, folder)
    said = " ".join((ran.text + ran.err).split())  # ls and verify wrap their lines
    assert ran.status == 3 and "cannot unpack into" in said and "TMPDIR=FOLDER sets another folder" in said, said


def test_dump_ends_as_kafkas_tool_does(run, tmp_path, monkeypatch):
    folder = log(tmp_path / "orders-0", [batch(0, 10)])
    linked_device(folder / f"{0:020}.log", monkeypatch)
    ran = run("dump", folder)
    assert ran.status == 1 and f"{0:020}.log: a character device, not a file" in ran.complaint
