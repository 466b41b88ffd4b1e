"""Spark Connect: one server on bare executors, and clients that never look at the cluster's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connecting import Client, Server
from long_run import MINUTES
from source_rows import SEGMENTS, log_folder, spoil

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]
pytest.importorskip("grpc", reason="grpcio is not installed: no client of Spark Connect")

TXN = sorted((SEGMENTS / "txn-0").glob("*.log"))


@pytest.fixture(scope="module")
def server(bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = Server(bare_python, tmp_path_factory.mktemp("server"))
    try:
        yield started.url
    finally:
        started.stop()


@pytest.fixture(scope="module")
def together(
    server: str, fat: Path, other_version: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Any, Path]:
    """One client does everything while another one, with another version of ours, has its session on the server."""
    folder = tmp_path_factory.mktemp("clients")
    data = folder / "cluster"
    for number, path in enumerate(TXN):
        log_folder(data / "bad" / f"orders-{number}", (0, spoil(path.read_bytes(), 3)))
    ready, go = folder / "ready", folder / "go"
    other = Client("connect_version.py", other_version, folder / "2", server, str(SEGMENTS), str(ready), str(go))
    try:
        ours = Client("connect.py", fat, folder / "1", server, str(SEGMENTS), str(data)).result()
    finally:
        go.touch()
    return ours, other.result(), data


@pytest.fixture(scope="module")
def told(together: Any) -> dict[str, Any]:
    found: dict[str, Any] = together[0]
    return found


def test_every_way_gives_the_records_of_the_local_api(told: dict[str, Any]) -> None:
    assert told["records"] == sum(len(kafkarec.open(path).read()) for path in TXN)
    assert told["ways"] == dict.fromkeys(("sql", "column", "explode", "lateral"), True)
    assert told["scan"] == [sum(len(kafkarec.open(path).scan()) for path in TXN)] * 2
    assert told["view"] == told["scan"][0]
    assert told["encode"] == [len(TXN)] * 2
    assert told["internal"][0] == told["internal"][1] > 0


def test_register_is_told_where_it_is_missing_and_changes_nothing_the_second_time(told: dict[str, Any]) -> None:
    assert "DATA_SOURCE_NOT_FOUND" in told["unregistered"]
    assert told["registered"][0] == told["registered"][1]
    assert "kafka_decode(value[, mode])" in told["registered"][0]


def test_partition_folders_are_written(told: dict[str, Any]) -> None:
    assert told["written"] == [2, 600]
    assert told["log"] == 10


def test_streams_are_read_written_and_taken_up_again(told: dict[str, Any]) -> None:
    first, second = told["batches"]
    assert first >= 2 and second >= 1  # at most 400 offsets each
    assert told["copied"] is True
    assert told["later_segment"] == 900
    assert told["blobs"] == told["records"]


def test_damage_is_looked_for_on_the_cluster(together: Any) -> None:
    told, _, data = together
    wanted = [
        (str(path), each.position, each.length, each.reason)
        for path in sorted(data.glob("bad/*/*.log"))
        for each in kafkarec.open(path).read(errors="skip").damage
    ]
    found = told["report"]
    assert [(row["file"], row["position"], row["length"], row["reason"]) for row in found["rows"]] == wanted
    assert len(wanted) >= 2 and found["frame"] == len(wanted) and found["files"] == 2 * len(TXN)


def test_what_is_wrong_is_told_in_one_line(told: dict[str, Any]) -> None:
    """Not the traceback of a worker: that is for what we did not foresee."""
    assert told["report_missing"].startswith("AnalysisException: [PATH_NOT_FOUND] Path does not exist: ")
    assert told["report_wrong"].startswith("ValueError: subscribe names nobody, not there; there are: txn")
    assert "[PATH_NOT_FOUND]" in told["missing"]
    there, here = told["sweep_missing"]
    assert there.startswith("FileNotFoundError: there is no folder ")
    assert here.endswith("with Spark Connect, sweep(path, spark=spark) looks on the cluster")
    assert told["sweep"] == []
    assert "Please create a new Spark session" in told["stopped"]


def test_doctor_sees_every_executor(told: dict[str, Any], bare_python: str) -> None:
    assert told["doctor"]["healthy"]
    rows = told["doctor"]["rows"]
    assert len({row["executor"] for row in rows}) == len(rows) == 2
    for row in rows:
        assert row["executable"] == bare_python
        assert row["source"] == "unpacked" and row["versions"]["kafkarec"] == kafkarec.__version__


def test_sessions_have_each_their_own(told: dict[str, Any]) -> None:
    assert "UNRESOLVED_ROUTINE" in told["other_unregistered"]
    assert told["other"] == told["again"] == told["records"]
    assert told["after_other"] == len(TXN)


def test_two_versions_at_once_on_one_server(together: Any) -> None:
    told, other, _ = together
    assert other == [[told["records"], [f"{kafkarec.__version__}.post1"]]] * 2
