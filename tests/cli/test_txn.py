"""`kafkarec txn`: the listed transactions, the offset at which a consumer stops, the proposed commands, the exit
status."""

from __future__ import annotations

import errno
import json
import shlex
import shutil
from pathlib import Path

import builders
import pytest
import subprocesses
import transaction_logs as txns
from command import Here, own_process
from paths import SEGMENTS
from transaction_logs import COMMIT, DATA, PLAIN, Event
from unlistable_folders import refuse_listing

from kafkarec.cli.txn import duration
from kafkarec.support.text_table import duration_text

NOW = builders.NOW
HOUR = 3_600_000
# orders-3: producer 4711 has committed one transaction and left another open; 4712 has just begun one. Two segments.
HANGING = (
    [
        Event(DATA, 4711, 100, 2, 3, NOW),
        Event(COMMIT, 4711, 102, 1, 3, NOW + 900),
        Event(DATA, 4711, 103, 3, 3, NOW + 2000, append=True),
    ],
    [Event(PLAIN, -1, 106, 3, 0, NOW + HOUR, append=True), Event(DATA, 4712, 109, 1, 0, NOW + HOUR + 1, append=True)],
)
OPEN = ([Event(DATA, 9, 0, 1, 0, NOW, append=True), Event(PLAIN, -1, 1, 3, 0, NOW + 60_000, append=True)],)
QUIET = ([Event(PLAIN, -1, 0, 3, 0, NOW)],)


def partition(folder: Path, *segments: list[Event]) -> Path:
    folder.mkdir(parents=True)
    for events in segments:
        (folder / f"{events[0].base:020}.log").write_bytes(txns.as_bytes(events))
    return folder


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    partition(tmp_path / "plain-0", *QUIET)
    partition(tmp_path / "payments-1", *OPEN)
    partition(tmp_path / "orders-3", *HANGING)
    return tmp_path


def test_a_hanging_transaction_and_the_command_that_ends_it(run: Here, data_folder: Path) -> None:
    ran = run("txn", data_folder / "orders-3")
    text = ran.out.decode()
    assert (ran.status, ran.err) == (0, "")
    assert "last stable offset 103: a read_committed consumer waits there for 59 min 58 s or more" in text
    assert "7 offsets from there on cannot be read" in text
    [row] = [" ".join(line.split()) for line in text.splitlines() if line.startswith("hanging")]
    assert row == "hanging 4711 3 103 - 2023-11-14T22:13:22.000Z 59 min 58 s 1 3 106"
    commands = [shlex.split(line) for line in text.splitlines() if "kafka-transactions.sh" in line]
    location = ["--topic", "orders", "--partition", "3"]
    assert [command[3:] for command in commands] == [
        ["find-hanging", *location],
        ["abort", *location, "--start-offset", "103"],
    ]


def test_fail_if_hanging_is_status_1_for_old_transactions_only(run: Here, data_folder: Path) -> None:
    assert run("txn", data_folder).status == 0
    ran = run("txn", data_folder, "--fail-if-hanging")
    assert (ran.status, ran.complaint) == (1, "kafkarec: 1 transaction hanging, the worst in orders-3")
    assert run("txn", data_folder, "--fail-if-hanging", "--hanging-after", "2h").status == 0
    assert run("txn", data_folder / "payments-1", "--fail-if-hanging").status == 0
    both = run("txn", data_folder, "--fail-if-hanging", "--hanging-after", "30s")
    assert (both.status, both.complaint) == (1, "kafkarec: 2 transactions hanging, the worst in orders-3")


def test_a_data_folder_lists_the_worst_partition_first(run: Here, data_folder: Path) -> None:
    lines = run("txn", data_folder).out.decode().splitlines()
    assert lines[0] == "3 partitions: 2 open, 1 hanging, 0 aborted, 1 committed"
    assert "hanging (open for 15 min or more) in 1 partition, the worst is orders-3" in lines
    rows = [line.split()[0] for line in lines if line.startswith(("orders-3 ", "payments-1 ", "plain-0 "))]
    assert rows == ["orders-3", "payments-1"]
    assert "1 partition without transactions" in lines
    assert sum("--start-offset 103" in line for line in lines) == 1


