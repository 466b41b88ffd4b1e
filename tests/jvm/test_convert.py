"""`convert` compared with down-conversion of kafka-clients 3.9.2; Kafka 4.4 reads its output (P7).

KAFKAREC_KAFKA39_JARS   folder of the 3.9.2 jars; default: next to the server's jars, where tools/kafka_jars puts them
"""

import os
import re
from collections import Counter
from pathlib import Path

import golden
import jvm_oracle
import pytest
from broker_logs import convertible
from jvm_reading import read

import kafkarec
from kafkarec import convert

_MAGIC_0 = re.compile(r"^(\S+) -1 -1 -1 0 ", re.MULTILINE)
"""A record without timestamp type: in magic 2 it has CreateTime."""
_DEPENDS_ON_PACKING = ("crc", "batch_length", "size_in_bytes", "position")
_JARS = os.environ.get("KAFKAREC_KAFKA39_JARS") or str(Path(jvm_oracle.JARS).with_name("kafka-clients-3.9.2"))


@pytest.fixture(scope="module")
def down_converter(tmp_path_factory):
    if not list(Path(_JARS).glob("kafka-clients-3.9.2.jar")):
        pytest.skip("no kafka-clients 3.9.2 jars; run tools/kafka_jars")
    if not jvm_oracle.tool("javac"):
        pytest.skip("no JDK: javac is neither on the PATH nor in JAVA_HOME")
    oracle = jvm_oracle.Oracle(tmp_path_factory.mktemp("classes39"), "Down", _JARS)
    yield oracle
    oracle.close()


def content(data):
    """All fields that do not depend on the compression ratio."""
    columns = kafkarec.decode(data, control=True, header_keys="binary", timestamp_unit="int64", check_crcs="all")
    records = [columns.column(name) for name in columns.schema.names]
    batches = [
        {name: value for name, value in row.items() if name not in _DEPENDS_ON_PACKING} for row in columns.batches
    ]
    return records, batches, columns.remaining


def compare(data, magic, oracle):
    """The kind of result, asserting that both sides agree where they must."""
    kafka = oracle.ask("down", magic, data.hex())
    records, _, text = kafka.out.partition(" ")
    theirs = bytes.fromhex(text)
    try:
        ours = convert(data, magic=magic)
    except kafkarec.KafkaRecordError as refusal:
        if kafka.status == 0:
            assert differs_on_purpose(data, theirs, refusal)
            return "refused for damage"
        is_zstd = "UnsupportedCompressionType" in kafka.err
        return "refused zstd" if is_zstd and isinstance(refusal, kafkarec.UnsupportedCompressionError) else "refused"
    assert kafka.status == 0, kafka.err
    assert ours.stats.records_converted == int(records)
    if bytes(ours) == theirs:
        return "same bytes"
    assert any(row["compression"] != "none" for row in kafkarec.scan(theirs))
    assert content(ours) == content(theirs)
    return "same content"


def differs_on_purpose(data, kafkas, refusal):
    """Whether a refusal is a deliberate difference: Kafka copies and converts bytes that it did not validate, and
    writes some that no reader accepts."""
    for suspect in (data, kafkas):
        try:
            kafkarec.decode(suspect, check_crcs="all")
        except kafkarec.KafkaRecordError:
            return True
    return False


def test_golden_vectors_are_down_converted_as_by_kafka(down_converter):
    ends = Counter(compare(case.bytes, magic, down_converter) for case in golden.vectors() for magic in (0, 1))
    assert ends["same bytes"] > 150 and ends["same content"] > 5 and ends["refused zstd"] > 20
    assert ends["refused for damage"] == 0


def test_invalid_vectors_are_down_converted_as_by_kafka_or_refused(down_converter):
    ends = Counter(compare(case.bytes, magic, down_converter) for case in golden.invalid() for magic in (0, 1))
    assert ends["same bytes"] + ends["same content"] > 80 and ends["refused"] > 100 and ends["refused for damage"] > 50


def test_random_logs_are_down_converted_as_by_kafka(down_converter):
    ends = Counter()
    for seed in range(jvm_oracle.count(400)):
        data = convertible(seed, codecs=("none", "gzip", "snappy", "lz4"), odd=seed % 3 * 6).data
        for magic in (0, 1):
            ends[compare(data, magic, down_converter)] += 1
    assert ends["same bytes"] > ends.total() / 4 and ends["same content"] > ends.total() / 5
    assert ends["refused for damage"] < ends.total() / 50


def test_kafka_reads_the_same_records_from_the_output(kafka, tmp_path):
    file = tmp_path / "batches"
    compared = 0
    for seed in range(jvm_oracle.count(300)):
        log = convertible(seed)
        data = log.data
        codec = log.random.choice([None, "none", "gzip", "snappy", "lz4", "zstd"])
        size = log.random.choice([None, 1, 200, 1000, 16384])
        ours = convert(data, compression=codec, batch_size=size)
        file.write_bytes(ours)
        answer = kafka.ask("read", file).out.strip()
        assert not answer.startswith("refused"), f"seed {seed}"
        source_answer = _MAGIC_0.sub(r"\1 -1 0 -1 0 ", read(data))
        assert answer == read(ours) == source_answer, f"seed {seed}"
        compared += bytes(ours) != data
    assert compared > jvm_oracle.count(300) / 2
