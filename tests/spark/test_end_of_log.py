"""A log or a value that stops in mid-batch is never taken for a complete one: it is counted and logged, and damage with
endOfLog=strict. Preallocated zeros, a cut at a batch's end and offsets that end before it are no such end."""

import json
import logging
import re

import pyarrow as pa
import pytest
from arrow_values import GOOD, decode, scan
from damage_reports import nothing_is_shipped, report  # noqa: F401
from paths import SEGMENTS
from plain_logs import log
from source_rows import read, repeated
from stream_engine import caught_up

import kafkarec
from spark_udfs import decoding, function_options, functions, schema, udtf
from spark_udfs.source import options

LOG = (SEGMENTS / "all-codecs-0" / "00000000000000000000.log").read_bytes()
TXN = [(SEGMENTS / "txn-0" / f"{base:020}.log").read_bytes() for base in (0, 30)]
BATCHES = kafkarec.scan(LOG)
CORRUPT = {"columnNameOfCorruptRecord": schema.CORRUPT}
# The batch that is cut: where it begins, its first offset, its size.
AT, OFFSET = BATCHES.column("position")[14], BATCHES.column("base_offset")[14]
SIZE = BATCHES.column("size_in_bytes")[14]
# Bytes of it that are left. Its first 6 bytes are zeros.
CUTS = [1, 5, 6, 11, 12, 16, 17, 60, 61, 62, SIZE - 1]


def damage_of(rows):
    return [json.loads(row[schema.CORRUPT]) for row in rows if row[schema.CORRUPT]]


def told(caplog):
    """What the tasks warn of."""
    return [each.message for each in caplog.records if each.levelno == logging.WARNING and each.module == "counters"]


@pytest.mark.parametrize("left", CUTS)
@pytest.mark.parametrize("split", ["4k", "1g"])
def test_a_cut_log_is_told(tmp_path, caplog, left, split):
    folder = log(tmp_path / "orders-0", (0, LOG[: AT + left]))
    given = {"maxPartitionBytes": split} | CORRUPT
    with caplog.at_level(logging.INFO, "spark_udfs"):
        rows = read(tmp_path, mode="FAILFAST", **given)
    assert len(rows) == OFFSET and not damage_of(rows)
    (warning,) = told(caplog)
    file = str(folder / f"{0:020}.log")
    text, _, fields = warning.partition(": ")
    said = json.loads(fields)
    assert text == "incomplete batch at the log's end"
    assert (said["path"], said["position"], said["length"], said["lost_from"]) == (file, AT, left, OFFSET)
    counted = [int(each) for each in re.findall(r" incomplete=(\d+) ", caplog.text)]
    assert counted and sum(counted) == left

    with pytest.raises(kafkarec.CorruptRecordError) as caught:
        read(tmp_path, mode="FAILFAST", endOfLog="strict", **given)
    error = caught.value
    assert (error.file, error.position, error.found, error.reason) == (file, AT, left, "length_beyond_end")
    assert error.expected == (SIZE if left >= 12 else None)
    assert file in str(error) and f"at byte {AT}" in str(error) and f"left {left}" in str(error)
    assert any("endOfLog=tail" in note for note in error.__notes__)

    strict = read(tmp_path, mode="PERMISSIVE", endOfLog="strict", **given)
    assert strict[:-1] == rows
    (damage,) = damage_of(strict)
    found = [damage[name] for name in ("path", "position", "length", "lost_from", "lost_to", "reason")]
    assert found == [file, AT, left, OFFSET, None, "length_beyond_end"]
    caplog.clear()
    with caplog.at_level(logging.INFO, "spark_udfs"):
        assert read(tmp_path, mode="DROPMALFORMED", endOfLog="strict", **given) == rows
    assert [each[:9] for each in told(caplog)] == ["damaged: "]


@pytest.mark.parametrize("left", CUTS)
@pytest.mark.parametrize("split", ["4k", "1g"])
def test_damage_report_prints_it(tmp_path, left, split):
    log(tmp_path / "orders-0", (0, LOG[: AT + left]))
    log(tmp_path / "orders-1", (0, LOG))
    found = report(tmp_path, maxPartitionBytes=split)
    cut, whole = found.files
    assert (cut["incomplete"], cut["incomplete_position"], cut["remaining"]) == (left, AT, left)
    assert (cut["last_offset"], whole["last_offset"]) == (OFFSET - 1, 864)
    assert (whole["incomplete"], whole["incomplete_position"], whole["remaining"]) == (0, None, 0)
    head, *lines = str(found).splitlines()
    assert head.startswith("0 of 2 files damaged, 1 ends in an incomplete batch: 0 ranges, 0 of ")
    assert lines[0] == f"  {cut['file']}"
    assert re.fullmatch(f"    byte {AT}, {left} bytes?: incomplete batch, after offset {OFFSET - 1}", lines[1])
    assert "endOfLog=strict" in lines[2] and len(lines) == 3

    strict = report(tmp_path, maxPartitionBytes=split, endOfLog="strict")
    (row,) = strict.rows
    assert (row["position"], row["length"], row["lost_from"], row["lost_to"]) == (AT, left, OFFSET, None)
    assert strict.files[0]["remaining"] == 0 and strict.files[0]["incomplete"] == left
    assert str(strict).startswith("1 of 2 files damaged: 1 range, ")
    assert f"length_beyond_end, offsets from {OFFSET} on lost" in str(strict)
    assert "incomplete batch" not in str(strict)


