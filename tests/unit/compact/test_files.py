"""compact over files: segments, partitions, side files, constant memory."""

import os

import broker_logs
import builders
import golden
import plain_logs
import pytest
from builders import NOW
from measured_calls import peak_of
from plain_logs import batch
from refusals import refused

import kafkarec
from kafkarec import compact
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.compact import cleaned, cleaner
from kafkarec.sidecars import txn_index

DAY = 86_400_000


def partition(folder, *segments):
    return plain_logs.log(folder, *([data] for data in segments))


def one(key, value, base, **fields):
    return batch(base, 1, **fields, key=key, value=value)


def test_files_bytes_and_a_stream_give_the_same_result(tmp_path):
    for seed in range(30):
        log = broker_logs.Log(seed, ((2,), (1, 2))[seed % 2])
        folder = plain_logs.log(tmp_path / f"t-{seed}", *log.segments(4))
        from_bytes, going = compact(log.data, now=log.now), cleaned(log.data, now=log.now)
        stretches = [bytes(stretch) for stretch in going]
        assert all(kafkarec.scan(stretch).remaining == 0 for stretch in stretches)
        for result, data in ((compact(kafkarec.open(folder), now=log.now),) * 2, (going, b"".join(stretches))):
            assert data == from_bytes, seed
            assert result.aborted_transactions == from_bytes.aborted_transactions
            assert result.stats == from_bytes.stats


def test_headers_are_read_again_only_of_the_segment_with_the_first_uncleanable_offset(tmp_path, monkeypatch):
    folder = partition(tmp_path / "t-0", *(one(b"a", b"", base) + one(b"a", b"", base + 1) for base in (0, 2, 4)))
    searched = []

    def walk(segments, decode_request, start=None):
        if start is None:  # not the rest, from its position on
            searched.extend(segment.base_offset for segment in segments)
        return real_walk(segments, decode_request, start=start or 0)

    real_walk = cleaner.walk
    monkeypatch.setattr(cleaner, "walk", walk)
    for limit, of_segments in ((0, []), (2, []), (3, [2]), (4, []), (5, [4]), (6, [])):
        searched.clear()
        left = compact(kafkarec.open(folder), now=NOW, first_uncleanable_offset=limit)
        assert searched == of_segments, limit
        assert [record.offset for record in kafkarec.decode(left)] == [*range(max(limit - 1, 0), 6)]


def aborted_log(folder):
    first = one(b"a", b"kept", 0) + one(b"a", b"gone", 5, transaction=7)
    second = one(b"a", b"gone", 6, transaction=7, base_sequence=1)
    second += builders.end_marker(7, 7, commit=False) + one(b"b", b"kept", 8)
    return partition(folder, first, second)


OF_DELETED = AbortedTransaction(7, 3, 7, 4)  # its first batch may have been deleted with an older segment
OF_BATCHES = AbortedTransaction(7, 5, 7, 8)


@pytest.mark.parametrize(
    "index, entry",
    [
        pytest.param(txn_index.write([OF_DELETED]), OF_DELETED, id="as the broker wrote it"),
        pytest.param(txn_index.write([AbortedTransaction(9, 0, 7, 8)]), OF_BATCHES, id="another producer"),
        pytest.param(txn_index.write([AbortedTransaction(7, 0, 8, 8)]), OF_BATCHES, id="no marker there"),
        pytest.param(b"no index at all", OF_BATCHES, id="garbage"),
    ],
)
def test_an_entry_of_the_index_is_kept_and_a_wrong_index_costs_no_data(tmp_path, index, entry):
    folder = aborted_log(tmp_path / "t-0")
    (folder / f"{6:020}.txnindex").write_bytes(index)
    left = compact(kafkarec.open(folder), now=NOW)
    assert left.aborted_transactions == (entry,)
    assert [record.offset for record in kafkarec.decode(left)] == [0, 8]


def test_an_index_that_begins_a_transaction_too_early_costs_no_data(tmp_path):
    committed = one(b"c", b"committed", 0, transaction=7)
    committed += builders.end_marker(1, 7, commit=True)
    aborted = one(b"a", b"gone", 2, transaction=7, base_sequence=1)
    aborted += builders.end_marker(3, 7, commit=False)
    folder = partition(tmp_path / "t-0", committed + aborted)
    (folder / f"{0:020}.txnindex").write_bytes(txn_index.write([AbortedTransaction(7, 0, 3, 4)]))
    left = compact(kafkarec.open(folder), now=NOW)
    assert [record.value for record in kafkarec.decode(left)] == [b"committed"]


def test_tombstones_of_magic_1_get_a_horizon(tmp_path):
    legacy = builders.message(offset=0, key=b"0", value=None)
    left = compact(legacy + one(b"end", b"x", 1), now=NOW, delete_retention_ms=DAY)
    assert [record.offset for record in kafkarec.decode(left)] == [0, 1]
    assert (left.stats.tombstones_removed, left.stats.horizons_set) == (0, 1)
    assert kafkarec.scan(left)[0]["delete_horizon_ms"] == NOW + DAY


def test_a_log_that_a_broker_cleaned_is_unchanged():
    """As of the broker's last run, when the newest batches were in the active segment."""
    path = golden.VECTORS / "segments" / "compacted-0" / f"{0:020}.log"
    data = path.read_bytes()
    now = max(row["max_timestamp"] for row in kafkarec.scan(data))
    horizons = [row["delete_horizon_ms"] for row in kafkarec.scan(data) if row["delete_horizon_ms"]]
    left = compact(kafkarec.open(path), now=min(now, min(horizons) - 1), producer_expiration_ms=2**62)
    assert broker_logs.rows(left) == broker_logs.rows(data)


@pytest.mark.parametrize("second", [one(b"b", b"2", 2, crc=5), one(b"b", b"2", 2)[:-5]], ids=["damaged", "cut"])
def test_damage_and_a_cut_segment_in_the_middle_of_a_log_are_reported_with_the_file(tmp_path, second):
    folder = partition(tmp_path / "t-0", one(b"a", b"1", 0), one(b"a", b"2", 1) + second, one(b"c", b"3", 3))
    error = refused(compact, kafkarec.open(folder), now=NOW)
    assert isinstance(error, kafkarec.CorruptRecordError) and error.file == str(folder / f"{1:020}.log")


def test_memory_is_constant_but_for_the_keys(tmp_path):
    """64 MB of records with one key: the offset map has one entry."""
    value = os.urandom(1 << 16)
    path = tmp_path / f"{0:020}.log"
    with path.open("wb") as file:
        for base in range(1024):
            file.write(one(b"a" if base % 2 else b"%d" % (base % 32), value, base))
    written, peak = peak_of(lambda: sum(map(len, cleaned(kafkarec.open(path), now=NOW))))
    assert written < 1 << 21
    assert peak < 24 << 20
