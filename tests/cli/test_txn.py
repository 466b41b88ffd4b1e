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
from transaction_logs import ABORT, COMMIT, DATA, PLAIN, Event
from unlistable_folders import refuse_listing

from kafkarec.cli.txn import duration
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.sidecars import producer_snapshot
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
    folder = SEGMENTS / "txn-0"
    index = [line.split() for line in (folder / "00000000000000000030.txnindex.dump.txt").read_text().splitlines()[1:]]
    [row] = run("txn", folder, "--format", "json").rows
    assert [[txn["producer_id"], txn["first_offset"], txn["marker_offset"]] for txn in row["transactions"]] == [
        [int(words[3]), int(words[5]), int(words[7])] for words in index
    ]
    [row] = run("txn", folder, "--format", "json", "--state", "committed,open").rows
    assert {txn["state"] for txn in row["transactions"]} == {"committed"} and len(row["transactions"]) == 15
    wrong = run("txn", folder, "--state", "closed")
    assert wrong.status == 2 and "open, hanging, aborted, committed" in wrong.complaint


def test_the_golden_log_as_text(run: Here) -> None:
    text = run("txn", SEGMENTS / "txn-0").out.decode()
    assert "last stable offset 293: a read_committed consumer can read to the end" in text
    assert "0 open, 0 hanging, 11 aborted, 15 committed" in text
    assert "kafka-transactions.sh" not in text


def test_a_single_segment_reports_what_it_cannot_decide(run: Here) -> None:
    alone = run("txn", SEGMENTS / "txn-0" / "00000000000000000000.log").out.decode()
    assert "3 open" in alone and "pass the folder" in alone
    assert "pass the folder" not in run("txn", SEGMENTS / "txn-0").out.decode()


def test_many_transactions_are_counted_and_not_listed(run: Here, tmp_path: Path) -> None:
    events = [
        Event(DATA, 1, 2 * n, 1, 0, NOW) if half == 0 else Event(ABORT, 1, 2 * n + 1, 1, 0, NOW)
        for n in range(30)
        for half in (0, 1)
    ]
    folder = partition(tmp_path / "a-0", events)
    text = run("txn", folder).out.decode()
    assert "and 10 earlier transactions: --all shows them" in text
    assert sum(line.startswith("aborted ") for line in text.splitlines()) == 20
    whole = run("txn", folder, "--all").out.decode()
    assert sum(line.startswith("aborted ") for line in whole.splitlines()) == 30


def test_damage_is_reported_and_is_status_1(run: Here, data_folder: Path) -> None:
    path = data_folder / "payments-1" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[8:12] = b"\0\0\0\1"  # the first batch's length
    path.write_bytes(data)
    ran = run("txn", data_folder / "payments-1")
    assert ran.status == 1
    assert "size_too_small" in ran.complaint and "kafkarec verify" in ran.complaint


def test_notes_are_shown(run: Here, tmp_path: Path) -> None:
    folder = partition(tmp_path / "a-0", [Event(DATA, 1, 0, 1), Event(COMMIT, 1, 1, 1)])
    entry = txns.txn_index.AbortedTransaction(1, 0, 1, 2)
    (folder / f"{0:020}.txnindex").write_bytes(txns.txn_index.write([entry]))
    text = run("txn", folder).out.decode()
    assert "note: for producer 1 at offset 1 the .txnindex has an ABORT, the log a COMMIT [txnindex_differs]" in text
    [row] = run("txn", folder, "--format", "json").rows
    assert [note["reason"] for note in row["notes"]] == ["txnindex_differs"]


def test_standard_input_with_topic_and_partition_by_option() -> None:
    data = txns.as_bytes(HANGING[0] + HANGING[1])
    ran = own_process("txn", "-", "--topic", "it's", "--partition", "7", stdin=data)
    assert ran.status == 0
    line = next(line for line in ran.out.decode().splitlines() if "--start-offset" in line)
    assert shlex.split(line)[3:] == ["abort", "--topic", "it's", "--partition", "7", "--start-offset", "103"]
    unknown = own_process("txn", "-", stdin=data).out.decode()
    assert "--topic TOPIC --partition PARTITION" in unknown


