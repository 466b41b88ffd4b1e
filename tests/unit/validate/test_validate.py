"""validate: verdicts on the golden files, conversions as by a broker, and the result of accepted requests."""

import pickle

import builders
import golden
import plain_logs
import pytest
from builders import CODECS, NOW
from reading import uncompressed
from refusals import refused

import kafkarec
from kafkarec import ValidatedRecords, stamp, validate
from kafkarec.ops.validate import RecordValidationStats

pytestmark = pytest.mark.core

# ---- golden files


@pytest.mark.parametrize("case", golden.invalid(), ids=str)
def test_odd_bytes_are_accepted_and_refused_as_by_logvalidator(case):
    # with the origin that may write them: markers come from the coordinator
    origin = "coordinator" if case.name.startswith("control-") else "client"
    kafkas = case.json["paths"]["logValidator"]["exception"]
    # with no whole batch before the damage LogValidator has no input and does not refuse
    if kafkas is None and case.json["raised_by"] != "batches" and case.name != "v2-length-too-large":
        assert len(validate(case.bytes, check_crcs=False, origin=origin, now=NOW)) <= len(case.bytes)
        return
    error = refused(validate, case.bytes, check_crcs=False, origin=origin, now=NOW)
    assert kafkas != "RecordValidationException" or error.record_errors


@pytest.mark.parametrize(
    "case", [case for case in golden.invalid() if case.json["raised_by"] == "ensureValid"], ids=str
)
def test_checksums_are_checked_unless_turned_off(case):
    assert refused(validate, case.bytes).reason in ("crc_mismatch", "batch_too_small")


def sources(name, magic, codec):
    """Return the messages that a broker made the vector from."""
    rows = list(kafkarec.decode(golden.vector(name).bytes))
    times = [row.timestamp for row in rows]
    if name.endswith("logappend"):  # magic 0 has no timestamps: not compared
        times = [-1] * len(rows)
    plain = [
        builders.message(magic=magic, offset=i, key=row.key, value=row.value, timestamp=-1 if time is None else time)
        for i, (row, time) in enumerate(zip(rows, times, strict=True))
    ]
    if codec == "none":
        return b"".join(plain)
    last = {"offset": len(rows) - 1, "timestamp": max(-1 if time is None else time for time in times)}
    return builders.wrapper(plain, magic=magic, codec=codec, **last)


@pytest.mark.parametrize(
    "name, codec, source_magic, magic, timestamp_type",
    [
        ("broker-v1-none-to-v2", "none", 1, 2, "create_time"),
        ("broker-v0-none-to-v2-logappend", "none", 0, 2, "log_append_time"),
        ("broker-v1-snappy-to-v2-snappy", "snappy", 1, 2, "create_time"),
        ("broker-v0-gzip-to-v1-gzip", "gzip", 0, 1, "create_time"),
    ],
)
def test_conversions_are_those_of_a_broker(name, codec, source_magic, magic, timestamp_type):
    vector = golden.vector(name).bytes
    made = validate(
        sources(name, source_magic, codec),
        magic=magic,
        first_offset=kafkarec.decode(vector)[0].offset,
        timestamp_type=timestamp_type,
        partition_leader_epoch=12,
        now=1_700_000_500_000,
    )
    assert made.size_changed
    assert uncompressed(made) == uncompressed(vector)
    if codec == "none":
        assert made == vector


@pytest.mark.parametrize(
    "name", ["broker-v2-lz4-in-place-logappend", "v2-none-stamped-in-place", "v2-gzip-stamped-in-place"]
)
def test_a_batch_is_stamped_in_place_as_by_a_broker(name):
    case = golden.vector(name)
    [batch] = case.json["batches"]
    produced = bytearray(case.bytes)
    stamp(produced, base_offset=0, partition_leader_epoch=-1, timestamp_type="create_time", max_timestamp=5)
    made = validate(
        produced,
        first_offset=batch["baseOffset"],
        partition_leader_epoch=batch["partitionLeaderEpoch"],
        timestamp_type="log_append_time",
        now=batch["maxTimestamp"],
    )
    assert made == case.bytes and not made.size_changed


# ---- accepted requests


