"""compact: what the cleaner keeps and what it removes, one rule per test."""

import struct

import builders
import plain_logs
import pytest
from builders import NOW, end_marker
from refusals import refused

import kafkarec
from kafkarec import compact
from kafkarec.format.side_files import AbortedTransaction

pytestmark = pytest.mark.core

DAY = 86_400_000


def batch(*pairs, base=0, **fields):
    """Return a batch of (key, value) records."""
    records = [
        builders.record(offset_delta=i, timestamp_delta=i, key=key, value=value) for i, (key, value) in enumerate(pairs)
    ]
    return builders.batch(records, base_offset=base, **fields)


def of(producer, sequence=0, *, transactional=True, epoch=0):
    return {
        "producer_id": producer,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "attributes": builders.TRANSACTIONAL if transactional else 0,
    }


def pairs(data):
    return [(record.offset, record.key, record.value) for record in kafkarec.decode(data)]


def spans(data):
    """Return (base offset, last offset, records) of each batch."""
    return [(row["base_offset"], row["last_offset"], row["record_count"]) for row in kafkarec.scan(data)]


END = batch((b"end", b"x"), base=1000)
"""Appended to logs, because the last batch always keeps its header."""


def test_the_last_value_of_each_key_stays():
    data = batch((b"a", b"1"), (b"b", b"2"), (b"a", b"3")) + batch((b"b", b"4"), (b"", b"5"), base=3)
    left = compact(data, now=NOW)
    assert pairs(left) == [(2, b"a", b"3"), (3, b"b", b"4"), (4, b"", b"5")]
    assert spans(left) == [(0, 2, 1), (3, 4, 2)]
    assert (left.stats.messages_superseded, left.stats.keys, left.stats.messages_retained) == (2, 3, 3)


def test_a_clean_log_stays_byte_for_byte():
    once = compact(batch((b"a", b"1"), (b"a", b"2")) + END, now=NOW)
    again = compact(once, now=NOW + 10 * DAY)
    assert again == once
    assert (again.stats.batches_rewritten, again.stats.batches_copied) == (0, 2)


def test_a_record_without_key_is_removed():
    left = compact(batch((None, b"1"), (b"a", b"2"), (None, None)) + END, now=NOW)
    assert pairs(left)[:-1] == [(1, b"a", b"2")]
    assert (left.stats.messages_invalid, left.stats.messages_superseded) == (2, 0)


def test_a_tombstone_stays_until_the_horizon_that_its_first_pass_sets():
    first = compact(batch((b"a", b"1"), (b"a", None)) + END, now=NOW, delete_retention_ms=DAY)
    assert pairs(first)[:-1] == [(1, b"a", None)]
    assert kafkarec.scan(first)[0]["delete_horizon_ms"] == NOW + DAY
    assert compact(first, now=NOW + DAY - 1) == first
    following = compact(first, now=NOW + DAY)
    assert pairs(following) == pairs(END)
    assert (following.stats.tombstones_removed, following.stats.batches_removed) == (1, 1)


def test_data_of_an_aborted_transaction_is_removed_at_once_and_replaces_no_value():
    data = (
        batch((b"a", b"kept"))
        + batch((b"a", b"gone"), (b"b", b"gone"), base=1, **of(7))
        + end_marker(3, 7, commit=False)
        + END
    )
    left = compact(data, now=NOW, producer_expiration_ms=0)
    assert pairs(left)[:-1] == [(0, b"a", b"kept")]
    assert (left.stats.messages_aborted, left.stats.markers_removed) == (2, 0)
    assert left.aborted_transactions == (AbortedTransaction(7, 1, 3, 4),)


