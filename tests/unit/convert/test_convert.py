"""convert: kept fields are unchanged, losses are counted, damaged batches get no new checksum."""

import pickle
from unittest.mock import patch

import builders
import golden
import pytest
from broker_logs import convertible, records
from hypothesis import given
from hypothesis import strategies as st
from plain_logs import batch
from random_logs import Maker
from refusals import refused

import kafkarec
from kafkarec import LossError, codecs, convert
from kafkarec.ops.convert import LOSSES, converted_batches

pytestmark = pytest.mark.core


def rows(result):
    return list(zip(*(result.column(name) for name in result.schema.names), strict=True))


def sequences(data):
    """Return a broker's producer state after this log: each producer's last sequence and last offset."""
    return {
        (row["producer_id"], row["producer_epoch"]): (row["last_sequence"], row["last_offset"])
        for row in kafkarec.scan(data)
        if row["producer_id"] is not None and not row["is_control"]
    }


def markers(data):
    return [bytes(batch.raw) for batch in kafkarec.batches(data) if batch.is_control]


options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from([None, *builders.CODECS]),
        "batch_size": st.sampled_from([None, 1, 90, 200, 500, 16384]),
    }
)


@given(seed=st.integers(0, 2**32), asked=options, held=st.sampled_from([0, 256 << 10]))
def test_records_are_kept_and_a_second_conversion_changes_nothing(seed, asked, held):
    data = convertible(seed).data
    with patch("kafkarec.ops.convert.run._RUN_BYTES", held):
        result = convert(data, **asked)
    assert bytes(result) == bytes(convert(data, **asked))
    assert records(result) == records(data)
    assert not result.stats.losses and result.remaining == 0 and result.damage == ()
    assert result.stats.records_in == result.stats.records_out == len(records(data))
    assert (result.stats.bytes_in, result.stats.bytes_out) == (len(data), len(result))
    assert (result.stats.batches_in, result.stats.batches_out) == (len(kafkarec.scan(data)), len(kafkarec.scan(result)))
    assert {row["magic"] for row in kafkarec.scan(result)} == {2}
    if asked["compression"]:
        packed = [row for row in kafkarec.scan(result) if row["record_count"] and not row["is_control"]]
        assert {row["compression"] for row in packed} <= {asked["compression"]}
    again = convert(result, **asked)
    assert bytes(again) == bytes(result)
    assert again.stats.batches_copied == again.stats.batches_in == again.stats.batches_out


@given(seed=st.integers(0, 2**32), asked=options)
def test_producer_state_and_offsets_are_kept(seed, asked):
    data = convertible(seed, magics=(2,)).data
    result = convert(data, **asked)
    assert sequences(result) == sequences(data)
    assert markers(result) == markers(data)
    before, after = kafkarec.scan(data), kafkarec.scan(result)
    assert (before[0]["base_offset"], before[-1]["last_offset"]) == (after[0]["base_offset"], after[-1]["last_offset"])
    assert covered(before) == covered(after) or asked["batch_size"]
    empty = [row["base_offset"] for row in before if not row["record_count"]]
    assert [row["base_offset"] for row in after if not row["record_count"]] == empty
    if asked["batch_size"]:
        several = [row for row in after if row["compression"] == "none" and row["record_count"] > 1]
        assert all(row["size_in_bytes"] <= asked["batch_size"] for row in several)


def covered(table):
    return [(row["base_offset"], row["last_offset"]) for row in table]


NEXT = {"base_offset": 1}
BEFORE_7 = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 5}
NEXT_OF_7 = {**BEFORE_7, "base_offset": 1, "base_sequence": 6}


