"""kafkarec.find: files, folders, globs, folders key=value, several folders of one partition, buckets, each error."""

import errno
import gzip
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from paths import SEGMENTS
from s3server import BUCKET, WITH_INDEXES, running
from unreadable_files import refuse_listing

import kafkarec
from kafkarec import distributed

pytestmark = [pytest.mark.core, pytest.mark.python]

NAME = f"{0:020}.log"
CODECS = (SEGMENTS / "all-codecs-0" / NAME).read_bytes()
OFFSETS = [record.offset for record in kafkarec.decode(CODECS)]
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


def parts(count):
    """The log, cut between batches into `count` segments: (base offset, bytes)."""
    batches = list(kafkarec.batches(CODECS))
    borders = [len(batches) * number // count for number in range(count + 1)]
    return [
        (batches[begin].base_offset or 0, b"".join(bytes(each.raw) for each in batches[begin:end]))
        for begin, end in pairwise(borders)
    ]


def put(folder, part, name="{:020}.log"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name.format(part[0])).write_bytes(part[1])
    return folder


def archive(root, *folders):
    """An equal part of the log in each of these folders: <root>/<folder>/ev-0."""
    for folder, part in zip(folders, parts(len(folders)), strict=True):
        put(root / folder / "ev-0", part)
    return root


@pytest.fixture
def days(tmp_path):
    return archive(tmp_path / "arch", *(f"date={day}" for day in DAYS))


def named(logs):
    """(topic, partition, number of segments) of each log."""
    return [(log.topic, log.partition, len(log)) for log in logs]


def offsets(logs):
    (log,) = logs
    return list(log.read(columns=["offset"]).column("offset"))


# ---- files, folders, globs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths, found",
    [
        (["txn-0"], [("txn", 0, 2)]),
        (["txn-0/"], [("txn", 0, 2)]),
        ([f"txn-0/{NAME}"], [("txn", 0, 1)]),
        (["txn-0", "compacted-0"], [("compacted", 0, 2), ("txn", 0, 2)]),
        (["txn-0", "txn-*", f"*/{30:020}.log", "./txn-0"], [("txn", 0, 2)]),
        (["__c*"], [("__cluster_metadata", 0, 1), ("__consumer_offsets", 0, 1)]),
        (["{txn,compact*}-[0-9]/*"], [("compacted", 0, 2), ("txn", 0, 2)]),
        (["**/*30.log"], [("txn", 0, 1)]),
    ],
)
def test_paths_and_globs(paths, found, monkeypatch):
    assert named(kafkarec.find([SEGMENTS / each for each in paths])) == found
    monkeypatch.chdir(SEGMENTS)
    logs = kafkarec.find(paths if len(paths) > 1 else paths[0])
    assert named(logs) == found and not any(Path(log.path).is_absolute() for log in logs)
    assert all(log.keys == {} for log in logs)


def test_a_data_folder_and_what_is_left_out(tmp_path):
    assert named(kafkarec.find(SEGMENTS)) == named(list(kafkarec.open(SEGMENTS)))
    put(tmp_path / "ev-0", (0, CODECS))
    put(tmp_path / "_temporary" / "ev-2", (0, CODECS))
    assert named(kafkarec.find(tmp_path / "**" / "*.log")) == [("ev", 0, 1)]
    put(tmp_path / f"ev-1.{'0123456789abcdef' * 2}-delete", (0, CODECS))
    assert named(kafkarec.find(tmp_path)) == named(kafkarec.find(tmp_path / "*")) == [("ev", 0, 1)]
    assert named(kafkarec.find(tmp_path / "_temporary" / "*")) == [("ev", 2, 1)]
    put(tmp_path / "a[1]" / "ev-3", (0, CODECS))
    assert named(kafkarec.find(tmp_path / "a[1]")) == [("ev", 3, 1)]


def test_a_kraft_snapshot_is_a_log_of_its_own(tmp_path):
    folder = put(tmp_path / "__cluster_metadata-0", (0, CODECS))
    snapshot = put(folder, (30, CODECS), "{:020}-0000000003.checkpoint") / f"{30:020}-0000000003.checkpoint"
    assert named(kafkarec.find(folder)) == [("__cluster_metadata", 0, 1)]
    found = kafkarec.find([folder, snapshot, folder / "*.checkpoint"])
    assert [(log.topic, log.segments[0].name) for log in found] == [
        ("__cluster_metadata", snapshot.name),
        ("__cluster_metadata", NAME),
    ]