def test_json_is_one_object_per_partition(run: Here, data_folder: Path) -> None:
    rows = run("txn", data_folder, "--format", "json").rows
    assert [(row["topic"], row["partition"]) for row in rows] == [("orders", 3), ("payments", 1), ("plain", 0)]
    worst = rows[0]
    assert (worst["last_stable_offset"], worst["next_offset"], worst["waiting_offsets"]) == (103, 110, 7)
    assert worst["counts"] == {"open": 1, "hanging": 1, "aborted": 0, "committed": 1, "without_data": 0}
    assert worst["stuck_ms"] == HOUR + 1 - 2000
    assert [(txn["state"], txn["producer_id"]) for txn in worst["transactions"]] == [("open", 4712), ("hanging", 4711)]
    assert len(worst["next"]) == 2
    assert rows[2]["transactions"] == [] and rows[2]["stuck_ms"] is None


def test_states_can_be_selected(run: Here) -> None:
    """The aborted ones are those of the broker's .txnindex."""
    folder = SEGMENTS / "txn-0"
    index = [line.split() for line in (folder / f"{30:020}.txnindex.dump.txt").read_text().splitlines()[1:]]
    [row] = run("txn", folder, "--format", "json").rows
    assert [[txn["producer_id"], txn["first_offset"], txn["marker_offset"]] for txn in row["transactions"]] == [
        [int(words[number]) for number in (3, 5, 7)] for words in index
    ]
    [row] = run("txn", folder, "--format", "json", "--state", "committed,open").rows
    assert [txn["state"] for txn in row["transactions"]] == ["committed"] * 15


def test_a_single_segment_reports_what_it_cannot_decide(run: Here) -> None:
    alone, whole = (run("txn", path).out.decode() for path in (SEGMENTS / "txn-0" / f"{0:020}.log", SEGMENTS / "txn-0"))
    assert "3 open" in alone and "pass the folder" in alone and "pass the folder" not in whole


def test_standard_input_with_topic_and_partition_by_option() -> None:
    data = txns.as_bytes(HANGING[0] + HANGING[1])
    ran = own_process("txn", "-", "--topic", "it's", "--partition", "7", stdin=data)
    assert ran.status == 0
    line = next(line for line in ran.out.decode().splitlines() if "--start-offset" in line)
    assert shlex.split(line)[3:] == ["abort", "--topic", "it's", "--partition", "7", "--start-offset", "103"]
    unknown = own_process("txn", "-", stdin=data).out.decode()
    assert "--topic TOPIC --partition PARTITION" in unknown


def test_standard_input_is_read_in_flat_memory() -> None:
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
    ("ms", "text"),
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
def test_durations_are_formatted(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_a_folder_that_cannot_be_listed_is_status_3(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0")
    (tmp_path / "orders-0").mkdir()
    refuse_listing(monkeypatch, "orders-0", errno.EACCES)
    ran = run("txn", tmp_path)
    assert (ran.status, ran.err) == (3, "kafkarec: orders-0 is left out: cannot be listed: permission denied\n")
    assert ran.out.startswith(b"txn-0: ")


def test_durations_are_parsed() -> None:
    assert [duration(text).total_seconds() for text in ("15m", "900s", "250ms", "1d")] == [900, 900, 0.25, 86_400]


def test_the_age_is_told_by_append_times_not_by_those_of_replayed_events(run: Here, tmp_path: Path) -> None:
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


def test_several_paths_of_which_one_is_an_archive(run: Here, tmp_path: Path) -> None:
    partition(tmp_path / "arch" / "date=2026-11-01" / "orders-3", *HANGING)
    ran = run("txn", tmp_path / "arch", SEGMENTS / "txn-0", "--format", "json")
    assert sorted(json.loads(line)["topic"] for line in ran.out.splitlines()) == ["orders", "txn"]
