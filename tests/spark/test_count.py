"""count has the number of records that the data source reads, and decompresses only what it has to."""

import pickle
import re
from collections import Counter

import golden
import pytest
import transaction_logs
from builders import flipped
from damage_reports import Frames, nothing_is_shipped  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples
from paths import SEGMENTS
from plain_logs import log
from source_rows import Read, repeated, spoil

import kafkarec
import spark_udfs
from spark_udfs.read_functions import option_texts
from spark_udfs.source import options as source_options

TXN = (SEGMENTS / "txn-0" / f"{0:020}.log").read_bytes()
CODECS = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
ONE_BYTE = {"maxDecompressedBytes": 1}  # then whatever is decompressed fails


def count(path, **options):
    return spark_udfs.count(Frames(), path, **options)


def read(path, **options):
    """The records of each partition by the data source."""
    rows = Read(**option_texts(path, options)).rows
    return dict(Counter(f"{row['topic']}-{row['partition']}" for row in rows))


def outcome(call, *arguments, **options):
    """What `call` returns, or the error's type and text."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", None)


def counted(path, **options):
    return count(path, **options).partitions


# ---- good logs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"isolationLevel": "read_committed"},
        *({each.name: not each.default} for each in source_options.TABLE if each.read is source_options.flag),
        {"includeControl": True, "kafka.isolation.level": "read_committed"},
        {"mode": "PERMISSIVE"},
        {"subscribe": ["txn", "compacted"], "startingTimestamp": "2023-11-14T22:13:20.004Z", "mode": "DROPMALFORMED"},
        {"assign": {"all-codecs": [0]}, "maxPartitionBytes": "4k"},
        {"minPartitions": 7},
    ],
)
def test_real_logs(options):
    options = {"startingOffsetsByTimestampStrategy": "latest"} | options
    expected = read(SEGMENTS, **options)
    found = count(SEGMENTS, **options)
    assert found.partitions == expected and found == sum(expected.values()) > 0


@pytest.mark.parametrize("case", golden.vectors(), ids=str)
def test_each_magic_and_codec(tmp_path, case):
    log(tmp_path / "t-0", (0, case.bytes))
    assert counted(tmp_path) == read(tmp_path)
    offsets = [each.offset for each in kafkarec.decode(case.bytes, control=True)]
    if offsets and min(offsets) >= 0:
        middle = sorted(offsets)[len(offsets) // 2]
        for bound in ("startingOffsets", "endingOffsets"):
            options = {bound: {"t": {"0": middle}}, "failOnDataLoss": False, "includeControl": True}
            assert counted(tmp_path, **options) == read(tmp_path, **options)


def test_nothing_is_decompressed_but_batches_that_a_bound_cuts(tmp_path):
    assert count(SEGMENTS, **ONE_BYTE) == 1617
    batches = kafkarec.scan(CODECS)
    compressed = next(each for each in batches if each["compression"] == "zstd" and each["record_count"] > 1)
    log(tmp_path / "t-0", (0, CODECS))
    at_border = {"t": {"0": compressed["base_offset"]}}
    assert count(tmp_path, startingOffsets=at_border, **ONE_BYTE) == 865 - compressed["base_offset"]
    within = {"t": {"0": compressed["base_offset"] + 1}}
    assert count(tmp_path, startingOffsets=within) == 865 - compressed["base_offset"] - 1
    with pytest.raises(kafkarec.LimitExceededError):
        count(tmp_path, startingOffsets=within, **ONE_BYTE)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_transactions(tmp_path, data):
    events = data.draw(transaction_logs.logs())
    end = events[-1].last + 1 if events else 1
    middle = data.draw(st.integers(0, end))
    log(tmp_path / "t-0", (0, transaction_logs.as_bytes(events)))
    for bounds in ({}, {"startingOffsets": {"t": {"0": middle}}}, {"endingOffsets": {"t": {"0": max(1, middle)}}}):
        for control in (False, True):
            options = {"isolationLevel": "read_committed", "failOnDataLoss": False, "includeControl": control} | bounds
            assert counted(tmp_path, **options) == read(tmp_path, **options)


def test_partitions_and_files_without_a_name(tmp_path):
    log(tmp_path / "orders-2", (0, TXN))
    log(tmp_path / "orders-10", (0, TXN), (30, b""))
    log(tmp_path / "orders-11", (0, b""))
    (tmp_path / "blob").write_bytes(CODECS)
    found = count([str(tmp_path / "orders-*"), str(tmp_path / "blob")])
    assert list(found.partitions.items()) == [(str(tmp_path / "blob"), 865), ("orders-2", 30), ("orders-10", 30)]
    assert (found, str(found), f"{found:,}", found + 1) == (925, "925", "925", 926)
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.partitions) == (found, found.partitions)


def test_nothing_to_count(tmp_path):
    (tmp_path / "t-0").mkdir()
    found = count(tmp_path)
    assert (found, found.partitions) == (0, {})


# ---- damaged logs


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_log_is_counted_as_it_is_read(tmp_path, seed, mode):
    whole = golden.partition_bytes("txn-0")
    data = spoil(repeated(whole, 4, 1000), seed, 1 + seed % 4)
    log(tmp_path / "t-0", (0, data), (1_000_000, repeated(whole, 2, 1_000_000)[len(whole) : -7]))
    committed, small = {"isolationLevel": "read_committed"}, {"maxPartitionBytes": "16k"}
    for options in ({}, committed, {"restore": False}, small, committed | small):
        options = {"mode": mode} | options
        found = outcome(read, tmp_path, **options)
        assert outcome(counted, tmp_path, **options) == found, options
        assert 800 < found["t-0"] <= 5 * 267 if mode == "PERMISSIVE" else found[0] is kafkarec.CorruptRecordError


# The checksums of these batches are right; their records do not agree with their headers, or cannot be decompressed.
DECODING_SHOWS = {
    "header_count_invalid",
    "header_key_invalid",
    "header_value_invalid",
    "key_length_invalid",
    "limit_exceeded",
    "message_truncated",
    "payload_corrupt",
    "record_length_invalid",
    "record_structure_invalid",
    "records_left_over",
    "records_missing",
    "value_length_invalid",
    "varint_too_long",
}


def test_what_only_decoding_shows(tmp_path):
    """Of the invalid vectors: the same number or error, or an error of the data source for what only decoding shows."""
    same, reasons = 0, Counter()
    for case in golden.invalid():
        log(tmp_path / case.name / "t-0", (0, case.bytes))
        folder = tmp_path / case.name / "t-0"
        if outcome(read, folder) == outcome(counted, folder):
            same += 1
            assert outcome(read, folder, mode="PERMISSIVE") == outcome(counted, folder, mode="PERMISSIVE"), case
            continue
        with pytest.raises(kafkarec.KafkaRecordError) as error:
            read(folder)
        reasons[str(error.value.reason)] += 1
        declared = [1 if each is None else each for each in kafkarec.scan(case.bytes).column("record_count")]
        assert count(folder) == count(folder, mode="PERMISSIVE") == sum(declared), case
    assert set(reasons) == DECODING_SHOWS and same > 100, (reasons, same)


def test_without_checksums_a_damaged_payload_is_counted(tmp_path):
    batches = kafkarec.scan(TXN)
    last = batches[-1]
    log(tmp_path / "t-0", (0, flipped(TXN, last["position"] + last["size_in_bytes"] - 1)))
    with pytest.raises(kafkarec.CorruptRecordError, match="crc mismatch"):
        count(tmp_path)
    assert count(tmp_path, checkCrcs=False) == 30
    assert count(tmp_path, mode="PERMISSIVE") == 30 - last["record_count"]


def test_what_a_count_leaves_out_is_told_on_the_driver(tmp_path, caplog):
    late = repeated(TXN, 3, 30)[2 * len(TXN) :]  # offsets 60 to 89
    log(tmp_path / "t-0", (0, flipped(TXN, 275)), (60, late))  # in the batch of offsets 3 to 5
    records = count(tmp_path, mode="PERMISSIVE")
    told = [each.message for each in caplog.records if each.module == "read_functions"]
    first, call = tmp_path / "t-0" / f"{0:020}.log", f"; spark_udfs.damage_report(spark, {str(tmp_path)!r})"
    assert records == 27 + 30 and [each.endswith(call) for each in told] == [True, True]
    assert told[0].startswith(f"kafkarec count: {first}: offsets 30 to 59 are missing before")
    assert told[1].startswith("kafkarec count: ") and ": 1 damaged range is left out; " in told[1]


# ---- options


@pytest.mark.parametrize(
    "options, message",
    [
        ({"view": "batches"}, "option view is for read, not for count"),
        ({"columnNameOfCorruptRecord": "bad"}, "for read, stream, not for count"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"maxOffsetsPerTrigger": 5}, "is for stream, not for count"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        count(SEGMENTS / "txn-0", **options)


def test_paths_and_options_as_python_values():
    path = SEGMENTS / "txn-0"
    for each in (path, str(path), [path], {str(path)}):
        texts = option_texts(each, {"subscribe": {"txn"}, "assign": None, "minPartitions": 2})
        parsed = source_options.parse(texts, "read")
        assert (parsed.subscribe, parsed.assign, parsed.minPartitions) == (("txn",), None, 2)


@pytest.mark.parametrize(
    "path, options, message",
    [
        (None, {}, "path None: a str or Path, or several of them"),
        (5, {}, "path 5: "),
        (b"/backup", {}, "path b'/backup': "),
        ("/backup", {"assign": [1]}, "option assign=[1]: "),
        ("/backup", {"assign": {"txn": {0}}}, "option assign={'txn': {0}}: "),
    ],
)
def test_values_of_other_types(path, options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        option_texts(path, options)
