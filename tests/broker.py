"""A real broker on loopback that serves partition folders which it did not write."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from jvm_oracle import JARS, Oracle, tool

_OF_THE_FOLDERS_BEFORE = (
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)  # fmt: skip


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


class Broker:
    """Combined KRaft mode, one node, everything below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._log = folder / "broker.log"
        self._settings = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        port, controller = _free_ports()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": self.data,
            "log.retention.ms": "-1",  # old record times would be deleted at once
            "log.cleaner.enable": "false",
            "offsets.topic.replication.factor": "1",
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))

    def serve(self, kafka: Oracle, partitions: dict[str, Path]) -> None:
        """Makes a topic of each name, puts the files of its folder in its place, and starts again."""
        self._start()
        answer = kafka.ask("create", self.address, *partitions)
        assert answer.status == 0, answer.err
        self.stop()
        for name in _OF_THE_FOLDERS_BEFORE:
            (self.data / name).unlink(missing_ok=True)
        for topic, folder in partitions.items():
            place = self.data / f"{topic}-0"
            for path in place.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for path in folder.iterdir():
                if path.name != "partition.metadata":
                    shutil.copy(path, place)
        self._start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
            self._process = None

    def _run(self, *words: str) -> None:
        done = subprocess.run(self._java(*words), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._java("kafka.Kafka", str(self._settings)), stdout=log, stderr=log)

    @staticmethod
    def _java(*words: str) -> list[str]:
        return [str(tool("java")), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", *words]
