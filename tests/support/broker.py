"""A real broker on loopback that serves partition folders which it did not write."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jvm_oracle import JARS, SOURCES, Oracle, tool

_OF_THE_FOLDERS_BEFORE = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


class Broker:
    """Combined KRaft mode, one node, everything below `folder`; settings: of server.properties, beside those here."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.data = folder / "data"
        self._log = folder / "broker.log"
        self._settings = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        port, controller = _free_ports()
        self.address = f"127.0.0.1:{port}"
        known = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": self.data,
            "log.retention.ms": "-1",  # old record times would be deleted at once
            "log.cleaner.enable": "false",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        } | {name.replace("_", "."): value for name, value in settings.items()}
        folder.mkdir(parents=True, exist_ok=True)
        self._classes = folder / "classes"
        self._compile_logging()
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in known.items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))

    def serve(
        self, kafka: Oracle, partitions: dict[str, Path], configs: dict[str, str] | None = None, clean: bool = False
    ) -> None:
        """Makes a topic of each name, puts the files of its folder in its place, and starts again.

        configs   of a topic: setting=value, several with a colon in between
        clean     the broker is told that it stopped in order: it believes the small files, and recovers nothing
        """
        self._start()
        topics = [f"{topic}:{configs[topic]}" if configs and topic in configs else topic for topic in partitions]
        answer = kafka.ask("create", self.address, *topics)
        assert answer.status == 0, answer.err
        self.stop()
        for name in _OF_THE_FOLDERS_BEFORE:
            if not (clean and name == ".kafka_cleanshutdown"):
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

    @property
    def told(self) -> str:
        """What it logged."""
        return self._log.read_text()

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

    def _java(self, *words: str) -> list[str]:
        path = f"{self._classes}{os.pathsep}{JARS}/*"
        return [str(tool("java")), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path, *words]

    def _compile_logging(self) -> None:
        """The jars bring no logging that says anything."""
        source = SOURCES / "logging" / "org" / "slf4j" / "impl" / "StaticLoggerBinder.java"
        self._classes.mkdir()
        subprocess.run(
            [
                str(tool("javac")),
                "--release",
                "17",
                "-proc:none",
                "-cp",
                f"{JARS}/*",
                "-d",
                str(self._classes),
                str(source),
            ],
            check=True,
            timeout=120,
        )


@contextmanager
def serving(kafka: Oracle, folder: Path, partitions: dict[str, Path]) -> Iterator[Broker]:
    """A broker below `folder` that serves these partition folders, by topic."""
    started = Broker(folder)
    try:
        started.serve(kafka, partitions)
        yield started
    finally:
        started.stop()
