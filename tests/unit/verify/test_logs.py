"""verify on logs of several segments: offsets, producers, causes of gaps, parallel workers."""

import gzip
import os
import shutil

import builders
import pytest
from measured_calls import peak_of
from paths import SEGMENTS
from plain_logs import batch, data_folder, flip, log, sequenced
from verify_reports import kinds, verified

import kafkarec
from kafkarec import codecs
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops import verify
from kafkarec.sidecars import txn_index

# ---- offsets


def test_offsets_may_restart_in_a_file_of_archived_batches(tmp_path):
    """A file name that no broker writes; all batches begin at offset 0. Odd, but no error."""
    path = tmp_path / "archive.bin"
    path.write_bytes(batch(0) * 3)
    report = verified(path)
    assert report.ok and kinds(report, "anomaly") == {"offset_overlap"}


def test_a_gap_is_lost_or_compacted_or_undecided(tmp_path):
    broker = tmp_path / "data"
    never = log(broker / "never-0", [batch(0), batch(9)])
    cleaned = log(broker / "cleaned-0", [batch(0), batch(9)])
    unknown = log(tmp_path / "unknown-0", [batch(0), batch(9)])
    signs = log(tmp_path / "signs-0", [batch(0), batch(9, last_offset_delta=9)])
    data_folder(broker, cleaner="cleaned 0 9")
    assert kinds(verified(never), "error") == {"offset_gap"}
    assert kinds(verified(cleaned)) == set()
    assert kinds(verified(unknown), "anomaly") == {"offset_gap"} and verified(unknown).ok
    assert kinds(verified(signs)) == set()
    whole = verified(broker)
    assert [one.name for one in whole.partitions] == ["never-0", "cleaned-0"] and whole.partitions[0].state == "error"


# ---- producers


def committed(epoch):
    return builders.end_marker(5, 1, commit=True, producer_epoch=epoch)


TOP = 2**31 - 1


@pytest.mark.parametrize(
    "batches, kind",
    [
        ([sequenced(0, 0), sequenced(5, 5), sequenced(10, 10)], None),
        ([sequenced(0, 90), sequenced(5, 95)], None),
        ([sequenced(0, 0), sequenced(5, 0, producer=2), sequenced(10, 5)], None),
        ([sequenced(0, 0), sequenced(5, 0, epoch=1)], None),
        ([sequenced(0, TOP - 4), sequenced(5, 0)], None),
        ([sequenced(0, TOP - 2), sequenced(5, 2)], None),
        ([sequenced(0, 0), sequenced(5, 0)], "sequence_duplicate"),
        ([sequenced(5 * i, 5 * i) for i in range(5)] + [sequenced(25, 0)], "sequence_duplicate"),
        ([sequenced(5 * i, 5 * i) for i in range(6)] + [sequenced(30, 0)], "sequence_order"),
        ([sequenced(0, 0), sequenced(5, 10)], "sequence_gap"),
        ([sequenced(0, TOP - 4), sequenced(5, 1)], "sequence_gap"),
        ([sequenced(0, 10), sequenced(5, 5)], "sequence_order"),
        ([sequenced(0, 0), sequenced(5, 5, epoch=1)], "sequence_gap"),
        ([sequenced(0, 0, epoch=1), sequenced(5, 0)], "producer_epoch_goes_back"),
        ([sequenced(0, 0), committed(1), sequenced(6, 5, epoch=1)], "sequence_gap"),
        ([sequenced(0, 0), committed(1), sequenced(6, 0, epoch=1)], None),
        ([sequenced(0, 0), committed(0), sequenced(6, 5)], None),
    ],
)
def test_sequences_by_the_brokers_rules(tmp_path, batches, kind):
    folder = log(tmp_path / "orders-0", batches)
    assert kinds(verified(folder)) == set()
    assert kinds(verified(folder, sequences=True)) == ({kind} if kind else set())


@pytest.mark.parametrize("first, kind", [(5, None), (10, "sequence_gap")])
def test_sequences_continue_over_a_segment_without_producers(tmp_path, first, kind):
    folder = log(tmp_path / "orders-0", [sequenced(0, 0)], [batch(5), batch(10)], [sequenced(15, first)])
    assert kinds(verified(folder, sequences=True)) == ({kind} if kind else set())


def test_a_sequence_gap_over_missing_offsets_is_not_reported(tmp_path):
    bad = sequenced(5, 5)[:-1] + b"\xff"
    one = log(tmp_path / "one-0", [sequenced(0, 0), bad, sequenced(10, 10)])
    assert kinds(verified(one, sequences=True)) == set()
    two = log(tmp_path / "two-0", [sequenced(0, 0)], [sequenced(10, 10)])
    assert kinds(verified(two, sequences=True)) == {"segment_gap"}


