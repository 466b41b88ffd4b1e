"""validate: refusals, with reason, numbers and the refused records."""

import pickle
import struct
import zlib

import builders
import pytest
from builders import CODECS, CONTROL, LOG_APPEND, NOW, TRANSACTIONAL
from core_reading import error_fields
from core_records import REFUSED as BAD_RECORDS
from plain_logs import batch
from refusals import refused

import kafkarec
from kafkarec import codecs, validate
from kafkarec.ops.validate import RecordError

pytestmark = pytest.mark.core

ONE = builders.records(1)
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
# 34 bytes, of magic 2 and leader epoch 3.
SHORT = bytes(8) + (22).to_bytes(4, "big") + (3).to_bytes(4, "big") + bytes([2]) + bytes(17)
# the bytes, the options, the reason, and the two sides of the comparison
REFUSED = {
    "nothing": (b"", {}, "request_empty"),
    "two batches": (batch(0, 3) * 2, {}, "batch_not_alone"),
    "two batches of a replica": (batch(0, 3) * 2, {"origin": "replication"}, "batch_not_alone"),
    "two wrappers": (builders.wrapper([builders.message()]) * 2, {}, "batch_not_alone"),
    "two magics": (builders.message(magic=1) + builders.message(magic=0), {}, "batch_magic_differs", 1, 0),
    "range": (builders.batch(ONE, last_offset_delta=-1, base_offset=9), {}, "offset_range_invalid", 9, 8),
    "count 0": (builders.batch(ONE, count=0), {}, "record_count_invalid", 1, 0),
    "count -1": (builders.batch(ONE, count=-1), {}, "record_count_invalid", 1, -1),
    "count and range": (builders.batch(ONE, last_offset_delta=4), {}, "record_count_mismatch", 5, 1),
    "control": (builders.batch(ONE, attributes=CONTROL), {}, "control_batch_refused"),
    "no sequence": (builders.batch(ONE, producer_id=7, base_sequence=-1), {}, "sequence_invalid", 0, -1),
    "magic 1 of a producer": (builders.batch(ONE, **PRODUCER), {"magic": 1}, "magic_unfit", 2, 1),
    "magic 0 of a transaction": (builders.batch(ONE, attributes=TRANSACTIONAL), {"magic": 0}, "magic_unfit", 2, 0),
    "magic 1 with headers": (
        batch(0, 1, headers=[(b"secret", b"x")]),
        {"magic": 1},
        "magic_unfit",
        2,
        1,
    ),
    "magic 1 with zstd": (batch(0, 3), {"magic": 1, "compression": "zstd"}, "unsupported_codec", 3, 4),
    "magic 1 in zstd": (builders.wrapper([builders.message()], codec="zstd"), {}, "unsupported_codec", 3, 4),
    "codec 5": (builders.batch(ONE, codec=5), {}, "unsupported_codec", 4, 5),
    "negative time": (
        batch(0, 1, base_timestamp=-9),
        {"compression": "gzip"},
        "timestamp_negative",
        -1,
        -9,
    ),
    "transactional without producer": (
        builders.batch(ONE, attributes=TRANSACTIONAL),
        {"compression": "gzip"},
        "producer_state_invalid",
    ),
    "producer without epoch": (
        builders.batch(ONE, producer_id=7, producer_epoch=-1, base_sequence=0),
        {"compression": "gzip"},
        "producer_state_invalid",
    ),
    "a replica's producer without sequence": (
        builders.batch(ONE, producer_id=7, producer_epoch=0, base_sequence=-1),
        {"compression": "gzip", "origin": "replication"},
        "producer_state_invalid",
    ),
    "producer id -2 in magic 1": (
        builders.batch(ONE, producer_id=-2, producer_epoch=0, base_sequence=0),
        {"magic": 1},
        "magic_unfit",
        2,
        1,
    ),
    "gaps in a compressed batch": (
        builders.batch([builders.record(offset_delta=i) for i in (0, 2, 1)], codec="gzip"),
        {},
        "offsets_out_of_order",
    ),
    "inner checksum": (
        builders.wrapper([builders.message(crc=1)]),
        {},
        "inner_crc_mismatch",
        1,
        zlib.crc32(builders.message()[16:]),
    ),
    "too large": (batch(0, 3), {"max_message_bytes": 50}, "batch_too_large", 50, len(batch(0, 3))),
    "a client's base offset": (
        batch(3, 3),
        {"append_checks": True},
        "base_offset_not_zero",
        0,
        3,
    ),
    "a raft leader's epoch": (
        batch(0, 3, epoch=3),
        {"append_checks": True, "origin": "raft_leader", "partition_leader_epoch": 4},
        "leader_epoch_differs",
        4,
        3,
    ),
    "a batch too small for its header": (
        SHORT,
        {"append_checks": True, "origin": "raft_leader", "partition_leader_epoch": 3},
        "batch_too_small",
        61,
        34,
    ),
    "a raft leader's epoch in such a batch, which Kafka compares first": (
        SHORT,
        {"append_checks": True, "origin": "raft_leader", "partition_leader_epoch": 4},
        "leader_epoch_differs",
        4,
        3,
    ),
    "a follower's order": (
        batch(5, 2) + batch(6, 1),
        {"assign_offsets": False},
        "offsets_out_of_order",
        6,
        6,
    ),
    "a follower's begin": (
        batch(5, 2),
        {"assign_offsets": False, "first_offset": 6},
        "offsets_out_of_order",
        5,
        5,
    ),
}

