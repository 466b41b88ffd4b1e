"""verify: golden logs are fine, cases that Kafka refuses are damage, anomalies that it accepts are reported."""

import dataclasses

import golden
import pytest
from paths import SEGMENTS
from verify_reports import verified

import kafkarec
from kafkarec.ops import verify

# Accepted by iterating, refused by a consumer with check.crcs: inner checksums are verify's to check.
INNER_CRC = {"v0-inner-crc-wrong", "v1-inner-crc-wrong", "v1-inner-magic-2"}


def verified_bytes(tmp_path, data):
    path = tmp_path / "blob.bin"
    path.write_bytes(data)
    return verified(path)


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


def test_the_report_is_frozen():
    report = verified(SEGMENTS / "txn-0")
    for frozen, name in ((report, "path"), (report.partitions[0], "topic"), (report.files[0], "size")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, None)
    assert repr(report).startswith("<Report: ok, 1 partition")


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
