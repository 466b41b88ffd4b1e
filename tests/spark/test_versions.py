"""One application of some twenty steps on each Spark: its rows are those of the standalone library, and what a version
cannot do fails as the table in docs/spark/reference.md says.

Without KAFKAREC_SPARK_ENVIRONMENTS only the newest Spark, that of the other tests; with it (a folder that
tools/spark_versions made) all others.
"""

import json
from datetime import UTC, datetime

import doc_spark
import golden
import pytest
from paths import ROOT, SEGMENTS, VECTORS
from spark_rows import micros, record_row, value_rows
from spark_submit import ONE_EXECUTOR, WITH_CODEGEN, Application

import kafkarec
from spark_udfs import decoding, internal, schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RISING = (
    "v2-none-logappend",
    "v2-gzip-headers",
    "v2-zstd-transactional",
    "v1-lz4-gaps",
    "v2-null-key-null-value",
    "v2-ts-large-deltas",
)
YEAR_10000 = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() + 86400) * 1_000_000
TXN = kafkarec.open(SEGMENTS / "txn-0")


class Run:
    """What the application did on one version."""

    def __init__(self, version, steps, work, log):
        self.version, self.steps, self.work, self.log = version, steps, work, log

    def rows(self, step):
        """The rows of a step; skips the test if this version cannot do it, which another test checks."""
        (line,) = (each for each in doc_spark.LINES if each.step == step)
        if not line.works_on(self.version):
            return None
        assert "rows" in self.steps[step], self.steps[step]
        return self.steps[step]["rows"]


@pytest.fixture(scope="module")
def run(spark_version, fat, tmp_path_factory):
    (version, python), folder = spark_version, tmp_path_factory.mktemp("versions")
    once = WITH_CODEGEN | {"spark.task.maxFailures": "1"}  # what fails here fails again
    words = ("versions.py", fat, python, folder, str(VECTORS), str(folder / "work"))
    steps = Application(*words, master=ONE_EXECUTOR, **once).result()
    log = steps.pop("log")
    (folder / "log.txt").write_text(log)
    return Run(version, steps, folder / "work", log)


def of_values(**options):
    found = {}
    for case in golden.vectors():
        rows = [record_row(record) for record in kafkarec.decode(case.bytes, **options)]
        found[case.name] = rows or [[None] * 9]
    return found


def of_files(folder, **options):
    log = kafkarec.open(SEGMENTS / folder)
    rows = ([log.topic, log.partition, *record_row(each)[:6]] for each in log.read(**options))
    return [[topic, partition, *row] for topic, partition, *row in rows]


def ordered(rows):
    return sorted(rows, key=json.dumps)


def test_every_step_is_a_line_of_the_table_and_ends_as_it_says(run):
    assert list(run.steps) and sorted(run.steps) == sorted(line.step for line in doc_spark.LINES)
    wrong = {}
    for line in doc_spark.LINES:
        outcome, error = run.steps[line.step], doc_spark.expected_error(line, run.version)
        if ("rows" in outcome) if error else ("rows" not in outcome):
            wrong[line.step] = outcome.get("message", "it has rows")
        elif error and error not in outcome["message"]:
            wrong[line.step] = outcome["message"]
    assert wrong == {}
    print(f"Spark {run.version}: {sum(each['seconds'] for each in run.steps.values()):.0f} s in {len(run.steps)} steps")


def test_register_says_what_is_missing_and_what_to_write_instead(run):
    printed, again = run.rows("register")
    assert again is True
    missing = [line for line in printed.splitlines() if "NOT HERE" in line]
    if run.version == "3.5":
        assert len(missing) == 4
        assert 'spark.read.format("kafkarec") needs Spark 4.0, this is 3.5.9; write spark_udfs.read_log' in printed
        assert "LATERAL kafka_explode needs Spark 4.0" in printed
    else:
        assert missing == []
    healthy, report = run.rows("doctor")
    assert healthy, report


def test_values_stay_arrow_arrays(run):
    assert run.rows("arrow_values") == ([True] if run.version in ("3.5", "4.0") else None)


def test_decoded_rows_equal_the_standalone_decode(run):
    expected = of_values()
    zone, columns = run.rows("in_new_york"), run.rows("column_functions")
    with_records = {name: rows for name, rows in expected.items() if rows != [[None] * 9]}
    assert run.rows("explode") == with_records and len(with_records) < len(expected)
    for found in (run.rows("sql_decode"), zone["decode"]):
        assert [name for name in expected if found[name] != expected[name]] == [] and len(found) == len(expected)
    assert columns["decode"] == of_values(control=True)
    assert zone["files"] == ordered(of_files("txn-0"))


