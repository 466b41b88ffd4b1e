"""benchmarks/format_claims.py: each figure is that of bytes really written, or says that it is modelled."""

import io

import pytest
from paths import SEGMENTS
from source_files import loaded

import kafkarec
from kafkarec.experimental import header_first, v3

CLAIMS = loaded("benchmarks/format_claims.py")
NOW = 1_769_860_800_000


def figures(log, *codecs):
    """The text of each row, by what is claimed."""
    source = io.BytesIO(log) if isinstance(log, bytes) else log
    return {row.about: row.here for row in CLAIMS.rows(kafkarec.open(source), list(codecs))}


def batch(count, span, *, value=b"v" * 20):
    """A batch of `count` records whose last timestamp is `span` ms after the first one."""
    return kafkarec.encode([(n, NOW + (span if n == count - 1 else 0), b"key", value, []) for n in range(count)])


@pytest.mark.parametrize(
    "count, span, saved",
    [(64, 64, 11), (65, 64, 10), (64, 8191, 11), (65, 8191, 10), (64, 8192, 10), (65, 8192, 9), (64, 63, 12)],
)
def test_bytes_saved_of_a_header(count, span, saved):
    """10 up to 8,191 ms between the first and the last, 9 above, 1 more for a lastOffsetDelta up to 63."""
    data = batch(count, span)
    found = figures(data)
    assert found["format 3: bytes saved of a batch's header"] == f"{saved:.2f} of 61, {100 * saved / 61:.1f} %"
    both = ["format 3: ... up to 8,191 ms from base to max time", "format 3: ... above 8,191 ms"]
    wanted = [f"{saved:.2f}, in 100.0 % of batches", "no such batch"]
    assert [found[each] for each in both] == (wanted if span <= 8191 else wanted[::-1])
    small = found["format 3: ... with a lastOffsetDelta up to 63"]
    assert small == ("1 of these bytes, in 100.0 % of batches" if count == 64 else "no such batch")
    size = 61 - saved
    assert found["format 3: size of a batch's header"] == f"{size} to {size}; above 61: 0 of 1 batches"
    assert found["format 3: bytes saved a record"].startswith("1.000 of ")
    assert len(data) - len(v3.from_v2(data)) == saved + count


def test_a_header_may_be_larger_than_61_bytes():
    data = kafkarec.encode([(0, 2**62, None, b"v", []), (2**31 - 1, 2**63 - 1, None, b"v", [])])
    assert figures(data)["format 3: size of a batch's header"] == "65 to 65; above 61: 1 of 1 batches"
    assert len(data) - len(v3.from_v2(data)) == 61 - 65 + 2


def test_append_time_is_not_always_set_in_place():
    about = "format 3: a broker sets LogAppendTime in place"
    assert figures(batch(2, 7191))[about].startswith("0.0 % of headers")
    assert figures(batch(2, 7192))[about].startswith("100.0 % of headers")
    assert figures(SEGMENTS / "logappend-0")[about] == "every batch has it already"


def test_format_1_and_2():
    """The text's examples: two messages of 5 bytes (its 95 bytes are 78), and 1,000 of 100 bytes."""
    found = figures(kafkarec.encode([(n, NOW, None, word, []) for n, word in enumerate((b"hello", b"world"))]))
    assert found["format 1: bytes of a record other than key and value"] == "34.0"
    assert found["format 2 against 1, none"] == f"{100 * (85 / 78 - 1):+.1f} %"
    about = "records from which format 2 is smaller than 1, none"
    assert found[about] == "3; 100.0 % of batches have fewer"  # 61 / (34 - 7)
    rows = [(n, NOW + n, None, b"%099d." % n, []) for n in range(1000)]
    v1, v2 = (kafkarec.encode(rows, magic=magic, batch_size=1 << 20) for magic in (1, 2))
    assert len(v1) == 134_000 and 0.15 < 1 - len(v2) / len(v1) < 0.19
    lz4 = [len(kafkarec.encode(rows, magic=magic, batch_size=1 << 20, compression="lz4")) for magic in (1, 2)]
    found = figures(v2)
    assert found["format 2 against 1, none"] == f"{100 * (len(v2) / len(v1) - 1):+.1f} %"
    assert found["format 2 against 1, both lz4"] == f"{100 * (lz4[1] / lz4[0] - 1):+.1f} %"
    assert found["format 2 with lz4 against 1 with none"] == f"{100 * (lz4[1] / len(v1) - 1):+.1f} %"


def test_headers_at_batch_level():
    """Of each batch, those which all its records have: once instead of each time."""
    rows = [(n, NOW, b"k", b"v", [("app", b"shop"), ("trace", b"%d" % (n % 10))]) for n in range(10)]
    data = kafkarec.encode(rows)
    one, total = 1 + 3 + 1 + 4, 10 * (1 + 3 + 1 + 4 + 1 + 5 + 1 + 1)
    about = "a later format: record headers at batch level"
    wanted = f"{-100 * 9 * one / len(data):+.2f} %; of the headers' bytes {100 * 9 * one / total:.1f} % are the same"
    assert figures(data)[about].startswith(wanted)
    assert figures(batch(3, 5))[about] == "no record has headers"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_prefix_validates_offsets(codec):
    """Bytes of the validation's own counts; batches that a cleaner changed, and markers, are no produced ones."""
    produced = b"".join(batch(200, 100, value=b"%d" % n * 60) for n in range(3))
    gap = kafkarec.encode([(0, NOW, None, b"v", []), (5, NOW, None, b"v", [])])
    found = figures(produced + gap, codec)
    check = header_first.offsets(header_first.from_v2(produced, compression=codec, frames=2))
    made = check.decompressed_bytes / (len(produced) - 3 * 61)
    read = check.compressed_bytes / (len(kafkarec.convert(produced, compression=codec)) - 3 * 61)
    wanted = f"{100 * made:.1f} % of the decompressed bytes, {100 * read:.1f} % of the compressed ones"
    assert made < 0.2 and found[f"header-first: bytes to validate offsets, {codec}"] == wanted
