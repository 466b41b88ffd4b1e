"""A real Kafka broker on loopback that serves partition folders which it did not write."""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from jvm_oracle import JARS, SOURCES, TOOLS, Oracle, compile_java, tool
from subprocesses import output_of

_CHECKPOINTS = (
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


def _random_id() -> str:
    """Of a cluster or a data folder; it does not begin with a hyphen, which the tool would take for an option."""
    number = uuid.uuid4().bytes
    return urlsafe_b64encode(bytes([number[0] & 0x7F]) + number[1:]).rstrip(b"=").decode()


_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_FORMATTED = Path("__cluster_metadata-0", f"{0:020}-{0:010}.checkpoint")
"""What kafka-storage.sh format writes for a controller besides meta.properties, the same for each."""


def _class_path(folder: Path) -> str:
    return f"{folder / 'logging.jar'}{os.pathsep}{JARS}/*"


@functools.cache
def _shared() -> Path:
    """The folder with the jar of an SLF4J binding, as Kafka's have none that prints; the archive of the classes that a
    broker loads: one that starts with it takes half of the processor time; and a formatted controller. Made once, next
    to Kafka's jars; Java does without an archive that does not fit."""
    source = SOURCES / "logging" / "org" / "slf4j" / "impl" / "StaticLoggerBinder.java"
    java = os.stat(str(tool("java")))
    of = hashlib.sha256(
        source.read_bytes() + repr((java.st_ino, java.st_mtime_ns, _OPTIONS, _FORMATTED)).encode()
    ).hexdigest()[:8]
    made = Path(JARS).with_name(f"{Path(JARS).name}-broker-{of}")
    if not made.exists() and not os.access(made.parent, os.W_OK):
        made = Path(tempfile.mkdtemp(prefix="broker-")) / "shared"
        atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
    with open(f"{made}.lock", "w") as lock:  # several processes run tests
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "classes.jsa").exists():
            _make_shared(made, source)
    return made


def _make_shared(folder: Path, source: Path):
    with tempfile.TemporaryDirectory() as work:
        classes = Path(work) / "classes"
        compile_java(classes, source.stem, sources=source.parent)
        folder.mkdir(exist_ok=True)
        with zipfile.ZipFile(folder / "logging.jar", "w") as jar:
            for path in classes.rglob("*.class"):
                jar.write(path, path.relative_to(classes))
        dumped = f"-XX:ArchiveClassesAtExit={folder / 'new.jsa'}"
        broker = Broker(Path(work), java=[*_OPTIONS, dumped, "-cp", _class_path(folder)])
        shutil.copy(broker.data / _FORMATTED, folder / _FORMATTED.name)
        broker.start()
        try:
            deadline = time.monotonic() + 100
            while "Kafka Server started" not in broker.log_text and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            broker.stop(patience=100)
        (folder / "new.jsa").rename(folder / "classes.jsa")


