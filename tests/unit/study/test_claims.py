"""study(claims=True): each figure is that of bytes really written, or says that it is modelled."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from paths import SEGMENTS

import kafkarec
from kafkarec import study
from kafkarec.experimental import framing, header_first, v3
from kafkarec.ops.study import Claim, claims

NOW = 1_769_860_800_000
CODEC_ROWS = ("size_3", "size_header_first", "validation_bytes", "decompression", "validation_time")


def claims_of(data: Any, *codecs: str) -> dict[str, Claim]:
    data = io.BytesIO(data) if isinstance(data, bytes) else data
    found = study(data, formats=[2], codecs=codecs or ["none"], batch_sizes=[None], sample=None, claims=True).claims
    assert json.loads(json.dumps([one.as_dict() for one in found]))
    return {one.name: one for one in found}


def figures(data: Any, *codecs: str) -> dict[str, dict[str, float]]:
    return {name: one.figures for name, one in claims_of(data, *codecs).items()}


def batch(count: int, span: int, *, base: int = NOW, value: bytes = b"v" * 20) -> bytes:
    """A batch of `count` records whose last timestamp is `span` ms after the first one."""
    return kafkarec.encode([(n, base + (span if n == count - 1 else 0), b"key", value, []) for n in range(count)])


@pytest.mark.parametrize(
    ("count", "span", "saved"),
    [(64, 64, 11), (65, 64, 10), (64, 8191, 11), (65, 8191, 10), (64, 8192, 10), (65, 8192, 9), (64, 63, 12)],
)
def test_bytes_saved_of_a_header(count: int, span: int, saved: int) -> None:
    """10 up to 8,191 ms between the first and the last, 9 above, 1 more for a lastOffsetDelta up to 63."""
    data = batch(count, span)
    found = figures(data)
    assert found["header_saved"] == {"header_saved": saved, "header_saved_share": saved / 61}
    (kind, share), other = (
        (("header_short", "short"), "header_long") if span <= 8191 else (("header_long", "long"), "header_short")
    )
    assert found[kind] == {f"{share}_saved": saved, f"{share}_share": 1} and found[other] == {}
    assert found["header_small_delta"] == ({"small_delta_share": 1} if count == 64 else {})
    assert found["header_size"] == {
        "header_least": 61 - saved,
        "header_most": 61 - saved,
        "header_above": 0,
        "batches": 1,
    }
    assert found["record_saved"]["record_saved"] == 1
    assert len(data) - len(v3.from_v2(data)) == saved + count


def test_a_header_may_be_larger_than_61_bytes() -> None:
    data = kafkarec.encode([(0, 2**62, None, b"v", []), (2**31 - 1, 2**63 - 1, None, b"v", [])])
    found = figures(data)["header_size"]
    assert found["header_above"] == 1 and 61 < found["header_most"] <= 66


def test_append_time_is_not_always_set_in_place() -> None:
    assert figures(batch(2, 7191))["append_time"] == {"append_changes": 0}
    assert figures(batch(2, 7192))["append_time"] == {"append_changes": 1}
    claim = claims_of(SEGMENTS / "logappend-0")["append_time"]
    assert (claim.basis, claim.figures, claim.here) == ("modelled", {}, "every batch has it already")


def test_format_1_beside_2() -> None:
    """The text's examples: two messages of 5 bytes (its 95 bytes are 78), and 1,000 of 100 bytes."""
    found = figures(kafkarec.encode([(n, NOW, None, word, []) for n, word in enumerate((b"hello", b"world"))]))
    assert found["v1_overhead"] == {"v1_overhead": 34}
    assert found["v1_to_v2"] == {"v1_to_v2": 85 / 78 - 1}
    assert found["break_even"] == {"break_even": 3, "below_break_even": 1}  # 61 / (34 - 7)
    rows = [(n, NOW + n, None, b"%099d." % n, []) for n in range(1000)]
    v1, v2 = (kafkarec.encode(rows, magic=magic, batch_size=1 << 20) for magic in (1, 2))
    assert len(v1) == 134_000 and 0.15 < 1 - len(v2) / len(v1) < 0.19
    found = figures(v2)
    assert found["v1_to_v2"] == {"v1_to_v2": len(v2) / len(v1) - 1}
    lz4 = [len(kafkarec.encode(rows, magic=magic, batch_size=1 << 20, compression="lz4")) for magic in (1, 2)]
    assert found["v1_to_v2_lz4"] == {"v1_to_v2_lz4": lz4[1] / lz4[0] - 1}
    assert found["v1_to_lz4"] == {"v1_to_lz4": lz4[1] / len(v1) - 1}


def test_headers_at_batch_level() -> None:
    """Of each batch, those which all its records have: once instead of each time."""
    same, own = ("app", b"shop"), [("trace", b"%d" % (n % 10)) for n in range(10)]
    rows = [(n, NOW, b"k", b"v", [same, own[n]]) for n in range(10)]
    data = kafkarec.encode(rows)
    all_headers, one = 10 * (1 + 3 + 1 + 4 + 1 + 5 + 1 + 1), 1 + 3 + 1 + 4
    found = claims_of(data)["batch_headers"]
    assert found.figures == {"batch_headers": -9 * one / len(data), "shared_headers": 9 * one / all_headers}
    assert found.basis == "modelled"
    assert claims_of(batch(3, 5))["batch_headers"].here == "no record has headers"


