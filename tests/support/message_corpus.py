"""Random records of internal topics and what Kafka's own decoders print for them (jvm/MessageOracle.java).

    tools/kafka_jars                           fetches Kafka's server jars
    python tests/support/message_corpus.py     writes tests/vectors/messages/corpus.jsonl

The records are those of message_samples: good records, for which Kafka's message classes must write the same bytes, and
spoiled records.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from paths import ROOT, VECTORS

sys.path.insert(0, str(ROOT))  # for a run as a script

import jvm_oracle
import message_samples as samples
from subprocesses import output_of

from kafkarec.internal_topics.dump_text import DECODERS, MissingKey

CORPUS = VECTORS / "messages" / "corpus.jsonl"


def cases(seed: int, count: int) -> list[dict[str, Any]]:
    """Return random records as cases, without Kafka's answers."""
    maker = samples.Maker(seed)
    found = []

    def add(topic, what, key, value):
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


def ask(asked: list[dict[str, Any]]) -> list[list[str]]:
    """Return Kafka's answers, four words each; see MessageOracle.java."""
    words = {None: "-", "": "0"}
    lines = [
        f"{case['flag']} {words.get(case['key'], case['key'])} {words.get(case['value'], case['value'])} {at}\n"
        for at, case in enumerate(asked)
    ]
    [tool] = Path(jvm_oracle.TOOLS).glob("kafka-tools-[0-9]*.jar")  # its parsers, with the server's message classes
    with tempfile.TemporaryDirectory() as folder:
        path = jvm_oracle.compile_java(Path(folder), "MessageOracle")
        java = (jvm_oracle.tool("java"), "-Xmx1g", "-cp", f"{path}:{tool}", "MessageOracle")
        return [line.split(" ") for line in output_of(*java, input="".join(lines)).splitlines()]


def text(word: str) -> str | None:
    return None if word == "-" else base64.b64decode(word[1:]).decode()


def answered(seed: int, count: int) -> list[dict[str, Any]]:
    """Return cases with Kafka's texts; a case where kafkarec differs has `unlike`, and must not be in a corpus."""
    asked = cases(seed, count)
    for at, (case, answer) in enumerate(zip(asked, ask(asked), strict=True)):
        case["offset"] = at
        if answer[0].startswith("!"):
            case["dies"] = text(answer[0][1:])
        else:
            case["key_text"], case["payload_text"] = text(answer[0]), text(answer[1])
        again = [None if word == "-" else word[1:] for word in answer[2:]]
        if is_whole(case) and again != [case["key"], case["value"]]:
            case["unlike"] = "Kafka writes other bytes"
        elif not agrees(case):
            case["unlike"] = "Kafka prints other texts"
    return asked


def is_whole(case: dict[str, Any]) -> bool:
    """Return whether the case is a good record with key and value."""
    return "," not in case["what"] and case["what"] != "odd"


def agrees(case: dict[str, Any]) -> bool:
    """Return whether kafkarec prints Kafka's texts."""
    key, value = (None if case[name] is None else bytes.fromhex(case[name]) for name in ("key", "value"))
    try:
        return DECODERS[case["flag"]](key, value, case["offset"]) == (case.get("key_text"), case.get("payload_text"))
    except MissingKey as error:
        return str(error) == case.get("dies")


def main() -> int:
    found = answered(43, 1)
    unlike = [case for case in found if "unlike" in case]
    for case in unlike:
        print(json.dumps(case))
    CORPUS.write_text("".join(json.dumps(case) + "\n" for case in found), encoding="ascii")
    print(f"{len(found)} records, {len(unlike)} of them unlike Kafka")
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
