"""Writes tests/vectors/messages/corpus.jsonl: what Kafka's own decoders print for records of every type and version.

    python tests/jvm/make_messages.py FOLDER_WITH_KAFKA_JARS [SEED [COUNT]]      the corpus; with a seed: compare only

The folder holds kafka_2.13 and kafka-tools of Kafka 4.3.0 with what they need. The records are random
(message_samples): good ones, whose bytes Kafka's message classes must write just so, and spoiled ones.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import message_samples as samples  # noqa: E402

from kafkarec.messages.dump_text import DECODERS, MissingKey  # noqa: E402

CORPUS = HERE.parent / "vectors" / "messages" / "corpus.jsonl"


def cases(seed: int, count: int) -> list[dict[str, Any]]:
    """Without Kafka's answers yet."""
    maker = samples.Maker(seed)
    found: list[dict[str, Any]] = []

    def add(topic: str, what: str, key: bytes | None, value: bytes | None) -> None:
        shown = [None if blob is None else blob.hex() for blob in (key, value)]
        found.append({"flag": samples.FLAGS[topic], "what": what, "key": shown[0], "value": shown[1]})

    for topic, kind, version in samples.kinds():
        name = f"{kind.name} {version}"
        for _ in range(count):
            sample = maker.record(topic, kind, version)
            add(topic.name, name, sample.key, sample.value)
            if sample.key is not None:
                add(topic.name, f"{name}, tombstone", sample.key, None)
            for _ in range(2):
                add(topic.name, f"{name}, spoiled", sample.key, maker.spoil(sample.value))
            if sample.key is not None:
                add(topic.name, f"{name}, key spoiled", maker.spoil(sample.key), sample.value)
    for name in samples.FLAGS:
        for key, value in ((None, b""), (b"", b""), (None, None), (b"\0\1", None), (b"\0\x63", b"\0\0")):
            add(name, "odd", key, value)
    return found


def ask(jars: str, asked: list[dict[str, Any]]) -> list[list[str]]:
    """Kafka's answers, four words each; see MessageOracle.java."""
    words = {None: "-", "": "0"}
    lines = [
        f"{case['flag']} {words.get(case['key'], case['key'])} {words.get(case['value'], case['value'])} {at}\n"
        for at, case in enumerate(asked)
    ]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", folder, str(HERE / "MessageOracle.java")], check=True)
        done = subprocess.run(
            ["java", "-cp", f"{folder}:{jars}/*", "MessageOracle"],
            input="".join(lines), capture_output=True, text=True, check=True,
        )  # fmt: skip
    return [line.split(" ") for line in done.stdout.splitlines()]


def text(word: str) -> str | None:
    return None if word == "-" else base64.b64decode(word[1:]).decode()


def main() -> int:
    jars, *rest = sys.argv[1:]
    seed, count = (int(rest[0]), int(rest[1]) if len(rest) > 1 else 3) if rest else (43, 1)
    asked = cases(seed, count)
    wrong = 0
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", delete=False) as out:
        for at, (case, answer) in enumerate(zip(asked, ask(jars, asked), strict=True)):
            case["offset"] = at
            if answer[0].startswith("!"):
                case["dies"] = text(answer[0][1:])
            else:
                case["key_text"], case["payload_text"] = text(answer[0]), text(answer[1])
            whole = "," not in case["what"] and case["what"] != "odd"
            again = [None if word == "-" else word[1:] for word in answer[2:]]
            if not agrees(case) or (whole and again != [case["key"], case["value"]]):
                print("unlike Kafka:", json.dumps(case))
                wrong += 1
            out.write(json.dumps(case) + "\n")
    if not rest:
        CORPUS.parent.mkdir(exist_ok=True)
        CORPUS.write_bytes(Path(out.name).read_bytes())
    Path(out.name).unlink()
    print(f"{len(asked)} records, {wrong} of them unlike Kafka")
    return 1 if wrong else 0


def agrees(case: dict[str, Any]) -> bool:
    key, value = (None if case[name] is None else bytes.fromhex(case[name]) for name in ("key", "value"))
    try:
        return DECODERS[case["flag"]](key, value, case["offset"]) == (case.get("key_text"), case.get("payload_text"))
    except MissingKey as error:
        return str(error) == case.get("dies")


if __name__ == "__main__":
    sys.exit(main())