# ---- folders key=value ----------------------------------------------------------------------------------------------


def test_date_folders_are_one_log(days):
    (log,) = logs = kafkarec.find(days)
    assert offsets(logs) == OFFSETS and named(logs) == [("ev", 0, 3)] and log.keys == {}
    assert [segment.keys for segment in log.segments] == [{"date": day} for day in DAYS]
    assert [segment.later_segment for segment in log.segments] == [True, True, False]
    reversed_days = archive(days.parent / "reversed", *(f"date={day}" for day in reversed(DAYS)))
    assert offsets(kafkarec.find(reversed_days)) == OFFSETS


def test_keys_above_and_below_the_partitions_folder(tmp_path):
    first, second = parts(2)
    put(tmp_path / "region=eu%3A1" / "ev-0" / "hour=05", first)
    put(tmp_path / "region=eu%3A1" / "ev-0" / "hour=__HIVE_DEFAULT_PARTITION__", second)
    put(tmp_path / "region=us" / "ev-1" / "hour=00", first)
    eu, us = kafkarec.find(tmp_path)
    assert (eu.keys, us.keys) == ({"region": "eu:1"}, {"region": "us", "hour": "00"})
    assert [segment.keys["hour"] for segment in eu.segments] == ["05", None]
    assert [list(segment.keys) for segment in eu.segments] == [["region", "hour"]] * 2
    assert named([eu, us]) == [("ev", 0, 2), ("ev", 1, 1)]


def test_folders_topic_and_partition_name_the_log(tmp_path):
    for day, part in zip(DAYS[:2], parts(2), strict=True):
        put(tmp_path / "topic=ev" / f"date={day}" / "partition=3", part)
    assert named(kafkarec.find(tmp_path)) == [("ev", 3, 2)]
    put(tmp_path / "topic=ev" / f"date={DAYS[2]}" / "orders-1", (0, CODECS))
    with pytest.raises(ValueError, match=r"orders-1 is in a folder topic=ev, and its log is of topic orders"):
        kafkarec.find(tmp_path)
    put(tmp_path / "other" / "topic=ev" / "partition=x", (0, CODECS))
    with pytest.raises(ValueError, match="partition=x is no number of a partition"):
        kafkarec.find(tmp_path / "other")


@pytest.mark.parametrize(
    "folder, message",
    [
        ("date=2026-11-01/date=2026-11-02", "have the key date twice"),
        ("date=2026-11-01/Date=2", "have the key Date twice"),
        ("date=", "the folder 'date=' has no value: expected <name>=<value>; a null is"),
        ("=1", "the folder '=1' has no name"),
    ],
)
def test_names_of_folders_that_are_refused(folder, message, tmp_path):
    put(tmp_path / folder / "ev-0", (0, CODECS))
    with pytest.raises(ValueError, match=message):
        kafkarec.find(tmp_path)


def test_a_base_path_counts_the_keys_of_the_paths_own_folders(days, monkeypatch):
    chosen = days / "date=*[12]"
    assert [segment.keys for segment in kafkarec.find(chosen)[0].segments] == [{}, {}]
    monkeypatch.chdir(days.parent)
    for base in (days, f"file://{days}/", "arch"):
        (log,) = kafkarec.find(chosen / "ev-0" / "*.log", base_path=base)
        assert [segment.keys["date"] for segment in log.segments] == [*DAYS[:2]]
    (log,) = kafkarec.find(chosen, base_path=days, where="date > '2026-11-01'")
    assert log.keys == {"date": DAYS[1]}
    with pytest.raises(ValueError, match=r"base_path='.*/other': .*date=2026-11-01 is not below it"):
        kafkarec.find(chosen, base_path=days.parent / "other")


# ---- where ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where, expected",
    [
        (None, "123"),
        ("date = '2026-11-02'", "2"),
        ("date = 2026-11-02", "2"),
        ("DATE <> '2026-11-02'", "13"),
        ("`date` > \"2026-11-01\" and date < '2026-11-03'", "2"),
        ("date>='2026-11-01'AND date <= '2026-11-02' and date = \"2026-11-01\"", "1"),
        ("date < '2020-01-01'", ""),
    ],
)
def test_where_chooses_folders(where, expected, days):
    found = [segment.keys["date"] or "" for log in kafkarec.find(days, where=where) for segment in log.segments]
    assert "".join(day[-1] for day in found) == expected


