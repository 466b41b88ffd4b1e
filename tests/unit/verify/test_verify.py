"""verify: golden logs are fine, cases that Kafka refuses are damage, anomalies that it accepts are reported."""

import dataclasses
import json

import builders
import golden
import pytest
from paths import SEGMENTS
from verify_reports import kinds, verified

import kafkarec
from kafkarec.ops import verify

FOLDERS = sorted(path for path in SEGMENTS.iterdir() if path.name != "metadata-root")

# Accepted by iterating, refused by a consumer with check.crcs: inner checksums are verify's to check.
INNER_CRC = {"v0-inner-crc-wrong", "v1-inner-crc-wrong", "v1-inner-magic-2"}


def verified_bytes(tmp_path, data):
    path = tmp_path / "blob.bin"
    path.write_bytes(data)
    return verified(path)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_brokers_own_logs_have_no_errors_or_anomalies(folder):
    report = verified(folder, sequences=True)
    assert report.ok and report.state == "ok", str(report)
    assert kinds(report) == set()
    assert report.exit_status(strict=True) == 0
    [partition] = report.partitions
    mine = [case for case in golden.segment_files() if case.name.startswith(f"{folder.name}/")]
    wanted = [case for case in mine if case.name.endswith((".log", ".checkpoint"))]
    assert partition.total("batches") == sum(len(case.json["batches"]) for case in wanted)
    assert len(partition.files) == len(wanted)


ACCEPTED = [case for case in golden.vectors() + golden.invalid() if case.json.get("exception") is None]


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_what_kafka_accepts_silently_is_no_damage(case, tmp_path):
    """The fence has what is found instead, test_audit its words."""
    report = verified_bytes(tmp_path, case.bytes)
    assert [one.reason for one in report.damage] == ["inner_crc_mismatch"] * (case.name in INNER_CRC)
    # that length is the end of a buffer for Kafka; here the checksum proves the batch
    assert report.exit_status() == (case.name in INNER_CRC or case.name == "v2-length-too-large")


def body(record):
    """What max.decompressed.message.bytes limits: a record without its length, a message without offset and size."""
    if "magic" in record:
        return record["sizeInBytes"] - 12
    return next(size - n for size in [record["sizeInBytes"]] for n in range(1, 6) if (size - n) * 2 < 1 << 7 * n)


@pytest.mark.parametrize("case", golden.vectors(), ids=str)
def test_the_largest_record_is_named(case, tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(case.bytes)
    records = [record for batch in case.json["batches"] for record in batch["records"]]
    largest = max((body(record) for record in records), default=0)
    report = kafkarec.verify(path)
    [file] = report.files
    assert (report.largest_record, file.largest_record) == (largest, largest)
    assert (f", the largest of {largest} bytes, read" in str(report)) == bool(records)
    offsets = [record["offset"] for record in records if body(record) == largest]
    assert file.largest_record_offset == (offsets[0] if records else None)


def test_the_report_is_frozen_printable_and_json(tmp_path):
    good = builders.good_batch(3)
    bad = builders.good_batch(3, base_offset=3)
    report = verified_bytes(tmp_path, good + bad[:-1] + b"\xff" + builders.good_batch(3, base_offset=6))
    assert not report.ok and report.exit_status() == 1
    [damage] = report.damage
    assert (damage.position, damage.length, damage.lost_from, damage.lost_to) == (len(good), len(bad), 3, 5)
    [partition] = report.partitions
    assert partition.lost_offsets == 3
    for frozen, name in ((report, "path"), (partition, "topic"), (partition.files[0], "size")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, None)
    as_json = json.loads(report.to_json())
    assert as_json["state"] == "damaged" and as_json["ok"] is False
    assert as_json["totals"]["good_bytes"] == 2 * len(good) and as_json["totals"]["files"] == 1
    [file] = as_json["partitions"][0]["files"]
    assert file["damage"][0]["reason"] == "crc_mismatch"
    assert [state for state, _, _ in file["ranges"]] == ["good", "damaged", "good"]
    assert "offsets 3 to 5 lost" in str(report) and "crc_mismatch: stored" in str(report)
    assert "kafkarec salvage" in str(report)
    assert repr(report).startswith("<Report: damaged, 1 partition")


def test_opened_objects_and_lists_are_accepted_too():
    folder = SEGMENTS / "txn-0"
    opened = kafkarec.open(folder)
    assert len(verify.verify(opened).files) == 2
    assert len(verify.verify(opened.segments[0]).files) == 1
    assert len(verify.verify(sorted(folder.glob("*.log"))).files) == 2
    assert len(verify.verify(bytes(folder)).files) == 2
    with open(folder / "00000000000000000030.log", "rb") as file:
        assert verify.verify(file).total("batches") == 137
    assert verify.verify(SEGMENTS / "all-codecs-0" / "00000000000000000000.log").ok
    with pytest.raises(FileNotFoundError):
        verify.verify(folder / "nothing.log")
    with pytest.raises(ValueError, match="threads"):
        verify.verify(folder, threads=0)