def test_the_transactional_id_is_named(run: Here, data_folder: Path) -> None:
    states = [("old", 4711, 4), ("orders-writer", 4711, 1), ("gone", 4712, 1)]
    txns.transaction_state(data_folder / "__transaction_state-0", *states)
    txns.transaction_state(data_folder / "__transaction_state-1", ("gone", 4712, -1), ("pay", 9, 1))
    text = run("txn", data_folder / "orders-3").out.decode()
    rows = [line.split() for line in text.splitlines() if line.startswith(("hanging ", "open "))]
    assert [row[1] for row in rows] == ["4711", "4712"]
    assert [row[-1] for row in rows] == ["orders-writer", "-"]
    ids = {
        txn["producer_id"]: txn["transactional_id"]
        for row in run("txn", data_folder, "--format", "json").rows
        for txn in row["transactions"]
    }
    assert ids == {4711: "orders-writer", 4712: None, 9: "pay"}
    assert "transactional id" not in run("txn", SEGMENTS / "txn-0").out.decode()


def test_no_abort_for_what_txnindex_has_as_aborted(run: Here, tmp_path: Path) -> None:
    """The log lost its end, and with it the marker."""
    folder = partition(tmp_path / "a-0", *HANGING)
    entry = txns.txn_index.AbortedTransaction(4711, 103, 200, 201)
    (folder / f"{106:020}.txnindex").write_bytes(txns.txn_index.write([entry]))
    text = run("txn", folder).out.decode()
    assert "1 hanging" in text and "kafka-transactions.sh" not in text
    assert "the transaction of offset 103 was aborted at offset 200, as .txnindex has it: the log lost its end" in text
    assert f"kafkarec verify {folder}" in text


def test_wrong_use_is_refused(run: Here, tmp_path: Path) -> None:
    assert run("txn", tmp_path / "nothing").status == 3
    assert run("txn", SEGMENTS / "txn-0" / "00000000000000000000.index").status == 2
    assert run("txn", "-", "-").status == 2
    assert "15m" in run("txn", tmp_path, "--hanging-after", "15").complaint


def test_an_empty_partition_has_no_transactions(run: Here, tmp_path: Path) -> None:
    folder = tmp_path / "a-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"")
    assert run("txn", folder).out.decode() == "a-0: no batch, so no transaction\n"


def test_output_goes_to_a_file(run: Here, tmp_path: Path) -> None:
    out = tmp_path / "txn.json"
    assert run("txn", SEGMENTS / "txn-0", "--format", "json", "-o", out).status == 0
    assert json.loads(out.read_text())["last_stable_offset"] == 293


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


def test_durations_are_parsed() -> None:
    assert [duration(text).total_seconds() for text in ("15m", "900s", "250ms", "1d")] == [900, 900, 0.25, 86_400]


def test_a_transaction_whose_data_was_deleted_is_reported(run: Here) -> None:
    """Retention deleted the segments that hold an open transaction's data: consumers stop at the start of the log."""
    folder = SEGMENTS.parent / "transactions" / "deleted-1063"
    text = run("txn", folder, "--hanging-after", "1ms").out.decode()
    assert "waits at the log's start: the transaction of offset 107 began before it" in text
    assert text.splitlines()[-2:] == [
        "  whether it hangs is not known here; ask the broker:",
        "    kafka-transactions.sh --bootstrap-server HOST:9092 find-hanging --topic deleted --partition 1063",
    ]
    assert "[begun_before]" in text


def test_a_log_that_cannot_be_read_does_not_hide_the_others(run: Here, tmp_path: Path) -> None:
    for name in ("txn-0", "compacted-0"):
        shutil.copytree(SEGMENTS / name, tmp_path / name)
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").symlink_to("nowhere")
    ran = run("txn", tmp_path)
    assert ran.status == 3 and "\ntxn-0 " in ran.out.decode()
    log = tmp_path / "orders-0" / f"{0:020}.log"
    assert ran.err == f"kafkarec: orders-0 is left out: {log}: a link to nowhere, which cannot be found\n"
    alone = run("txn", tmp_path / "orders-0")
    assert (alone.status, alone.out) == (3, b"")
    assert alone.err == f"kafkarec: {log}: a link to nowhere, which cannot be found\n"


