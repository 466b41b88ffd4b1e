"""study of formats: its sizes are those of files really written, its rows tell what a format loses."""

import io

import pytest
from paths import SEGMENTS
from plain_logs import batch

import kafkarec
from kafkarec import study
from kafkarec.experimental import header_first, v3
from kafkarec.ops.study import FORMATS, NotTried

FOLDERS = ("all-codecs-0", "txn-0", "compacted-0", "logappend-0", "__consumer_offsets-0")
CODECS = ("none", "lz4", "zstd:9", "gzip")
SIZES = (None, 16384)
PROPOSED = {"3": v3, "header-first": header_first}


def write(folder, log, one):
    """Writes the segments as a candidate says, one file each; returns the bytes on the disk."""
    for segment in log.segments:
        options = {"compression": one.compression, "level": one.level}
        if one.format in PROPOSED:
            plain = kafkarec.convert(segment, compression="none", batch_size=one.batch_size)
            made = PROPOSED[one.format].from_v2(plain, **options)
            assert (
                PROPOSED[one.format].decode(made, control=True).tuples()
                == kafkarec.decode(plain, control=True).tuples()
            )
        else:
            made = kafkarec.convert(segment, magic=int(one.format), batch_size=one.batch_size, **options)
        (folder / f"{'-'.join(map(str, one))}-{segment.name}").write_bytes(made)
    return sum(path.stat().st_size for path in folder.glob(f"{'-'.join(map(str, one))}-*"))


@pytest.mark.parametrize("name", FOLDERS)
def test_sizes_are_those_of_files(name, tmp_path):
    log = kafkarec.open(SEGMENTS / name)
    report = study(log, formats=FORMATS, codecs=CODECS, batch_sizes=SIZES, sample=None)
    assert report.formats == ["0", "1", "2", "3", "header-first"]
    assert report.is_whole and report.damage == 0 and report.size == log.size
    for one in report.outcomes:
        assert one.size == write(tmp_path, log, one.candidate), one
        assert one.read_rate and one.write_rate and not one.refused and one.margin is None
    assert len(report.outcomes) == len(SIZES) * (2 * 3 + 3 * 4)


def test_a_sample_of_a_format_estimates_its_files(tmp_path):
    rows = [(n, 1000 + n, b"k%d" % (n % 50), b"%d" % (n * n) * (1 + n // 9000), []) for n in range(30_000)]
    with kafkarec.SegmentWriter(tmp_path / "log" / "t-0", segment_bytes=256 << 10) as writer:
        writer.append(kafkarec.encode(rows, batch_size=2000))
    log = kafkarec.open(tmp_path / "log" / "t-0")
    assert isinstance(log, kafkarec.Log) and len(log.segments) > 3
    report = study(log, formats=(1, 3, "header-first"), codecs=["zstd"], batch_sizes=[None], sample=256 << 10)
    for one in report.outcomes:
        assert one.margin is not None and abs(one.size - write(tmp_path, log, one.candidate)) < one.margin * report.size


def test_what_formats_0_and_1_lose_is_in_each_row():
    """The fence has how many."""
    report = study(SEGMENTS / "all-codecs-0", formats=(0, 1), codecs=["lz4", "zstd:1"], batch_sizes=[None])
    order = ["headers", "records_with_headers", "timestamps", "producer_ids", "leader_epochs"]
    assert list(report.outcomes[0].losses) == order, "they are printed in this order"
    assert report.not_tried == [NotTried(name, "zstd", f"format {name} has no zstd") for name in "01"]
    markers = study(SEGMENTS / "txn-0", formats=[1], codecs=["none"], batch_sizes=[None])
    assert markers.outcomes[0].losses["control_batches"] == 26
    assert markers.smallest is None and markers.not_tried == []


def test_batches_that_a_format_cannot_hold_are_counted():
    good = kafkarec.encode([(0, 5, b"key", b"value", [])])
    negative = batch(1, 3, base_timestamp=-5)
    (one,) = study(io.BytesIO(good + negative), formats=[1], codecs=["none"], batch_sizes=[None]).outcomes
    assert (one.refused, one.size) == (1, len(kafkarec.convert(good, magic=1)))
    (two,) = study(io.BytesIO(good + negative), formats=[3], codecs=["none"], batch_sizes=[None]).outcomes
    assert (two.refused, two.size) == (0, len(v3.from_v2(good + negative)))
