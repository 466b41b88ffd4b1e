"""Random transactions written by a broker's own log class: that class and kafkarec report the same state."""

from __future__ import annotations

import subprocess
from pathlib import Path

import hurt_markers
import jvm_oracle
import pytest
from transaction_logs import LogState

import kafkarec

_DELETED = 4  # TransactionLogs deletes the first segments of every fourth log


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compile TransactionLogs.java; return the command that runs it."""
    jvm_oracle.needed()
    path = jvm_oracle.compile_java(tmp_path_factory.mktemp("classes"), "TransactionLogs")
    return [str(jvm_oracle.tool("java")), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path, "TransactionLogs"]


@pytest.fixture(scope="module")
def folders(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    logs = tmp_path_factory.mktemp("transactions")
    many = str(jvm_oracle.count(60))
    subprocess.run([*command, str(logs), "1", many], check=True, timeout=600)
    return sorted(logs.iterdir(), key=lambda folder: int(folder.name))


def test_whole_logs_have_the_same_transactions(folders: list[Path]) -> None:
    compared = 0
    for folder in folders:
        if int(folder.name) % _DELETED != 3:
            assert LogState.of(folder / "orders-0") == LogState.read(folder / "expected.json"), folder.name
            compared += 1
    assert compared * _DELETED >= 3 * len(folders)


def test_logs_without_their_first_segments_have_the_same_transactions(folders: list[Path]) -> None:
    """kafkarec stops at the first open data that the files hold, so open and aborted transactions are compared."""
    for folder in folders:
        if int(folder.name) % _DELETED == 3:
            actual, expected = LogState.of(folder / "orders-0"), LogState.read(folder / "expected.json")
            assert actual.open == expected.open, folder.name
            assert actual.aborted_from(expected.start_offset) == expected.aborted, folder.name


def test_a_broker_hides_behind_salvage_what_it_hid_before(command: list[str], tmp_path: Path) -> None:
    """Each marker of real logs damaged in turn; a broker recovers what salvage wrote."""
    runs = [
        run
        for folder in hurt_markers.FOLDERS[:2]
        for run in hurt_markers.runs(folder, tmp_path / folder.name, damage=("length", "zeros"))
    ]
    reports = [kafkarec.salvage(run.folder, run.out, as_partition=True).partitions[0] for run in runs]
    made = [run.out / run.folder.name for run in runs]
    done = subprocess.run([*command, "read", *map(str, made)], check=True, timeout=300, capture_output=True)
    for run, report, folder, line in zip(runs, reports, made, done.stdout.decode().splitlines(), strict=True):
        state = LogState.parsed(line)
        found = kafkarec.open(folder).read(isolation="read_committed", columns=["offset"])
        assert state.read_committed == found.column("offset"), run
        assert hurt_markers.wrong(run, set(state.read_committed), report.markers) == (set(), set()), run
    assert len(runs) == 84
