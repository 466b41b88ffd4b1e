"""Sources of one name with different topic ids are merged only with --merge-different, and the first one is the log."""

import re
from uuid import UUID

import fsspec
import pytest
from plain_logs import batch, content, log

from kafkarec import salvage
from kafkarec.ops.salvage import Refused
from kafkarec.sidecars import partition_metadata

ONE, TWO = (partition_metadata.read(partition_metadata.write(UUID(int=number))).topic_id for number in (7, 8))
NAME = f"{0:020}.log"


def partition(folder, topic_id, *batches):
    log(folder, list(batches))
    if topic_id is not None:
        (folder / partition_metadata.NAME).write_bytes(partition_metadata.write(topic_id))
    return folder


@pytest.fixture
def two(tmp_path):
    """The first has lower leader epochs, fewer records in a batch, and lacks the offsets 10 to 14."""
    one = partition(tmp_path / "a" / "orders-0", ONE, batch(0, 5), batch(5, 4), batch(15, 5))
    other = [batch(0, 5, epoch=1), batch(5, 5, epoch=2), batch(10, 5, epoch=3), batch(15, 5, epoch=3)]
    return [one, partition(tmp_path / "b" / "orders-0", TWO, *other)]


def test_named_file_by_file_and_as_data_folders(two, tmp_path):
    for pair in ([path / NAME for path in two], [path.parent for path in two]):
        with pytest.raises(Refused, match=f"{ONE} in .*, {TWO} in "):
            salvage(pair, tmp_path / "out")
    for name in "ab":
        partition(tmp_path / name / "other-0", "ab".index(name) * ONE or TWO, batch(0, 1))
        partition(tmp_path / name / "same-0", ONE, batch(0, 1))
    with pytest.raises(Refused, match=r"orders-0 \(and 1 more partition\)"):
        salvage([path.parent for path in two], tmp_path / "out")


@pytest.mark.parametrize("as_partition", [False, True])
def test_the_path_named_first_is_the_log(two, tmp_path, as_partition):
    """Its batches win, whatever the leader epochs; the other one has what it lacks."""
    out = tmp_path / "out"
    report = salvage(two, out, merge_different=True, as_partition=as_partition)
    expected = [batch(0, 5), batch(5, 4), batch(10, 5, epoch=3), batch(15, 5)]
    assert (out / "orders-0" / NAME).read_bytes() == b"".join(expected)
    assert [one.reason for one in report.partitions[0].set_aside] == ["other_epoch", "conflict_epoch", "other_epoch"]
    assert f"are merged, and batches of {two[0]} win: {ONE} in {two[0]}, {TWO} in {two[1]}" in str(report)
    assert not as_partition or ONE in (out / "orders-0" / partition_metadata.NAME).read_text()
    other = salvage(two[::-1], tmp_path / "other", merge_different=True, as_partition=as_partition)
    assert (tmp_path / "other" / "orders-0" / NAME).read_bytes() == (two[1] / NAME).read_bytes()
    assert len(other.partitions[0].set_aside) == 3


def test_replicas_of_the_first_are_merged_by_the_rules(two, tmp_path):
    replica = partition(tmp_path / "c" / "orders-0", ONE, batch(0, 5), batch(5, 5, epoch=1, value=b"later %d"))
    salvage([two[0], two[1], replica], tmp_path / "out", merge_different=True)
    expected = [batch(0, 5), batch(5, 5, epoch=1, value=b"later %d"), batch(10, 5, epoch=3), batch(15, 5)]
    assert (tmp_path / "out" / "orders-0" / NAME).read_bytes() == b"".join(expected)


@pytest.mark.parametrize("content_of_second", [None, b"version: 0\ntopic_id: x\n", partition_metadata.write(ONE)])
def test_what_is_no_other_topic(tmp_path, content_of_second):
    """The same id, none, or a file that cannot be read."""
    one = partition(tmp_path / "a" / "orders-0", ONE, batch(0, 5))
    other = partition(tmp_path / "b" / "orders-0", None, batch(0, 5), batch(5, 5))
    if content_of_second is not None:
        (other / partition_metadata.NAME).write_bytes(content_of_second)
    assert salvage([one, other], tmp_path / "out").partitions[0].batches == 2
    salvage([one, other], tmp_path / "same", merge_different=True)
    assert content(tmp_path / "out").keys() == content(tmp_path / "same").keys()


def test_sources_in_a_bucket_are_named_by_their_urls(two, tmp_path):
    """Folders, and segments that are named one by one, which have the id of their folder."""
    memory, root = fsspec.filesystem("memory"), f"/{tmp_path.name}"
    for number, folder in enumerate(two):
        for file in folder.iterdir():
            memory.pipe(f"{root}/{number}/orders-0/{file.name}", file.read_bytes())
    urls = [f"memory:/{root}/{number}/orders-0" for number in (0, 1)]
    for pair in (urls, [f"{url}/{NAME}" for url in urls]):
        with pytest.raises(Refused, match=re.escape(f": {ONE} in {urls[0]}, {TWO} in {urls[1]}. ")):
            salvage(pair, tmp_path / "out")
