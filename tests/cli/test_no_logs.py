"""Files that hold no record batches: each verb says what kind of file it is, and what shows it."""

import gzip
import shutil

import pyarrow as pa
import pytest
from command import own_process
from paths import SEGMENTS
from spoiled_arrow import written
from wheelhouse_pack import zipped

TXN = SEGMENTS / "txn-0"
LOG, FOLLOWING = f"{0:020}", f"{30:020}"
VERBS = ("verify", "ls", "cat", "scan", "txn", "explain", "study")
# A file of a partition folder -> its kind, and the command that shows it.
SIDE_FILES = {
    f"{LOG}.index": ("an offset index", "name its .log file, or print it: kafkarec dump "),
    f"{LOG}.timeindex": ("a time index", "name its .log file, or print it: kafkarec dump "),
    f"{FOLLOWING}.txnindex": ("a transaction index", "name its .log file, or print it: kafkarec dump "),
    f"{FOLLOWING}.snapshot": ("a producer snapshot", "name its .log file, or print it: kafkarec dump "),
    "leader-epoch-checkpoint": ("the first offset of each leader epoch", "it is text: less "),
    "partition.metadata": ("the topic's id", "it is text: less "),
}


@pytest.mark.parametrize("name", SIDE_FILES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_side_file_is_named_by_its_kind_with_the_command_that_shows_it(run, verb, name):
    ran, (kind, shown) = run(verb, TXN / name), SIDE_FILES[name]
    assert ran.status == 2
    assert kind in ran.complaint
    assert ran.complaint.endswith(f"{shown}{TXN / name}")
    command, _, _ = shown.rpartition(": ")[2].partition(" ")
    if command == "kafkarec":
        assert run("dump", TXN / name).status == 0


@pytest.mark.parametrize("state", [".deleted", ".swap", ".cleaned"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_side_file_that_a_broker_renamed_is_no_log(run, tmp_path, verb, state):
    path = shutil.copy(TXN / f"{LOG}.index", tmp_path / f"{LOG}.index{state}")
    ran = run(verb, path)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.complaint.endswith("is an offset index and holds no records; name its .log file")


def test_verify_and_ls_do_not_take_a_copied_index_for_batches(run, tmp_path):
    """The bytes of an .index can look like the header of a batch."""
    shutil.copytree(TXN, tmp_path / "txn-0")
    lost = tmp_path / "txn-0" / "lost+found"
    lost.mkdir()
    for place in (tmp_path / "txn-0" / "copy of 0.index", lost / f"{LOG}.index"):
        shutil.copy(TXN / f"{LOG}.index", place)
    assert b"record batches" not in run("verify", tmp_path / "txn-0", "--all").out
    assert b"an offset index, by its suffix, but not a name that Kafka gives" in run("ls", tmp_path / "txn-0").out


DATA = (TXN / f"{FOLLOWING}.log").read_bytes()
TABLE = pa.table({"key": [b"k"] * 100, "value": [b"v" * 40] * 100})


# The content of a file of another type, and what is said of it.
OTHER_TYPES = {
    "Parquet": (written(TABLE, "parquet"), "looks like a Parquet file, not a Kafka log"),
    "Arrow file": (written(TABLE, "file"), "looks like an Arrow file, not a Kafka log"),
    "Arrow stream": (written(TABLE, "stream"), "looks like an Arrow stream, not a Kafka log"),
    "zip": (zipped([(f"{FOLLOWING}.log", DATA)]), "looks like a zip archive: unzip -p {} | kafkarec cat -"),
    "gzip": (gzip.compress(DATA), "looks like a gzip file: zcat {} | kafkarec cat -"),
}


each_type = pytest.mark.parametrize("data, said", OTHER_TYPES.values(), ids=OTHER_TYPES)


@each_type
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "verify"])
def test_a_file_of_another_type_is_refused_with_what_it_looks_like(run, tmp_path, verb, data, said):
    path = tmp_path / "export"
    path.write_bytes(data)
    ran = run(verb, path)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.complaint.endswith(f"{path} {said.format(path)}")


@each_type
def test_diff_refuses_a_file_of_another_type_on_either_side(run, tmp_path, data, said):
    path = tmp_path / "export"
    path.write_bytes(data)
    for sides in ((path, TXN), (TXN, path)):
        ran = run("diff", *sides)
        assert (ran.status, ran.out) == (2, b"")
        assert ran.complaint.endswith(f"{path} {said.format(path)}")


@each_type
def test_verify_reports_a_file_of_another_type(run, tmp_path, data, said):
    (tmp_path / "export").write_bytes(data)
    ran = run("verify", tmp_path / "export")
    assert ran.status == 1
    assert said.partition(":")[0] in ran.text and b"salvage" not in ran.out


@each_type
def test_a_segment_that_was_replaced_by_a_file_of_another_type_is_damage(run, tmp_path, data, said):
    """By its name it is a log, so it may be a damaged one."""
    path = tmp_path / f"{LOG}.log"
    path.write_bytes(data)
    ran = run("cat", path, "--errors", "skip")
    assert ran.status == 1 and said.format(path) in ran.complaint


def test_standard_input_of_another_type_is_refused():
    ran = own_process("cat", "-", stdin=gzip.compress((TXN / f"{LOG}.log").read_bytes()))
    assert (ran.status, ran.out) == (2, b"")
    assert ran.complaint == "kafkarec: standard input looks like a gzip file: zcat FILE | kafkarec cat -"


def test_a_wiped_block_at_the_start_of_a_file_is_no_arrow_stream(run, tmp_path):
    path = tmp_path / "block"
    path.write_bytes(b"\xff" * 512 + (TXN / f"{LOG}.log").read_bytes())
    ran = run("cat", path, "--errors", "skip")
    assert ran.status == 1
    assert len(ran.rows) == 30