def test_a_folder_that_cannot_be_listed_is_status_3(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0")
    (tmp_path / "orders-0").mkdir()
    refuse_listing(monkeypatch, "orders-0", errno.EACCES)
    ran = run("txn", tmp_path)
    assert (ran.status, ran.err) == (3, "kafkarec: orders-0 is left out: cannot be listed: permission denied\n")
    assert ran.out.startswith(b"txn-0: ")


def test_a_transaction_that_goes_on_behind_damage_has_all_of_its_batches(run: Here, tmp_path: Path) -> None:
    """Its marker may be in the damage; the producers' snapshot behind it proves that it is not."""
    events = [Event(DATA, 7, 0, 2, 0, NOW), Event(PLAIN, -1, 2, 2, 0, NOW), Event(DATA, 7, 4, 2, 0, NOW + 2)]
    first, lost, second = (txns.as_bytes([event]) for event in events)
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(first + bytes(len(lost)) + second)
    snapshot = producer_snapshot.write([SnapshotEntry(7, 0, -1, 5, 1, NOW + 2, -1, 0)])
    (folder / f"{6:020}.snapshot").write_bytes(snapshot)
    ran = run("txn", folder, "--format", "json")
    [found] = json.loads(ran.out)["transactions"]
    assert (found["state"], found["first_offset"], found["last_offset"]) == ("open", 0, 5)
    assert (found["batches"], found["records"], found["bytes"]) == (2, 4, len(first) + len(second))


def test_the_age_is_told_by_append_times_not_by_those_of_replayed_events(run: Here, tmp_path: Path) -> None:
    """A producer sets the create time: events of three years ago that were written a minute ago hang for a minute."""
    old = NOW - 3 * 365 * 24 * HOUR
    events = [
        Event(DATA, 1, 0, 2, 0, old),
        Event(DATA, 2, 2, 1, 0, old),
        Event(COMMIT, 2, 3, 1, 0, NOW),
        Event(PLAIN, -1, 4, 1, 0, NOW + HOUR),
        Event(DATA, 2, 5, 1, 0, NOW),
        Event(COMMIT, 2, 6, 1, 0, NOW + 60_000),
    ]
    folder = partition(tmp_path / "replayed-0", events)
    [row] = run("txn", folder, "--format", "json", "--fail-if-hanging").rows
    [txn] = [one for one in row["transactions"] if one["producer_id"] == 1]
    assert (txn["state"], txn["duration_ms"], row["stuck_ms"]) == ("open", 60_000, 60_000)
    assert "waits there for 1 min or more;" in run("txn", folder).out.decode()
    assert run("verify", folder).out.decode().startswith("NOT DAMAGED")
    assert "transaction_hanging" not in run("verify", folder).out.decode()
    late = [*events, Event(DATA, 2, 7, 1, 0, old), Event(ABORT, 2, 8, 1, 0, NOW + HOUR)]
    late_folder = partition(tmp_path / "late-0", late)
    assert run("txn", late_folder, "--fail-if-hanging").status == 1
    text = run("verify", late_folder).out.decode()
    assert "producer 1 epoch 0 since offset 0, open for 1 h or more by append times" in text


def test_an_age_that_no_append_time_tells_is_not_known(run: Here, tmp_path: Path) -> None:
    events = [Event(DATA, 1, 0, 2, 0, NOW), Event(PLAIN, -1, 2, 1, 0, NOW + 24 * HOUR)]
    folder = partition(tmp_path / "created-0", events)
    ran = run("txn", folder, "--fail-if-hanging")
    text = ran.out.decode()
    assert ran.status == 0
    assert "a read_committed consumer waits there (for how long is not known: no append time tells); 3 offsets" in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("open ")]
    assert row[6] == "-"
    assert text.splitlines()[-1].endswith("find-hanging --topic created --partition 0") and " abort " not in text
    [found] = run("txn", folder, "--format", "json").rows
    assert found["stuck_ms"] is None and found["transactions"][0]["duration_ms"] is None
