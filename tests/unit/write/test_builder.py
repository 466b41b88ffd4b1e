"""RecordBatchBuilder: limits, order of calls, refusals without effect. tests/jvm/test_builder.py has Kafka's bytes."""

from datetime import UTC, datetime

import pytest

import kafkarec
from kafkarec import RecordBatchBuilder, codecs
from kafkarec._writer import forget_options
from kafkarec.codecs.codec_errors import MissingCodec
from kafkarec.write import builder as builder_module

pytestmark = pytest.mark.core


TRANSACTION = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0, "is_transactional": True}


def test_fields_of_the_batch():
    fields = {"partition_leader_epoch": 5, "base_offset": 100, **TRANSACTION}
    made = RecordBatchBuilder(compression="lz4", **fields)
    made.append(10, b"k", b"v")
    made.append(9, b"k", b"v", offset=120)
    [batch] = kafkarec.batches(made.build())
    assert {name: getattr(batch, name) for name in fields} == fields
    assert (batch.last_offset, batch.base_timestamp, batch.max_timestamp, batch.record_count) == (120, 10, 10, 2)
    assert [getattr(made, name) for name in ("producer_id", "producer_epoch", "base_sequence")] == [7, 1, 0]
    assert made.is_transactional and not made.is_control and made.compression is kafkarec.Compression.LZ4
    assert (made.magic, made.base_offset, made.last_offset, made.next_offset, len(made)) == (2, 100, 120, 121, 2)


def test_offsets_continue_from_the_last_record():
    made = RecordBatchBuilder(base_offset=10)
    assert [made.append(0, None, None) for _ in range(2)] == [10, 11]
    assert made.append(0, None, None, offset=20) == 20
    assert made.append(0, None, None) == 21
    with pytest.raises(ValueError, match="offset 21 does not follow the last offset 21"):
        made.append(0, None, None, offset=21)


def test_a_refused_record_changes_nothing():
    """Kafka's builder keeps the base timestamp of such a record, or its bytes. No byte of it is in the message."""
    made = RecordBatchBuilder()
    refused = {
        ValueError: [
            (77, None, None, None),
            (77, None, None, [(None, b"")]),
            (77, None, None, [("secret\ud800", b"secret")]),
            (77, None, None, (), 2**31),
            (77, None, None, (), 2**63),
            (77, None, None, (), -(2**31) - 1),
            (-2, None, None),
            (2**63, None, None),
        ],
        TypeError: [
            (0, "secret", None),
            (0, None, ["secret"]),
            (0, None, 5),
            (0, None, None, ["secret"]),
            ("now", None, None),
            (0, b"", b"", 5),
        ],
    }
    for error, records in refused.items():
        for fields in records:
            with pytest.raises(error) as caught:
                made.append(*fields)
            assert "secret" not in str(caught.value)
    assert len(made) == 0 and made.next_offset == 0 and made.estimated_bytes_written == 61
    made.append(5, b"k", b"v")
    other = RecordBatchBuilder()
    other.append(5, b"k", b"v")
    assert made.build() == other.build()


def test_offsets_as_far_as_32_bits():
    for far in (2**31 - 1, -(2**31)):
        made = RecordBatchBuilder(base_offset=5)
        made.append(0, None, None, offset=5 + far)
        assert [row.offset for row in kafkarec.decode(made.build())] == [5 + far]
    for magic in (0, 1, 2):
        with pytest.raises(ValueError, match="too far from the base offset"):
            RecordBatchBuilder(magic=magic).append(0, None, None, offset=2**31)


def test_the_batch_size_is_limited_to_the_size_field():
    made = RecordBatchBuilder()
    assert made._most_bytes == 2**31 - 1, "so the number of records, of 7 bytes at least, fits 32 bits as well"
    made._most_bytes = 61 + 7 + 6
    made.append(0, None, None)
    with pytest.raises(ValueError, match="more than 74 bytes"):
        made.append(0, None, None)
    assert len(made.build()) == 68