def test_values_are_compared_by_their_type(tmp_path):
    archive(tmp_path / "hours", "hour=9", "hour=05", "hour=10", "hour=__HIVE_DEFAULT_PARTITION__")
    archive(tmp_path / "texts", "region=eu", "region=it's", "region=7")

    def chosen(folder, where):
        logs = kafkarec.find(tmp_path / folder, where=where)
        return {value for log in logs for segment in log.segments for value in segment.keys.values()}

    assert chosen("hours", "hour >= 9") == {"9", "10"} and chosen("hours", "hour = 5") == {"05"}
    assert chosen("hours", "hour <> 9") == {"05", "10"}
    assert chosen("texts", "region = 'it''s'") == {"it's"} and chosen("texts", "region < 'eu'") == {"7"}


@pytest.mark.parametrize(
    "where, message",
    [
        ("", r"where='': '' cannot be read; expected comparisons \(= <> < <= > >=\) joined by AND, such as date"),
        ("date = x", "where='date = x': 'date = x' cannot be read"),
        ("hour = 5 AND date = '2026-11-01' OR hour = 6", '"date = .* OR hour = 6" cannot be read'),
        ("date IN ('2026-11-01')", "cannot be read"),
        ("dat = '2026-11-01'", "where: no folder has the key 'dat'; there are: date"),
        ("offset > 5", "where: no folder has the key 'offset'; there are: date"),
        ("date > '2030-01-01' AND hour = 5", "no folder has the key 'hour'; there are: date"),
        ("date = '2026-11-1'", "where: '2026-11-1' is not a date such as 2026-11-01, and the folders of date"),
    ],
)
def test_a_where_that_cannot_be_right_is_refused(where, message, days):
    with pytest.raises(ValueError, match=message):
        kafkarec.find(days, where=where)


# ---- several folders of one partition -------------------------------------------------------------------------------


def test_folders_without_keys_are_one_log_too_and_a_gap_is_no_error(tmp_path):
    archive(tmp_path, *DAYS)
    assert offsets(kafkarec.find(tmp_path / "2026-*")) == OFFSETS
    shutil.rmtree(tmp_path / DAYS[1])
    (_, (second, _), (third, _)) = parts(3)
    kept = [offset for offset in OFFSETS if not second <= offset < third]
    assert offsets(kafkarec.find(tmp_path / "2026-*")) == kept


def test_an_empty_segment_at_a_folders_end_is_no_overlap(days):
    put(days / f"date={DAYS[0]}" / "ev-0", (parts(3)[1][0], b""))
    assert offsets(kafkarec.find(days)) == OFFSETS


@pytest.mark.parametrize("kept", ["where", "path"])
def test_overlapping_folders_are_refused(kept, tmp_path):
    folders = [f"date={day}" if kept == "where" else day for day in DAYS[:2]]
    base_path = tmp_path if kept == "where" else None
    batches, (base, half) = list(kafkarec.batches(CODECS)), parts(2)[1]
    first = put(tmp_path / folders[0] / "ev-0", (0, b"".join(bytes(each.raw) for each in batches[:-3])))
    second = put(tmp_path / folders[1] / "ev-0", (base, half))
    end = (batches[-3].base_offset or 0) - 1
    advice = "Leave one folder out: where=\"date <> '2026-11-02'\""
    if kept == "path":
        advice = f"Load one of the two folders: {first} or {second}"
    with pytest.raises(ValueError, match="they overlap") as error:
        kafkarec.find(tmp_path / "*", base_path=base_path)
    assert str(error.value) == (
        f"ev-0: {first}/{NAME} has offsets 0 to {end}, and {second}/{base:020}.log has offsets {base} to 864: they "
        f"overlap, so records would be read twice. {advice}"
    )
    assert named(kafkarec.find(first)) == [("ev", 0, 1)]