def test_an_abort_marker_that_is_there_twice_aborts_its_transaction():
    marker = end_marker(1, 7, commit=False)
    left = compact(batch((b"a", b"gone"), **of(7)) + marker * 2 + batch((b"b", b"kept"), base=2), now=NOW)
    assert pairs(left) == [(2, b"b", b"kept")]
    assert left.aborted_transactions == (AbortedTransaction(7, 0, 1, 2),)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_removed_when_its_data_is_gone_and_its_horizon_has_passed(commit):
    newer = batch((b"a", b"2"), base=500)
    data = batch((b"a", b"1"), base=1, **of(7)) + end_marker(2, 7, commit=commit) + newer
    settings = {"producer_expiration_ms": 0, "delete_retention_ms": DAY}
    first = compact(data, now=NOW, **settings)
    assert spans(first) == [(2, 2, 1), (500, 500, 1)]
    assert kafkarec.scan(first)[0]["delete_horizon_ms"] is None
    second = compact(first, now=NOW + 1, **settings)
    assert kafkarec.scan(second)[0]["delete_horizon_ms"] == NOW + 1 + DAY
    assert second.aborted_transactions == ()
    assert compact(second, now=NOW + DAY, **settings) == second
    third = compact(second, now=NOW + 1 + DAY, **settings)
    assert third == newer
    assert third.stats.markers_removed == 1


def test_control_records_of_a_kraft_log_stay():
    change = builders.record(key=struct.pack(">hh", 0, 2), value=b"\x00\x00\x00\x00\x00\x01\x01\x01\x00")
    data = builders.batch([change], attributes=builders.CONTROL) + END
    assert compact(data, now=NOW + 10 * DAY) == data


def test_nothing_is_cleaned_after_the_first_open_transaction():
    clean = batch((b"a", b"1"), (b"a", b"2"))
    rest = (
        batch((b"a", b"maybe"), base=2, **of(7))
        + batch((b"b", None), (b"b", b"3"), base=3)
        + batch((b"c", b"gone"), base=5, **of(8))
        + end_marker(6, 8, commit=False)
    )
    left = compact(clean + rest, now=NOW)
    assert pairs(left)[0] == (1, b"a", b"2")
    assert left.endswith(rest)
    assert (left.stats.first_uncleanable_offset, left.stats.next_offset) == (2, 7)
    assert left.stats.bytes_left_alone == len(rest)
    assert left.aborted_transactions == (AbortedTransaction(8, 5, 6, 2),)


def test_the_uncleanable_offset_can_be_lowered_but_not_raised():
    data = b"".join(batch((b"a", b"%d" % i), base=i) for i in range(4)) + batch((b"a", b"x"), base=4, **of(7))
    assert [offset for offset, *_ in pairs(compact(data, now=NOW, first_uncleanable_offset=2))] == [1, 2, 3, 4]
    assert [offset for offset, *_ in pairs(compact(data, now=NOW, first_uncleanable_offset=5))] == [3, 4]
    assert compact(data, now=NOW, first_uncleanable_offset=0) == data


def test_a_producers_last_sequence_stays_until_it_writes_again():
    written = batch((b"a", b"1"), (b"b", b"1"), **of(7, transactional=False))
    newer = batch((b"a", b"2"), (b"b", b"2"), base=2)
    left = compact(written + newer + END, now=NOW + 1000)
    [emptied, *_] = kafkarec.scan(left)
    assert (emptied["record_count"], emptied["base_sequence"], emptied["last_sequence"]) == (0, 0, 1)
    assert compact(left, now=NOW + 1000) == left
    more = batch((b"c", b"1"), base=1001, **of(7, 2, transactional=False))
    assert spans(compact(left + more, now=NOW + 1000))[0] == (2, 3, 2)


def test_an_emptied_batch_keeps_offsets_sequences_and_max_timestamp():
    fields = of(7, 20, epoch=3) | {"attributes": builders.TRANSACTIONAL | builders.LOG_APPEND}
    written = batch((b"a", b"1"), (b"a", b"2"), codec="zstd", leader_epoch=4, max_timestamp=NOW + 99, **fields)
    data = written + end_marker(2, 7, commit=True, producer_epoch=3) + batch((b"a", b"3"), base=3)
    [emptied, *_] = kafkarec.batches(compact(data, now=NOW))
    assert (emptied.base_offset, emptied.last_offset, emptied.base_sequence, emptied.last_sequence) == (0, 1, 20, 21)
    assert (emptied.producer_id, emptied.producer_epoch, emptied.partition_leader_epoch) == (7, 3, 4)
    assert (emptied.base_timestamp, emptied.max_timestamp, emptied.timestamp_type) == (None, NOW + 99, 1)
    assert (emptied.size_in_bytes, emptied.record_count, emptied.compression) == (61, 0, "none")
    assert emptied.is_transactional


