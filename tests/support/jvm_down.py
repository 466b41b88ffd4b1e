"""kafka-clients 3.9 as an oracle for down-conversion, which 4.0 removed: runs jvm39/Down.java in a separate JVM.

KAFKAREC_KAFKA39_JARS   folder of the 3.9.2 jars; default: next to the server's jars, where tools/kafka_jars puts them
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from jvm_oracle import JARS as SERVER_JARS
from jvm_oracle import Jvm, compile_java, tool
from paths import SUPPORT

VERSION = "3.9.2"
JARS = os.environ.get("KAFKAREC_KAFKA39_JARS") or str(Path(SERVER_JARS).parent / f"kafka-clients-{VERSION}")


class Answer(NamedTuple):
    """The result of downConvert: the bytes and how many records were converted, or its exception as text."""

    data: bytes = b""
    records: int = 0
    refusal: str | None = None


def needed():
    """Skip the calling test, with the reason, if the jars or the JDK are missing."""
    if not list(Path(JARS).glob(f"kafka-clients-{VERSION}.jar")):
        pytest.skip(f"no kafka-clients {VERSION} jars; run tools/kafka_jars")
    if not tool("javac"):
        pytest.skip("no JDK: javac is neither on the PATH nor in JAVA_HOME")


class DownConverter(Jvm):
    """One JVM that converts batches; requests and answers go through pipes."""

    def __init__(self, classes: Path):
        super().__init__(compile_java(classes, "Down", jars=JARS, sources=SUPPORT / "jvm39"), "Down")

    def __call__(self, data: bytes, magic: int) -> Answer:
        self._write(struct.pack(">bi", magic, len(data)) + data)
        records, found = self._integer(), self._read(self._integer())
        return Answer(found, records) if records >= 0 else Answer(refusal=found.decode())
