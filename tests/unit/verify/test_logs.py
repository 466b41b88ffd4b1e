"""verify on logs of several segments: offsets, epochs, producers, what explains a gap, workers side by side."""

from __future__ import annotations

import shutil
from pathlib import Path

import builders
import pytest
from paths import SEGMENTS
from verifying import good, kinds, made, sequenced, verified

import kafkarec
from kafkarec.ops import verify
from kafkarec.ops.verify import parallel

# ---- offsets


def test_segments_that_go_on_where_the_last_one_ended(tmp_path: Path) -> None:
    report = verified(made(tmp_path, {0: [good(0), good(5)], 10: [good(10)]}))
    assert report.state == "ok"


@pytest.mark.parametrize(
    ("segments", "kind"),
    [
        ({0: [good(0), good(3)]}, "offset_overlap"),
        ({0: [good(5), good(0)]}, "offset_overlap"),
        ({7: [good(3), good(8)]}, "offset_below_file_name"),
        ({0: [good(0), good(5)], 8: [good(10)]}, "segment_overlap"),
        ({0: [good(0)], 10: [good(10)]}, "segment_gap"),
        ({0: [good(4)]}, "segment_gap"),
        ({0: [good(0)], 5: [bytes(4096)], 10: [good(10)]}, "segment_gap"),
        ({0: [good(0)], 5: [], 10: [good(10)]}, "segment_gap"),
    ],
    ids=[
        "overlap",
        "backwards",
        "below its name",
        "two segments overlap",
        "a segment is gone",
        "its head is gone",
        "a segment of zeros",
        "an empty segment",
    ],
)
def test_offsets_that_do_not_fit(tmp_path: Path, segments: dict[int, list[bytes]], kind: str) -> None:
    report = verified(made(tmp_path, segments))
    assert kind in kinds(report, "error") and report.exit_status() == 1


@pytest.mark.parametrize("head", [b"\x1f\x8b", b"PAR1", b"PK\x03\x04"], ids=["gzip", "Parquet", "zip"])
def test_a_file_that_is_no_log_is_called_by_its_name(
    tmp_path: Path, head: bytes, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "thing.log").write_bytes(head + b"whatever it is" * 20)
    report = verified(tmp_path / "thing.log")
    [finding] = report.findings
    assert finding.kind == "no_log" and request.node.callspec.id in finding.detail
    assert report.exit_status() == 1 and "salvage" not in str(report)


def test_two_files_of_one_base_offset(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)]})
    shutil.copy(folder / f"{0:020}.log", folder / f"orders-0-{0:020}.log")
    assert "duplicate_segment" in kinds(verified(folder), "error")


def test_a_blob_of_archived_batches_may_begin_anew(tmp_path: Path) -> None:
    """A file that no broker named: its batches all begin at 0. Odd, and no error."""
    path = tmp_path / "archive.bin"
    path.write_bytes(good(0) * 3)
    report = verified(path)
    assert report.ok and kinds(report, "anomaly") == {"offset_overlap"}


