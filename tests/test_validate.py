"""validate: verdicts on the golden files, what a broker wrote, what is refused and how it is told."""

from __future__ import annotations

import pickle
import struct
import zlib
from typing import Any

import builders
import golden
import pytest
from builders import CONTROL, LOG_APPEND, NOW, TRANSACTIONAL
from validating import CODECS, uncompressed

import kafkarec
from kafkarec.validation import RecordError, RecordValidationStats, ValidatedRecords, validate
from kafkarec.writing.stamping import stamp

# ---- golden files


@pytest.mark.parametrize("case", golden.invalid(), ids=str)
def test_odd_bytes_are_taken_and_refused_as_by_logvalidator(case: golden.Case) -> None:
    # made with every origin that may write them: markers are the coordinator's
    origin = "coordinator" if case.name.startswith("control-") else "client"
    kafkas = case.json["paths"]["logValidator"]["exception"]
    # with no whole batch in front of the damage there was nothing for LogValidator to see: it says nothing
    refused = kafkas is not None or case.json["raised_by"] == "batches" or case.name == "v2-length-too-large"
    if not refused:
        assert len(validate(case.bytes, check_crcs=False, origin=origin, now=NOW)) <= len(case.bytes)
        return
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        validate(case.bytes, check_crcs=False, origin=origin, now=NOW)
    assert caught.value.reason in kafkarec.errors.REASONS
    if kafkas == "RecordValidationException":
        assert caught.value.record_errors


@pytest.mark.parametrize(
    "case", [case for case in golden.invalid() if case.json["raised_by"] == "ensureValid"], ids=str
)
def test_checksums_are_checked_unless_they_are_not(case: golden.Case) -> None:
    with pytest.raises(kafkarec.CorruptRecordError) as caught:
        validate(case.bytes)
    assert caught.value.reason in ("crc_mismatch", "batch_too_small")


