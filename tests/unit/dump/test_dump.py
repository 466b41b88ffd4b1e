"""dump without a JVM: the stored output of Kafka's tool for real segments, and kafkarec's own behaviour."""

import io

import plain_logs
import pytest
from dump_comparison import ours
from measured_calls import peak_of
from paths import SEGMENTS

from kafkarec import CorruptRecordError
from kafkarec.ops.dump import DumpOptions, dump
from kafkarec.sources.files import FileObject, LocalFile

STEM = "00000000000000000000"
PRINTED = sorted([*SEGMENTS.glob("*/*.dump.txt"), *SEGMENTS.glob("*/*.decoded.txt")])


@pytest.mark.parametrize("path", PRINTED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_kafkas_tool_printed(path, monkeypatch):
    """With --print-data-log, or with the topic's decoder."""
    monkeypatch.chdir(SEGMENTS)
    folder, (name, form) = path.parent.name, path.name.removesuffix(".txt").rsplit(".", 1)
    decoder = "--offsets-decoder" if folder == "__consumer_offsets-0" else "--cluster-metadata-decoder"
    printed = ours([f"{folder}/{name}"], *[decoder] * (form == "decoded"), print_data=form == "dump")
    assert printed.out == path.read_bytes().decode()


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
    texts = dump([str(path)], DumpOptions(print_data=True), LocalFile, print, print)
    lines, peak = peak_of(lambda: sum(text.count("\n") for text in texts))
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