@pytest.mark.parametrize(
    "first, second, batches",
    [
        ({}, NEXT, 1),
        ({}, {"base_offset": 5}, 1),
        ({}, {"base_offset": 0}, 2),
        ({}, NEXT | {"epoch": 1}, 2),
        ({}, NEXT | {"attributes": builders.LOG_APPEND}, 2),
        ({}, NEXT | {"attributes": builders.TRANSACTIONAL}, 2),
        ({}, NEXT | {"attributes": builders.DELETE_HORIZON}, 2),
        ({}, NEXT | {"attributes": 0x80}, 2),
        ({}, NEXT_OF_7, 2),
        ({}, NEXT | {"max_timestamp": builders.NOW + 1}, 2),
        ({}, {"base_offset": 2**31}, 2),
        (BEFORE_7, NEXT_OF_7, 1),
        (BEFORE_7, NEXT_OF_7 | {"base_sequence": 8}, 2),
        (BEFORE_7, NEXT_OF_7 | {"base_offset": 2}, 2),
        (BEFORE_7, NEXT_OF_7 | {"producer_epoch": 1, "base_sequence": 0}, 2),
        (BEFORE_7, NEXT_OF_7 | {"producer_id": 8}, 2),
    ],
    ids=str,
)
def test_which_batches_are_merged(first, second, batches):
    """Those of a producer if their sequences continue."""
    data = batch(count=1, **first) + batch(count=1, **second)
    result = convert(data, batch_size=16384)
    assert len(kafkarec.scan(result)) == batches
    assert records(result) == records(data)
    assert sequences(result) == sequences(data)
    if batches == 2:
        assert bytes(result) == data


def test_parts_of_a_compacted_batch_are_merged():
    parts = [builders.record(offset_delta=delta) for delta in (3, 7)]
    data = builders.batch(
        parts,
        base_offset=10,
        last_offset_delta=9,
        max_timestamp=builders.NOW,
        producer_id=7,
        producer_epoch=0,
        base_sequence=20,
    )
    table = kafkarec.scan(convert(data, batch_size=1))
    assert covered(table) == [(10, 16), (17, 19)]
    assert [(row["base_sequence"], row["last_sequence"]) for row in table] == [(20, 26), (27, 29)]


@pytest.mark.parametrize("name", ["v2-varint-not-minimal", "v2-attributes-high-byte", "v2-offset-delta-descending"])
def test_where_only_the_codec_changes_the_payload_is_unchanged(name):
    """Records are not rewritten: odd varints, unknown attributes and odd offsets are kept."""
    data = golden.invalid_case(name).bytes
    result = convert(data, compression="gzip")
    assert codecs.decompress(1, result[61:], 1 << 20) == data[61:]
    assert bytes(convert(result, compression="none")) == data


def test_log_append_time_keeps_its_type_and_time():
    data = golden.vector("v2-none-logappend").bytes
    for size in (None, 1):
        for row in kafkarec.scan(convert(data, compression="lz4", batch_size=size)):
            assert (row["timestamp_type"], row["max_timestamp"]) == (1, kafkarec.scan(data)[0]["max_timestamp"])
    there_and_back = convert(convert(data, compression="lz4"), compression="none")
    assert bytes(there_and_back) == data  # the stored deltas, which no reader returns, are kept


def test_a_level_is_used_even_where_the_codec_stays():
    data = golden.vector("v2-none-text").bytes
    fast, strong = (convert(data, compression="zstd", level=level) for level in (1, 19))
    assert len(strong) < len(fast)
    assert bytes(convert(fast, compression="zstd", level=19)) == bytes(strong)
    assert bytes(convert(fast, compression="zstd")) == bytes(fast)


def test_uncompressed_messages_are_merged_and_wrappers_are_not():
    plain = b"".join(builders.message(offset=i) for i in range(1000))
    inner = [builders.message(offset=i) for i in range(2)]
    table = kafkarec.scan(convert(plain + b"".join(builders.wrapper(inner, offset=last) for last in (1001, 1003))))
    assert sum(row["record_count"] for row in table) == 1004
    assert [row["record_count"] for row in table[-2:]] == [2, 2] and 2 < len(table) < 10
    assert all(row["size_in_bytes"] <= 16384 for row in table)
    kept = convert(plain, magic=None)
    assert bytes(kept) == plain and kept.stats.batches_copied == 1000