def test_damaged_values_keep_everything_else(run):
    found = run.rows("sql_decode_permissive")
    assert len(found) == len(golden.invalid())
    for case in golden.invalid():
        actual = kafkarec.decode(case.bytes, errors="skip")
        reasons = [decoding.corrupt_record_json(damage) for damage in actual.damage]
        assert [row[-1] for row in found[case.name] if row[-1]] == reasons, case
        good = [row for row in found[case.name] if row[-1] is None]
        assert good == ([record_row(record) for record in actual] or [[None] * 9] * (not reasons)), case
    size = len(golden.vector("v2-none-logappend").bytes)
    spoiled = run.rows("failfast")
    assert f"byte {size}" in spoiled and "base offset 10" in spoiled


def test_scanned_rows_equal_the_standalone_scan(run):
    expected = {}
    names = ("position", "crc", "record_count", "compression", "timestamp_type", "max_timestamp")
    for case in golden.vectors():
        batches = kafkarec.scan(case.bytes)
        rows = [list(row) for row in zip(*map(batches.column, names), strict=True)]
        for row in rows:
            row[4] = schema.NO_TIMESTAMP_TYPE if row[4] is None else int(row[4])
            row[5] = micros(row[5])
        if rows:
            expected[case.name] = rows
    assert run.rows("sql_scan") == expected
    assert run.rows("column_functions")["scan"] == expected


def test_encoded_and_decoded_again(run):
    expected = {name: value_rows(golden.vector(name).bytes) for name in RISING}
    assert run.rows("sql_encode") == expected
    assert run.rows("in_new_york")["encode"] == expected
    assert run.rows("column_functions")["encode"] == expected


def test_functions_of_the_user_get_and_return_pandas(run):
    found = run.rows("beside_a_function_of_the_user")
    counts = {name: len(value_rows(golden.vector(name).bytes)) for name in RISING}
    assert found["before"] == {name: [[2 * count]] for name, count in counts.items()}
    assert found["after"] == {name: [[count]] for name, count in counts.items()}


def test_internal_topics(run):
    records = list(kafkarec.open(SEGMENTS / "__consumer_offsets-0").read())
    expected = []
    for record in records:
        value = internal._struct("__consumer_offsets" if record.offset else "orders", record.key, record.value)
        expected.append([record.offset, value and list(value)])
    assert records[0].offset == 0 and expected[0] == [0, None]
    assert run.rows("sql_internal") == ordered(expected) == run.rows("column_functions")["internal"]


def test_damage_of_files(run):
    log = kafkarec.open(run.work / "damaged" / "orders-0").read(errors="skip")
    (damage,) = log.damage
    printed, rows = run.rows("damage_report")
    assert printed.startswith(f"1 of 1 files damaged: 1 range, {damage.length} of ")
    lost = [damage.position, damage.length, damage.lost_from, damage.lost_to, damage.next_position, damage.reason]
    assert rows == [["orders", 0, *lost]]
    reasons = [json.loads(bad) for _, bad in run.rows("read_log")["damaged"] if bad]
    assert [(each["position"], each["reason"]) for each in reasons] == [(damage.position, damage.reason)]
    assert sorted(offset for offset, bad in run.rows("read_log")["damaged"] if not bad) == [each.offset for each in log]


def test_a_log_and_a_value_that_stop_in_mid_batch(run):
    whole = kafkarec.open(SEGMENTS / "txn-0" / f"{30:020}.log")
    last = whole.scan()[-1]
    records = len(whole.read()) - (0 if last["is_control"] else last["record_count"])
    left = last["size_in_bytes"] - 5
    found = run.rows("end_of_log")
    assert (found["tail"], found["values"]) == (records, records)
    for name in ("strict", "strict values"):
        ((offset, bad),) = found[name]
        damage = json.loads(bad)
        assert (offset, damage["position"], damage["length"]) == (None, last["position"], left)
    place = f"at byte {last['position']} (base offset {last['base_offset']}): claimed {left + 5}, left {left}, the "
    assert place + "file ends in mid-batch" in found["failfast"]
    assert place + "value ends in mid-batch" in found["strict column"]
    assert found["report"].startswith("0 of 1 files damaged, 1 ends in an incomplete batch: ")
    assert (
        f"byte {last['position']}, {left} bytes: incomplete batch, after offset {last['base_offset'] - 1}"
        in (found["report"])
    )


def test_rows_of_files(run):
    both = ordered(of_files("txn-0") + of_files("all-codecs-0"))
    found = run.rows("read_log")
    assert found["all"] == both
    committed = (of_files(f"{topic}-0", isolation="read_committed") for topic in ("txn", "all-codecs"))
    assert found["committed"] == ordered([row for rows in committed for row in rows])
    batches = TXN.scan()
    assert found["batches"] == len(batches)
    assert sorted(row[0] for row in found["few"]) == [each.offset for each in TXN.read(start_offset=100)]
    assert found["none"] == 0
    source = run.rows("read")
    if source is not None:
        assert source == {"all": both, "view": len(batches), "none": 0}


