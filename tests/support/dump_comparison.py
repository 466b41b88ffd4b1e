"""Runs kafkarec's dump in this process, and kafka-dump-log in the oracle's JVM, for comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jvm_oracle import Oracle
from random_logs import Maker

from kafkarec import KafkaRecordError
from kafkarec.ops.dump import DumpOptions, decoders, dump
from kafkarec.sources.files import LocalFile

_CUT_MESSAGE = re.compile(r"Error at .*, skipping\. (null|newLimit > capacity: \(\d+ > \d+\))$")
_NEXT_LINE = re.compile(r"\n(\| |baseOffset: |offset: |timestamp: |version: |producerId: |Dumping )")  # not of a header
_HEADINGS = ("Mismatches in ", "Found ", "The following indexed", "Non-consecutive")
_DIED = 'Exception in thread "main"'


@dataclass(frozen=True)
class DumpResult:
    """Exit status and both outputs. `err` is without a final uncaught exception, as its wording differs."""

    status: int
    out: str
    err: tuple[str, ...]


def ours(files: Sequence[object], *flags: str, **options) -> DumpResult:
    """Return what `dump` prints. flags: those of internal topics, or none."""
    out = []
    err = []
    if flags:
        options["decode"] = decoders.decoder_of_options(flags)
    try:
        for text in dump([str(file) for file in files], DumpOptions(**options), LocalFile, err.append, err.append):
            out.append(text)
    except (KafkaRecordError, OSError):
        return DumpResult(1, "".join(out), tuple(err))
    return DumpResult(0, "".join(out), tuple(err))


def theirs(kafka: Oracle, files: Sequence[object], words: Sequence[str]) -> DumpResult:
    answer = kafka.ask("dump", "--files", ",".join(map(str, files)), *words)
    lines = answer.err.split(_DIED)[0].splitlines()
    return DumpResult(answer.status, answer.out, tuple(lines))


def agree(our: DumpResult, kafkas: DumpResult, *, index: bool = False) -> bool:
    """Whether our output is Kafka's. Where its tool ends with an exception, also for lack of memory for what a length
    field says, ours has the whole lines before that; of an index maybe more of them, as Kafka's tool reads the log to
    its end for each entry. At a cut message of magic 0 or 1, for which the decoder of an internal topic prints Java's
    exception as its text, ours ends."""
    if kafkas.status == 0 and our.status == 1:
        rest = kafkas.out.removeprefix(our.out)
        return kafkas.out.startswith(our.out) and _CUT_MESSAGE.search(rest.partition("\n")[0]) is not None
    if kafkas.status == 1 and not index:
        return (
            our.status == 1 and (kafkas.out.startswith(our.out)) and not _NEXT_LINE.search(kafkas.out[len(our.out) :])
        )
    if kafkas.status == 1:
        return our.out.startswith(kafkas.out[: kafkas.out.rfind("\n") + 1])
    return our.out == kafkas.out and sorted(_sections(our.err)) == sorted(_sections(kafkas.err))


def _sections(lines: tuple[str, ...]) -> list[list[str]]:
    """Headings with their lines. Kafka's tool prints them in the order of a HashMap."""
    found = []
    for line in lines:
        if line.startswith(_HEADINGS) or not found:
            found.append([])
        found[-1].append(line)
    return found


_OF_LOGS = {
    "--print-data-log": ("print_data", 0.8),
    "--deep-iteration": ("deep_iteration", 0.3),
    "--skip-record-metadata": ("skip_record_metadata", 0.2),
}
_OF_INDEXES = {"--verify-index-only": ("verify_index_only", 0.2), "--index-sanity-check": ("index_sanity_check", 0.2)}


def random_words(maker: Maker, size: int, *, index: bool = False) -> tuple[list[str], dict[str, Any]]:
    """Return random options for a log of `size` bytes, or for the indexes and the snapshot beside it: as words of the
    command line, and as DumpOptions."""
    random = maker.random
    switches = _OF_INDEXES if index else _OF_LOGS
    words = [word for word, (_, share) in switches.items() if random.random() < share]
    options = {switches[word][0]: True for word in words}
    if not random.randrange(10):
        word, name = ("--max-message-size", "max_message_size") if index else ("--max-bytes", "max_bytes")
        options[name] = random.choice([0, 17, 61, 100, size // 2, size, size + 5, 5000])
        words += [word, str(options[name])]
    if not index and not random.randrange(8):
        flag = random.choice(decoders.FLAGS)
        words.append(flag)
        options["decode"] = decoders.decoder_of_options([flag])
    return words, options


def sidecars(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}{suffix}" for suffix in (".index", ".timeindex", ".txnindex", ".snapshot")]