@pytest.mark.parametrize(
    "name",
    [
        "broker-v1-none-to-v2",
        "broker-v1-snappy-to-v2-snappy",
        *(case.name for case in golden.vectors() if case.name.startswith("downconverted-v2-to")),
    ],
)
def test_a_conversion_writes_what_a_broker_wrote(name):
    """Except for the leader epoch, which a broker sets, and compressed bytes. The vectors' source is not stored, so it
    is rebuilt from their records; that of magic 2 with headers, which are dropped."""
    wanted = golden.vector(name).bytes
    [(magic, codec)] = {(row["magic"], row["compression"]) for row in kafkarec.scan(wanted)}
    headers = [] if magic == 2 else [("h", b"x")]
    rows = [(row.offset, row.timestamp, row.key, row.value, headers) for row in kafkarec.decode(wanted)]
    source = kafkarec.encode(rows, magic=1 if magic == 2 else 2, compression=codec, base_offset=rows[0][0])
    ours = convert(source, magic=magic)
    assert ours.stats.lost["headers"] == len(rows) * len(headers)
    assert without_epoch(ours) == without_epoch(wanted)
    assert set(kafkarec.scan(ours).column("compression")) == {codec}
    behind = 16 if magic == 2 else 12  # the leader epoch
    assert codec != "none" or (ours[:12], ours[behind:]) == (wanted[:12], wanted[behind:])


def without_epoch(data):
    return [row[:11] + row[12:] for row in records(data)]


def lossy_log():
    headers = [(b"a", b"1"), (b"b", None)]
    return b"".join(
        (
            builders.batch([builders.record(headers=headers), builders.record(offset_delta=1)], leader_epoch=-1),
            batch(2, 2, transaction=7),
            builders.end_marker(4, 7, commit=False, leader_epoch=-1),
            builders.batch([], base_offset=5, last_offset_delta=3, leader_epoch=-1),
            builders.batch(
                [builders.record(offset_delta=2)],
                base_offset=9,
                last_offset_delta=4,
                leader_epoch=-1,
                attributes=builders.LOG_APPEND | builders.DELETE_HORIZON,
            ),
        )
    )


def test_each_loss_is_counted():
    lost = {
        "headers": 2,
        "records_with_headers": 1,
        "control_batches": 1,
        "control_records": 1,
        "transactional_batches": 1,
        "producer_ids": 1,
        "leader_epochs": 1,
        "delete_horizons": 1,
        "empty_batches": 1,
        "offset_ranges": 1,
    }
    result = convert(lossy_log(), magic=1)
    assert result.stats.losses == lost
    assert list(result.stats.lost) == list(LOSSES)
    older = convert(lossy_log(), magic=0).stats.losses
    assert older == {**lost, "timestamps": 5, "log_append_times": 1}
    for losses in (result.stats.losses, older):
        assert list(losses) == [word for word in LOSSES if word in losses], "they are printed in this order"
    assert [record.offset for record in kafkarec.decode(result)] == [0, 1, 2, 3, 11]
    assert (result.stats.batches_in, result.stats.batches_out, result.stats.records_converted) == (5, 5, 5)
    assert result.stats.as_dict()["lost"] == result.stats.lost
    assert "5 records in 5 batches, lost: 2 headers" in repr(result)


def test_on_loss_raise_names_the_losses():
    with pytest.raises(LossError, match="record headers: 2, ") as caught:
        convert(lossy_log(), magic=1, on_loss="raise")
    assert caught.value.lost == convert(lossy_log(), magic=1).stats.losses
    assert caught.value.lost["control_batches"] == 1 and "control batches: 1" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.lost == caught.value.lost
    batches = converted_batches(lossy_log(), magic=1, on_loss="raise")
    yielded = []
    with pytest.raises(LossError):
        yielded.extend(batches)
    assert b"".join(yielded) == convert(lossy_log(), magic=1), "all of it, before the error"
    assert batches.stats.losses == caught.value.lost
    with pytest.raises(LossError):
        convert(lossy_log(), magic=1, on_loss="raise")
    assert bytes(convert(lossy_log(), on_loss="raise")) == lossy_log()