def sources(name: str, magic: int, codec: str) -> bytes:
    """The messages that a broker made the vector from."""
    rows = list(kafkarec.decode(golden.vector(name).bytes))
    times = [row.timestamp for row in rows]
    if name.endswith("logappend"):  # the times of magic 0 are lost, and nobody asks
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
    ("name", "codec", "source_magic", "magic", "first_offset", "timestamp_type"),
    [
        ("broker-v1-none-to-v2", "none", 1, 2, 55, "create_time"),
        ("broker-v0-none-to-v2-logappend", "none", 0, 2, 55, "log_append_time"),
        ("broker-v1-snappy-to-v2-snappy", "snappy", 1, 2, 4, "create_time"),
        ("broker-v0-gzip-to-v1-gzip", "gzip", 0, 1, 4, "create_time"),
    ],
)
def test_conversions_are_those_of_a_broker(
    name: str, codec: str, source_magic: int, magic: int, first_offset: int, timestamp_type: str
) -> None:
    vector = golden.vector(name).bytes
    first_offset = next(iter(kafkarec.decode(vector))).offset
    made = validate(
        sources(name, source_magic, codec),
        magic=magic,
        first_offset=first_offset,
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
def test_a_batch_is_stamped_in_place_as_by_a_broker(name: str) -> None:
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


# ---- what is taken


def test_the_result_is_bytes_with_what_kafka_tells_of_them() -> None:
    data = builders.good_batch(3, codec="lz4")
    made = validate(data, first_offset=100, partition_leader_epoch=4, now=NOW)
    assert isinstance(made, bytes) and len(made) == len(data)
    assert (made.log_append_time, made.max_timestamp, made.next_offset, made.size_changed) == (NOW, NOW + 2, 103, False)
    assert made.stats.temporary_memory_bytes == 61 + sum(map(len, builders.records(3)))
    assert made.stats.records_converted == 0
    assert [row.offset for row in kafkarec.decode(made + made)] == [100, 101, 102] * 2
    assert "3 bytes" not in repr(made) and "next offset 103" in repr(made)


def test_a_result_can_be_sent_to_another_process() -> None:
    made = validate(builders.good_batch(2), compression="gzip", now=NOW)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is ValidatedRecords and again == made and again.stats == made.stats


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_callers_buffer_stays_as_it_is(kind: Any) -> None:
    data = builders.good_batch(3)
    given = kind(data)
    made = validate(given, first_offset=9, timestamp_type="log_append_time", now=1)
    assert bytes(given) == data != made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_each_codec_to_each_codec(codec: str, target: str) -> None:
    data = builders.good_batch(20, codec=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    made = validate(data, compression=target, first_offset=7, now=NOW)
    [batch] = kafkarec.scan(made)
    assert batch["compression"] == target
    assert (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]) == (5, 1, 3)
    assert made.size_changed == (codec != target)
    assert [row.value for row in kafkarec.decode(made)] == [row.value for row in kafkarec.decode(data)]
    assert made.stats.records_converted == (20 if codec != target else 0)


def test_the_level_is_the_targets() -> None:
    data = builders.batch(builders.records(300, value=b"some text, number %d, again and again"))
    fast, small = (validate(data, compression="zstd", level=level, now=NOW) for level in (-100, 19))
    assert len(small) < len(fast)
    with pytest.raises(ValueError, match="level"):
        validate(data, compression="gzip", level=0)


def test_plain_messages_are_stamped_one_by_one() -> None:
    data = b"".join(builders.message(offset=0, timestamp=NOW + i) for i in range(4))
    made = validate(data, first_offset=40, timestamp_type="log_append_time", now=NOW + 99)
    rows = list(kafkarec.decode(made))
    assert [(row.offset, row.timestamp, row.timestamp_type) for row in rows] == [
        (40 + i, NOW + 99, 1) for i in range(4)
    ]
    assert made.stats == RecordValidationStats()


def test_a_cut_batch_at_the_end_is_left_out() -> None:
    data = builders.good_batch(2)
    assert len(validate(data + data[:40], now=NOW)) == len(data)


def test_records_whose_offsets_descend_stay_so_uncompressed() -> None:
    # LogValidator assigns offsets to an uncompressed batch without a look at its deltas
    parts = [builders.record(offset_delta=delta) for delta in (2, 1, 0)]
    made = validate(builders.batch(parts), first_offset=1000, now=NOW)
    assert [row.offset for row in kafkarec.decode(made)] == [1002, 1001, 1000]


@pytest.mark.parametrize("origin", ["coordinator", "replication", "raft_leader", "COORDINATOR"])
def test_control_batches_are_taken_from_others_than_clients(origin: str) -> None:
    marker = builders.end_marker(commit=True, producer_id=7)
    made = validate(marker, origin=origin, first_offset=5, compression="zstd", now=NOW)
    assert made[21:] == marker[21:]  # a control batch is never compressed
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        validate(marker)
    assert caught.value.reason == "control_batch_refused"


def test_an_empty_batch_of_a_replica_is_taken() -> None:
    made = validate(builders.batch([]), origin="replication", first_offset=5, now=NOW)
    assert made.next_offset == 5 and len(made) == 61
    assert validate(builders.batch([]), origin="replication", compression="gzip", now=NOW) == b""
    with pytest.raises(kafkarec.InvalidRecordError):  # Kafka: NullPointerException
        validate(builders.batch([]), origin="replication", compression="gzip", timestamp_type="log_append_time")


def test_header_keys_that_are_not_utf8_are_copied() -> None:
    # Kafka writes U+FFFD in their place: docs/differences.md
    data = builders.batch([builders.record(headers=[(b"\xff", b"x")])])
    made = validate(data, compression="lz4", now=NOW)
    assert next(iter(kafkarec.decode(made, header_keys="binary"))).headers[0][0] == b"\xff"


# ---- what is refused

ONE = builders.records(1)
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
REFUSED: list[tuple[str, bytes, dict[str, Any], str, int | None, int | None]] = [
    ("nothing", b"", {}, "request_empty", None, None),
    ("two batches", builders.good_batch() * 2, {}, "batch_not_alone", None, None),
    ("two batches of a replica", builders.good_batch() * 2, {"origin": "replication"}, "batch_not_alone", None, None),
    (
        "two wrappers",
        builders.wrapper([builders.message()]) * 2,
        {},
        "batch_not_alone",
        None,
        None,
    ),
    (
        "two magics",
        builders.message(magic=1) + builders.message(magic=0),
        {},
        "batch_magic_differs",
        1,
        0,
    ),
    ("range", builders.batch(ONE, last_offset_delta=-1, base_offset=9), {}, "offset_range_invalid", 9, 8),
    ("count 0", builders.batch(ONE, count=0), {}, "record_count_invalid", 1, 0),
    ("count -1", builders.batch(ONE, count=-1), {}, "record_count_invalid", 1, -1),
    ("count and range", builders.batch(ONE, last_offset_delta=4), {}, "record_count_mismatch", 5, 1),
    ("control", builders.batch(ONE, attributes=CONTROL), {}, "control_batch_refused", None, None),
    ("no sequence", builders.batch(ONE, producer_id=7, base_sequence=-1), {}, "sequence_invalid", 0, -1),
    ("magic 1 of a producer", builders.batch(ONE, **PRODUCER), {"magic": 1}, "magic_unfit", 2, 1),
    (
        "magic 0 of a transaction",
        builders.batch(ONE, attributes=TRANSACTIONAL),
        {"magic": 0},
        "magic_unfit",
        2,
        0,
    ),
    (
        "magic 1 with headers",
        builders.batch([builders.record(headers=[(b"secret", b"x")])]),
        {"magic": 1},
        "magic_unfit",
        2,
        1,
    ),
    ("magic 1 with zstd", builders.good_batch(), {"magic": 1, "compression": "zstd"}, "unsupported_codec", 3, 4),
    ("magic 1 in zstd", builders.wrapper([builders.message()], codec="zstd"), {}, "unsupported_codec", 3, 4),
    ("codec 5", builders.batch(ONE, codec=5), {}, "unsupported_codec", 4, 5),
    (
        "negative time",
        builders.batch([builders.record()], base_timestamp=-9),
        {"compression": "gzip"},
        "timestamp_negative",
        -1,
        -9,
    ),
    (
        "transactional without producer",
        builders.batch(ONE, attributes=TRANSACTIONAL),
        {"compression": "gzip"},
        "producer_state_invalid",
        None,
        None,
    ),
    (
        "producer without epoch",
        builders.batch(ONE, producer_id=7, producer_epoch=-1, base_sequence=0),
        {"compression": "gzip"},
        "producer_state_invalid",
        None,
        None,
    ),
    (
        "gaps in a compressed batch",
        builders.batch([builders.record(offset_delta=i) for i in (0, 2, 1)], codec="gzip"),
        {},
        "offsets_out_of_order",
        None,
        None,
    ),
    (
        "inner checksum",
        builders.wrapper([builders.message(crc=1)]),
        {},
        "inner_crc_mismatch",
        1,
        zlib.crc32(builders.message()[16:]),
    ),
    ("too large", builders.good_batch(), {"max_message_bytes": 50}, "batch_too_large", 50, len(builders.good_batch())),
    (
        "a client's base offset",
        builders.good_batch(base_offset=3),
        {"append_checks": True},
        "base_offset_not_zero",
        0,
        3,
    ),
    (
        "a raft leader's epoch",
        builders.good_batch(leader_epoch=3),
        {"append_checks": True, "origin": "raft_leader", "partition_leader_epoch": 4},
        "leader_epoch_differs",
        4,
        3,
    ),
    (
        "a follower's order",
        builders.good_batch(2, base_offset=5) + builders.good_batch(1, base_offset=6),
        {"assign_offsets": False},
        "offsets_out_of_order",
        6,
        6,
    ),
    (
        "a follower's begin",
        builders.good_batch(2, base_offset=5),
        {"assign_offsets": False, "first_offset": 6},
        "offsets_out_of_order",
        5,
        5,
    ),
]


@pytest.mark.parametrize(("name", "data", "options", "reason", "expected", "found"), REFUSED, ids=lambda one: None)
def test_a_refusal_has_its_reason_and_both_sides(
    name: str, data: bytes, options: dict[str, Any], reason: str, expected: int | None, found: int | None
) -> None:
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        validate(data, **options)
    error = caught.value
    assert (error.reason, type(error)) == (reason, kafkarec.errors.REASONS[reason].error), name
    if expected is not None:
        assert (error.expected, error.found) == (expected, found)
    assert error.position is not None and "secret" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason, again.record_errors) == (str(error), error.reason, error.record_errors)