def test_a_gap_is_lost_or_compacted_or_undecided(tmp_path: Path) -> None:
    broker = tmp_path / "data"
    never = made(broker, {0: [good(0), good(9)]}, "never-0")
    cleaned = made(broker, {0: [good(0), good(9)]}, "cleaned-0")
    unknown = made(tmp_path, {0: [good(0), good(9)]}, "unknown-0")
    signs = made(tmp_path, {0: [good(0), good(9, last_offset_delta=9)]}, "signs-0")
    (broker / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 9\n")
    assert kinds(verified(never), "error") == {"offset_gap"}
    assert kinds(verified(cleaned)) == set()
    assert kinds(verified(unknown), "anomaly") == {"offset_gap"} and verified(unknown).ok
    assert kinds(verified(signs)) == set()
    for path, why in ((never, "lost"), (cleaned, "compacted"), (unknown, "unexplained")):
        assert [gap.why for gap in verified(path, sequences=True).partitions[0].gaps] == [why]
    whole = verified(broker)
    assert [one.name for one in whole.partitions] == ["never-0", "cleaned-0"] and whole.partitions[0].state == "error"


def test_a_gap_beside_damage_is_the_damages(tmp_path: Path) -> None:
    bad = good(5)[:-1] + b"\xff"
    report = verified(made(tmp_path, {0: [good(0), bad, good(10)]}), sequences=True)
    assert kinds(report) == set()
    [gap] = report.partitions[0].gaps
    assert "offsets 5 to 9: lost" in str(report)
    assert (gap.first, gap.last, gap.why, gap.beside_damage) == (5, 9, "lost", True)


def test_names_of_segments_tell_what_damage_at_an_end_has_cost(tmp_path: Path) -> None:
    bad = good(5)[:-1] + b"\xff"
    report = verified(made(tmp_path, {0: [good(0), bad], 10: [bad, good(15)]}))
    assert [(one.lost_from, one.lost_to) for one in report.damage] == [(5, 9), (10, 14)]
    assert report.partitions[0].lost_offsets == 10
    assert kinds(report) == set()


def test_a_cut_before_a_later_segment_is_damage(tmp_path: Path) -> None:
    report = verified(made(tmp_path, {0: [good(0), good(5)[:-9]], 10: [good(10), good(15)[:-9]]}))
    [damage] = report.damage
    assert (damage.reason, damage.lost_from, damage.lost_to) == ("length_beyond_end", 5, 9)
    assert kinds(report, "note") == {"cut_tail"}  # of the last segment


def test_what_the_cleaner_removed_is_distinguished(tmp_path: Path) -> None:
    """compacted-0 with a gap in an aborted transaction, by its .txnindex, and one after a transaction's data."""
    txn = {"attributes": builders.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
    batches = [good(0, last_offset_delta=9), good(30), good(35, base_sequence=0, **txn), good(41)]
    folder = made(tmp_path, {0: batches})
    (folder / f"{0:020}.txnindex").write_bytes(
        b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (7, 5, 31, 31))
    )
    report = verified(folder, sequences=True)
    assert [(gap.first, gap.why) for gap in report.partitions[0].gaps] == [(10, "aborted"), (40, "control")]


def test_a_base_offset_that_no_checksum_covers(tmp_path: Path) -> None:
    """One bit of it flipped: the batch passes its checksum, and does not fit its neighbours."""
    batches = [good(5 * i) for i in range(20)]
    moved = builders.patched(batches[9], 6, b"\x01")
    report = verified(made(tmp_path, {0: [*batches[:9], moved, *batches[10:]]}))
    [finding] = report.findings
    assert (finding.kind, finding.severity, finding.position) == ("base_offset_wrong", "error", 9 * len(moved))
    assert "base offset 301 where 45 fits, as the batch behind begins at 50" in finding.detail
    assert report.damage == () and report.exit_status() == 1


# ---- leader epochs


def test_epochs_never_go_down(tmp_path: Path) -> None:
    one = made(tmp_path, {0: [good(0, leader_epoch=3), good(5, leader_epoch=2)]}, "one-0")
    two = made(tmp_path, {0: [good(0, leader_epoch=3)], 5: [good(5, leader_epoch=2)]}, "two-0")
    fine = made(tmp_path, {0: [good(0, leader_epoch=3)], 5: [good(5, leader_epoch=4)]}, "fine-0")
    assert kinds(verified(one), "error") == {"epoch_goes_back"}
    assert kinds(verified(two), "error") == {"epoch_goes_back"}
    assert kinds(verified(fine)) == set()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0\n2\n3 0\n4 5\n", None),
        ("0\n3\n2 0\n3 0\n4 5\n", None),
        ("0\n1\n3 0\n", "epoch_differs"),
        ("0\n2\n3 0\n4 7\n", "epoch_differs"),
        ("0\n1\n3\n", "small_file_unreadable"),
        ("what?", "small_file_unreadable"),
    ],
    ids=["right", "an epoch without batches", "an epoch is missing", "wrong offset", "cut", "text"],
)
def test_the_epoch_file_fits_the_batches(tmp_path: Path, text: str, kind: str | None) -> None:
    batches = [good(0, leader_epoch=3), good(5, leader_epoch=4)]
    folder = made(tmp_path, {0: batches}, leader_epoch_checkpoint=text)
    assert kinds(verified(folder), "error") == ({kind} if kind else set())


