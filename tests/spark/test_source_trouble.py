"""Files that are no good segments and files that cannot be read: the result and the report of each mode."""

import errno
import gzip
import json
import logging
import os
import random
import sys

import pytest
from damage_reports import nothing_is_shipped, report  # noqa: F401
from fake_file import FakeFile
from paths import SEGMENTS
from plain_logs import log
from source_rows import read, repeated
from subprocesses import run_program

import kafkarec
from kafkarec.sources import folders
from spark_udfs import schema
from spark_udfs.source import KafkarecDataSource, options, planning, reading
from spark_udfs.source.gaps import GAP
from spark_udfs.source.listing import DataLoss

FIRST, BAD = (f"{offset:020}.log" for offset in (0, 1000))
VIEWS = ("records", "batches")
NOISE = random.Random(1).randbytes(5000)


def batch(base):
    return bytes(kafkarec.encode([(base + n, 1, None, b"%d" % n, []) for n in range(20)]))


@pytest.fixture
def folder(tmp_path):
    """Two good segments; the bad file is placed between them."""
    return log(tmp_path / "orders-0", (0, batch(0)), (2000, batch(2000)))


def good_rows_and_reports(folder, mode, view):
    """The good rows as (offset or base offset), and the reports of the rest."""
    rows = read(folder.parent, mode=mode, view=view, columnNameOfCorruptRecord=schema.CORRUPT)
    name = "offset" if view == "records" else "base_offset"
    expected_good_rows = [row[name] for row in rows if not row[schema.CORRUPT]]
    return expected_good_rows, [json.loads(row[schema.CORRUPT]) for row in rows if row[schema.CORRUPT]]


def expected_good_rows(view):
    return [0, 2000] if view == "batches" else [*range(20), *range(2000, 2020)]


# ---- files that are no segments -------------------------------------------------------------------------------------

CONTENTS = {
    "noise": (NOISE, "", "at byte 0 "),
    "a compressed object of tiered storage": (b"\x28\xb5\x2f\xfd" + NOISE, "tiered_object", "a zstd frame"),
    "gzip with the suffix .log": (gzip.compress(NOISE), "", "at byte 0 "),
    "a text": (b"2026-11-22 INFO no segment at all\n" * 100, "", "at byte 0 "),
}
"""Name -> bytes, reason (empty: any reason), a part of the FAILFAST message."""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("content", CONTENTS)
def test_bytes_that_are_no_segment_are_damage(folder, view, content):
    path = folder / BAD
    data, reason, message = CONTENTS[content]
    path.write_bytes(data)
    rest, reports = good_rows_and_reports(folder, "PERMISSIVE", view)
    assert rest == expected_good_rows(view)
    assert {each["path"] for each in reports} == {str(path)}
    assert sum(each["length"] for each in reports) == len(data)
    assert not reason or {each["reason"] for each in reports} == {reason}
    assert good_rows_and_reports(folder, "DROPMALFORMED", view) == (expected_good_rows(view), [])
    with pytest.raises(kafkarec.KafkaRecordError) as refused:
        good_rows_and_reports(folder, "FAILFAST", view)
    first = str(refused.value).splitlines()[0]
    assert str(path) in first and message in first
    result = report(folder)
    assert [each["damaged_bytes"] for each in result.files] == [0, len(data), 0]


def test_damage_is_told_with_what_to_do(folder):
    """Of a file that does not begin as a log, one that is gzip, and a damaged batch."""
    path = folder / BAD
    begins = "the file does not begin as a log segment does. If it is none, a glob such as dir/*.log leaves it out. If "
    for data, note in (
        (b"\xff" * 17 + batch(1000)[17:], begins),
        (gzip.compress(NOISE), "the file is compressed by gzip, and is read if its name ends in .log.gz"),
        (batch(1000)[:-1] + b"!", "mode PERMISSIVE keeps everything else"),
    ):
        path.write_bytes(data)
        with pytest.raises(kafkarec.KafkaRecordError) as refused:
            read(folder.parent)
        advice, call = refused.value.__notes__
        assert advice.startswith(note) and "mode PERMISSIVE keeps everything else; the column" in advice
        assert call == f"spark_udfs.damage_report(spark, {str(folder.parent)!r}) lists all damage"


