"""Spark Connect: one server on bare executors, and clients that never read the cluster's files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from long_run import MINUTES
from paths import SEGMENTS
from plain_logs import log
from source_rows import spoil
from spark_submit import APPLICATIONS, MASTER, command, environment, quick_conf

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]
pytest.importorskip("grpc", reason="grpcio is not installed: no client of Spark Connect")

TXN = sorted((SEGMENTS / "txn-0").glob("*.log"))
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS = 120


class Server:
    """Starts a server without waiting for it; `url` waits for its port."""

    def __init__(self, python: str, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        settings = {name: value for name, value in quick_conf(python).items() if name != "spark.log.level"}
        settings |= {"spark.connect.grpc.binding.port": "0", "spark.connect.grpc.binding.address": "127.0.0.1"}
        words, environ = command(python, MASTER, settings, "--class", CLASS), environment(folder, python)
        self.log = folder / "server.txt"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=environ)

    @property
    def url(self) -> str:
        """The server's URL; it chooses a free port, which only its log names."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"Spark Connect server started at: [\d.]+:(\d+)", self.log.read_text(errors="replace"))
            if found:
                return f"sc://127.0.0.1:{found[1]}"
            time.sleep(0.2)
        raise AssertionError(self.log.read_text(errors="replace")[-4000:])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Client:
    """Starts a client program without waiting for it; `result()` waits and returns the JSON that it wrote."""

    def __init__(self, name: str, fat: Path, folder: Path, url: str, *arguments: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.log = folder / "result.json", folder / "log.txt"
        words = [sys.executable, str(APPLICATIONS / name), str(self.out), url, *arguments]
        environ = environment(folder) | {"PYTHONPATH": str(fat), "KAFKAREC_CACHE": str(folder / "cache")}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=environ)

    def result(self):
        try:
            status = self.process.wait(timeout=400)
        finally:
            self.process.kill()
        assert status == 0, self.log.read_text(errors="replace")[-6000:]
        return json.loads(self.out.read_text())


@pytest.fixture(scope="module")
def server(bare_python, tmp_path_factory):
    started = Server(bare_python, tmp_path_factory.mktemp("server"))
    try:
        yield started.url
    finally:
        started.stop()


@pytest.fixture(scope="module")
def both_clients(server, fat, other_version, tmp_path_factory):
    """One client does everything; at the same time another client with another version of ours has a session on the
    server."""
    folder = tmp_path_factory.mktemp("clients")
    data = folder / "cluster"
    for number, path in enumerate(TXN):
        log(data / "bad" / f"orders-{number}", (0, spoil(path.read_bytes(), 3)))
    ready, barrier = folder / "ready", folder / "go"
    other = Client("connect_version.py", other_version, folder / "2", server, str(SEGMENTS), str(ready), str(barrier))
    try:
        ours = Client("connect.py", fat, folder / "1", server, str(SEGMENTS), str(data)).result()
    finally:
        barrier.touch()
    return ours, other.result(), data


@pytest.fixture(scope="module")
def results(both_clients):
    return both_clients[0]


def test_every_function_returns_the_records_of_the_local_api(results):
    assert results["records"] == sum(len(kafkarec.open(path).read()) for path in TXN)
    assert results["ways"] == dict.fromkeys(("sql", "column", "explode", "lateral"), True)
    assert results["view"] == sum(len(kafkarec.open(path).scan()) for path in TXN)
    assert results["encode"] == len(TXN)


def test_a_missing_register_is_reported_and_a_second_register_changes_nothing(results):
    assert "DATA_SOURCE_NOT_FOUND" in results["unregistered"]
    assert results["registered"][0] == results["registered"][1]
    assert "kafka_decode(value[, mode])" in results["registered"][0]


def test_partition_folders_are_written(results):
    assert results["written"] == [2, 600]
    assert results["log"] == 10
    (first, second), total, offsets = results["table"]
    assert first == 100 and first + second == total == results["written"][1]
    assert sorted(begin for begin, _ in offsets.values()) == [50, 50]
    assert "is a table already" in results["table_twice"]


def test_streams_are_read_written_and_restarted(results):
    first, second = results["batches"]
    assert first >= 2 and second >= 1  # at most 400 offsets each
    assert results["copied"] is True
    assert results["copied rows"] == 900


def test_damage_report_reads_files_of_the_cluster(both_clients):
    results, _, data = both_clients
    expected = [
        (str(path), each.position, each.length, each.reason)
        for path in sorted(data.glob("bad/*/*.log"))
        for each in kafkarec.open(path).read(errors="skip").damage
    ]
    report = results["report"]
    assert [(row["file"], row["position"], row["length"], row["reason"]) for row in report["rows"]] == expected
    assert len(expected) >= 2 and report["frame"] == len(expected) and report["files"] == 2 * len(TXN)


def test_questions_are_answered_by_the_cluster(results):
    assert results["count"] == [results["records"], {"txn-0": results["records"]}]
    folders = {name: kafkarec.open(SEGMENTS / f"{name}-0") for name in ("all-codecs", "txn")}
    expected = {name: {"0": log.offset_for_timestamp(1700000000005)} for name, log in folders.items()}
    assert results["offsets_at"] == expected


def test_errors_are_one_line(results):
    """Not the traceback of a worker, which is for unexpected errors."""
    assert results["report_missing"].startswith("AnalysisException: [PATH_NOT_FOUND] Path does not exist: ")
    assert results["report_wrong"].startswith("ValueError: subscribe: cannot find nobody; there are: txn")
    assert results["count_missing"].startswith("AnalysisException: [PATH_NOT_FOUND] Path does not exist: ")
    assert results["offsets_at_wrong"].startswith("ValueError: subscribe: cannot find nobody; there are: txn")
    assert "[PATH_NOT_FOUND]" in results["missing"]
    on_cluster, on_client = results["sweep_missing"]
    assert on_cluster.startswith("FileNotFoundError: there is no folder ")
    assert on_client.endswith("with Spark Connect, sweep(path, spark=spark) runs on the cluster")
    assert results["sweep"] == []
    assert "Please create a new Spark session" in results["stopped"]


def test_doctor_reports_every_executor(results, bare_python):
    assert results["doctor"]["healthy"]
    rows = results["doctor"]["rows"]
    assert len({row["executor"] for row in rows}) == len(rows) == 2
    for row in rows:
        assert row["executable"] == bare_python
        assert row["source"] == "unpacked" and row["versions"]["kafkarec"] == kafkarec.__version__


def test_each_session_has_its_own_functions(results):
    assert "UNRESOLVED_ROUTINE" in results["other_unregistered"]
    assert results["other"] == results["again"] == results["records"]
    assert results["after_other"] == len(TXN)


def test_two_versions_at_once_on_one_server(both_clients):
    results, other, _ = both_clients
    assert other == [[results["records"], [f"{kafkarec.__version__}.post1"]]] * 2