@pytest.mark.parametrize("codec", CODECS)
def test_each_record_without_a_key_is_told_on_a_compacted_topic(codec: str) -> None:
    parts = [builders.record(offset_delta=i, key=key) for i, key in enumerate((b"k", None, b"", None))]
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        validate(builders.batch(parts, codec=codec), compacted=True)
    assert caught.value.reason == "records_rejected"
    words = "it has no key, and the topic is compacted"
    assert caught.value.record_errors == (RecordError(1, words), RecordError(3, words))
    assert "in number 2" in str(caught.value)


@pytest.mark.parametrize(
    ("times", "wrong"),
    [
        ((NOW - 10, NOW, NOW + 20), ()),
        ((NOW - 11, NOW, NOW + 21), (0, 2)),
        ((-1, -1, -1), ()),
        ((0, 2**63 - 1, -2), (0, 1, 2)),
    ],
)
def test_create_times_have_to_be_near_to_now(times: tuple[int, ...], wrong: tuple[int, ...]) -> None:
    parts = [builders.record(offset_delta=i, timestamp_delta=time - NOW) for i, time in enumerate(times)]
    limits = {"timestamp_before_max_ms": 10, "timestamp_after_max_ms": 20, "now": NOW}
    data = builders.batch(parts, codec="zstd")
    assert validate(data, timestamp_type="log_append_time", now=NOW).max_timestamp == NOW
    if not wrong:
        assert validate(data, **limits).max_timestamp == max(times)
        return
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        validate(data, **limits)
    assert caught.value.reason == "timestamps_rejected"
    assert caught.value.record_errors is not None
    assert [index for index, _ in caught.value.record_errors] == list(wrong)
    assert f"timestamp {times[wrong[0]]} of offset {wrong[0]}" in str(caught.value)
    assert f"from {NOW - 10} to {NOW + 20}" in str(caught.value)