def test_damage_of_a_file_that_cannot_be_opened_again_is_told(folder, monkeypatch):
    def gone(*words):
        raise FileNotFoundError("gone")

    (folder / BAD).write_bytes(NOISE)
    monkeypatch.setattr(reading, "open_segment", gone)
    with pytest.raises(kafkarec.KafkaRecordError, match=BAD) as refused:
        read(folder.parent)
    assert "the file does not begin as a log segment does" in refused.value.__notes__[0]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mode", options.MODES)
def test_zeros_and_empty_files_are_no_damage(folder, view, mode):
    """A folder with a segment's name, preallocated zeros, an empty file."""
    (folder / BAD).mkdir()
    (folder / f"{1500:020}.log").write_bytes(b"")
    (folder / f"{3000:020}.log").write_bytes(bytes(5000))
    assert good_rows_and_reports(folder, mode, view) == (expected_good_rows(view), [])
    assert {row["reason"] for row in report(folder).rows} == {GAP}


# ---- files that cannot be read --------------------------------------------------------------------------------------


def sources_of(monkeypatch, path, make):
    real = folders.LocalFolder.open
    monkeypatch.setattr(
        folders.LocalFolder,
        "open",
        lambda self, name, disk: make() if self.join(name) == str(path) else real(self, name, disk),
    )


@pytest.mark.parametrize("view", VIEWS)
def test_a_bad_sector_is_damage(folder, view, monkeypatch):
    data = b"".join(batch(1000 + 20 * n) for n in range(40))
    path = folder / BAD
    path.write_bytes(data)
    begins = [row["position"] for row in kafkarec.open(path).scan()]
    bad = range(begins[20] + 5, begins[20] + 60)
    sources_of(monkeypatch, path, lambda: FakeFile(data, window_bytes=4096, unreadable=[bad], name=str(path)))
    rest, reports = good_rows_and_reports(folder, "PERMISSIVE", view)
    assert len(reports) == 1 and reports[0]["reason"] == "unreadable" and reports[0]["path"] == str(path)
    begin, end = reports[0]["position"], reports[0]["position"] + reports[0]["length"]
    assert begin <= bad.start and bad.stop <= end <= begin + 8192
    assert set(expected_good_rows(view)) < set(rest) and rest == sorted(rest)
    with pytest.raises(kafkarec.KafkaRecordError) as refused:
        good_rows_and_reports(folder, "FAILFAST", view)
    assert f"could not be read here in {path} at byte {begin}" in str(refused.value).splitlines()[0]


@pytest.mark.parametrize("mode", options.MODES)
def test_a_file_that_may_not_be_read_fails_in_every_mode(folder, mode, monkeypatch):
    """Such bytes are not known to be bad: to leave them out would be an unnoticed loss."""
    path = folder / BAD
    path.write_bytes(batch(1000))

    def refuse():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    sources_of(monkeypatch, path, refuse)
    for view in VIEWS:
        with pytest.raises(PermissionError, match=f"Permission denied: '{path}'"):
            good_rows_and_reports(folder, mode, view)
    (row,) = [each for each in report(folder).rows if each["reason"] != GAP]
    assert (row["file"], row["reason"]) == (str(path), "unreadable") and "Permission denied" in row["detail"]


@pytest.mark.parametrize("mode", options.MODES)
def test_a_dangling_link_is_a_data_loss(folder, mode, caplog):
    path = folder / BAD
    path.symlink_to("/not/mounted/here.log")
    message = f"data loss in orders-0: {path} is a link to /not/mounted/here.log, which does not exist"
    for view in VIEWS:
        with pytest.raises(DataLoss, match=message):
            good_rows_and_reports(folder, mode, view)
    rows = read(folder, mode=mode, failOnDataLoss="false", columns="offset")
    assert [row["offset"] for row in rows] == expected_good_rows("records") and message in caplog.text
    (row,) = [each for each in report(folder).rows if each["reason"] != GAP]
    assert (row["file"], row["reason"], row["detail"]) == (str(path), "unreadable", message)


