"""A row of the snapshot, the file that holds all of them, and the difference of two rows.

The file is lines of JSON, compressed by xz: [layer, scenario, call, value]. Three layers:

names   public names, signatures, options, columns: changed by an addition or a removal only
facts   exit statuses, JSON without its sentences, records, digests of written files
texts   what a person reads: reports, messages, the sentences of JSON
"""

from __future__ import annotations

import difflib
import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from paths import ROOT, TESTS

LAYERS = ("names", "facts", "texts")
SNAPSHOT = TESTS / "fence" / "snapshot.xz"
CHANGELOG = ROOT / "CHANGELOG.md"
_DIGESTS = re.compile(r"^Fence: (.+)$", re.MULTILINE)
_SHOWN = 60


class Row(NamedTuple):
    """What one call showed in one layer. value: anything that JSON can hold."""

    layer: str
    scenario: str
    call: str
    value: Any

    @property
    def key(self) -> tuple[str, str, str]:
        return self[:3]


def write(rows: Iterable[Row]):
    """Writes the snapshot, sorted by layer; rows of one layer keep their order, so that like stands beside like."""
    ordered = sorted(rows, key=lambda row: LAYERS.index(row.layer))
    data = "".join(f"{_line(row)}\n" for row in ordered).encode()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 27}]
    SNAPSHOT.write_bytes(lzma.compress(data, filters=filters))


def read() -> dict[str, list[Row]]:
    """The rows of each scenario."""
    found = {}
    for line in lzma.decompress(SNAPSHOT.read_bytes()).decode().splitlines():
        row = Row(*json.loads(line))
        found.setdefault(row.scenario, []).append(row)
    return found


def digests() -> str:
    """`names <digest>, facts <digest>, texts <digest>`: the first 12 digits of SHA-256 over the lines of each layer."""
    whole = {layer: hashlib.sha256() for layer in LAYERS}
    for line in lzma.decompress(SNAPSHOT.read_bytes()).splitlines(keepends=True):
        whole[json.loads(line)[0]].update(line)
    return ", ".join(f"{layer} {one.hexdigest()[:12]}" for layer, one in whole.items())


def recorded_digests() -> str | None:
    """The same as the top section of the changelog has it."""
    top = CHANGELOG.read_text(encoding="utf-8").split("\n## ")[1]
    found = _DIGESTS.search(top)
    return found and found[1]


def record_digests():
    """Writes the digests into the line of the changelog that has them."""
    text = CHANGELOG.read_text(encoding="utf-8")
    CHANGELOG.write_text(_DIGESTS.sub(f"Fence: {digests()}", text, count=1), encoding="utf-8")


def difference(wanted: Iterable[Row], got: Iterable[Row]) -> str:
    """The rows that differ, as unified diffs of readable lines; the empty text if none does."""
    before, after = ({row.key: row.value for row in rows} for rows in (wanted, got))
    shown = []
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key) or (key in before) != (key in after):
            lines = list(difflib.unified_diff(_readable(before, key), _readable(after, key), "snapshot", "now", n=2))
            more = [f"... {len(lines) - _SHOWN} lines more\n"] if len(lines) > _SHOWN else []
            shown.append(f"\n[{key[0]}] {key[1]}: {key[2]}\n" + "".join(lines[:_SHOWN] + more))
    return "".join(shown)


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _readable(rows: dict[tuple[str, str, str], Any], key: tuple[str, str, str]) -> list[str]:
    return [f"{line}\n" for line in _lines(rows[key])] if key in rows else []


def _lines(value) -> Iterator[str]:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        yield from (line for text in value for line in text.splitlines())
    else:
        yield from json.dumps(value, ensure_ascii=False, indent=1).splitlines()