def test_only_the_last_bytes_of_a_folder_are_read_and_none_of_a_compressed_file(days):
    first = days / f"date={DAYS[0]}" / "ev-0" / NAME
    data = bytearray(first.read_bytes())
    data[100:4000] = bytes(3900)
    first.write_bytes(data)
    finder = distributed.LogFinder(days)
    assert len(finder.find()[0]) == 3 and finder.unchecked == {}
    first.unlink()
    packed = first.with_name(f"{NAME}.gz")
    packed.write_bytes(gzip.compress(CODECS))
    second = days / f"date={DAYS[1]}" / "ev-0" / f"{parts(3)[1][0]:020}.log"
    assert len(finder.find()[0]) == 3 and finder.unchecked == {str(packed): (str(second), parts(3)[1][0])}


# ---- errors ---------------------------------------------------------------------------------------------------------


def test_what_is_not_there_and_what_is_no_log(tmp_path):
    for path in (tmp_path / "missing", tmp_path / "*" / "x", tmp_path / "{a,b}"):
        with pytest.raises(FileNotFoundError) as error:
            kafkarec.find([SEGMENTS, path])
        assert error.value.filename == str(path)
    with pytest.raises(ValueError, match="an empty list of paths"):
        kafkarec.find([])
    with pytest.raises(ValueError, match=r"is an offset index and holds no records; name its \.log file"):
        kafkarec.find(SEGMENTS / "txn-0" / f"{0:020}.index")
    assert kafkarec.find(tmp_path) == []
    put(tmp_path / "2024" / "orders-0", (0, CODECS))
    with pytest.raises(ValueError, match=r"holds no segments and no partition folders, but 2024\. .*/\*"):
        kafkarec.find(tmp_path)


@pytest.mark.parametrize("locked", ["date=2026-11-02", "date=2026-11-02/ev-0"], ids=["a key's", "a partition's"])
def test_a_folder_that_cannot_be_listed(days, locked, monkeypatch):
    refuse_listing(monkeypatch, locked, errno.EACCES)
    with pytest.raises(PermissionError) as raised:
        kafkarec.find(days)
    assert raised.value.filename == str(days / locked)
    refused = []
    (log,) = distributed.LogFinder(days, unreadable=refused.append).find()
    assert [segment.keys["date"] for segment in log.segments] == [DAYS[0], DAYS[2]] and len(refused) == 1


# ---- buckets --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    root = tmp_path_factory.mktemp("bucket")
    with running("s3fs", "pyarrow") as server:
        server.put_folder(archive(root / "arch", *(f"date={day}" for day in DAYS)), "arch", WITH_INDEXES)
        server.put_folder(SEGMENTS / "txn-0", "kafka/txn-0", WITH_INDEXES)
        shutil.copytree(root / "arch" / f"date={DAYS[0]}", root / "arch" / "date=2026-11-09")
        server.put_folder(root / "arch", "overlap", WITH_INDEXES)
        yield server


def test_a_bucket(bucket):
    def find(path, **given):
        return kafkarec.find(f"s3://{BUCKET}/{path}", storage_options=bucket.options(), **given)

    (log,) = found = find("arch")
    assert offsets(found) == OFFSETS and [segment.keys["date"] for segment in log.segments] == [*DAYS]
    chosen = find("arch/date=*-0[12]", base_path=f"s3a://{BUCKET}/arch/", where="date <> '2026-11-01'")
    assert chosen[0].keys == {"date": DAYS[1]}
    assert named(find("{kafka,nothing}/*-0")) == named(find("kafka/txn-0")) == [("txn", 0, 2)]
    assert named(find(f"kafka/*/{0:020}.log")) == [("txn", 0, 1)]
    with pytest.raises(ValueError, match=rf"s3://{BUCKET}/overlap/date=2026-11-01/.* and .*date=2026-11-09/.*overlap"):
        find("overlap")
    for path in ("none", "kafka/none-*", "kafka/txn-0/none.log"):
        with pytest.raises(FileNotFoundError, match=f"s3://{BUCKET}/"):
            find(path)


def test_open_refuses_what_only_find_reads(days):
    refused = f"{days} has no segments, but folders key=value: kafkarec.find reads what is in them"
    for paths in (days, [days], [SEGMENTS / "txn-0", days]):
        with pytest.raises(ValueError) as info:
            kafkarec.open(paths)
        assert str(info.value) == refused