@pytest.mark.parametrize(
    "step, folder", [("read_log", "gap-read_log/txn-0"), ("read", "gap-read/txn-0"), ("stream", "stream/txn-1")]
)
def test_missing_offsets_are_told_on_the_driver(run, step, folder):
    if run.rows(step) is not None:
        path = run.work / folder
        text = f"{path}/{30:020}.log: offsets 293 to 399 are missing before the next segment, {400:020}.log: lost"
        call = f"spark_udfs.damage_report(spark, {str(path.parent)!r})"
        assert f"{text}, unless the topic is compacted; {call}" in run.log


def test_the_number_of_records_and_offsets_at_a_time(run):
    found = run.rows("count")
    logs = {path.name: kafkarec.open(path) for path in sorted(SEGMENTS.glob("*-0"))}
    expected = {name: len(log.read()) for name, log in logs.items()}
    assert found["all"] == [found["read"], expected] and found["read"] == sum(expected.values())
    committed = {name: len(logs[name].read(isolation="read_committed")) for name in ("all-codecs-0", "txn-0")}
    assert found["committed"] == committed
    damaged = kafkarec.open(run.work / "damaged" / "orders-0")
    assert found["damaged"] == len(damaged.read(errors="skip"))
    assert f"crc mismatch in {damaged.segments[0].path} at byte " in found["failfast"]
    offsets, after = run.rows("offsets_at")
    at = {name: logs[f"{name}-0"].offset_for_timestamp(1700000000005) for name in ("all-codecs", "txn")}
    assert offsets == {name: {"0": offset} for name, offset in at.items()}
    assert after == sum(len(logs[f"{name}-0"].read(start_offset=offset)) for name, offset in at.items())


def test_lateral(run):
    found = run.rows("lateral")
    if found is not None:
        expected = of_values()
        for rows in (*expected.values(), *found.values()):
            for row in rows:
                row[1] = None if row[1] is None or row[1] >= YEAR_10000 else row[1]
            rows.sort(key=json.dumps)  # a join moves rows
        assert found == expected


def test_written_folders(run):
    for number in range(2):
        log = kafkarec.open(run.work / "written" / f"made-{number}")
        rows = [(each.offset, each.value, each.timestamp) for each in log.read()]
        assert rows == [(n, str(n).encode(), 1_700_000_000_000 + n) for n in range(number, 100, 2)]
        assert log.verify().ok
    assert "offsets 0 to 8 do not follow" in run.rows("write_log")
    if doc_spark.expected_error(line_of("write"), run.version) is None:
        for mode, times in (("append", 2), ("overwrite", 1)):
            logs = kafkarec.open(run.work / f"made-{mode}")
            assert sorted(int(each.value or b"") for log in logs for each in log.read()) == sorted(
                [*range(100)] * times
            )
            assert len({each.partition for each in logs}) == 3


def test_a_table_has_the_rows_of_the_log_each_once(run):
    found, everything = run.rows("write_table"), of_files("txn-0")
    assert found["rows"] == ordered(everything)
    first = sum(row[2] < 30 for row in everything)
    end = kafkarec.open(SEGMENTS / "txn-0").next_offset
    assert found["calls"] == [[first, [0, 30]], [len(everything) - first, [30, end]], [0, [end, end]]]
    assert found["days"] == ["2023-11-14"]


def test_streams(run):
    found = run.rows("stream")
    if found is None:
        return
    everything = of_files("txn-0")
    assert found["first"] == ordered([row for row in everything if row[2] < 30])
    assert found["second"] == ordered(everything)
    new, committed = run.work / "stream" / "txn-1", {"isolation": "read_committed"}
    assert found["new partition"] == ordered(everything + of_files(new))
    assert found["committed"] == ordered(of_files("txn-0", **committed) + of_files(new, **committed))
    assert found["lag"] == [0, {"txn-0": 0}]
    assert found["idle"][0] == found["idle"][1]
    assert "data loss in txn-0: " in run.rows("stream_data_loss")
    limited = run.rows("stream_limit")
    if limited is not None:
        assert limited == [True, ordered(everything)]


def test_a_stream_is_written_once(run):
    if doc_spark.expected_error(line_of("write_stream"), run.version) is None:
        log = kafkarec.open(run.work / "copy" / "txn-0")
        assert [record_row(each) for each in log.read()] == [row + [None] * 3 for _, _, *row in of_files("txn-0")]


def line_of(step):
    return next(line for line in doc_spark.LINES if line.step == step)


def test_the_newest_release_is_that_of_the_other_tests():
    lock = (ROOT / "requirements" / "executor.txt").read_text()
    assert f"pyspark=={list(doc_spark.RELEASES.values())[-1]} " in lock
