"""damage_report lists every damaged range of a folder once, with sums per file, whatever the split size is."""

import json
from itertools import islice

import pytest
from builders import flipped
from damage_reports import Frames, nothing_is_shipped, report  # noqa: F401
from paths import SEGMENTS
from plain_logs import log
from source_rows import read, repeated, spoil

import kafkarec
from spark_udfs import count, damage, damage_report, schema
from spark_udfs.source import counters, gaps, options
from spark_udfs.source.batch import BatchReader
from spark_udfs.source.stream import StreamReader

TXN = (SEGMENTS / "txn-0" / "00000000000000000000.log").read_bytes()


@pytest.mark.parametrize("cut", ["64k", "1g"])
@pytest.mark.parametrize("seed", range(4))
def test_ranges_equal_those_of_the_local_api_and_of_the_data_source(tmp_path, cut, seed):
    data = repeated(TXN, 40, 1000)
    folder = log(tmp_path / "orders-3", (0, spoil(data, seed, 6)), (39_030, TXN[: len(TXN) - 7]))
    result = report(tmp_path, maxPartitionBytes=cut)
    assert len({each["file"] for each in result.files}) == 2
    opened = kafkarec.open(folder)
    expected = [
        {"topic": "orders", "partition": 3, "file": each.file} | {name: getattr(each, name) for name in fields}
        for each in opened.read(errors="skip").damage
        for fields in [("position", "length", "lost_from", "lost_to", "next_position", "reason", "detail")]
    ]
    assert list(result.rows) == expected and len(expected) >= 3
    rows = read(tmp_path, mode="PERMISSIVE", maxPartitionBytes=cut, columnNameOfCorruptRecord=schema.CORRUPT)
    corrupt = [json.loads(row[schema.CORRUPT]) for row in rows if row[schema.CORRUPT]]
    assert [(each["path"], each["position"], each["reason"]) for each in corrupt] == [
        (row["file"], row["position"], row["reason"]) for row in result.rows
    ]
    good = [row for row in rows if not row[schema.CORRUPT]]
    assert sum(each["records"] for each in result.files) == len(good)
    control = sum(record.is_control for record in opened.read(errors="skip", control=True, columns=["is_control"]))
    assert sum(each["control_records"] for each in result.files) == control


def test_the_damage_of_many_ranges_does_not_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(counters, "MOST_RANGES", 2)
    batches = [bytes(batch.raw) for batch in kafkarec.batches(TXN)]
    bad = [flipped(raw) if number % 2 else raw for number, raw in enumerate(batches)]
    log(tmp_path / "orders-0", bad)
    result = damage_report(Frames(), tmp_path)
    assert len(result.rows) == 2 and result.left_out == result.files[0]["damaged"] - 2 == len(batches) // 2 - 2
    assert f"and {result.left_out} ranges more" in str(result)


@pytest.mark.parametrize("cut", ["1", "1g"])
def test_restored_headers_are_counted_and_logged(tmp_path, caplog, cut):
    """FAILFAST fails on them, and says that this report lists all damage."""
    bad, second = bytearray(TXN), next(islice(kafkarec.batches(TXN), 1, None)).position
    bad[second + 9] ^= 0x10  # in the length
    log(tmp_path / "orders-0", (0, bytes(bad)))
    result = report(tmp_path, maxPartitionBytes=cut)
    first, *rest = str(result).splitlines()
    assert first.startswith("0 of 1 files damaged, 1 header restored: 0 ranges, 0 of ")
    assert rest == ["  (restored headers: their batches are read; restore=False lists them as damage)"]
    assert [each["restored"] for each in result.files] == [1]
    (told,) = (each.message for each in caplog.records if each.message.startswith("restored: "))
    assert json.loads(told.removeprefix("restored: "))["position"] == second
    kept = report(tmp_path, maxPartitionBytes=cut, restore=False)
    assert [row["position"] for row in kept.rows] == [second] and kept.files[0]["restored"] == 0


# ---- missing segments ---------------------------------------------------------------------------------------------


def without_the_second(folder):
    """Write a log of three segments without the second one; return the missing offsets."""
    log(folder, (0, TXN), (60, repeated(TXN, 3, 30)[2 * len(TXN) :]))
    return list(range(30, 60))