# logs that nothing here was made from
@pytest.mark.parametrize("name", ["logappend-0", "__consumer_offsets-0", "__cluster_metadata-0", "logappend-live-0"])
def test_the_figures_of_held_back_segments(name: str) -> None:
    """Computed again, from files of each format."""
    log = kafkarec.open(SEGMENTS / name)
    codecs = ("lz4", "zstd")
    found = figures(log, *codecs)
    segments = [Path(each.path).read_bytes() for each in log.segments]
    plain = b"".join(kafkarec.convert(each, compression="none") for each in segments)
    frames = list(framing.whole_frames(memoryview(v3.from_v2(plain)), 3))
    headers = [len(each.data) - len(framing.read_header(each)[1]) for each in frames]
    sizes = {"least": min(headers), "most": max(headers), "above": sum(each > 61 for each in headers)}
    assert found["header_size"] == {f"header_{key}": size for key, size in sizes.items()} | {"batches": len(headers)}
    assert found["header_saved"]["header_saved"] == pytest.approx(61 - sum(headers) / len(headers))
    records = sum(kafkarec.scan(plain).column("record_count"))
    saved = len(plain) - len(v3.from_v2(plain)) - sum(61 - each for each in headers)
    assert found["record_saved"]["record_saved"] == saved / records
    for codec in codecs:
        v2 = kafkarec.convert(plain, compression=codec)
        for form, module in (("3", v3), ("header_first", header_first)):
            made = module.from_v2(plain, compression=codec)
            assert found[f"size_{form} {codec}"] == {f"size_{form}": len(made) / len(v2) - 1}
    assert found["tagged_fields"] == {"tagged_batch": len(headers) / len(plain), "tagged_record": records / len(plain)}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_prefix_validates_offsets(codec: str) -> None:
    """Bytes of the validation's own counts; batches that a cleaner changed, and markers, are no produced ones."""
    produced = b"".join(batch(200, 100, value=b"%d" % n * 60) for n in range(3))
    gap = kafkarec.encode([(0, NOW, None, b"v", []), (5, NOW, None, b"v", [])])
    found = figures(produced + gap, codec)
    check = header_first.offsets(header_first.from_v2(produced, compression=codec, frames=2))
    whole = len(produced) - 3 * 61
    stored = len(kafkarec.convert(produced, compression=codec)) - 3 * 61
    assert found[f"validation_bytes {codec}"] == {
        "validation_bytes": check.decompressed_bytes / whole,
        "validation_read": check.compressed_bytes / stored,
    }
    assert found[f"validation_bytes {codec}"]["validation_bytes"] < 0.2
    assert found[f"decompression {codec}"]["decompression"] > 0 < found[f"validation_time {codec}"]["validation_time"]


def test_every_row_is_there_and_says_its_basis() -> None:
    found = claims_of(SEGMENTS / "all-codecs-0", "zstd:9", "zstd:1", "lz4")
    plain = [row.name for row in claims._ROWS if "{codec}" not in row.name]
    expected = {f"{name} {codec}" for name in CODEC_ROWS for codec in ("zstd", "lz4")}
    assert set(found) == {*plain, *expected, "size_3 none", "size_header_first none"}
    assert {one.basis for one in found.values()} == {"measured", "modelled"}
    later = [one for one in found.values() if one.about.startswith("a later format")]
    assert len(later) == 3 and all(one.basis == "modelled" for one in later)
    assert all(one.here and one.claimed for one in found.values())


def test_logs_without_records_or_with_old_messages_have_claims() -> None:
    empty = figures((SEGMENTS / "compacted-0" / f"{0:020}.log").read_bytes())
    assert empty["header_size"]["batches"] > 0
    old = figures(kafkarec.encode([(n, NOW, b"k", b"v" * 10, []) for n in range(10)], magic=1), "lz4")
    assert old["v1_overhead"] == {"v1_overhead": 34} and old["size_3 lz4"]["size_3"] < 0


def test_wrappers_before_batches_with_headers() -> None:
    """The headers of wrappers have no number of records; those of the batches after them are still counted."""
    rows = [(n, NOW, b"k", b"v", [("app", b"shop")]) for n in range(10)]
    old = kafkarec.encode([(n, NOW, b"k", b"v", []) for n in range(10)], magic=0, compression="gzip")
    found = figures(old + kafkarec.encode(rows, base_offset=10))
    assert found["batch_headers"]["shared_headers"] == 0.9
    assert found["v1_overhead"] == {"v1_overhead": 34}


def test_claims_are_only_made_when_asked_for() -> None:
    assert study(SEGMENTS / "txn-0", formats=[3], codecs=["none"], batch_sizes=[None]).claims == []