def test_a_producer_does_not_set_log_append_time() -> None:
    data = builders.batch(builders.records(2), attributes=LOG_APPEND)
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        validate(data, timestamp_type="log_append_time")
    assert caught.value.reason == "timestamps_rejected"
    made = validate(data, now=NOW)  # LogValidator looks at the range alone where create times are wanted
    assert {row.timestamp_type for row in kafkarec.decode(made)} == {0}


def test_a_message_of_another_magic_than_its_wrapper_is_refused() -> None:
    data = builders.wrapper([builders.message(magic=0)], magic=1)
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        validate(data)
    assert caught.value.record_errors == (RecordError(0, "its magic 0 is not the outer magic 1"),)


@pytest.mark.parametrize("length", [0, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("codec", CODECS)
def test_record_lengths_are_only_looked_at_where_kafka_does(codec: str, length: int) -> None:
    # a broker takes what its consumers fail on: KAFKA-8106's partial reader skips the length
    data = builders.batch([builders.record(length=length)], codec=codec)
    other = "gzip" if codec != "gzip" else "lz4"
    with pytest.raises(kafkarec.InvalidRecordError):
        validate(data, compression=other)
    if codec == "none":
        with pytest.raises(kafkarec.InvalidRecordError):
            validate(data)
    else:
        assert validate(data, now=NOW)[61:] == data[61:]


def test_a_batch_cut_inside_is_refused_at_each_byte() -> None:
    inner = b"".join(builders.records(2, headers=[(b"h", b"v")]))
    for size in range(len(inner)):
        for codec in ("none", "snappy"):
            payload = builders.compress(codec, inner[:size])
            data = builders.batch([b""] * 2, codec=codec, payload=payload, count=2)
            with pytest.raises(kafkarec.KafkaRecordError):
                validate(data)


def test_a_payload_above_the_limit_is_refused_by_its_option() -> None:
    data = builders.batch([builders.record(value=bytes(1 << 20))], codec="gzip")
    with pytest.raises(kafkarec.LimitExceededError, match="max_decompressed_bytes=1000 "):
        validate(data, max_decompressed_bytes=1000)
    huge = builders.batch([builders.record(header_count=2**31 - 1, headers=[(b"", b"")])], codec="lz4")
    with pytest.raises(kafkarec.InvalidRecordError):
        validate(huge)


def test_a_follower_takes_batches_as_they_are() -> None:
    data = builders.good_batch(2, base_offset=5) + builders.good_batch(3, base_offset=9, codec="gzip")
    made = validate(data + b"cut", assign_offsets=False, first_offset=5)
    assert made == data and made.next_offset == 12 and made.max_timestamp == NOW + 2
    assert validate(b"", assign_offsets=False, first_offset=5).next_offset == 5


@pytest.mark.parametrize(
    "options",
    [
        {"magic": 3},
        {"magic": True},
        {"compression": "brotli"},
        {"timestamp_type": "never"},
        {"origin": "me"},
        {"first_offset": 2**63},
        {"partition_leader_epoch": 2**31},
        {"timestamp_after_max_ms": 2**63},
        {"max_decompressed_bytes": -1},
        {"now": 2**63},
    ],
)
def test_options_that_do_not_fit_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options)).split("_max")[0].replace("_", ".?")) as caught:
        validate(builders.good_batch(), **options)
    assert not isinstance(caught.value, kafkarec.KafkaRecordError)


def test_a_message_too_short_for_its_fields_is_taken_in_place_only() -> None:
    # 14 bytes of magic 1 end behind the timestamp; Kafka frames and stamps it, and no consumer can read it
    body = struct.pack(">bbq", 1, 0, NOW)
    data = struct.pack(">qiI", 0, 14, zlib.crc32(body)) + body
    assert validate(data, first_offset=3, now=NOW)[8:] == data[8:]
    for options in ({"magic": 2}, {"compacted": True}):
        with pytest.raises(kafkarec.KafkaRecordError):
            validate(data, **options)  # type: ignore[arg-type]