@pytest.mark.parametrize("size", ["1g", "500"])
def test_a_missing_segment_is_told_by_report_read_and_count(tmp_path, caplog, size):
    missing = without_the_second(tmp_path / "orders-0")
    result = report(tmp_path, maxPartitionBytes=size)
    (row,) = result.rows
    assert (row["reason"], row["lost_from"], row["lost_to"]) == ("segment_gap", missing[0], missing[-1])
    assert (row["position"], row["length"]) == (len(TXN), 0) and row["file"].endswith(f"{0:020}.log")
    first, *_, last = str(result).splitlines()
    assert first.startswith("0 of 2 files damaged, 30 offsets missing: 0 ranges, 0 of ")
    assert last.strip() == (
        f"byte {len(TXN)}, 0 bytes: offsets 30 to 59 are missing before the next segment, {60:020}.log: lost, unless "
        f"the topic is compacted"
    )
    for given in ({}, {"view": "batches"}):
        caplog.clear()
        read(tmp_path, maxPartitionBytes=size, **given)
        assert caplog.text.count("offsets 30 to 59 are missing") == 2, given  # of the driver, and of the task
    caplog.clear()
    count(Frames(), tmp_path, maxPartitionBytes=size)
    assert caplog.text.count("offsets 30 to 59 are missing") == 2  # of the task, and of the driver
    caplog.clear()
    for bounds in ({"endingOffsets": '{"orders": {"0": 20}}'}, {"startingOffsets": '{"orders": {"0": 60}}'}):
        read(tmp_path, maxPartitionBytes=size, **bounds)
    assert not caplog.text


def driver_warnings(caplog, folder, **given):
    """What is logged of gaps when a batch is planned, and the same of a micro-batch."""
    chosen, told = options.parse({"path": str(folder), "failOnDataLoss": "false", **given}, "read"), []
    for plan in (
        lambda: BatchReader(chosen, ()).plan_tasks(),
        lambda: StreamReader(chosen, ()).partitions({}, {"orders": {"0": 1 << 40}}),
    ):
        caplog.clear()
        plan()
        messages = [each.message for each in caplog.records]
        told.append([each for each in messages if "missing before" in each or "gaps" in each])
    assert told[0] == told[1]
    return told[0]


@pytest.mark.parametrize("size", ["1g", "500"])
def test_the_driver_tells_missing_segments(tmp_path, caplog, size):
    """Also those of a log without indexes; not behind a damaged end, which only a task can judge."""
    folder = tmp_path / "orders-0"
    without_the_second(folder)
    call = f"spark_udfs.damage_report(spark, {str(tmp_path)!r})"
    text = f"offsets 30 to 59 are missing before the next segment, {60:020}.log: lost, unless the topic is compacted"
    assert driver_warnings(caplog, tmp_path, maxPartitionBytes=size) == [f"{folder}/{0:020}.log: {text}; {call}"]
    log(folder, (0, flipped(TXN)))
    assert driver_warnings(caplog, tmp_path, maxPartitionBytes=size) == []


def test_the_driver_looks_first_where_a_segment_may_be_missing(tmp_path, caplog, monkeypatch):
    """Where it cannot look at all ends: at the one with the most offsets for its bytes. Of many gaps it names some."""
    folder = tmp_path / "orders-0"
    log(folder, *((30 * n, repeated(TXN, n + 1, 30)[n * len(TXN) :]) for n in range(40) if n != 20))
    monkeypatch.setattr(gaps, "GAP_SEARCH_BYTES", gaps.BYTES_PER_FILE + len(TXN))
    (told,) = driver_warnings(caplog, tmp_path)
    assert told.startswith(f"{folder}/{570:020}.log: offsets 600 to 629 are missing")
    monkeypatch.undo()
    for path in sorted(folder.iterdir())[1::2]:
        path.unlink()
    *named, rest = driver_warnings(caplog, tmp_path)
    assert len(named) == 10 and named == sorted(named) and rest.startswith("9 more gaps between segments; spark_udfs")


