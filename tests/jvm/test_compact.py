"""The record filter compared with MemoryRecords.filterTo on pseudo-random decisions; the log cleaner compared with
Kafka's Cleaner over a UnifiedLog."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import broker_logs
import builders
import golden
import jvm_oracle
import plain_logs
import pytest
from compact_filter import BatchDecision, filter_to
from random_logs import Maker

import kafkarec
from kafkarec import compact
from kafkarec.sidecars import txn_index

# The fields of FilterResult, in the order in which tests/support/jvm/Compaction.java prints them.
_RESULT = (
    "messages_read",
    "bytes_read",
    "messages_retained",
    "bytes_retained",
    "max_offset",
    "max_timestamp",
    "offset_of_max_timestamp",
)
# Kafka does not read all of a message: one that it discards unread may be cut, and a deleted batch may be shorter than
# its header.
_UNREAD = {"message_truncated", "batch_too_small"}
_MAGICS = ((2,), (1, 2), (0, 2), (1,), (2,))
_NOW, _DAY = builders.NOW, 86_400_000


def pseudo_random(offset, seed):
    """A number from 0 to 99, computed from an offset and a seed alike here and in Java."""
    return ((offset ^ seed) * 0x9E3779B97F4A7C15 % 2**64 >> 33) % 100


@dataclass
class PseudoRandomRetention:
    """Pseudo-random decisions. kept: the percentage of records that stay; whole: the percentage of batches that stay
    whole."""

    seed: int
    kept: int
    whole: int

    def check_batch_retention(self, batch):
        draw = pseudo_random(batch.last_offset, self.seed)
        is_empty_transaction = pseudo_random(batch.last_offset, self.seed + 1) < 20
        return BatchDecision(None, batch.magic == 2 and 10 <= draw < 40, draw < 10, is_empty_transaction)

    def retained_rows(self, to_filter, chunk, without_value):
        offsets = chunk.values(0, 0, len(chunk))
        keep = bytearray(pseudo_random(offset, self.seed + 3) < self.kept for offset in offsets)
        for batch in to_filter:
            if pseudo_random(batch.last_offset, self.seed + 2) < self.whole:
                keep[batch.start : batch.stop] = b"\x01" * (batch.stop - batch.start)
        return keep


def _assert_filters_agree(kafka, folder, data, seed, *, plain=False):
    """Assert that both filters have the same result for `data`; return whether they accepted it."""
    rng = random.Random(seed)
    now, retention = rng.choice([(_NOW, 0), (5, 5), (-100, 3), (_NOW, 2**63 - 1)])
    retention_policy = PseudoRandomRetention(seed, rng.choice([0, 30, 80, 100]), rng.choice([0, 30, 100]))
    (folder / "in").write_bytes(data)
    kept, most = (retention_policy.kept, retention_policy.whole), rng.choice([None, None, None, 30, 100, 1000])
    answer = kafka.ask("filter", folder / "in", folder / "out", now, retention, seed, *kept, most or 2**31 - 9)
    times = {"now": now, "delete_retention_ms": retention}
    try:
        ours = filter_to(data, retention_policy, **times, check_crcs=False, most_body=most)
    except kafkarec.KafkaRecordError as error:
        if error.reason == "record_too_large":
            assert answer.status == 1 and f"exceeds the configured maximum record size of {most}" in answer.err
            return True
        assert answer.status == 1 or error.reason in _UNREAD, f"seed {seed}: only kafkarec refuses: {error}"
        return False
    assert answer.status == 0, f"seed {seed}: only Kafka refuses: {answer.err}"
    theirs = (folder / "out").read_bytes()
    result = dict(zip(_RESULT, map(int, answer.out.split()), strict=True))
    if plain:
        assert bytes(ours) == theirs, f"seed {seed}"
    else:  # sizes of compressed payloads and invalid UTF-8 in header keys differ between Python and Java
        assert _comparable(ours) == _comparable(theirs), f"seed {seed}"
        result["bytes_retained"] = len(ours)
    assert {name: getattr(ours.stats, name) for name in _RESULT} == result, f"seed {seed}"
    return True


def _comparable(data):
    """Everything but the raw bytes, header keys as Java decodes them; for batches that no reader accepts, the
    reason."""
    comparable = []
    for batch in kafkarec.batches(data, check_crcs=False):
        try:
            records = list(batch)
        except kafkarec.KafkaRecordError as error:
            comparable.append((batch.base_offset, error.reason))
            continue
        comparable.append((*(getattr(batch, name) for name in broker_logs.FIELDS), records))
    return comparable


def test_the_filter_on_logs_of_a_broker(kafka, tmp_path):
    for seed in range(jvm_oracle.count(150)):
        plain = seed % 3 == 0
        log = broker_logs.Log(seed, _MAGICS[seed % 5], codecs=("none",) if plain else builders.CODECS)
        assert _assert_filters_agree(kafka, tmp_path, log.data, seed, plain=plain)


def test_the_filter_on_odd_and_damaged_logs(kafka, tmp_path):
    """Kafka validates records only where it must, so it accepts some legacy records that no reader accepts."""
    taken = sum(
        _assert_filters_agree(kafka, tmp_path, Maker(seed).log(), seed) for seed in range(jvm_oracle.count(200))
    )
    assert taken > jvm_oracle.count(200) // 10


@pytest.mark.parametrize("case", golden.vectors() + golden.invalid(), ids=str)
def test_the_filter_on_the_vectors(kafka, tmp_path, case):
    _assert_filters_agree(kafka, tmp_path, case.bytes, seed=1)


@dataclass
class Run:
    """One log that both cleaners clean several times."""

    seed: int
    folder: Path

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.plain = self.seed % 3 == 0
        codecs = ("none",) if self.plain else builders.CODECS
        self.log = broker_logs.Log(self.seed, _MAGICS[self.seed % 3], codecs)
        if kafkarec.scan(self.log.data)[-1]["magic"] < 2:  # Kafka fails, or moves the log's end back to a kept record
            self.log.write(None)
        stable = kafkarec.decode(self.log.data, columns=[], isolation="read_committed").last_stable_offset
        assert stable is not None
        self.ours, self.theirs, self.out = (self.folder / name for name in ("ours-0", "theirs-0", "out"))
        self.out.mkdir()
        # A broker cleans whole segments: one ends where the first open transaction begins.
        segments = self.log.segments(self.random.choice([1, 1, 2, 4]), stable)
        for place in (self.ours, self.theirs):
            plain_logs.log(place, *segments)
        for number, (base, _) in enumerate(segments):
            modified = (self.log.now + 1000 * number) * 1_000_000
            os.utime(self.ours / f"{base:020}.log", ns=(modified, modified))
        self.start = segments[0][0]
        self.retention = self.random.choice([0, 1000, 100_000, _DAY])
        self.expiration = self.random.choice([1, 1000, 30_000, _DAY])
        self.times = [self.log.now]
        for _ in range(3):
            self.times.append(self.times[-1] + self.random.choice([0, 1, 999, 1000, 1001, 100_000, _DAY]))

    def clean(self, kafka):
        answers = kafka.lines(
            "clean", self.theirs, self.out, self.retention, self.expiration, self.start, self.log.now, *self.times
        )
        for number, (now, line) in enumerate(zip(self.times, answers, strict=True)):
            cleaned = compact(
                kafkarec.open(self.ours),
                now=now,
                delete_retention_ms=self.retention,
                producer_expiration_ms=self.expiration,
            )
            self.compare(cleaned, self.out / str(number), list(map(int, line.split())), number)
            self.replace(cleaned)

    def compare(self, cleaned, theirs, numbers, number):
        where = f"seed {self.seed}, run {number}"
        data = b"".join(path.read_bytes() for path in sorted(theirs.glob("*.log")))
        if self.plain:
            assert bytes(cleaned) == data, where
        else:
            assert broker_logs.rows(cleaned) == broker_logs.rows(data), where
        index = [entry for path in sorted(theirs.glob("*.txnindex")) for entry in txn_index.read(path.read_bytes())]
        assert list(cleaned.aborted_transactions) == index, where
        stats = cleaned.stats
        messages_read, messages_written, invalid, stable = numbers
        assert (stats.messages_read, stats.messages_retained) == (messages_read, messages_written), where
        assert stats.messages_invalid == invalid, where
        assert stats.next_offset >= stable, where

    def replace(self, cleaned):
        """Make the cleaned log the input of the next run."""
        shutil.rmtree(self.ours)
        plain_logs.log(self.ours, (self.start, cleaned))
        (self.ours / f"{self.start:020}.txnindex").write_bytes(txn_index.write(cleaned.aborted_transactions))


def test_the_cleaner_over_several_runs(kafka, tmp_path):
    """The clock advances between runs: producers expire, delete horizons pass, transactions stay open."""
    for seed in range(jvm_oracle.count(40)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        Run(seed, folder).clean(kafka)