# ---- places, workers, files that cannot be read


def test_transactions_of_later_segments(tmp_path):
    """Of one that is open for hours, the append time of its batch and the index beside its own segment tell."""

    def at(base, hours, attributes=builders.LOG_APPEND, producer_id=-1):
        time = builders.NOW + hours * 3_600_000
        stamps = {"base_timestamp": time, "max_timestamp": time}
        return batch(base, 1, attributes=attributes, producer_id=producer_id, **stamps)

    def transaction(number, attributes):
        second = [at(10, 0, builders.TRANSACTIONAL | attributes, producer_id=1), at(12, 0)]
        return log(tmp_path / f"t-{number}", [at(0, 0)], second, [at(20, 9)])

    open_for_hours, of_create_time, aborted = (
        transaction(number, stamp) for number, stamp in enumerate((builders.LOG_APPEND, 0, builders.LOG_APPEND))
    )
    entry = AbortedTransaction(1, 10, 11, 12)
    (aborted / f"{10:020}.txnindex").write_bytes(txn_index.write([entry]))
    assert "transaction_hanging" in kinds(verified(open_for_hours))
    assert "transaction_hanging" not in kinds(verified(of_create_time)) | kinds(verified(aborted))


def test_workers_give_the_same_report(tmp_path, monkeypatch):
    data = tmp_path / "data"
    shutil.copytree(SEGMENTS, data)
    flip(data / "all-codecs-0" / "00000000000000000000.log", 9000)
    alone = verified(data)
    assert alone.state == "damaged"
    progress = []
    for is_local in (True, False):
        monkeypatch.setattr("kafkarec.ops.verify.run.is_local", lambda log, answer=is_local: answer)
        for sequences in (False, True):
            wanted = verified(data, sequences=sequences)
            got = verified(data, sequences=sequences, progress=lambda *one: progress.append(one), threads=3)
            assert got == wanted
    assert progress and all(0 < done <= size for _, done, size in progress)


def test_a_failure_in_a_worker_stops_all(tmp_path, monkeypatch):
    """A missing library raises MissingCodecError and is not damage; the other workers stop."""
    payload = b"".join(builders.compress("gzip", one) for one in builders.records(2))
    members = builders.batch(count=2, codec="gzip", payload=payload)  # two, which the C core leaves to Python
    folders = [log(tmp_path / f"t-{i}", [members]) for i in range(4)]
    assert verified(folders).ok

    def fails(*given):
        raise codecs.MissingCodec("gzip", "isal")

    monkeypatch.setattr(codecs, "decompress_by_module", fails)
    for is_local in (True, False):
        monkeypatch.setattr("kafkarec.ops.verify.run.is_local", lambda log, answer=is_local: answer)
        for threads in (1, 2):
            with pytest.raises(kafkarec.MissingCodecError):
                verify.verify(folders, threads=threads)


def test_a_packed_file_that_is_no_copy_of_a_segment_is_listed(tmp_path):
    """A copy of a segment is verified and salvaged with it; of a packed index both say that it is left out."""
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(batch(0))
    for other in (log.with_suffix(".log.gz"), log.with_suffix(".index.gz")):
        other.write_bytes(gzip.compress(batch(0)))
    report = kafkarec.verify(log.parent)
    assert sorted(one.kind for one in report.findings) == ["duplicate_segment", "file_left_out"]
    assert f"{0:020}.index.gz: " in str(report)
    left_out = kafkarec.salvage(log.parent, tmp_path / "out").left_out
    assert [os.path.basename(path) for path, _ in left_out] == [f"{0:020}.index.gz"]


def test_the_transactions_of_many_logs_are_not_in_memory_together(tmp_path):
    """A broker has thousands of partitions; of each one the findings are kept for the report."""
    peaks = []
    for logs in (2, 10):
        for number in range(logs):
            batches = []
            for offset in range(0, 600, 2):
                who = {"producer_id": offset, "producer_epoch": 0}
                batches.append(batch(offset, 1, attributes=builders.TRANSACTIONAL, **who))
                batches.append(builders.end_marker(commit=True, base_offset=offset + 1, **who))
            log(tmp_path / f"{logs}" / f"orders-{number}", batches)
        report, peak = peak_of(lambda logs=logs: kafkarec.verify(tmp_path / f"{logs}", threads=1))
        peaks.append(peak)
        assert (sum(one.batches for one in report.files), len(report.partitions)) == (600 * logs, logs)
    assert peaks[1] < peaks[0] * 1.5