BAD_MESSAGES = {
    "checksum": lambda good: builders.patched(good, 13, b"\x55"),
    "last byte": builders.flipped,
    "compressed": lambda good: builders.message(magic=good[16], attributes=1),
    "compressed and stamped": lambda good: builders.message(magic=good[16], attributes=8 + 3),
    "size": lambda good: builders.patched(good, 8, struct.pack(">i", 13)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_has_its_reason_and_both_sides(name):
    data, options, reason, *sides = REFUSED[name]
    error = refused(validate, data, **options)
    assert error.reason == reason
    assert not sides or [error.expected, error.found] == sides
    assert error.position is not None and "secret" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason, again.record_errors) == (str(error), error.reason, error.record_errors)


def assert_refused_as_by_the_reader(data, check_crcs=True, **options):
    ours, readers = refused(validate, data, **options), refused(kafkarec.decode, data, check_crcs=check_crcs)
    assert (error_fields(ours), str(ours)) == (error_fields(readers), str(readers)), data.hex()


@pytest.mark.parametrize("reason", BAD_RECORDS)
def test_a_bad_record_is_refused_as_by_the_reader(reason):
    """Where all records are written anew; the code that checks them skips keys, values and headers."""
    for fields, *_ in BAD_RECORDS[reason]:
        assert_refused_as_by_the_reader(builders.batch([builders.sized(fields)]), compression="gzip")


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_wrong_count_of_records_is_refused_as_by_the_reader(count):
    data = builders.batch(builders.records(3), count=count, last_offset_delta=count - 1, codec="lz4")
    assert_refused_as_by_the_reader(data, compression="gzip", origin="replication")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_a_bad_inner_message_is_refused_as_by_the_reader(name, magic):
    good = builders.message(magic=magic, offset=0, value=b"v" * 80)
    for parts in ([BAD_MESSAGES[name](good)], [good, BAD_MESSAGES[name](good)]):
        data = builders.wrapper(parts, magic=magic, offset=len(parts) - 1)
        assert_refused_as_by_the_reader(data, check_crcs="all")


@pytest.mark.parametrize("codec", CODECS)
def test_each_record_without_a_key_is_reported_on_a_compacted_topic(codec):
    parts = [builders.record(offset_delta=i, key=key) for i, key in enumerate((b"k", None, b"", None))]
    error = refused(validate, builders.batch(parts, codec=codec), compacted=True)
    assert error.reason == "records_rejected"
    words = "it has no key, and the topic is compacted"
    assert error.record_errors == (RecordError(1, words), RecordError(3, words))
    assert "in number 2" in str(error)


@pytest.mark.parametrize(
    "times, wrong",
    [
        ((NOW - 10, NOW, NOW + 20), ()),
        ((NOW + 20, NOW - 10), ()),
        ((NOW - 11, NOW, NOW + 21), (0, 2)),
        ((-1, -1, -1), ()),
        ((0, 2**63 - 1, -2), (0, 1, 2)),
    ],
)
def test_create_times_must_be_near_to_now(times, wrong):
    parts = [builders.record(offset_delta=i, timestamp_delta=time - NOW) for i, time in enumerate(times)]
    limits = {"timestamp_before_max_ms": 10, "timestamp_after_max_ms": 20, "now": NOW}
    data = builders.batch(parts, codec="zstd")
    assert validate(data, timestamp_type="log_append_time", now=NOW).max_timestamp == NOW
    if not wrong:
        assert validate(data, **limits).max_timestamp == max(times)
        return
    error = refused(validate, data, **limits)
    assert error.reason == "timestamps_rejected"
    assert [index for index, _ in error.record_errors] == list(wrong)
    assert f"timestamp {times[wrong[0]]} of offset {wrong[0]}" in str(error)
    assert f"from {NOW - 10} to {NOW + 20}" in str(error)


def test_a_producer_does_not_set_log_append_time():
    data = batch(0, 2, attributes=LOG_APPEND)
    assert refused(validate, data, timestamp_type="log_append_time").reason == "timestamps_rejected"
    made = validate(data, now=NOW)  # LogValidator checks only the range where create times are required
    assert {row.timestamp_type for row in kafkarec.decode(made)} == {0}


def test_a_message_of_another_magic_than_its_wrapper_is_refused():
    error = refused(validate, builders.wrapper([builders.message(magic=0)], magic=1))
    assert error.record_errors == (RecordError(0, "its magic 0 is not the outer magic 1"),)


@pytest.mark.parametrize("length", [0, 9000, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("codec", CODECS)
def test_record_lengths_are_only_checked_where_kafka_does(codec, length):
    # a broker accepts what its consumers refuse: KAFKA-8106's partial reader skips the length; since 4.4 not a negative
    # one, nor one above max.decompressed.message.bytes
    data = builders.batch([builders.record(length=length)], codec=codec)
    other = "gzip" if codec != "gzip" else "lz4"
    assert isinstance(refused(validate, data, compression=other), kafkarec.InvalidRecordError)
    if codec == "none" or not 0 <= length < 2**31 - 8:
        assert isinstance(refused(validate, data), kafkarec.InvalidRecordError)
    else:
        assert validate(data, now=NOW)[61:] == data[61:]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_record_above_max_decompressed_message_bytes_is_refused(codec):
    data = builders.batch([builders.record(offset_delta=i, value=bytes(n)) for i, n in enumerate((3, 90))], codec=codec)
    size = len(builders.record(offset_delta=1, value=bytes(90))) - 2  # without its length
    for options in ({}, {"compression": "none"}, {"compression": "gzip", "magic": 1}):
        assert validate(data, now=NOW, max_decompressed_message_bytes=size, **options)
        error = refused(validate, data, now=NOW, max_decompressed_message_bytes=size - 1, compacted=True, **options)
        assert f"record 1 of its batch: at most {size - 1}, found {size}" in str(error)
        assert error.reason == "record_too_large"


@pytest.mark.parametrize("magic", [0, 1])
def test_an_inner_message_above_max_decompressed_message_bytes_is_refused(magic):
    inner = [builders.message(magic=magic, offset=i, value=bytes(90 * i)) for i in range(2)]
    data, size = builders.wrapper(inner, magic=magic, codec="gzip"), len(inner[1]) - 12  # without offset and size
    assert validate(data, now=NOW, max_decompressed_message_bytes=size)
    error = refused(validate, data, now=NOW, max_decompressed_message_bytes=size - 1)
    assert (error.reason, error.expected, error.found) == ("record_too_large", size - 1, size)


def test_max_decompressed_message_bytes_is_for_compressed_batches():
    assert validate(batch(0, 1, value=bytes(90)), now=NOW, max_decompressed_message_bytes=1)


def test_a_batch_cut_at_any_byte_is_refused():
    inner = b"".join(builders.records(2, headers=[(b"h", b"v")]))
    for size in range(len(inner)):
        for codec in ("none", "snappy"):
            payload = builders.compress(codec, inner[:size])
            refused(validate, builders.batch([b""] * 2, codec=codec, payload=payload, count=2))


def test_a_payload_above_the_limit_is_refused_and_the_option_named():
    data = batch(0, 1, codec="gzip", value=bytes(1 << 20))
    error = refused(validate, data, max_decompressed_bytes=1000)
    assert error.reason == "limit_exceeded" and "max_decompressed_bytes=1000 " in str(error)
    huge = builders.batch([builders.record(header_count=2**31 - 1, headers=[(b"", b"")])], codec="lz4")
    assert isinstance(refused(validate, huge), kafkarec.InvalidRecordError)


def test_a_follower_accepts_batches_unchanged():
    data = batch(5, 2) + batch(9, 3, codec="gzip")
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
        {"max_message_bytes": 2**63},
        *({"max_decompressed_message_bytes": value} for value in (0, 2**31 - 8, "1")),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options)).split("_max")[0].replace("_", ".?")) as caught:
        validate(batch(0, 3), **options)
    assert not isinstance(caught.value, kafkarec.KafkaRecordError)


