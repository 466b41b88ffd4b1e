"""Comparison of the oracle with what Kafka's classes read, on which all tests against the oracle rely."""

import golden
import oracle
import pytest
from core_reading import FIELDS
from java_text import java_utf8
from oracle_codecs import xxh32


def assert_reads_like_kafka(data, verdict, read):
    kafkas = golden.verdict(data, read)
    assert verdict.remaining == kafkas.remaining
    for ours, batch in zip(verdict.batches, kafkas.batches, strict=True):
        assert (ours.raw, ours.columns) == (batch.raw, batch.columns)
        assert [{name: record[name] for name in FIELDS} for record in ours.records] == batch.records


@pytest.mark.parametrize("case", golden.vectors() + golden.segment_files(), ids=str)
def test_oracle_reads_what_kafka_reads(case):
    verdict = oracle.decode(case.bytes)
    assert verdict.error is None
    assert_reads_like_kafka(case.bytes, verdict, case.json)


@pytest.mark.parametrize("case", golden.invalid(), ids=str)
def test_oracle_refuses_what_kafka_refuses(case):
    verdict = oracle.decode(case.bytes)
    stage = case.json["raised_by"]
    if stage in (None, "controlRecord"):
        assert verdict.error is None
    else:
        stages = {"streamingIterator": "iterator", "recordFields": "iterator"}
        assert verdict.stage == stages.get(stage, stage), verdict.error
    if case.json["exception"] is None:
        assert_reads_like_kafka(case.bytes, verdict, case.json["read"])


@pytest.mark.parametrize(
    "data, expected",
    [
        ("61c3a9e282acf09f9880", "aé€😀"),
        ("c328ff", "\ufffd(\ufffd"),
        ("eda080", "\ufffd"),
        ("eda041", "\ufffdA"),
        ("eda0", "\ufffd"),
        ("e08080", "\ufffd\ufffd\ufffd"),
        ("c080", "\ufffd\ufffd"),
        ("e282", "\ufffd"),
        ("f09f98", "\ufffd"),
        ("f09f41", "\ufffdA"),
        ("f0809f41", "\ufffd\ufffd\ufffdA"),
        ("f490", "\ufffd\ufffd"),
        ("f5808080", "\ufffd\ufffd\ufffd\ufffd"),
        ("c3", "\ufffd"),
        ("fe", "\ufffd"),
    ],
)
def test_java_replacement_characters(data, expected):
    assert java_utf8(bytes.fromhex(data)) == expected


def test_well_formed_text_is_plain_utf8():
    text = "".join(chr(code) for code in range(0, 0x110000, 97) if not 0xD800 <= code <= 0xDFFF)
    assert java_utf8(text.encode()) == text


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_equals_published_values(data, expected):
    assert xxh32(data) == expected
