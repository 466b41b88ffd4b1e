"""Random transactions written by a broker's own log class: what that class says of them, and what kafkarec says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jvm_oracle
import pytest
from transaction_logs import Kafkas

_DELETED = 4  # TransactionLogs deletes the front of every fourth log


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    jvm_oracle.needed()
    made, classes = tmp_path_factory.mktemp("transactions"), tmp_path_factory.mktemp("classes")
    path = f"{jvm_oracle.JARS}/*:{classes}"
    source = jvm_oracle.SOURCES / "TransactionLogs.java"
    compiled = [str(jvm_oracle.tool("javac")), "--release", "17", "-proc:none", "-cp", path, "-d", str(classes)]
    subprocess.run([*compiled, str(source)], check=True, timeout=120)
    many = str(jvm_oracle.count(60))
    run = [str(jvm_oracle.tool("java")), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path, "TransactionLogs"]
    subprocess.run([*run, str(made), "1", many], check=True, timeout=600)
    return sorted(made.iterdir(), key=lambda folder: int(folder.name))


def test_whole_logs(folders: list[Path]) -> None:
    compared = 0
    for folder in folders:
        if int(folder.name) % _DELETED != 3:
            assert Kafkas.of(folder / "orders-0") == Kafkas.read(folder / "expected.json"), folder.name
            compared += 1
    assert compared * _DELETED >= 3 * len(folders)


def test_logs_whose_first_segments_were_deleted(folders: list[Path]) -> None:
    """A reader of the files stops at the first open data there is; so what is open and aborted is compared."""
    for folder in folders:
        if int(folder.name) % _DELETED == 3:
            found, wanted = Kafkas.of(folder / "orders-0"), Kafkas.read(folder / "expected.json")
            assert found.open == wanted.open, folder.name
            assert found.aborted_from(wanted.start_offset) == wanted.aborted, folder.name
