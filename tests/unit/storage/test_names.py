"""Names of folders and files: those of Kafka and tiered storage plugins, and similar names."""

import uuid
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import DOCS

from kafkarec.sources import remote_errors
from kafkarec.storage import names

HEX = "0123456789abcdef" * 2
UUID = "MWJ6FHTfRYy67jzwZdeqSQ"
SEGMENT_UUID = "tqimKeZwStOEOwRzT3L5oQ"
OFFSET = "00000000000000000030"


# name, topic, partition, state
FOLDERS = f"""
orders-7                orders                7
a-b-c-0                 a-b-c                 0
a--1                    a-                    1
my.topic_x-2147483647   my.topic_x            2147483647
__consumer_offsets-49   __consumer_offsets    49
__cluster_metadata-0    __cluster_metadata    0
-future-3               -future               3
x-delete-3              x-delete              3
orders-7.{HEX}-delete   orders                7             delete
orders-7.{HEX}-future   orders                7             future
orders-7.{HEX}-stray    orders                7             stray
a.b-c-7.{HEX}-stray     a.b-c                 7             stray
{"t" * 249}-0           {"t" * 249}           0
"""


@pytest.mark.parametrize("row", FOLDERS.split("\n")[1:-1])
def test_partition_folders(row):
    name, topic, partition, *state = row.split()
    assert names.folder(name) == names.FolderName(topic, int(partition), *state)


def test_a_topic_name_that_the_broker_truncated_is_reported():
    # LocalLog.logDirNameWithSuffixCappedLength: at most 255 characters with the suffix
    suffix = f"-12.{HEX}-delete"
    topic = ("t" * 249)[: 255 - len(suffix)]
    parsed = names.folder(topic + suffix)
    assert parsed == names.FolderName(topic, 12, "delete", cut=True)
    assert "cut" in names.meaning(topic + suffix, is_dir=True).sentence


OTHERS = f"""
orders  orders-  -7  orders-x  backup-2024-01  orders-07  orders-2147483648  orders-٣
orders-7.delete  orders-7-delete  orders-7.{HEX}-gone  {"t" * 250}-0  ..-0
"""


@pytest.mark.parametrize("name", ["", "my orders-7", *OTHERS.split()])
def test_no_partition_folders(name):
    assert names.folder(name) is None


def test_tiered_layouts():
    aiven = names.topic_partition_of_path(f"s3://bucket/pre/fix/a-b-{UUID}/7/{OFFSET}-{SEGMENT_UUID}.log")
    assert aiven == ("a-b", 7)
    assert names.topic_partition_of_path(f"/tiered/orders-3-{UUID}/{OFFSET}-{SEGMENT_UUID}.log.zst") == ("orders", 3)
    assert names.topic_partition_of_path(f"backup/orders-7-{OFFSET}.log.gz") == ("orders", 7)
    assert names.topic_partition_of_path(f"/data/orders-7/{OFFSET}.log") == ("orders", 7)
    assert names.topic_partition_of_path(f"/data/orders-7/date=2026-11-01/{OFFSET}.log") == ("orders", 7)
    assert names.topic_partition_of_path(f"/data/orders/{OFFSET}.log") == (None, None)
    assert names.topic_partition_of_path("/data/backup-2024/x.bin") == (None, None)
    assert names.topic_partition_of_path(f"{OFFSET}.log") == (None, None)
    wide = names.segment(f"{OFFSET}-{uuid.UUID(int=7)}.log")
    assert wide is not None and wide.segment_id == str(uuid.UUID(int=7))


@given(st.uuids(), st.integers(0, 2**31 - 1), st.from_regex(r"\A[a-zA-Z0-9._-]{1,60}\Z"))
def test_every_uuid_is_distinguished_from_a_partition(value, partition, topic):
    text = urlsafe_b64encode(value.bytes).decode().rstrip("=")
    parsed = names.folder(f"{topic}-{partition}-{text}")
    if topic in (".", ".."):
        assert parsed is None
        return
    assert parsed is not None and parsed[:2] == (topic, partition) and parsed.topic_id == text
    assert names.tiered_topic(f"{topic}-{text}") == (topic, text)
    plain = names.folder(f"{topic}-{partition}")
    assert plain == names.FolderName(topic, partition)


# name, base offset, suffix, state, how it is packed, stem
SEGMENTS = f"""
{OFFSET}.log                                  30 .log          .        .    {OFFSET}
{OFFSET}.log.gz                               30 .log          .        .gz  {OFFSET}
{OFFSET}.log.zst                              30 .log          .        .zst {OFFSET}
{OFFSET}.log.deleted                          30 .log          .deleted .    {OFFSET}
{OFFSET}.index.swap                           30 .index        .swap    .    {OFFSET}
{OFFSET}.txnindex.cleaned                     30 .txnindex     .cleaned .    {OFFSET}
{OFFSET}.snapshot                             30 .snapshot     .        .    {OFFSET}
{OFFSET}-{SEGMENT_UUID}.rsm-manifest          30 .rsm-manifest .        .    {OFFSET}-{SEGMENT_UUID}
{OFFSET}-{SEGMENT_UUID}.indexes               30 .indexes      .        .    {OFFSET}-{SEGMENT_UUID}
{OFFSET}-0000000003.checkpoint                30 .checkpoint   .        .    {OFFSET}-0000000003
{OFFSET}-0000000003.checkpoint.deleted        30 .checkpoint   .deleted .    {OFFSET}-0000000003
{OFFSET}-0000000003-1234567.checkpoint.part   30 .checkpoint   .part    .    {OFFSET}-0000000003-1234567
09223372036854775807.log     9223372036854775807 .log          .        .    09223372036854775807
"""


@pytest.mark.parametrize("row", SEGMENTS.split("\n")[1:-1])
def test_segment_names(row):
    name, offset, *words, stem = row.split()
    parsed = names.segment(name)
    assert parsed is not None
    assert parsed[:5] == (int(offset), *("" if word == "." else word for word in words), stem)


def test_the_page_about_layouts_names_everything():
    page = (DOCS / "layouts.md").read_text()
    known = [*names.FILES, *names.SIDECARS, *names.PACKED_SUFFIXES, *(f"-{state}" for state in names.FOLDER_STATES)]
    known += [
        ".deleted",
        ".cleaned",
        ".swap",
        ".part",
        *(kind for kind, _, _ in remote_errors.ERROR_PATTERNS),
        "other",
    ]
    assert [name for name in known if name not in page] == []