@pytest.mark.parametrize("zeros", [0, 12, 16, 17, 4096])
@pytest.mark.parametrize("end", [AT, len(LOG)])
def test_a_batchs_end_and_preallocated_zeros_are_no_such_end(tmp_path, caplog, zeros, end):
    log(tmp_path / "orders-0", (0, LOG[:end] + bytes(zeros)))
    with caplog.at_level(logging.INFO, "spark_udfs"):
        for mode in options.MODES:
            rows = read(tmp_path, mode=mode, endOfLog="strict", **CORRUPT)
            assert len(rows) == (OFFSET if end == AT else 865) and not damage_of(rows)
    assert {each.levelno for each in caplog.records if each.module == "counters"} == {logging.INFO}
    found = report(tmp_path, endOfLog="strict")
    (file,) = found.files
    assert (file["incomplete"], file["remaining"], file["damaged"]) == (0, zeros, 0)
    assert "incomplete" not in str(found)


@pytest.mark.parametrize("left", [11, 17, SIZE - 40])
def test_a_cut_batch_before_zeros_is_told(tmp_path, left):
    """With more zeros than the batch lacks it is a whole one with a wrong checksum, or a wrong size: damage anyway."""
    log(tmp_path / "orders-0", (0, LOG[: AT + left]))
    log(tmp_path / "orders-1", (0, LOG[: AT + left] + bytes(3 * SIZE)))
    strict = report(tmp_path, endOfLog="strict")
    assert [each["damaged"] for each in strict.files] == [1, 1]
    assert [each["damaged"] for each in report(tmp_path).files] == [0, 1]


@pytest.mark.parametrize("end_of_log", options.ENDS)
@pytest.mark.parametrize("left", CUTS)
def test_an_earlier_segment_that_is_cut_is_damage_in_both(tmp_path, end_of_log, left):
    log(tmp_path / "orders-0", (0, LOG[: AT + left]), (1000, repeated(LOG, 2, 1000)[len(LOG) :]))
    with pytest.raises(kafkarec.CorruptRecordError, match=f"at byte {AT} "):
        read(tmp_path, mode="FAILFAST", endOfLog=end_of_log)
    rows = read(tmp_path, mode="PERMISSIVE", endOfLog=end_of_log, **CORRUPT)
    assert [(each["position"], each["length"]) for each in damage_of(rows)] == [(AT, left)]
    found = report(tmp_path, endOfLog=end_of_log)
    assert [(row["position"], row["length"]) for row in found.rows] == [(AT, left)]
    assert [each["incomplete"] for each in found.files] == [0, 0]


@pytest.mark.parametrize("view", ["records", "batches"])
@pytest.mark.parametrize("end", [OFFSET - 300, OFFSET - 1, OFFSET])
def test_offsets_that_end_before_it_are_complete(tmp_path, caplog, view, end):
    log(tmp_path / "orders-0", (0, LOG[: AT + 100]))
    given = {"endOfLog": "strict", "view": view, "mode": "PERMISSIVE"} | CORRUPT
    rows = read(tmp_path, endingOffsets=json.dumps({"orders": {"0": end}}), **given)
    assert not damage_of(rows) and not caplog.records
    assert damage_of(read(tmp_path, startingOffsets=json.dumps({"orders": {"0": end}}), **given))


@pytest.mark.parametrize("left", [3, 40, 77])
def test_read_committed_reports_a_cut_behind_an_open_transaction(tmp_path, left):
    """The cut marker leaves its transaction open, so reading stops far before the cut."""
    markers = [each for each in kafkarec.scan(TXN[1]) if each["is_control"]]
    cut = max(markers, key=lambda each: each["position"])["position"] + left
    folder = log(tmp_path / "txn-0", (0, TXN[0]), (30, TXN[1][:cut]))
    given = {"isolationLevel": "read_committed", "mode": "PERMISSIVE", "endOfLog": "strict"} | CORRUPT
    (damage,) = damage_of(read(tmp_path, **given))
    assert (damage["position"], damage["length"]) == (cut - left, left)
    assert damage["lost_from"] == 292, "the last offset of the log, not that of the last record that is returned"
    stable = kafkarec.open(folder).last_stable_offset
    assert stable < 292
    assert not damage_of(read(tmp_path, endingOffsets=json.dumps({"txn": {"0": stable - 1}}), **given))
    with pytest.raises(kafkarec.CorruptRecordError, match="ends in mid-batch"):
        read(tmp_path, **given | {"mode": "FAILFAST"})