def test_a_pipe_fails_in_every_mode(folder):
    """Its size is 0, as that of an empty segment."""
    for name in (BAD, f"{3000:020}.log"):
        os.mkfifo(folder / name)
        for mode in options.MODES:
            with pytest.raises(OSError, match=f"a pipe, .*{folder / name}"):
                read(folder, mode=mode)
        (row,) = [each for each in report(folder).rows if each["reason"] != GAP]
        assert (row["file"], row["reason"]) == (str(folder / name), "unreadable") and "a pipe" in row["detail"]
        (folder / name).unlink()


def test_a_file_without_a_known_size_is_read(folder, monkeypatch):
    """A file without stat() result in the listing is not taken for an empty one."""
    (folder / BAD).write_bytes(batch(1000))
    real = folders.LocalFolder.entries

    def entries(self):
        return [each._replace(size=0) if each.name == BAD else each for each in real(self)]

    monkeypatch.setattr(folders.LocalFolder, "entries", entries)
    assert [row["offset"] for row in read(folder, columns="offset")] == [
        *range(20),
        *range(1000, 1020),
        *range(2000, 2020),
    ]


# ---- tasks ----------------------------------------------------------------------------------------------------------


def test_small_files_share_tasks():
    """As in Spark's file sources, each file counts 4 MiB more than its bytes."""
    small = [planning.Split(f"{n}.log", "t", 0, 0, 16 << 10) for n in range(5000)]
    for given, tasks in (({}, 157), ({"minPartitions": "400"}, 400), ({"maxPartitionBytes": "1g"}, 20)):
        chosen = options.parse({"path": "x", **given}, "read")
        planned = planning.group_into_tasks(chosen, small)
        assert len(planned) == tasks and [split for task in planned for split in task] == small
    assert len(planning.group_into_tasks(options.parse({"path": "x"}, "read"), small[:20])) == 1


@pytest.mark.parametrize("cores", [2, 4, 16])
def test_tasks_of_five_equal_files_follow_the_cores(tmp_path, cores):
    values = [(n, 1, None, random.Random(n).randbytes(16_000), []) for n in range(1000)]
    data = bytes(kafkarec.encode(values, base_offset=None))
    logs = repeated(data, 5, 1000)
    log(tmp_path / "orders-0", *((n * 1000, logs[n * len(data) : (n + 1) * len(data)]) for n in range(5)))
    source = type("SessionSource", (KafkarecDataSource,), {"cores": cores})({"path": str(tmp_path)})
    tasks = [task.value for task in source.reader(source.schema()).partitions()]
    sizes = [sum(split.end - split.begin for split in task) for task in tasks]
    assert len(tasks) == cores and sum(sizes) == 5 * len(data)
    assert max(sizes) <= 1.2 * sum(sizes) / cores


@pytest.mark.parametrize("view", VIEWS)
def test_the_line_of_a_task_counts_what_it_read(folder, view, caplog):
    (folder / BAD).write_bytes(NOISE)
    size = sum(path.stat().st_size for path in folder.glob("*.log"))
    line = f"files=3 bytes={size} batches=2 records=40 damaged=1 incomplete=0 seconds="
    with caplog.at_level(logging.INFO, "spark_udfs"):
        read(folder, mode="PERMISSIVE", view=view)
        report(folder)
    lines = [each for each in caplog.messages if each.startswith("kafkarec ") and "planned" not in each]
    assert [each.partition(line)[0] for each in lines] == ["kafkarec read ", "kafkarec damage_report "]
    assert all(f"first={folder / FIRST}" in each for each in lines)


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED", "damage_report"])
def test_a_missing_library_is_no_damage_in_any_mode(mode):
    """A worker that starts in a checkout has kafkarec from there, without the wheel's libraries."""
    code = (
        "import sys\nsys.modules['lz4'] = None\nfrom damage_reports import report\nfrom source_rows import read\n"
        "from spark_udfs import cluster\ncluster.ship = lambda spark: None\nmode, path = sys.argv[1:]\n"
        "report(path) if mode == 'damage_report' else read(path, mode=mode)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = run_program(sys.executable, "-c", code, mode, SEGMENTS / "all-codecs-0", env=environment)
    assert done.returncode == 1 and "MissingCodecError" in done.stderr and "pip install lz4" in done.stderr
    assert "PERMISSIVE keeps" not in done.stderr