def test_has_room_for():
    made = RecordBatchBuilder(batch_size=100)
    assert made.has_room_for(0, b"k" * 5000, None), "the first record always has"
    made.append(0, None, None)
    assert made.estimated_bytes_written == 68
    assert made.has_room_for(0, b"v" * 25, None) and not made.has_room_for(0, b"v" * 26, None)
    assert made.has_room_for(0, None, None, [("h", b"v" * 22)])
    assert not made.has_room_for(0, None, None, [("h", b"v" * 23)])
    assert not made.has_room_for(2**60, b"v" * 25, None), "a timestamp far from the first takes bytes too"
    assert not made.is_full
    made.append(0, b"v" * 25, None)
    assert made.is_full and not made.has_room_for(0, None, None)
    assert RecordBatchBuilder(batch_size=0).has_room_for(0, None, None) and not RecordBatchBuilder(batch_size=0).is_full


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), float("-inf")])
def test_a_batch_whose_ratio_is_not_finite_is_full_after_its_first_record(ratio):
    made = RecordBatchBuilder(compression="gzip")
    made.estimated_compression_ratio = ratio
    assert made.has_room_for(0, b"k", b"v") and not made.is_full
    made.append(0, b"k", b"v")
    assert made.is_full and not made.has_room_for(0, b"k", b"v")
    made.estimated_compression_ratio = 0.5
    assert not made.is_full and made.estimated_bytes_written == 61 + int(9 * 0.5 * 1.05)


def test_max_timestamp_and_its_offset():
    for options, greatest, first in (
        ({}, 9, 1),
        ({"magic": 1, "compression": "gzip"}, 9, 1),
        ({"magic": 0}, -1, -1),
        ({"timestamp_type": "log_append_time", "log_append_time": 50}, 50, 0),
        ({"magic": 1, "timestamp_type": "log_append_time", "log_append_time": 50}, 50, 0),
    ):
        made = RecordBatchBuilder(**options)
        assert made.offset_of_max_timestamp == -1
        for time in (5, 9, 9, 1):
            made.append(time, None, None)
        assert (made.max_timestamp, made.offset_of_max_timestamp) == (greatest, first), options
    assert RecordBatchBuilder().max_timestamp == -1


def test_timestamps():
    made = RecordBatchBuilder(delete_horizon_ms=1000)
    made.append(datetime(2026, 1, 1, tzinfo=UTC), None, None)
    made.append(datetime.fromisoformat("2026-01-01T00:00:00.0019+01:00"), None, None)
    made.append(None, None, None)
    with pytest.raises(ValueError, match="time zone"):
        made.append(datetime(2026, 1, 1), None, None)
    start = 1_767_225_600_000
    [batch] = kafkarec.batches(made.build())
    assert [row.timestamp for row in batch] == [start, start - 3_600_000 + 1, None]
    assert batch.delete_horizon_ms == made.delete_horizon_ms == 1000
    assert RecordBatchBuilder(delete_horizon_ms=-2).delete_horizon_ms is None


def test_keys_and_values_are_copied():
    """As in Kafka, which writes at once, later changes of the caller's buffers and lists have no effect."""
    made = RecordBatchBuilder()
    for n in range(2000):
        buffer = bytearray(b"before %d" % n)
        headers = [("h", buffer), (memoryview(b"raw"), None), (f"name {n}", b"%d" % n)]
        made.append(0, buffer, memoryview(buffer), headers)
        buffer[:6] = b"behind"
        headers.clear()
    for n, row in enumerate(kafkarec.decode(made.build())):
        text = b"before %d" % n
        assert (row.key, row.value) == (text, text)
        assert row.headers == [("h", text), ("raw", None), (f"name {n}", b"%d" % n)]


def test_the_order_of_calls():
    made = RecordBatchBuilder()
    made.append(0, b"k", b"v")
    assert not made.is_full and not made.is_closed
    made.override_last_offset(9)
    first = made.build()
    assert made.is_full and made.is_closed and made.close() == first and made.estimated_size == len(first)
    for call in (lambda: made.override_last_offset(10), lambda: made.append(0, None, None)):
        with pytest.raises(ValueError, match="built"):
            call()
    [batch] = kafkarec.batches(made.build())
    assert (batch.base_offset, batch.last_offset, [row.key for row in batch]) == (0, 9, [b"k"])


def test_abort():
    made = RecordBatchBuilder()
    made.append(0, b"k", b"v")
    made.abort()
    for call in (made.build, made.close, lambda: made.append(0, b"", b"")):
        with pytest.raises(ValueError, match="aborted"):
            call()
    assert made.is_full


def test_a_block_builds_or_aborts():
    with RecordBatchBuilder() as made:
        made.append(0, b"k", b"v")
    assert made.is_closed and made.build()
    with pytest.raises(KeyError), RecordBatchBuilder() as made:
        made.append(0, b"k", b"v")
        raise KeyError
    with pytest.raises(ValueError, match="aborted"):
        made.build()
    with RecordBatchBuilder() as made:
        made.abort()