def test_the_result_is_bytes_with_kafkas_attributes():
    data = plain_logs.batch(0, 3, codec="lz4")
    made = validate(data, first_offset=100, partition_leader_epoch=4, now=NOW)
    assert isinstance(made, bytes) and len(made) == len(data)
    assert (made.log_append_time, made.max_timestamp, made.next_offset, made.size_changed) == (NOW, NOW + 2, 103, False)
    assert made.stats.records_converted == 0
    assert [row.offset for row in kafkarec.decode(made + made)] == [100, 101, 102] * 2
    assert "3 bytes" not in repr(made) and "next offset 103" in repr(made)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is ValidatedRecords and again == made and vars(again) == vars(made)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_callers_buffer_is_unchanged(kind):
    data = plain_logs.batch(0, 3)
    given = kind(data)
    made = validate(given, first_offset=9, timestamp_type="log_append_time", now=1)
    assert bytes(given) == data != made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compression", [*CODECS, "producer", None])
def test_each_codec_to_each_codec_or_the_producers(codec, compression):
    data = plain_logs.batch(0, 20, codec=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    target = compression if compression in CODECS else codec
    made = validate(data, compression=compression, first_offset=7, now=NOW)
    [batch] = kafkarec.scan(made)
    assert batch["compression"] == target
    assert (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]) == (5, 1, 3)
    assert made.size_changed == (codec != target)
    assert [row.value for row in kafkarec.decode(made)] == [row.value for row in kafkarec.decode(data)]
    assert made.stats.records_converted == (20 if codec != target else 0)


def test_the_level_is_the_targets():
    data = plain_logs.batch(0, 300, value=b"some text, number %d, again and again")
    fast, small = (validate(data, compression="zstd", level=level, now=NOW) for level in (-100, 19))
    assert len(small) < len(fast)
    with pytest.raises(ValueError, match="level"):
        validate(data, compression="gzip", level=0)


def test_uncompressed_messages_are_stamped_one_by_one():
    data = b"".join(builders.message(offset=0, timestamp=NOW + i) for i in range(4))
    made = validate(data, first_offset=40, timestamp_type="log_append_time", now=NOW + 99)
    rows = list(kafkarec.decode(made))
    assert [(row.offset, row.timestamp, row.timestamp_type) for row in rows] == [
        (40 + i, NOW + 99, 1) for i in range(4)
    ]
    assert made.stats == RecordValidationStats()


def test_a_cut_batch_at_the_end_is_left_out():
    data = plain_logs.batch(0, 2)
    assert len(validate(data + data[:40], now=NOW)) == len(data)


def test_falling_offsets_are_kept_in_an_uncompressed_batch():
    # LogValidator assigns offsets to an uncompressed batch without reading its deltas
    parts = [builders.record(offset_delta=delta) for delta in (2, 1, 0)]
    made = validate(builders.batch(parts), first_offset=1000, now=NOW)
    assert [row.offset for row in kafkarec.decode(made)] == [1002, 1001, 1000]


@pytest.mark.parametrize("origin", ["coordinator", "replication", "raft_leader", "COORDINATOR"])
def test_control_batches_are_accepted_from_other_origins_than_clients(origin):
    marker = builders.end_marker(0, 7, commit=True)
    made = validate(marker, origin=origin, first_offset=5, compression="zstd", now=NOW)
    assert made[21:] == marker[21:]  # a control batch is never compressed
    assert refused(validate, marker).reason == "control_batch_refused"


def test_an_empty_batch_of_a_replica_is_accepted():
    made = validate(builders.batch([]), origin="replication", first_offset=5, now=NOW)
    assert (made.next_offset, made.max_timestamp, len(made)) == (5, -1, 61)
    assert validate(builders.batch([]), origin="replication", compression="gzip", now=NOW) == b""
    for codec, wanted in (("none", "gzip"), ("gzip", "none")):
        with pytest.raises(kafkarec.InvalidRecordError):  # Kafka: NullPointerException
            data = builders.batch([], codec=codec)
            validate(data, origin="replication", compression=wanted, timestamp_type="log_append_time")


def test_header_keys_that_are_not_utf8_are_copied():
    # Kafka writes U+FFFD in their place: docs/differences.md
    data = plain_logs.batch(0, 1, headers=[(b"\xff", b"x")])
    made = validate(data, compression="lz4", now=NOW)
    assert next(iter(kafkarec.decode(made, header_keys="binary"))).headers[0][0] == b"\xff"