def cut_message(left=b""):
    """A message of magic 1 that ends with these bytes after its timestamp."""
    body = struct.pack(">bbq", 1, 0, NOW) + left
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


def test_a_message_too_short_for_its_fields_is_accepted_in_place_only():
    data = cut_message()  # Kafka frames and stamps it, and no consumer can read it
    assert validate(data, first_offset=3, now=NOW)[8:] == data[8:]
    for options, reason in (({"magic": 2}, "batch_too_small"), ({"compacted": True}, "message_truncated")):
        assert refused(validate, data, **options).reason == reason


@pytest.mark.parametrize("left", range(5))
def test_a_message_that_ends_in_the_length_of_its_key_is_no_message_without_a_key(left):
    error = refused(validate, cut_message(b"\xff" * left), compacted=True)
    sides = error.reason, error.expected, error.found
    assert sides == (("message_truncated", 4, left) if left < 4 else ("records_rejected", None, None))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_has_a_key_if_the_length_of_it_is_not_negative(magic):
    """Kafka reads no more of a message that it does not rewrite. Both lengths read as the other sign a byte later."""
    has_key, has_none = (builders.message(magic=magic, key_length=length) for length in (0xFFFFFF, -(1 << 24)))
    assert validate(has_key, magic=magic, compacted=True, now=NOW) == has_key
    assert refused(validate, has_none, magic=magic, compacted=True, now=NOW).reason == "records_rejected"


