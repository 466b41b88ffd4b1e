"""The paths of `load`: several; the errors of wrong paths; what the driver logs of them. Which logs a path
names: tests/unit/storage/test_find.py."""

import json
import re
from collections import Counter

import pytest
from paths import SEGMENTS
from plain_logs import SEGMENT_ID, TOPIC_ID, log
from pyspark.errors import AnalysisException
from source_rows import Read, read

from kafkarec.sources import remote_errors
from spark_udfs.source import paths, publishing

LOG = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()


def counts(*paths, **options):
    where = {"path": str(paths[0])} if len(paths) == 1 else {"paths": json.dumps([str(each) for each in paths])}
    return dict(Counter(row["topic"] for row in Read(**where, **options).rows))


def test_an_empty_folder_has_no_rows_and_other_folders_are_refused(tmp_path):
    assert read(tmp_path) == []
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path) == []
    log(tmp_path / "2024" / "orders-0", (0, LOG))
    with pytest.raises(ValueError, match=r"holds no segments and no partition folders, but 2024\. .*/\*"):
        read(tmp_path)
    assert counts(tmp_path / "*") == {"orders": 865}


def test_several_paths_are_read_once():
    """A folder, a glob and a file of it, and a URL of another one."""
    paths = (
        SEGMENTS / "txn-0",
        f"{SEGMENTS}/txn-*",
        SEGMENTS / "txn-0" / f"{30:020}.log",
        f"file:{SEGMENTS}/compact*-0",
    )
    assert counts(*paths) == {"txn": 267, "compacted": 25}


@pytest.mark.parametrize(
    "path, message",
    [
        ("/missing/folder", r"^\[PATH_NOT_FOUND\] Path does not exist: /missing/folder\."),
        ("/missing/*/x", r"^\[PATH_NOT_FOUND\] Path does not exist: /missing/\*/x\."),
        ("file:///missing/x.log", r"^\[PATH_NOT_FOUND\]"),
        ("s3://", r"^\[PATH_NOT_FOUND\] Path does not exist: s3://\. s3://: names no bucket or folder\."),
    ],
)
def test_a_missing_path_is_reported_as_spark_reports_it(path, message):
    with pytest.raises(AnalysisException, match=message):
        read(path)
    with pytest.raises(AnalysisException, match=message):
        Read(paths=json.dumps([str(SEGMENTS), path]))


@pytest.mark.parametrize(
    "path, why",
    [
        ("hdfs://namenode/kafka/orders-0", r"this machine has no Hadoop client \(libhdfs\)"),
        ("dbfs:/mnt/kafka/*", r"dbfs: is no scheme that it knows"),
        ("nosuch://bucket/orders-0", r"no library here reads nosuch:// URLs"),
    ],
)
def test_a_scheme_that_is_not_supported_says_what_to_do(path, why):
    with pytest.raises(ValueError, match=rf"^kafkarec cannot read {re.escape(path)}: {why}.*\. It reads .*binaryFile"):
        read(path)
    with pytest.raises(ValueError, match=r"^kafkarec cannot write to .*dbfs:/x is /dbfs/x"):
        publishing.resolve_folder(path, {})


def test_no_path_and_index_files_are_refused():
    with pytest.raises(ValueError, match=r"kafkarec needs a path: \.load"):
        Read()
    with pytest.raises(ValueError, match=r"is an offset index and holds no records; name its \.log file"):
        read(SEGMENTS / "txn-0" / f"{0:020}.index")


def test_a_plugins_store_is_refused(tmp_path):
    """Also below key folders: the plugin's key.prefix may be `env=prod/kafka-`."""
    folder = tmp_path / "env=prod" / f"kafka-orders-1-{TOPIC_ID}" / "7"
    folder.mkdir(parents=True)
    for suffix in (".log", ".indexes", ".rsm-manifest"):
        (folder / f"{0:020}-{SEGMENT_ID}{suffix}").write_bytes(LOG)
    for path in (tmp_path, tmp_path / "env=prod", folder.parent, folder, tmp_path / "*" / "*"):
        with pytest.raises(ValueError, match=r"store of Aiven's .* does not read these yet"):
            read(path)


# ---- what the driver's log says -----------------------------------------------------------------------------------


def warnings_of(caplog, path, **given):
    """The rows, and what the driver logs."""
    caplog.clear()
    rows = read(path, **given)
    return rows, [
        each.message for each in caplog.records if each.filename == "batch.py" and each.levelname == "WARNING"
    ]


def test_folders_without_a_topic_in_their_names_are_told(tmp_path, caplog):
    for name in ("orders", "orders-0 (copy)"):
        log(tmp_path / name, (0, LOG))
        rows, (warning,) = warnings_of(caplog, tmp_path / name)
        assert {row["topic"] for row in rows} == {None}
        assert warning.endswith(f"have no topic, which the option topic sets: {tmp_path / name}")
        rows, _ = warnings_of(caplog, tmp_path / name, topic="orders")
        assert {(row["topic"], row["partition"]) for row in rows} == {("orders", None)}
    assert warnings_of(caplog, SEGMENTS / "txn-0")[1] == []


def test_folders_that_a_data_folder_leaves_out_are_told(tmp_path, caplog):
    for name in ("orders-0", "orders-1 (copy)", "other", "below/orders-1", "orders-2.abc-delete", "_temporary"):
        log(tmp_path / name, (0, LOG))
    (tmp_path / "notes/meeting-1").mkdir(parents=True)
    rows, (warning,) = warnings_of(caplog, tmp_path)
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 0)}
    assert warning == (
        "folders are left out, as they are not named TOPIC-PARTITION; load them by their paths: "
        f"{tmp_path}/below, {tmp_path}/orders-1 (copy), {tmp_path}/other"
    )


def test_a_mode_that_leaves_records_out_is_told(tmp_path, caplog):
    folder = log(tmp_path / "t-0", (0, LOG))
    column = {"columnNameOfCorruptRecord": "bad"}
    call = f"spark_udfs.damage_report(spark, {str(folder)!r})"
    for given in ({"mode": "PERMISSIVE"}, {"mode": "DROPMALFORMED", **column}):
        (warning,) = warnings_of(caplog, folder, **given)[1]
        assert warning.startswith(f"mode {given['mode']} leaves damage out") and call in warning
    assert warnings_of(caplog, folder, mode="PERMISSIVE", **column)[1] == []


def test_the_column_of_damage_without_permissive_is_told(tmp_path, caplog):
    folder = log(tmp_path / "t-0", (0, LOG))
    (warning,) = warnings_of(caplog, folder, columnNameOfCorruptRecord="bad")[1]
    assert (
        warning
        == "option columnNameOfCorruptRecord has no effect in mode FAILFAST, which ends at damage; set PERMISSIVE"
    )


def test_a_folder_without_segments_is_told(tmp_path, caplog):
    assert warnings_of(caplog, tmp_path) == ([], [f"there are no segments below {str(tmp_path)!r}: no rows"])


@pytest.mark.parametrize(
    "url",
    [
        "/logs/orders-0",
        "s3://key:secret@bucket/orders-0/*.log",
        "https://user:password@host/orders-0.log?signature=abc",
        "abfs://container@account.dfs.core.windows.net/orders-0",
        "abfss://container@account.dfs.core.windows.net/orders-0",
    ],
)
def test_a_url_is_shown_as_kafkarec_shows_it(url):
    """spark_udfs does it by itself: a client of Spark Connect may lack kafkarec."""
    assert paths.display_url(url) == remote_errors.display_url(url)
    assert "secret" not in paths.display_url(url) and "abc" not in paths.display_url(url)