def test_partition_metadata_is_read(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)]})
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: nonsense\n")
    assert kinds(verified(folder), "error") == {"small_file_unreadable"}


# ---- producers


def committed(epoch: int) -> bytes:
    return builders.end_marker(commit=True, producer_id=1, producer_epoch=epoch, base_offset=5)


TOP = 2**31 - 1


@pytest.mark.parametrize(
    ("batches", "kind"),
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
def test_sequences_by_the_brokers_rules(tmp_path: Path, batches: list[bytes], kind: str | None) -> None:
    folder = made(tmp_path, {0: batches})
    assert kinds(verified(folder)) == set()
    assert kinds(verified(folder, sequences=True)) == ({kind} if kind else set())


def test_a_jump_over_missing_offsets_is_no_news(tmp_path: Path) -> None:
    bad = sequenced(5, 5)[:-1] + b"\xff"
    assert kinds(verified(made(tmp_path, {0: [sequenced(0, 0), bad, sequenced(10, 10)]}), sequences=True)) == set()
    two = made(tmp_path, {0: [sequenced(0, 0)], 10: [sequenced(10, 10)]}, "two-0")
    assert kinds(verified(two, sequences=True)) == {"segment_gap"}


def test_sequences_go_on_over_segments(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [sequenced(0, 0)], 5: [sequenced(5, 0)]})
    [finding] = [one for one in verified(folder, sequences=True).findings if one.severity == "error"]
    assert finding.kind == "sequence_duplicate" and finding.file is not None and finding.file.endswith("5.log")


# ---- places, workers, files that cannot be read


def test_many_places_are_one_finding(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(5 * i, attributes=0x80) for i in range(500)]})
    [finding] = verified(folder).findings
    assert (finding.kind, finding.count, finding.position, finding.offset) == ("attributes_unknown", 500, 0, 0)
    assert len(finding.more) == 5
    assert len(str(verified(folder)).splitlines()) < 12


def test_workers_give_the_same_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    shutil.copytree(SEGMENTS, data)
    log = data / "all-codecs-0" / "00000000000000000000.log"
    raw = bytearray(log.read_bytes())
    raw[9000] ^= 1
    log.write_bytes(raw)
    monkeypatch.setattr("kafkarec.ops.verify.run.FORK_FROM", 0)
    alone = verified(data)
    assert alone.state == "damaged"
    told: list[tuple[str, int, int]] = []
    for workers in ({"threads": 3}, {"processes": 2}):
        for sequences in (False, True):
            wanted = verified(data, sequences=sequences)
            got = verified(data, sequences=sequences, progress=lambda *one: told.append(one), **workers)
            assert got == wanted
    assert told and all(0 < done <= size for _, done, size in told)


def test_a_failure_in_a_worker_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library raises MissingCodecError and is not damage; the other workers stop."""
    folders = [made(tmp_path, {0: [good(0)]}, f"t-{i}") for i in range(4)]

    def fails(segment: object, *more: object) -> None:
        raise kafkarec.MissingCodecError("no such library", reason="missing_codec")

    monkeypatch.setattr(parallel, "examine", fails)
    for workers in ({"threads": 1}, {"threads": 2}, {"processes": 2}):
        monkeypatch.setattr("kafkarec.ops.verify.run.FORK_FROM", 0)
        with pytest.raises(kafkarec.MissingCodecError):
            verify.verify(folders, **workers)  # type: ignore[arg-type]


def test_a_wrapper_at_the_begin_of_a_segment_misses_nothing(tmp_path: Path) -> None:
    """Its header has the last offset only, so no gap before it is reported."""
    rows = [(offset, 0, b"k", b"v", []) for offset in range(9)]
    data = kafkarec.encode(rows, magic=1, compression="gzip")
    report = verified(made(tmp_path, {0: [data], 9: [good(9)]}))
    assert kinds(report) == set()
