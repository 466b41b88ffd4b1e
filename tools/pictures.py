"""The pictures of the documentation, drawn from real data: SVG that is readable on a light and on a dark page.

| picture | drawn from |
|---|---|
| batch.svg | the spans of `kafkarec.ops.explain` for a batch of examples/data |
| magic3.svg | that batch, as `kafkarec.experimental` writes it (`pictures_magic3.py`) |
| damage.svg | the report of `kafkarec.verify` for a file that is damaged here, with verify's own map |
| packages.svg | docs/packages.toml (`pictures_packages.py`) |
| speed.svg | benchmarks/RESULTS.md (`pictures_speed.py`); `make bench` draws it, too |

Each has its own background, so that it is readable on any page.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pictures_magic3
import pictures_packages
import pictures_speed
from pictures_bytes import CELL_H, PER_ROW, cells
from pictures_style import card, text

ROOT = Path(__file__).resolve().parent.parent
BATCH = ROOT / "examples" / "data" / "txn-0" / "00000000000000000000.log"
BROKEN = ROOT / "examples" / "data" / "all-codecs-0" / "00000000000000000000.log"

# ---- a batch, byte by byte -----------------------------------------------------------------------------------

# field -> (group, its label)
_FIELDS = {
    "base_offset": ("frame", "base offset"),
    "batch_length": ("frame", "batch length"),
    "partition_leader_epoch": ("frame", "partition leader epoch"),
    "magic": ("frame", "magic"),
    "crc": ("crc", "CRC-32C of all behind it"),
    "attributes": ("attributes", "attributes"),
    "last_offset_delta": ("attributes", "last offset delta"),
    "base_timestamp": ("time", "base timestamp"),
    "max_timestamp": ("time", "max timestamp"),
    "producer_id": ("producer", "producer id"),
    "producer_epoch": ("producer", "producer epoch"),
    "base_sequence": ("producer", "base sequence"),
    "record_count": ("records", "record count"),
}
_TOP = 66


def batch() -> str:
    """The first batch of examples/data/txn-0: a cell per byte, a colour per group of fields."""
    from kafkarec.ops.explain import explain

    explained = explain(BATCH.read_bytes())
    data = bytes(explained.sections[0].data)[: explained.size]
    parts = [
        text(24, 32, "A record batch on disk", "title"),
        text(24, 52, f"{explained.headline}; the first {PER_ROW * 7} of its {explained.size} bytes", "soft"),
    ]
    spans = [(span.start, span.length, span.path, *_named(span.path)) for span in explained.spans]
    parts.append(cells(data, spans, 7, _TOP))
    return card(1180, _TOP + 7 * CELL_H + 16, "A record batch, byte by byte", "".join(parts))


def _named(path: str) -> tuple[str, str]:
    if path in _FIELDS:
        return _FIELDS[path]
    record, _, name = path.partition(".")
    number = int(record[len("records[") : -1])
    group = "record" if number % 2 == 0 else "other"
    if number:
        return group, f"record {number}: the same again" if name == "length" else ""
    words = {"length": "record 0: length", "attributes": "attr.", "timestamp_delta": "time"}
    return group, words.get(name, name.replace("_", " "))


# ---- a file and its damage -----------------------------------------------------------------------------------


def broken_file() -> bytes:
    """A segment of a real broker with a flipped bit, a page of zeros and a truncated end: the file of damage.svg."""
    data = bytearray(BROKEN.read_bytes())
    data[9_000] ^= 0x10
    data[20_480:24_576] = bytes(4096)
    return bytes(data[:-300])


def damage() -> str:
    """verify's own map of `broken_file`, with its message for each range."""
    import kafkarec
    from kafkarec.ops.verify import report_html

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "orders-0" / "00000000000000000000.log"
        path.parent.mkdir()
        path.write_bytes(broken_file())
        os.utime(path, (0, 0))
        (partition,) = kafkarec.verify(path).partitions
    (file,) = partition.files
    drawn = report_html._svg_map(file.ranges, file.size).replace(
        "<svg ", '<svg x="24" y="84" width="1072" height="44" '
    )
    parts = [
        text(24, 32, "A damaged segment, as verify sees it", "title"),
        text(24, 52, f"{file.size} bytes, {file.batches} good batches, {file.records} records", "soft"),
        text(24, 76, "byte 0", "soft"),
        f'<text class="soft" x="1096" y="76" text-anchor="end">byte {file.size - 1}</text>',
        drawn,
    ]
    lines = sorted(_places(file), reverse=True)  # the last place first: no line crosses a text
    for at, (place, state, words) in enumerate(lines):
        y = 166 + at * 26
        x = 24 + place * 1072 / file.size
        left = x < 560
        parts.append(f'<path class="edge" d="M {x:.1f} 128 V {y - 5} H {x + (12 if left else -12):.1f}"/>')
        anchor = "start" if left else "end"
        parts.append(
            f'<text class="label" x="{x + (18 if left else -18):.1f}" y="{y}" text-anchor="{anchor}">'
            f'<tspan class="mark {state}">■</tspan> {escape(words)}</text>'
        )
    return card(1120, 166 + len(lines) * 26, "A damage map", "".join(parts))


def _places(file: object) -> Iterator[tuple[float, str, str]]:
    """(byte, state, words) of every range that is not good."""
    damage_at = {one.position: one for one in file.damage}  # type: ignore[attr-defined]
    for one in file.ranges:  # type: ignore[attr-defined]
        if one.state == "good":
            continue
        words = f"bytes {one.position} to {one.position + one.length - 1}: {one.state}"
        if one.position in damage_at:
            damage = damage_at[one.position]
            words += f", {damage.reason}"
            if damage.lost_from is not None and damage.lost_to is not None:
                words += f", offsets {damage.lost_from} to {damage.lost_to} lost"
        yield one.position + one.length / 2, one.state, words


PICTURES = {
    "batch.svg": batch,
    "damage.svg": damage,
    "magic3.svg": pictures_magic3.magic3,
    "packages.svg": pictures_packages.packages,
    "speed.svg": pictures_speed.speed,
}