def test_of_many_wrong_records_the_first_ten_thousand_are_reported():
    parts = [builders.record(offset_delta=i, key=None) for i in range(10_003)]
    error = refused(validate, builders.batch(parts, codec="zstd"), compacted=True)
    assert "in number 10003, the first three: record 0" in str(error)
    assert [index for index, _ in error.record_errors] == list(range(10_000))


def test_a_message_that_overruns_is_reported_before_a_wrong_timestamp_where_all_are_rewritten():
    # LogValidator reads all records first, to compute the result's size
    data = builders.message(timestamp=0) + builders.message(key_length=900)
    assert refused(validate, data, timestamp_before_max_ms=5, now=NOW).reason == "timestamps_rejected"
    assert refused(validate, data, timestamp_before_max_ms=5, now=NOW, magic=2).reason == "message_truncated"


@pytest.mark.parametrize(
    "parts, reason",
    [
        ([{"headers": [(b"h", b"")]}, {"timestamp_delta": -9}], "magic_unfit"),
        ([{"timestamp_delta": -9}, {"headers": [(b"h", b"")]}], "timestamps_rejected"),
        ([{}, {"timestamp_delta": -9}], "timestamps_rejected"),
        ([{"timestamp_delta": -1 - NOW}, {"timestamp_delta": -9}], "timestamps_rejected"),
    ],
)
def test_the_first_record_that_cannot_be_converted_or_accepted_decides(parts, reason):
    data = builders.batch([builders.record(offset_delta=number, **one) for number, one in enumerate(parts)])
    assert refused(validate, data, magic=1, timestamp_before_max_ms=5, now=NOW).reason == reason


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_without_a_key_or_out_of_the_range_of_times(magic, packed):
    """Magic 0 has no timestamp. Uncompressed messages are batches of their own."""
    rows = enumerate((b"k", None, b"", None))
    parts = [builders.message(magic=magic, offset=row, key=key, timestamp=NOW - row) for row, key in rows]
    data = builders.wrapper(b"".join(parts), magic=magic, offset=3) if packed else b"".join(parts)
    error = refused(validate, data, compacted=True, now=NOW)
    assert [index for index, _ in error.record_errors] == ([1, 3] if packed else [0])
    if magic == 0:
        assert validate(data, timestamp_before_max_ms=2, now=NOW).max_timestamp == -1
        return
    assert f"timestamp {NOW - 3} of offset 3 " in str(refused(validate, data, timestamp_before_max_ms=2, now=NOW))


def test_records_with_log_append_time_have_that_of_their_batch():
    data = batch(0, 2, attributes=LOG_APPEND, base_timestamp=NOW - 90, max_timestamp=NOW)
    assert validate(data, timestamp_before_max_ms=5, now=NOW).max_timestamp == NOW


def test_the_codecs_header_of_an_empty_batch_is_checked():
    data = builders.batch([], codec="gzip", payload=b"no gzip")
    assert validate(data, origin="replication", now=NOW)[61:] == b"no gzip"
    assert refused(validate, data, origin="replication", compression="none").reason == "payload_corrupt"


def test_a_missing_library_is_named(monkeypatch):
    def missing(*_):
        raise codecs.MissingCodec("lz4", "some-library")

    monkeypatch.setattr(codecs, "decompress", missing)
    with pytest.raises(kafkarec.MissingCodecError, match="pip install some-library"):
        validate(batch(0, 3, codec="lz4"))