class Broker:
    """One node in combined KRaft mode, all files below `folder`. joins: a node with a running controller, whose cluster
    this node joins, as broker 2 unless node_id says another. settings: of server.properties, _ for dots;
    process_roles="controller": it serves nothing. java: its options, and its folder is formatted by Kafka's own tool;
    else the usual options, and a copy of what the tool writes, which takes a second."""

    def __init__(self, folder: Path, joins: Broker | None = None, java: list[str] | None = None, **settings: str):
        self._options = java or [
            *_OPTIONS, f"-XX:SharedArchiveFile={_shared() / 'classes.jsa'}", "-cp", _class_path(_shared()),
        ]  # fmt: skip
        self.data = folder / "data"
        self._log = folder / "broker.log"
        self._settings = folder / "server.properties"
        self._process = None
        port, controller = _free_ports()
        self.address = f"127.0.0.1:{port}"
        self._controller = joins._controller if joins else f"127.0.0.1:{controller}"
        self._cluster = joins._cluster if joins else _random_id()
        listeners = [] if settings.get("process_roles") == "controller" else [f"PLAINTEXT://{self.address}"]
        listeners += [] if joins else [f"CONTROLLER://{self._controller}"]
        properties = {
            "process.roles": "broker" if joins else "broker,controller",
            "node.id": "2" if joins else "1",
            "controller.quorum.voters": f"1@{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "log.dirs": self.data,
            "log.retention.ms": "-1",  # old record times would be deleted at once
            "log.cleaner.enable": "false",
            "broker.heartbeat.interval.ms": "100",  # a broker waits for the next one to serve, and to stop
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        } | {name.replace("_", "."): value for name, value in settings.items()}
        folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        if java:
            words = ["kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(self._settings)]
            output_of(*self._java(*words), timeout=120)
        else:
            self._format(str(properties["log.dirs"]).split(","), f"{properties['node.id']}", is_controller=not joins)

    def _format(self, folders: Sequence[str], node: str, is_controller: bool):
        for folder in map(Path, folders):
            folder.mkdir()
            ids = {"version": 1, "cluster.id": self._cluster, "node.id": node, "directory.id": _random_id()}
            (folder / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in ids.items()))
        if is_controller:
            checkpoint = Path(folders[0], _FORMATTED)
            checkpoint.parent.mkdir()
            shutil.copy(_shared() / _FORMATTED.name, checkpoint)

    def serve(
        self,
        kafka: Oracle,
        partitions: Mapping[str, Path | Sequence[Path]],
        configs: dict[str, str] | None = None,
        clean: bool = False,
    ):
        """Create the topics that are missing, replace the files of each by those of its folder, or those of each of its
        partitions by those of one of its folders, and restart the broker.

        configs   of a topic: setting=value, several separated by a colon
        clean     keep the clean shutdown marker: the broker trusts the side files and runs no log recovery
        """
        folders = {topic: [one] if isinstance(one, Path) else one for topic, one in partitions.items()}
        topics = [
            ":".join([topic, f"partitions={len(folders[topic])}", *filter(None, [(configs or {}).get(topic)])])
            for topic in folders
            if not (self.data / f"{topic}-0").exists()
        ]
        if topics:
            if self._process is None:
                self.start()
            kafka.lines("create", self.address, *topics)
        self.stop()
        for name in _CHECKPOINTS:
            if not (clean and name == ".kafka_cleanshutdown"):
                (self.data / name).unlink(missing_ok=True)
        for topic, of_topic in folders.items():
            for number, folder in enumerate(of_topic):
                place = self.data / f"{topic}-{number}"
                for path in place.iterdir():
                    if path.name != "partition.metadata":
                        path.unlink()
                for path in folder.iterdir():
                    if path.name != "partition.metadata":
                        shutil.copy(path, place)
        self.start()

    @property
    def log_text(self) -> str:
        """The broker's log output so far."""
        return self._log.read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM, patience: int = 60):
        """End the process: a clean shutdown, or SIGKILL."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(patience)
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is written meanwhile, as in a snapshot of the file system."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # all its threads have stopped
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def start(self):
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._java("kafka.Kafka", str(self._settings)), stdout=log, stderr=log)

    def script(self, folder: Path):
        """Write kafka-configs.sh, as in a distribution of Kafka."""
        path = folder / "kafka-configs.sh"
        jars = f"{_shared() / 'logging.jar'}{os.pathsep}{TOOLS}/*"
        words = shlex.join([str(tool("java")), *_OPTIONS, "-cp", jars, "kafka.admin.ConfigCommand"])
        path.write_text(f'#!/bin/sh\nexec {words} "$@" 2>/dev/null\n')
        path.chmod(0o755)

    def _java(self, *words: str) -> list[str]:
        return [str(tool("java")), *self._options, *words]


@contextmanager
def serving(kafka: Oracle, folder: Path, partitions: dict[str, Path], **settings: str) -> Iterator[Broker]:
    """Run a broker below `folder` that serves these partition folders, by topic."""
    broker = Broker(folder, **settings)
    try:
        broker.serve(kafka, partitions)
        yield broker
    finally:
        broker.stop()