def test_missing_offsets_of_a_compacted_topic_are_listed_as_normal(tmp_path, caplog):
    without_the_second(tmp_path / "orders-0")
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 60\n")
    (row,) = report(tmp_path).rows
    assert row["detail"].endswith("the topic is compacted, and so may lack them")
    assert driver_warnings(caplog, tmp_path) == []
    assert read(tmp_path, startingOffsets='{"orders": {"0": 40}}')[0]["offset"] == 60


def test_damage_at_a_segments_end_is_no_missing_segment(tmp_path):
    without_the_second(tmp_path / "orders-0")
    log(tmp_path / "orders-0", (0, flipped(TXN)))
    assert [row["reason"] for row in report(tmp_path).rows] == ["crc_mismatch"]


def test_an_offset_of_a_missing_segment_is_data_loss(tmp_path):
    without_the_second(tmp_path / "orders-0")
    for start, is_lost in ((29, False), (30, True), (59, True), (60, False)):
        given = {"startingOffsets": json.dumps({"orders": {"0": start}})}
        if is_lost:
            with pytest.raises(ValueError, match=f"offset {start} of orders-0, which no segment has: 30 to 59 are"):
                read(tmp_path, **given)
        assert read(tmp_path, failOnDataLoss="false", **given)


LOSSES = [(3, 7), (3, 3), (3, 2), (3, 1), (None, 2), (3, None), (None, None)]


def test_text_names_file_byte_reason_and_offsets():
    place = {"topic": "t", "partition": 0, "file": "/logs/t-0/0.log"}
    row = place | {"position": 10, "length": 5, "next_position": 15, "reason": "crc_mismatch", "detail": "..."}
    rows = tuple(row | {"lost_from": first, "lost_to": last} for first, last in LOSSES)
    sums = {"bytes": 40, "batches": 1, "records": 2, "damaged": 7, "damaged_bytes": 35, "remaining": 0}
    sums |= {"control_records": 0, "incomplete": 0, "missing_offsets": 0, "restored": 0}
    text = str(damage.DamageReport(rows, (place | sums, place | dict.fromkeys(sums, 0)), 0, None))
    assert text.splitlines() == [
        "1 of 2 files damaged: 7 ranges, 35 of 40 bytes; 1 batch with 2 records are good",
        "  /logs/t-0/0.log",
        "    byte 10, 5 bytes: crc_mismatch, offsets 3 to 7 lost",
        "    byte 10, 5 bytes: crc_mismatch, offset 3 lost",
        "    byte 10, 5 bytes: crc_mismatch, no offset lost",
        "    byte 10, 5 bytes: crc_mismatch, offsets from 3 on lost",
        "    byte 10, 5 bytes: crc_mismatch, offsets up to 2 lost",
        "    byte 10, 5 bytes: crc_mismatch, offsets from 3 on lost",
        "    byte 10, 5 bytes: crc_mismatch, lost offsets unknown",
    ]


def test_text_counts_control_records_apart_and_has_each_incomplete_end():
    counts = dict.fromkeys(counters.COUNTS, 0)
    files = [
        {"file": f"/logs/t-{number}/0.log"}
        | counts
        | {"bytes": 90, "batches": 2, "records": 3, "control_records": number % 2, "remaining": 9, "incomplete": 9}
        | {"incomplete_position": 81, "last_offset": number or None}
        for number in range(25)
    ]
    files.append(files[0] | {"incomplete": 0})  # preallocated zeros
    lines = str(damage.DamageReport((), tuple(files), 0, None)).splitlines()
    assert lines[0] == (
        "0 of 26 files damaged, 25 end in an incomplete batch: 0 ranges, 0 of 2340 bytes; "
        "52 batches with 78 records and 12 control records are good"
    )
    assert lines[1:5] == [
        "  /logs/t-0/0.log",
        "    byte 81, 9 bytes: incomplete batch, without a batch before it",
        "  /logs/t-1/0.log",
        "    byte 81, 9 bytes: incomplete batch, after offset 1",
    ]
    assert lines[-2] == "  and 5 incomplete batches more" and len(lines) == 43


@pytest.mark.parametrize(
    "options, message",
    [
        ({"startingOffsets": "earliest"}, "startingOffsets is for read, .*, not for damage_report"),
        ({"checkCrcs": "perhaps"}, "true or false"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    log(tmp_path / "orders-0", (0, TXN))
    with pytest.raises(ValueError, match=message):
        report(tmp_path, **options)
