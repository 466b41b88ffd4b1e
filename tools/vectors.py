"""Lets Kafka's classes judge every file of tests/vectors again, and prints where they differ from what stands there.

usage: python tools/vectors.py [VERSION], or `make vectors KAFKA=VERSION`

vectors, invalid, segments    accessors of each batch and record, outcome of each path (tests/vectors/MANIFEST.md)
messages                      the texts of the dump tool's decoders, with the message classes of that version
indexes                       the files that LogSegment.recover makes of the logs, the verdicts of ProducerAppendInfo
                              (tests/vectors/indexes/BIRTH.md)
transactions                  what UnifiedLog says of whole logs; their files alone do not give it back where the first
                              segments were deleted

Not judged again: `writer-refusals.json`, of which no program is left.

Status 1: a difference in a file that KNOWN does not have for that version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from commands import ROOT

VERSION = sys.argv[1] if len(sys.argv) > 1 else "4.4.0"
# version -> files that it is known to judge otherwise
KNOWN = {
    "4.3.0": {
        # a negative record length in a compressed batch has a message of its own since 4.4, and LogValidator refuses it
        "v2-gzip-record-length-negative",
        "v2-zstd-record-length-negative",
        # StreamsGroupMetadataValue has two more tagged fields, UnregisterControllerRecord is new
        *("message 120", "message 123", "message 281", "message 282"),
    },
}
_HEAP = "-Xmx512m"  # that of the first judgement: some cases run out of memory
Difference = tuple[str, str]


def files(classes: Path, _: jvm_oracle.Oracle) -> Iterator[Difference]:
    cases = [*golden.vectors(), *golden.invalid(), *golden.segment_files()]
    path = jvm_oracle.compile_java(classes, "Vectors")
    command = [jvm_oracle.tool("java"), _HEAP, "-XX:TieredStopAtLevel=1", "-cp", path, "Vectors"]
    command += [case.bin_path for case in cases]
    lines = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    for case, line in zip(cases, lines, strict=True):
        now, before = json.loads(line), case.json
        if "paths" in before:
            yield from _unlike(case.name, before["paths"], now["paths"], "paths")
            before = before.get("read")
        if before is not None:
            accessors = {name: before[name] for name in ("sizeInBytes", "validBytes", "batches")}
            yield from _unlike(case.name, accessors, now["read"], "read")


def messages(*_: object) -> Iterator[Difference]:
    cases = [json.loads(line) for line in message_corpus.CORPUS.read_text().splitlines()]
    for case, answer in zip(cases, message_corpus.ask(cases), strict=True):
        before = [case.get("dies", case.get("key_text")), case.get("payload_text")]
        now = [message_corpus.text(word.removeprefix("!")) for word in answer[:2]]
        yield from _unlike(f"message {case['offset']}", before, now, case["what"])


def indexes(_: Path, kafka: jvm_oracle.Oracle) -> Iterator[Difference]:
    folder = VECTORS / "indexes"
    judged = folder / "judged.txt"
    yield from _unlike(judged.name, judged.read_text(), _said(kafka.ask("judge", judged)), "verdicts")
    for before in sorted(folder.glob("log*-0")):
        with tempfile.TemporaryDirectory() as name:
            now = golden.copied(before, Path(name, before.name))
            _said(kafka.ask("recover", now, (before / "interval").read_text()))
            yield from _unlike(before.name, _side_files(before), _side_files(now), "files")


def _side_files(folder: Path) -> dict[str, str]:
    return {
        name: data.hex() for name, data in plain_logs.content(folder).items() if not name.endswith((".log", "interval"))
    }


def transactions(_: Path, kafka: jvm_oracle.Oracle) -> Iterator[Difference]:
    for folder in sorted((VECTORS / "transactions").glob("orders-*")):
        with tempfile.TemporaryDirectory() as name:
            now = golden.copied(folder, Path(name, "orders-0"), (".log",))
            answers = (folder / "expected.json").read_text(), _said(kafka.ask("transactions", now, 0))
        yield from _unlike(folder.name, *(asdict(LogState.read(answer)) for answer in answers), "state")


def _said(answer: jvm_oracle.Answer) -> str:
    if answer.status:
        raise SystemExit(answer.err)
    return answer.out


def _unlike(name: str, before: Any, now: Any, place: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _unlike(name, before.get(key), now.get(key), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for at, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _unlike(name, one, other, f"{place}[{at}]")
    elif before != now:
        yield name, f"{place}: {json.dumps(before)[:200]} -> {json.dumps(now)[:200]}"


def main() -> int:
    known = new = 0
    with tempfile.TemporaryDirectory() as folder, closing(jvm_oracle.Oracle(Path(folder))) as kafka:
        for part in (files, messages, indexes, transactions):
            for name, line in part(Path(folder), kafka):
                is_known = name in KNOWN.get(VERSION, ())
                known, new = known + is_known, new + (not is_known)
                print("known:" if is_known else "NEW:", name, line)
    print(f"tests/vectors by Kafka {VERSION}: {new} new differences, {known} known ones")
    return 1 if new else 0


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
    fetched = subprocess.run([ROOT / "tools" / "kafka_jars", VERSION], check=True, text=True, stdout=subprocess.PIPE)
    os.environ["KAFKAREC_KAFKA_JARS"] = fetched.stdout.strip()
    import golden
    import jvm_oracle
    import message_corpus
    import plain_logs
    from paths import VECTORS
    from transaction_logs import LogState

    sys.exit(main())