def test_zstd_is_refused_below_magic_2_unless_another_codec_is_named():
    data = golden.vector("v2-zstd-create").bytes
    error = refused(convert, data, magic=1)
    assert "magic 1 does not support zstd; choose another compression" in str(error)
    assert (error.reason, error.position) == ("unsupported_codec", 0)
    assert [row.value for row in kafkarec.decode(convert(data, magic=1, compression="gzip"))] == [
        row.value for row in kafkarec.decode(data)
    ]
    skipped = convert(data, magic=1, errors="skip")
    assert skipped == b"" and [damage.reason for damage in skipped.damage] == ["unsupported_codec"]


def test_what_kafkas_builder_refuses_is_not_written():
    for reason, parts in (
        ("offsets_out_of_order", [builders.record(offset_delta=1), builders.record(offset_delta=1)]),
        ("timestamp_negative", [builders.record(timestamp_delta=-builders.NOW - 2)]),
    ):
        data = builders.batch(parts) + batch(9, 1)
        error = refused(convert, data, magic=1)
        assert (error.reason, error.position) == (reason, 0)
        result = convert(data, magic=1, errors="skip")
        assert [record.offset for record in kafkarec.decode(result)] == [9]
        assert [(damage.position, damage.reason) for damage in result.damage] == [(0, reason)]


def test_offsets_too_far_apart_for_one_batch_are_not_written():
    data = builders.wrapper([builders.message(offset=offset) for offset in (0, 2**31)], offset=2**31)
    for magic in (2, 0):
        error = refused(convert, data, magic=magic)
        assert error.reason == "batch_not_rewritable" and "too far" in str(error)


def test_a_wrapper_that_no_reader_accepts_is_not_written():
    """Kafka's converter writes it: relative inner offsets under a negative wrapper offset."""
    data = batch(-5, 2, codec="gzip")
    assert refused(convert, data, magic=1).reason == "magic_unfit"
    assert [record.offset for record in kafkarec.decode(convert(data, magic=0))] == [-5, -4]


@pytest.mark.parametrize("case", golden.invalid(), ids=str)
def test_unreadable_batches_are_not_converted(case):
    """Damaged content gets no new checksum: it is refused if and only if the reader refuses it."""
    try:
        before = records(case.bytes)
    except kafkarec.KafkaRecordError as refusal:
        assert type(refused(convert, case.bytes, compression="gzip", batch_size=16384)) is type(refusal)
        return
    for options in ({"compression": "gzip"}, {"compression": "zstd", "batch_size": 99}):
        assert [row[:5] for row in records(convert(case.bytes, **options))] == [row[:5] for row in before]


@pytest.mark.slow
def test_random_damage_is_reported_as_by_the_reader():
    """Under "skip" the same bytes are left out, and every byte is accounted for."""
    damaged = 0
    for seed in range(400):
        data = Maker(seed).log()
        before = kafkarec.decode(data, control=True, check_crcs="all", errors="skip")
        result = convert(data, magic=None, batch_size=500, errors="skip")
        assert (list(before.damage), before.remaining) == (list(result.damage), result.remaining), f"seed {seed}"
        assert result.stats.bytes_in + sum(one.length for one in result.damage) + result.remaining == len(data)
        after = kafkarec.decode(result, control=True, check_crcs="all")
        assert [row[:5] for row in rows(after)] == [row[:5] for row in rows(before)], f"seed {seed}"
        damaged += bool(result.damage)
    assert damaged > 100


def test_the_limit_on_decompressed_bytes_applies():
    data = convert(batch(0, 1, value=b"v" * 5000), compression="gzip")
    error = refused(convert, data, compression="lz4", max_decompressed_bytes=4000)
    assert error.reason == "limit_exceeded" and "max_decompressed_bytes" in str(error)


def test_a_missing_library_raises_even_under_skip(monkeypatch):
    def missing(*_):
        raise codecs.MissingCodec("gzip", "isal")

    without = codecs.CODECS[1]._replace(compress=missing)
    monkeypatch.setattr(codecs, "CODECS", (codecs.CODECS[0], without, *codecs.CODECS[2:]))
    for asked in ({}, {"errors": "skip"}, {"batch_size": 1}, {"magic": 1}):
        error = refused(convert, batch(0, 3), compression="gzip", **asked)
        assert error.reason == "missing_codec" and "pip install isal" in str(error)
