"""Runs one command line or one Python call in the working directory, and makes rows of what came.

What does not depend on the product is made equal: the path of the working directory, seconds and rates, the version.
A JSON document is split: a text that has a space is a sentence and goes to the layer of texts; all else is a fact.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow
import pyarrow.parquet
from command import main

import kafkarec

from .rows import Row

OUT = "out*"
"""What a call writes has such a name in the working directory, and is removed after it."""
_MEASURED = re.compile(r"seconds|_rate$|_per_second$|^speed|^is_best$|^decompression$|^validation_time$")
_MEASURES = re.compile(
    rb"\d+(\.\d+)? ?([GMK]i?B/s|ms\b|s\b)|(?<=time_ns=)\d+|\d+(\.\d+)?(?= % of the time| times that)"
)
_CHOICES = re.compile(rb"\(choose from [^)]*\)")  # Python 3.12 and later print them without quotes
_SETS = ("findings", "damage", "restored")
_SHOWN = 25
_TABLES: dict[str, Callable[[Path], pyarrow.Table]] = {
    ".parquet": pyarrow.parquet.read_table,
    ".arrow": lambda path: pyarrow.ipc.open_stream(path.read_bytes()).read_all(),
}
_COMPRESS = ("build", "convert", "compact")
_LINES = ("cat", "dump", "scan")
"""Verbs whose standard output is data, line by line."""


class Recorder:
    """Makes the calls of one scenario in the working directory.

    part: what a call's name begins with, where a scenario makes the same calls several times; rows: what they showed.
    """

    def __init__(self, scenario: str):
        self.scenario = scenario
        self.part = ""
        self.rows = []
        self._here = (os.getcwd().encode(), os.path.realpath(os.getcwd()).encode())

    def run(self, line: str):
        """One command line without the program's name; `verb ... < FILE` reads standard input from a file."""
        words = shlex.split(line)
        source = words[words.index("<") + 1] if "<" in words else os.devnull
        words = words[: words.index("<")] if "<" in words else words
        status, out, err = _output(words, source)
        sentences = []
        fact = {"status": status}
        shown = self._same(out)
        if "--format json" in line and words[0] not in ("build", "convert", "compact"):
            fact["json"] = _ends([_facts(each, sentences) for each in _documents(shown)])
        elif words[0] in _LINES and words[-1] not in ("-h", "--help"):
            fact["lines"] = _ends(shown.splitlines())
        elif shown:
            sentences.append(shown)
        if files := {name: self._file(path, sentences) for name, path in _written()}:
            fact["files"] = _without_gzip(files) if words[0] in _COMPRESS else files
        if err:
            sentences.append(self._same(err))
        self._add(line, fact, sentences)
        for path in Path().glob(OUT):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def ask(self, name: str, call: Callable[[], Any]):
        """One Python call: what it returns, or its error, as facts and sentences."""
        sentences = []
        try:
            value = call()
        except kafkarec.KafkaRecordError as error:
            fields = {key: one for key, one in vars(error).items() if not key.startswith("_")}
            value = {"error": type(error).__name__, "text": str(error), **fields}
        except (ValueError, TypeError, OSError) as error:
            value = {"error": type(error).__name__, "text": str(error)}
        plain = json.loads(self._same(json.dumps(value, default=_plain).encode()))
        self._add(name, _facts(plain, sentences), sentences)

    def _add(self, call: str, fact, sentences: list[str]):
        call = self._same((f"{self.part}: {call}" if self.part else call).encode())
        self.rows.append(Row("facts", self.scenario, call, fact))
        if sentences:
            self.rows.append(Row("texts", self.scenario, call, sentences))

    def _same(self, data: bytes) -> str:
        for here in self._here:
            data = data.replace(here, b"<here>")
        data = _CHOICES.sub(b"(choose from <choices>)", _MEASURES.sub(b"<measured>", data))
        return data.replace(kafkarec.__version__.encode(), b"<version>").decode("utf-8", "backslashreplace")

    def _file(self, path: Path, sentences: list[str]):
        data = path.read_bytes()
        if path.suffix == ".json":
            return [_facts(each, sentences) for each in _documents(self._same(data))]
        if path.suffix in _TABLES:
            table = _TABLES[path.suffix](path)
            return [str(one) for one in table.schema] + _ends([str(row) for row in table.to_pylist()])
        if path.suffix == ".html":
            sentences.append(self._same(data))
            return "page"
        return digest(data)


def _output(words: list[str], source: str) -> tuple[int | str, bytes, bytes]:
    """Status, standard output and standard error of a run in this process, with `source` as its standard input."""
    streams = sys.stdin, sys.stdout, sys.stderr
    for stream in streams[1:]:
        stream.flush()
    with open(source, "rb") as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        saved = [os.dup(number) for number in range(3)]
        for number, file in enumerate((given, out, err)):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
        try:
            try:
                status = main(words)
            except BaseException as error:  # nothing may leave the function; where it does, the snapshot shows it
                status = f"raised {type(error).__name__}: {error}"
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, old in enumerate(saved):
                os.dup2(old, number)
                os.close(old)
        return status, _whole(out), _whole(err)


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _documents(text: str) -> Iterator[Any]:
    """The JSON documents of a text, one behind another."""
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text) and (rest := text[at:].lstrip()):
        at = len(text) - len(rest)
        value, at = decoder.raw_decode(text, at)
        yield value


def _facts(value, sentences: list[str], key: str = ""):
    """The value without sentences and measured numbers; the sentences are appended to the list.

    Findings, damage and restored fields are sets: their order is not a fact.
    """
    if isinstance(value, dict):
        return {name: _facts(one, sentences, name) for name, one in value.items()}
    if isinstance(value, list):
        facts = [_facts(one, sentences, key) for one in value]
        return sorted(facts, key=json.dumps) if key in _SETS else facts
    if isinstance(value, str) and " " in value:
        sentences.append(value)
        return "<text>"
    if isinstance(value, float | bool) and _MEASURED.search(key):
        return 0
    return value


def _ends(lines: list[Any]) -> list[Any]:
    """The lines, or the first and the last of many, with the digest of all between them."""
    if len(lines) <= 3 * _SHOWN:
        return lines
    return [*lines[:_SHOWN], f"{len(lines)} lines: {digest(repr(lines).encode())}", *lines[-_SHOWN:]]


def digest(data: bytes | bytearray | memoryview) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:8]}"


def content(data: bytes):
    """The digest of batches, or of their records where one is gzip: ISA-L's output depends on the processor."""
    if "gzip" not in kafkarec.scan(data, errors="skip").column("compression"):
        return digest(data)
    return ["gzip", hashlib.sha256(repr(kafkarec.decode(data, errors="skip").tuples()).encode()).hexdigest()[:8]]


def _without_gzip(files: dict[str, Any]) -> dict[str, Any]:
    """The files that a verb compressed: logs by their content, and side files by name only if a log has gzip."""
    logs = {name: content(Path(name).read_bytes()) for name in files if name.endswith(".log")}
    packed = any(one[0] == "gzip" for one in logs.values())
    return (dict.fromkeys(files, "") if packed else files) | logs


def _written() -> Iterator[tuple[str, Path]]:
    found = (path for top in Path().glob(OUT) for path in ([top] if top.is_file() else top.rglob("*")))
    return ((str(path), path) for path in sorted(found) if path.is_file())


def _plain(value):
    """What JSON does not have: bytes by length and digest, all else by its text."""
    return digest(value) if isinstance(value, bytes | bytearray | memoryview) else str(value)
