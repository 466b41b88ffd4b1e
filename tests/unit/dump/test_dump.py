"""dump without a JVM: the stored output of Kafka's tool for real segments, and kafkarec's own behaviour."""

import io
import tracemalloc
from pathlib import Path

import plain_logs
import pytest
from dump_comparison import ours
from paths import SEGMENTS

from kafkarec import CorruptRecordError
from kafkarec.ops.dump import DumpOptions, dump
from kafkarec.sources.files import FileObject, LocalFile

STEM = "00000000000000000000"
DECODED = {"__consumer_offsets-0": "--offsets-decoder"}


def texts(suffix):
    result = sorted(SEGMENTS.glob(f"*/*{suffix}"))
    return [str(path.relative_to(SEGMENTS)).removesuffix(suffix) for path in result]


@pytest.mark.parametrize("name", texts(".dump.txt"))
def test_what_kafkas_tool_printed(name, monkeypatch):
    monkeypatch.chdir(SEGMENTS)
    wanted = Path(f"{name}.dump.txt").read_bytes().decode()
    assert ours([name], print_data=True).out == wanted


@pytest.mark.parametrize("name", texts(".decoded.txt"))
def test_what_kafkas_tool_printed_with_a_decoder(name, monkeypatch):
    monkeypatch.chdir(SEGMENTS)
    flag = DECODED.get(name.split("/")[0], "--cluster-metadata-decoder")
    wanted = Path(f"{name}.decoded.txt").read_bytes().decode()
    assert ours([name], flag).out == wanted


def log(folder, *parts, stem=STEM):
    path = folder / f"{stem}.log"
    path.write_bytes(b"".join(parts))
    return path


def test_an_index_is_never_changed(tmp_path):
    """Kafka's tool truncates an index that does not end with a whole entry, and creates a missing index."""
    log(tmp_path, plain_logs.batch(0, 1))
    index, times = tmp_path / f"{STEM}.index", tmp_path / f"{STEM}.timeindex"
    times.write_bytes(bytes(12))
    assert ours([times]).status == 1
    assert not index.exists()
    index.write_bytes(bytes(13))
    ours([index, times])
    assert index.stat().st_size == 13


def test_memory_is_flat(tmp_path):
    batch = plain_logs.batch(0, 200, value=b"x" * 100)
    path = log(tmp_path, *[batch] * 1000)  # 22 MB
    tracemalloc.start()
    lines = sum(text.count("\n") for text in dump([str(path)], DumpOptions(print_data=True), LocalFile, print, print))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == 2 + 1000 * 201
    assert peak < 16 << 20


def test_a_file_that_shrinks(tmp_path):
    source = FileObject(io.BytesIO(plain_logs.batch(0, 3)), f"{STEM}.log")
    source.size += 100
    with pytest.raises(CorruptRecordError, match="shorter now"):
        list(dump([f"{STEM}.log"], DumpOptions(), lambda path: source, print, print))


def test_offsets_of_names_are_those_of_parse_long(tmp_path):
    for stem, offset in (("0" * 30 + "5", 5), ("-7", -7), ("+7", 7), (str(2**63 - 1), 2**63 - 1), ("٣", 3)):
        assert f"Log starting offset: {offset}\n" in ours([log(tmp_path, stem=stem)]).out
    for stem in ("", "1a", str(2**63), " 1", "\U0001d7d1"):  # a 3 of two UTF-16 units
        (said,) = ours([log(tmp_path, stem=stem)]).err
        assert "its name has no offset" in said
