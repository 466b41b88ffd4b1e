"""Apache Kafka's own classes as an oracle: a JVM that answers requests over pipes; code in tests/support/jvm/.

KAFKAREC_KAFKA_JARS   folder of the server jars of Kafka 4.4 or 4.3; default: where tools/kafka_jars puts those of 4.4.
                      Those of kafka-tools 4.3 are next to it. Without the jars or a JDK the tests that need the oracle
                      are skipped, which fails the run in CI
KAFKAREC_ORACLE=N     how many random files a test makes (default: each test's own)
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from paths import SUPPORT

_CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "/tmp", ".cache")
JARS = os.environ.get("KAFKAREC_KAFKA_JARS") or os.path.join(_CACHE, "kafkarec-tests", "kafka-4.4.0")
TOOLS = os.path.join(os.path.dirname(JARS), "kafka-4.3.0")
SOURCES = SUPPORT / "jvm"


@dataclass(frozen=True)
class Answer:
    """status 1: the call raised an exception, which is at the end of `err`."""

    status: int
    out: str
    err: str


def missing() -> str | None:
    """Return why the oracle cannot run here, or None."""
    if not version() or not list(Path(TOOLS).glob("kafka-tools-[0-9]*.jar")):
        return "no Kafka jars; run tools/kafka_jars"
    return None if tool("javac") else "no JDK: javac is neither on the PATH nor in JAVA_HOME"


def version() -> str | None:
    """Return the version of the server's jars; None: there are none."""
    found = [path.stem.removeprefix("kafka_2.13-") for path in Path(JARS).glob("kafka_2.13-*.jar")]
    return found[0] if found else None


def needed():
    """Skip the calling test, with the reason, if the oracle cannot run."""
    reason = missing()
    if reason:
        pytest.skip(reason)


def count(usual: int) -> int:
    """Return how many random files to try: KAFKAREC_ORACLE, or `usual`."""
    return int(os.environ.get("KAFKAREC_ORACLE", usual))


def tool(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    here = shutil.which(name, path=os.path.join(home, "bin")) if home else None
    return here or shutil.which(name)


def compile_java(classes: Path, name: str, jars: str = JARS, sources: Path = SOURCES) -> str:
    """Compile a program of tests/support/jvm into a folder; return the class path that it runs with."""
    path = f"{jars}/*{os.pathsep}{classes}"
    options = ["--release", "17", "-proc:none", "-cp", path, "-sourcepath", str(sources), "-d", str(classes)]
    subprocess.run([str(tool("javac")), *options, str(sources / f"{name}.java")], check=True, timeout=120)
    return path


class Oracle:
    """One JVM that answers until it is closed. The first word of `ask` names a verb of the program: those of
    tests/support/jvm/Oracle.java, or another one's."""

    def __init__(self, classes: Path, program: str = "Oracle", jars: str = JARS):
        path = compile_java(classes, program, jars=jars)
        self._jvm = subprocess.Popen(
            [str(tool("java")), "-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", path, program, TOOLS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, *words) -> Answer:
        texts = [str(word).encode() for word in words]
        question = struct.pack(">i", len(texts)) + b"".join(struct.pack(">i", len(text)) + text for text in texts)
        self._jvm.stdin.write(question)
        self._jvm.stdin.flush()
        status = self._integer()
        out, err = (self._read(self._integer()).decode() for _ in range(2))
        return Answer(status, out, err)

    def lines(self, *words) -> list[str]:
        """Return the lines of the answer to `ask`, which must be no exception."""
        answer = self.ask(*words)
        assert answer.status == 0, answer.err
        return answer.out.splitlines()

    def _read(self, size: int) -> bytes:
        data = self._jvm.stdout.read(size)
        assert len(data) == size, "the oracle's JVM ended"
        return data

    def _integer(self) -> int:
        return int(struct.unpack(">i", self._read(4))[0])

    def close(self):
        self._jvm.stdin.close()
        self._jvm.wait(30)