def test_repr_of_a_builder():
    made = RecordBatchBuilder(compression="lz4", base_offset=5, batch_size=500)
    made.append(0, b"k", b"v")
    guess = 61 + int(9 * 1.05)
    assert repr(made) == f"<RecordBatchBuilder magic 2, lz4, open: 1 records from offset 5, about {guess} of 500 bytes>"
    size = len(made.build())
    assert repr(made) == f"<RecordBatchBuilder magic 2, lz4, built: 1 records from offset 5, {size} of 500 bytes>"
    assert RecordBatchBuilder(), "true even while it is empty"


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"magic": True}, ValueError, "one of 0, 1, 2"),
        ({"compression": "brotli"}, ValueError, "none, gzip, snappy, lz4, zstd"),
        ({"level": 3}, ValueError, "no compression levels"),
        ({"timestamp_type": None}, ValueError, "needs a timestamp type"),
        ({"producer_id": 2**63}, ValueError, "64 bits"),
        ({"base_offset": 1.5}, TypeError, "base offset"),
        ({"batch_size": 2**31}, ValueError, "32 bits"),
    ],
)
def test_wrong_options(options, error, words):
    with pytest.raises(error, match=words):
        RecordBatchBuilder(**options)


def test_a_missing_library_is_reported_at_the_start(monkeypatch):
    def missing(*arguments):
        raise MissingCodec("zstd", "zstandard")

    forget_options()
    monkeypatch.setattr(builder_module, "compress", missing)
    with pytest.raises(kafkarec.MissingCodecError, match="pip install zstandard") as refused:
        RecordBatchBuilder(compression="zstd")
    assert refused.value.reason == "missing_codec"
    forget_options()


def test_a_batch_that_could_not_be_compressed_stays_open(monkeypatch):
    made = RecordBatchBuilder(compression="gzip")
    made.append(0, b"k", b"v" * 100)
    whole = codecs.compress

    def compress(*arguments):
        for call in (made.build, made.__init__, lambda: made.append(0, b"k", bytearray(b"v"))):
            with pytest.raises(RuntimeError, match="another thread uses this object"):
                call()
        assert not made.has_room_for(0, b"k", b"v")
        if len(made) == 1:
            raise MissingCodec("gzip", "any")
        return whole(*arguments)

    monkeypatch.setattr(codecs, "compress", compress)
    with pytest.raises(kafkarec.MissingCodecError):
        made.build()
    assert not made.is_closed and made.append(5, b"second", None) == 1
    rows = list(kafkarec.decode(made.build()))
    assert [(row.key, row.value) for row in rows] == [(b"k", b"v" * 100), (b"second", None)]
    assert made.is_closed and made.max_timestamp == 5


@pytest.mark.slow
def test_a_batch_that_its_codec_makes_too_large_is_refused(monkeypatch):
    """Its length field has 32 bits; what does not get smaller becomes some bytes larger."""
    made = RecordBatchBuilder(compression="gzip")
    made.append(0, b"k", b"v")
    monkeypatch.setattr(codecs, "compress", lambda *arguments: bytes(2**31 - 61))
    with pytest.raises(ValueError, match=r"a batch of more than 2\^31-1 bytes"):
        made.build()
    monkeypatch.undo()
    assert kafkarec.decode(made.build()).column("value") == [b"v"]


class Index:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


@pytest.mark.parametrize("whole", [int, Index])
def test_builders_of_equal_options_differ_in_their_own_numbers(whole):
    """Options are checked once for equal ones; the base offset, the sequence and the append time are each builder's."""
    for base in (0, 7, -3, 2**40):
        made = RecordBatchBuilder(
            base_offset=whole(base),
            log_append_time=whole(base + 50),
            timestamp_type="log_append_time",
            producer_id=whole(4),
            producer_epoch=whole(1),
            base_sequence=whole(abs(base) % 100),
        )
        assert made.append(5, b"k", b"v") == base
        [batch] = kafkarec.batches(made.build())
        assert (batch.base_offset, batch.max_timestamp, batch.base_sequence) == (base, base + 50, abs(base) % 100)
        assert (made.base_offset, made.max_timestamp, made.base_sequence) == (base, base + 50, abs(base) % 100)
        assert (batch.producer_id, batch.producer_epoch, made.producer_id) == (4, 1, 4)


def test_an_own_number_is_checked_whether_or_not_its_options_are_known():
    for _ in range(2):
        for name, wrong, error in (
            ("base_offset", 2**63, ValueError),
            ("base_offset", None, TypeError),
            ("log_append_time", "5", TypeError),
            ("base_sequence", 2**31, ValueError),
            ("base_sequence", None, TypeError),
            ("topic", [], TypeError),
        ):
            with pytest.raises(error):
                RecordBatchBuilder(**{name: wrong})
        RecordBatchBuilder()
    with pytest.raises(TypeError, match="unexpected keyword argument 'offset'"):
        RecordBatchBuilder(offset=5)
    with pytest.raises(TypeError, match="positional"):
        RecordBatchBuilder(2)