def test_a_producers_last_sequence_is_removed_when_the_producer_expires():
    data = batch((b"a", b"1"), **of(7, transactional=False)) + batch((b"a", b"2"), base=1) + END
    assert spans(compact(data, now=NOW + 999, producer_expiration_ms=1000))[0] == (0, 0, 0)
    assert spans(compact(data, now=NOW + 1000, producer_expiration_ms=1000))[0] == (1, 1, 1)


def test_a_marker_with_a_producers_newest_epoch_keeps_its_header():
    """KIP-890: the marker has the next epoch, which no other batch of the log has."""
    data = (
        batch((b"a", b"1"), **of(7))
        + end_marker(1, 7, commit=True, producer_epoch=1)
        + batch((b"a", b"2"), base=2)
        + END
    )
    settings = {"delete_retention_ms": 0, "producer_expiration_ms": 10 * DAY}
    for now in range(NOW, NOW + 4):
        data = compact(data, now=now, **settings)
    [emptied, *_] = kafkarec.scan(data)
    assert (emptied["base_offset"], emptied["record_count"], emptied["producer_epoch"]) == (1, 0, 1)
    assert emptied["is_control"]
    assert spans(compact(data, now=NOW + 20 * DAY, **settings))[0] == (2, 2, 1)


def last_wrapper(magic):
    inner = [builders.message(magic=magic, offset=i, key=key) for i, key in enumerate([b"a", None, None])]
    return builders.wrapper(inner, magic=magic, offset=2)


@pytest.mark.parametrize(
    "data, left_spans",
    [
        (batch((b"a", b"1")) + batch((None, b"2"), base=1), [(0, 0, 1), (1, 1, 0)]),
        # a broker fails here: MemoryRecords.filterTo cannot empty a message
        (builders.message(key=b"a") + builders.message(offset=1, key=None), [(0, 0, 1), (1, 1, 0)]),
        # a broker, which does not clean the active segment, writes the offset of the last kept record
        (last_wrapper(0), [(0, 2, 1)]),
        (last_wrapper(1), [(0, 2, 1)]),
    ],
    ids=["magic 2", "magic 1", "wrapper of magic 0", "wrapper of magic 1"],
)
def test_the_last_batch_keeps_its_header_and_so_the_logs_end_offset(data, left_spans):
    left = compact(data, now=NOW)
    assert spans(left) == left_spans
    assert kafkarec.scan(left)[-1]["next_offset"] == left.stats.next_offset == left_spans[-1][1] + 1


def test_messages_of_magic_0_and_1_become_batches_of_magic_2():
    plain = builders.message(magic=0, key=b"a", value=b"1")
    inner = [builders.message(offset=i, key=key, value=b"2") for i, key in enumerate([b"a", b"b", b"a"])]
    data = plain + builders.wrapper(inner, offset=3) + END
    left = compact(data, now=NOW)
    assert pairs(left)[:-1] == [(2, b"b", b"2"), (3, b"a", b"2")]
    first = kafkarec.scan(left)[0]
    assert (first["magic"], first["base_offset"], first["last_offset"], first["compression"]) == (2, 2, 3, "gzip")
    assert compact(left, now=NOW) == left
    [ends_sooner, *_] = kafkarec.scan(compact(data + builders.message(offset=2000, key=b"a"), now=NOW))
    assert (ends_sooner["base_offset"], ends_sooner["last_offset"]) == (2, 2)


