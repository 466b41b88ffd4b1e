"""`kafkarec txn`: standard input, durations, what cannot be listed, ages by append times. The fence has the rest."""

import errno
import json
import shlex
import shutil

import builders
import plain_logs
import pytest
import subprocesses
import transaction_logs as txns
from command import own_process
from paths import SEGMENTS
from transaction_logs import COMMIT, DATA, PLAIN, Event
from unreadable_files import refuse_listing

from kafkarec.cli.txn import duration
from kafkarec.support.text_table import duration_text

NOW = builders.NOW
HOUR = 3_600_000
# Producer 4711 has committed one transaction and left another open; 4712 has just begun one.
HANGING = [
    Event(DATA, 4711, 100, 2, 3, NOW),
    Event(COMMIT, 4711, 102, 1, 3, NOW + 900),
    Event(DATA, 4711, 103, 3, 3, NOW + 2000, append=True),
    Event(PLAIN, -1, 106, 3, 0, NOW + HOUR, append=True),
    Event(DATA, 4712, 109, 1, 0, NOW + HOUR + 1, append=True),
]


def partition(folder, *segments):
    return plain_logs.log(folder, *([txns.as_bytes(events)] for events in segments))


def test_a_single_segment_reports_what_it_cannot_decide(run):
    alone, whole = (run("txn", path).text for path in (SEGMENTS / "txn-0" / f"{0:020}.log", SEGMENTS / "txn-0"))
    assert "3 open" in alone and "pass the folder" in alone and "pass the folder" not in whole


def test_a_folder_without_a_partitions_name_that_cannot_be_read_is_named_by_its_path(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        partition(tmp_path / name, HANGING)
    log = next((tmp_path / "second").glob("*.log"))
    log.unlink()
    log.symlink_to("nowhere")
    ran = run("txn", "first", "second")
    assert ran.status == 3 and ran.err.startswith(f"kafkarec: second is left out: second/{log.name}: ")
    assert b"first: 1 segment" in ran.out


def test_standard_input_with_topic_and_partition_by_option():
    data = txns.as_bytes(HANGING)
    ran = own_process("txn", "-", "--topic", "it's", "--partition", "7", stdin=data)
    assert ran.status == 0
    line = next(line for line in ran.text.splitlines() if "--start-offset" in line)
    assert shlex.split(line)[3:] == ["abort", "--topic", "it's", "--partition", "7", "--start-offset", "103"]
    unknown = own_process("txn", "-", stdin=data).text
    assert "--topic TOPIC --partition PARTITION" in unknown


def test_standard_input_is_read_in_flat_memory():
    """64 MB through a pipe, of which only headers and markers are used."""
    code = f"""{subprocesses.PEAK}
import os, threading
import kafkarec
from kafkarec.cli import main
block = kafkarec.encode([(0, 0, None, bytes(1 << 20), [])])[8:]
def pour():
    with os.fdopen(write, "wb") as pipe:
        for offset in range(64):
            pipe.write(offset.to_bytes(8, "big") + block)
main(["txn", {str(SEGMENTS / "txn-0")!r}, "-o", os.devnull])
read, write = os.pipe()
os.dup2(read, 0)
begin()
pourer = threading.Thread(target=pour)
pourer.start()
status = main(["txn", "-", "--format", "json"])
pourer.join()
print(status, peak())
"""
    listing, figures = subprocesses.run(code).splitlines()
    assert json.loads(listing)["next_offset"] == 64
    status, peak = map(int, figures.split())
    assert (status, peak < 16 << 20) == (0, True), peak


@pytest.mark.parametrize(
    "ms, text",
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (5_400_000, "1 h 30 min"),
        (90_000_000, "1 d 1 h"),
        (-1500, "-1.5 s"),
    ],
)
def test_durations_are_formatted(ms, text):
    assert duration_text(ms) == text


def test_a_folder_that_cannot_be_listed_is_status_3(run, tmp_path, monkeypatch):
    shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0")
    (tmp_path / "orders-0").mkdir()
    refuse_listing(monkeypatch, "orders-0", errno.EACCES)
    ran = run("txn", tmp_path)
    assert (ran.status, ran.err) == (3, "kafkarec: orders-0 is left out: cannot be listed: permission denied\n")
    assert ran.out.startswith(b"txn-0: ")


def test_durations_are_parsed():
    assert [duration(text).total_seconds() for text in ("15m", "900s", "250ms", "1d")] == [900, 900, 0.25, 86_400]


def test_the_age_is_told_by_append_times_not_by_those_of_replayed_events(run, tmp_path):
    """A producer sets the create time: events of three years ago that were written a minute ago hang for a minute."""
    old = NOW - 3 * 365 * 24 * HOUR
    events = [
        Event(DATA, 1, 0, 2, 0, old),
        Event(DATA, 2, 2, 1, 0, NOW),
        Event(COMMIT, 2, 3, 1, 0, NOW),
        Event(PLAIN, -1, 4, 1, 0, NOW + HOUR),
        Event(DATA, 2, 5, 1, 0, NOW),
        Event(COMMIT, 2, 6, 1, 0, NOW + 60_000),
    ]
    ran = run("txn", partition(tmp_path / "replayed-0", events), "--format", "json", "--fail-if-hanging")
    [row] = ran.rows
    [age] = [one["duration_ms"] for one in row["transactions"] if one["producer_id"] == 1]
    assert (ran.status, age, row["stuck_ms"]) == (0, 60_000, 60_000)
    assert b"transaction_hanging" not in run("verify", tmp_path / "replayed-0").out
    late = [*events, Event(DATA, 2, 7, 1, 0, old), Event(COMMIT, 2, 8, 1, 0, NOW + HOUR)]
    assert run("txn", partition(tmp_path / "late-0", late), "--fail-if-hanging").status == 1
    assert b"open for 1 h or more by append times" in run("verify", tmp_path / "late-0").out


def test_several_paths_of_which_one_is_an_archive(run, tmp_path):
    partition(tmp_path / "arch" / "date=2026-11-01" / "orders-3", HANGING)
    ran = run("txn", tmp_path / "arch", SEGMENTS / "txn-0", "--format", "json")
    assert sorted(json.loads(line)["topic"] for line in ran.out.splitlines()) == ["orders", "txn"]