def test_a_stream_waits_for_the_rest_of_its_log_and_refuses_strict(tmp_path):
    log(tmp_path / "orders-0", (0, LOG[: AT + 100]))
    query = caught_up(tmp_path, endOfLog="tail")
    assert len(query.rows["orders", 0]) == OFFSET
    with pytest.raises(ValueError, match="endOfLog=strict is for read, not for stream: a stream reads whole batches"):
        caught_up(tmp_path, endOfLog="STRICT")


def test_another_end_of_log_is_refused():
    with pytest.raises(ValueError, match="must be one of tail, strict"):
        read(SEGMENTS, endOfLog="lenient")


# ---- values ---------------------------------------------------------------------------------------------------------

NAMES = ("position", "length", "lost_from", "lost_to", "next_position", "reason", "detail")
CUT_VALUES = [GOOD + GOOD[:left] for left in (1, 11, 12, 16, 17, 60, 61, len(GOOD) - 1)]


@pytest.mark.parametrize("value", CUT_VALUES, ids=len)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_a_cut_value_is_damage_if_strict(value, piece):
    left = len(value) - len(GOOD)
    values = [GOOD, None, value, b"", GOOD[:30], GOOD]
    tail = decode(values, max_output_bytes=piece).to_pylist()
    assert [None if each is None else len(each) for each in tail] == [5, None, 5, 0, 0, 5]
    strict = decode(values, "PERMISSIVE", end_of_log="strict", max_output_bytes=piece).to_pylist()
    assert [None if each is None else len(each) for each in strict] == [5, None, 6, 0, 1, 5]
    damage = json.loads(strict[2].pop()[schema.CORRUPT])
    assert strict[2] == tail[2]
    assert damage | {"detail": ""} == dict(
        zip(NAMES, [len(GOOD), left, 15, None, len(value), "length_beyond_end", ""], strict=True)
    )
    with pytest.raises(
        kafkarec.CorruptRecordError, match=f"at byte {len(GOOD)}.*: .*left {left}, the value ends"
    ) as one:
        decode(values, end_of_log="strict", max_output_bytes=piece)
    notes = " ".join(one.value.__notes__)
    assert "in row 2 of an input batch of 6" in notes or "in row 0" in notes
    assert "end_of_log='tail'" in notes


@pytest.mark.parametrize("value", CUT_VALUES, ids=len)
def test_explode_and_the_table_function_have_it(value):
    chosen = function_options.from_keywords(mode="PERMISSIVE", end_of_log="strict")
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([value])], ["name", "value"])
    exploded = pa.Table.from_batches(decoding.Explode(chosen)(iter([batch])))
    texts = [each for each in exploded.column(schema.CORRUPT).to_pylist() if each]
    assert [json.loads(each)["length"] for each in texts] == [len(value) - len(GOOD)]
    assert [row[-1] for row in udtf.record_tuples(value, chosen)] == [None] * 5 + texts
    assert [row[-1] for row in udtf.record_tuples(value, function_options.from_keywords())] == [None] * 5
    with pytest.raises(kafkarec.CorruptRecordError, match="the value ends in mid-batch"):
        list(udtf.record_tuples(value, function_options.from_keywords(end_of_log="strict")))


@pytest.mark.parametrize("value", CUT_VALUES, ids=len)
def test_scan_has_it(value):
    assert [len(each) for each in scan([value, GOOD])] == [1, 1]
    first, second = scan([value, GOOD], '{"mode": "permissive", "end_of_log": "Strict"}')
    assert [len(first), len(second)] == [2, 1]
    assert json.loads(first[1][schema.CORRUPT])["position"] == len(GOOD)
    with pytest.raises(kafkarec.CorruptRecordError, match="the value ends in mid-batch"):
        scan([value, GOOD], '{"end_of_log": "strict"}')


def test_wrong_ends_are_refused():
    with pytest.raises(ValueError, match="end_of_log must be one of tail, strict, not 'lenient'"):
        functions.kafka_decode("value", end_of_log="lenient")
    with pytest.raises(ValueError, match="end_of_log must be one of"):
        functions.kafka_scan("value", end_of_log="")
    with pytest.raises(ValueError, match="did you mean end_of_log"):
        function_options.from_literal('{"endOfLog": "strict"}')
    with pytest.raises(ValueError, match=r"must be JSON such as \{"):
        function_options.from_literal("{end_of_log: strict}")
