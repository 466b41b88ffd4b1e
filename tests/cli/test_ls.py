"""`kafkarec ls`: offsets, times and codecs read from a few hundred bytes per segment; omitted files and the reasons."""

import gzip
import os
import random
import sys

import builders
import command
import hurt_logs
import pytest
from command import own_process
from paths import SEGMENTS
from s3server import BUCKET, Refusal, running

import kafkarec
from kafkarec.distributed import summarize
from kafkarec.logs import logs_of

NAMES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
GOLDEN_SEGMENTS = [segment for log in logs_of(kafkarec.open(SEGMENTS)) for segment in log.segments]


def expected_summary(segment):
    """The fields of a summary, computed from all records and all headers."""
    batches = list(segment.scan())
    records = segment.read(control=True, timestamp_unit="int64")
    return {
        "first_offset": batches[0]["base_offset"],
        "next_offset": batches[-1]["next_offset"],
        "max_timestamp": max(row["max_timestamp"] for row in batches),
        "records": len(records),
        "batches": len(batches),
        "codecs": list(dict.fromkeys(row["compression"] for row in batches)),
    }


@pytest.mark.parametrize("segment", GOLDEN_SEGMENTS, ids=lambda segment: f"{segment.topic}-{segment.base_offset}")
def test_a_summary_agrees_with_all_records(segment):
    expected = expected_summary(segment)
    whole, sampled = summarize(segment, complete=True), summarize(segment)
    assert {name: getattr(whole, name) for name in expected} == expected
    for name in ("first_offset", "next_offset", "max_timestamp"):
        assert getattr(sampled, name) == expected[name], name
    assert set(sampled.codecs) <= set(expected["codecs"]) and sampled.codecs[0] == expected["codecs"][0]
    assert sampled.batches is None and not sampled.damage and not whole.damage


def test_values_that_are_batches_themselves_are_not_the_end(tmp_path):
    """A log whose last value holds a whole log: no batch in the value is taken for the last batch of the log."""
    inner = (SEGMENTS / "all-codecs-0" / "00000000000000000000.log").read_bytes() * 3
    path = tmp_path / f"{7:020}.log"
    path.write_bytes(builders.message(offset=7, key=None, value=inner))
    segment = kafkarec.open(path)
    assert len(segment.scan()) == 1
    assert (summarize(segment).next_offset, summarize(segment, complete=True).records) == (8, 1)


@pytest.mark.parametrize("content", [b"abc" * 50, (SEGMENTS / "txn-0" / f"{30:020}.log").read_bytes()[:40]])
def test_a_packed_file_without_a_batch_at_its_start(run, tmp_path, content):
    """Its first bytes are taken for a batch of 1.6 GB, or a header that the content cuts."""
    path = tmp_path / f"{30:020}.log.gz"
    path.write_bytes(gzip.compress(content))
    ran = run("ls", path, "--format", "json")
    assert ran.status == 1 and "no batch at its start" in ran.rows[0]["notes"]


def test_a_folder_without_segments_lists_its_folders(run, tmp_path):
    (tmp_path / "backup of friday").mkdir()
    ran = run("ls", tmp_path)
    assert ran.status == 0
    assert f"no segments here; folders: backup of friday; list one with: kafkarec ls '{tmp_path}/backup of friday'" in (
        ran.text
    )


def ends(run, *arguments):
    rows = run("ls", *arguments, "--format", "json").rows
    return [(row["first_offset"], row["next_offset"]) for row in rows if row["kind"] == "segment"]