_KEYS = (b"a", b"b", b"c")
REFUSED = {
    "offsets that do not go up": builders.batch(
        [builders.record(offset_delta=delta, key=key) for delta, key in zip((2, 1, 0), _KEYS, strict=True)],
        base_offset=1,
        last_offset_delta=2,
    ),
    "a negative timestamp": builders.batch(
        [builders.record(timestamp_delta=-5 - NOW, offset_delta=delta, key=key) for delta, key in enumerate(_KEYS)],
        base_offset=1,
    ),
    "a producer without epoch": batch(*zip(_KEYS, _KEYS, strict=True), base=1, producer_id=7, base_sequence=0),
    "a producer without sequence": batch(*zip(_KEYS, _KEYS, strict=True), base=1, producer_id=7, producer_epoch=0),
    "a transaction without producer": batch(*zip(_KEYS, _KEYS, strict=True), base=1, attributes=builders.TRANSACTIONAL),
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_what_kafkas_builder_refuses_is_refused_where_a_batch_is_rewritten(source):
    front = batch((b"front", b"1"))
    assert compact(front + source + END, now=NOW) == front + source + END
    error = refused(compact, front + source + batch((b"c", b"2"), base=1000), now=NOW)
    assert isinstance(error, kafkarec.InvalidRecordError)
    assert (error.position, error.next_position) == (len(front), len(front) + len(source))


def test_header_keys_keep_their_bytes():
    headers = [(b"\xff\xed\xa0\x80", b"x"), ("ü".encode(), None)]
    source = builders.batch([builders.record(headers=headers), builders.record(offset_delta=1, key=b"a")])
    left = compact(source + batch((b"a", b"2"), base=2), now=NOW)
    assert left.stats.batches_rewritten == 1
    assert kafkarec.decode(left, header_keys="binary").column("headers")[0] == tuple(headers)


def test_a_horizon_that_overflows_a_long_is_none():
    """Java's sum overflows, and a negative horizon is not set."""
    left = compact(batch((b"a", None)), now=NOW, delete_retention_ms=2**63 - 1)
    assert (kafkarec.scan(left)[0]["delete_horizon_ms"], left.stats.horizons_set) == (None, 0)


def test_log_append_time_stays_the_brokers():
    source = batch((b"a", b"1"), (b"b", None), (b"a", b"3"), attributes=builders.LOG_APPEND, max_timestamp=NOW + 77)
    left = compact(source + END, now=NOW)
    assert [record.timestamp for record in kafkarec.decode(left)][:-1] == [NOW + 77] * 2
    assert kafkarec.scan(left)[0]["max_timestamp"] == NOW + 77


def test_an_unreadable_control_record_raises():
    broken = plain_logs.batch(1001, 1, attributes=builders.CONTROL, key=b"abc")
    error = refused(compact, END + broken, now=NOW)
    assert (error.reason, error.position) == ("control_record_invalid", len(END))


def test_a_length_beyond_the_end_is_the_end_as_for_decode_whatever_follows():
    """An open transaction after it must not change the result before it, and every byte is counted."""
    whole = batch((b"a", b"1"), (b"a", b"2"))
    lying = plain_logs.batch(2, 1, length=5000)
    data = whole + lying + batch((b"b", b"maybe"), base=3, **of(7))
    left = compact(data, now=NOW)
    assert pairs(left) == [(1, b"a", b"2")]
    assert (left.stats.bytes_read, left.remaining) == (len(whole), len(data) - len(whole))


@pytest.mark.parametrize(
    "settings",
    [
        {"now": -1},
        {"now": 2**63},
        {"delete_retention_ms": -1},
        {"producer_expiration_ms": 1.5},
        {"first_uncleanable_offset": "7"},
    ],
    ids=str,
)
def test_settings_out_of_range(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        compact(b"", **settings)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_max_decompressed_message_bytes_ends_compaction_at_a_larger_record(codec, magic):
    rows = [(offset, NOW, b"k%d" % offset, bytes(size), []) for offset, size in enumerate((3, 90))]
    data = kafkarec.encode(rows[:1], magic=magic) + kafkarec.encode(rows, base_offset=1, magic=magic, compression=codec)
    fields = {"key": b"k1", "value": bytes(90)}
    size = len(builders.record(offset_delta=1, **fields)) - 2  # without its length
    if magic == 1:
        size = len(builders.message(magic=1, **fields)) - 12  # without offset and size
    same = compact(data, now=NOW)
    assert compact(data, now=NOW, max_decompressed_message_bytes=size) == same
    if codec == "none":
        assert compact(data, now=NOW, max_decompressed_message_bytes=1) == same
        return
    error = refused(compact, data, now=NOW, max_decompressed_message_bytes=size - 1)
    assert (error.reason, error.expected, error.found) == ("record_too_large", size - 1, size)
    assert error.position == len(kafkarec.encode(rows[:1], magic=magic))