@pytest.mark.parametrize("indexes", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_the_offsets_of_a_damaged_log_are_those_of_full(run, tmp_path, seed, indexes):
    chance = random.Random(seed)
    log = hurt_logs.written_log(chance, segments=2)
    hurt_logs.write_folder(tmp_path / "a-0", log, hurt_logs.damaged(chance, log, chance.choice([1, 1, 2, 5])))
    for path in [] if indexes else tmp_path.glob("a-0/*index"):
        path.unlink()
    assert ends(run, tmp_path / "a-0") == ends(run, tmp_path / "a-0", "--full")


# ---- buckets ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket():
    with running("s3fs") as server:
        server.put_folder(SEGMENTS, "kafka-backup", NAMES)
        data = (SEGMENTS / "txn-0" / "00000000000000000030.log").read_bytes()
        server.put("damaged/txn-0/00000000000000000030.log", b"\xff" * 40 + data[40:])
        stem = "00000000000000000030-tqimKeZwStOEOwRzT3L5oQ"
        tiered = "tiered/my-orders-MWJ6FHTfRYy67jzwZdeqSQ"
        server.put(f"{tiered}/7/{stem}.log", data)
        server.put(f"{tiered}/8/{stem}.log", random.Random(1).randbytes(70_000))
        server.put(f"{tiered}/8/{stem}.rsm-manifest", b'{"compression": true, "encryption": {"dataKey": "k1:xyz"}}')
        yield server


def test_a_bucket_is_listed(run, server):
    ran = run("ls", f"s3://{BUCKET}/kafka-backup/")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.text.splitlines()
    (line,) = [line for line in lines if line.startswith("txn-0 ")]
    assert line.split()[:5] == ["txn-0", "2", "18016", "0", "293"]
    assert lines[-1] == f"{server.served} bytes fetched"
    assert run("ls", SEGMENTS).text.splitlines()[2:9] == lines[2:9]


def test_a_partition_in_a_bucket_fetches_few_bytes(run, server):
    rows = run("ls", f"s3://{BUCKET}/kafka-backup/txn-0", "--format", "json").rows
    assert [row["next_offset"] for row in rows[:2]] == [30, 293]
    assert rows[-1]["fetched"] == server.served < 1000


def test_offsets_of_a_damaged_object_are_unknown(run, server):
    """To know them, most of it would be fetched."""
    url = f"s3://{BUCKET}/damaged/txn-0"
    ran = run("ls", url, "--format", "json")
    assert ran.status == 1 and ran.rows[0]["damage"]
    assert (ran.rows[0]["first_offset"], ran.rows[0]["next_offset"]) == (None, None)
    assert "its offsets are unknown, --full reads all headers" in ran.rows[0]["notes"]
    assert ends(run, url, "--full") == [(31, 293)]


def test_the_root_of_a_bucket_lists_its_folders(run, server):
    text = run("ls", f"s3://{BUCKET}").text
    assert f"folders: damaged, kafka-backup, tiered; list one with: kafkarec ls s3://{BUCKET}/damaged\n" in text


def test_tiered_storage_in_a_bucket(run, server):
    store = f"s3://{BUCKET}/tiered"
    topic = f"{store}/my-orders-MWJ6FHTfRYy67jzwZdeqSQ"
    for folder in (store, topic, f"{topic}/8"):
        ran = run("ls", folder)
        assert (ran.status, ran.out) == (3, b"")
        assert f"{topic}/8 looks like a part of a store of Aiven's" in ran.complaint
    assert "30 293" in " ".join(run("ls", f"{topic}/7").text.split())
    ran = run("ls", f"{topic}/8/00000000000000000030-tqimKeZwStOEOwRzT3L5oQ.log")
    text = " ".join(ran.text.split())
    assert ran.status == 3 and "not read" in text
    assert "compressed in chunks with zstd and encrypted in chunks with AES-GCM under key k1" in text


def test_refusals_of_the_server_are_one_line(run, server):
    server.refusal = Refusal("403 Forbidden", "AccessDenied", "Access Denied")
    ran = run("ls", f"s3://{BUCKET}/kafka-backup/")
    assert (ran.status, ran.out) == (3, b"")
    assert f"s3://{BUCKET}/kafka-backup/: 403: access denied; these credentials need the rights" in ran.complaint
    server.refusal = Refusal("400 Bad Request", "AuthorizationHeaderMalformed", "expecting 'eu-west-1'", "eu-west-1")
    assert "set AWS_DEFAULT_REGION=eu-west-1" in run("cat", f"s3://{BUCKET}/kafka-backup/txn-0").complaint
    server.refusal = None
    assert "there is no bucket nowhere" in run("verify", "s3://nowhere/x").complaint
    assert f"kafkarec ls s3://{BUCKET}/ lists what there is" in run("scan", f"s3://{BUCKET}/x.log").complaint


def test_a_url_without_fsspec_is_one_line_with_the_pip_command(run, monkeypatch):
    """pyarrow is there, but what reads through it is not."""
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    ran = run("ls", "s3://bucket/k")
    line = "s3://bucket/k: a library for s3:// is not installed: pip install 'kafkarec[remote]'"
    assert (ran.status, ran.out, ran.complaint.strip()) == (3, b"", f"kafkarec: {line}")


def test_a_bucket_is_read_with_the_environment_alone(server, monkeypatch):
    """A child process with nothing but the environment and the command, as a user at a terminal runs it."""
    folder = f"s3://{BUCKET}/kafka-backup/logappend-0"
    for name, value in server.environment().items():
        monkeypatch.setitem(command.ENVIRONMENT, name, value)
    remote = own_process("cat", folder, "--from-time", "2026-11-21T02:25:13.300Z")
    local = own_process("cat", SEGMENTS / "logappend-0", "--from-time", "2026-11-21T02:25:13.300Z")
    assert remote.status == 0 and remote.out == local.out and len(remote.rows) > 5


def test_scan_reports_the_fetched_bytes(run, server):
    ran = run("scan", f"s3://{BUCKET}/kafka-backup/txn-0")
    assert ran.text.splitlines()[-1] == f"{server.served} bytes fetched"
    server.reset()
    ran = run("scan", f"s3://{BUCKET}/kafka-backup/txn-0", "--format", "json", "-n", 1)
    assert len(ran.rows) == 1 and ran.complaint == f"kafkarec: note: {server.served} bytes fetched"


def test_a_file_name_that_is_no_text_is_printed_and_is_whole_in_json(run, tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    with open(os.fsencode(folder) + b"/\xff\xc3\xa9.txt", "wb"):
        pass
    assert "left out: \ufffd\xe9.txt: " in run("ls", folder).text
    left_out, _ = run("ls", folder, "--format", "json").rows
    assert left_out["path"] == "\udcff\xe9.txt"
