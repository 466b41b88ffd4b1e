"""The plots of the HTML page of `study`, as SVG elements without text that a viewer would have to load.

byte_shares     one bar: what the decompressed bytes are used for
size_and_speed  a point per candidate: size against write speed; colour: codec, shape: format, area: batch size
smallest_sizes  a bar per format and codec: the smallest size of its batch sizes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10

from kafkarec.ops.study import FORMATS, Outcome, Study
from kafkarec.support.html_page import text

from . import study_output

STYLE = """
:root { --s0: #4477aa; --s1: #ee6677; --s2: #228833; --s3: #b59a1f; --s4: #8e5aa8; }
@media (prefers-color-scheme: dark) { :root { --s0: #7ba7d9; --s1: #ff8f9c; --s2: #58bf6b; --s3: #d9c25a;
  --s4: #c693df; } }
.s0 { fill: var(--s0); background: var(--s0); } .s1 { fill: var(--s1); background: var(--s1); }
.s2 { fill: var(--s2); background: var(--s2); } .s3 { fill: var(--s3); background: var(--s3); }
.s4 { fill: var(--s4); background: var(--s4); }
svg.bar { height: 26px; border-radius: 4px; }
svg.plot { max-width: 680px; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
svg text.soft { fill: var(--soft); } svg text.value { stroke: var(--card); stroke-width: 3px; paint-order: stroke; }
svg .grid { stroke: var(--line); fill: none; } svg .now { stroke: var(--soft); stroke-dasharray: 4 3; }
svg .mark { fill-opacity: .7; stroke: var(--card); stroke-width: .5; } svg .mark.best { fill-opacity: 1;
  stroke: var(--ink); stroke-width: 1; }
.shape { font-style: normal; color: var(--soft); margin-right: 4px; }
@media (min-width: 640px) { svg text { font-size: 7px; } }
"""
_WIDTH, _HEIGHT = 360, 220
_LEFT, _BOTTOM, _TOP, _RIGHT = 34, 34, 8, 6
_STEPS = (1, 2, 5)
_LEAST_SPEED = 0.01
_KINDS = ("values", "keys", "headers", "framing", "batch_headers")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# A sign for legends, and the outline of a mark of radius 1.
_SHAPES = {
    "0": ("\N{BLACK DOWN-POINTING TRIANGLE}", "M-1-.8H1L0 1z"),
    "1": ("\N{BLACK UP-POINTING TRIANGLE}", "M-1 .8H1L0-1z"),
    "2": ("\N{BLACK CIRCLE}", "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z"),
    "3": ("\N{BLACK SQUARE}", "M-.9-.9H.9V.9H-.9z"),
    "header-first": ("\N{BLACK DIAMOND}", "M0-1.2L1.2 0L0 1.2L-1.2 0z"),
}


def byte_shares(one: Study) -> Iterator[str]:
    """Yield a bar of the decompressed bytes, with its legend."""
    whole = max(1, one.makeup.plain)
    at = 0.0
    rects, keys = [], []
    for number, kind in enumerate(_KINDS):
        name, share = kind.replace("_", " "), getattr(one.makeup, kind) / whole
        said = f"{name} {100 * share:.1f} %"
        rects.append(f'<rect class="s{number}" x="{1000 * at:.2f}" width="{1000 * share:.2f}" height="26">')
        rects.append(f"<title>{text(said)}</title></rect>")
        keys.append(f'<span class="key"><i class="s{number}"></i>{text(said)}</span> ')
        at += share
    yield f'<svg class="bar" viewBox="0 0 1000 26" preserveAspectRatio="none" role="img">{"".join(rects)}</svg>\n'
    yield f'<p class="legend">{"".join(keys)}</p>\n'


def size_and_speed(one: Study) -> Iterator[str]:
    """Yield the points of all candidates whose write speed was measured, with their legend."""
    rows = [row for row in one.outcomes if row.write_rate]
    if not rows:
        return
    speeds = [max(row.write_rate or 0.0, _LEAST_SPEED) for row in rows]
    low, high = log10(min(speeds)) - 0.05, log10(max(speeds)) + 0.05
    most = max(1.0, *(row.share for row in rows)) * 1.04
    sizes = sorted({row.candidate.batch_size or 0 for row in rows})

    def across(speed: float) -> float:
        return _LEFT + (log10(speed) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def down(share: float) -> float:
        return _HEIGHT - _BOTTOM - share / most * (_HEIGHT - _BOTTOM - _TOP)

    parts = []
    for share in _ticks(most):
        parts.append(
            f'<path class="{"now" if share == 1 else "grid"}" d="M{_LEFT} {down(share):.1f}H{_WIDTH - _RIGHT}"/>'
        )
        parts.append(_label(_LEFT - 4, down(share) + 3, f"{100 * share:.0f}", "end"))
    for speed in _speeds(low, high):
        parts.append(f'<path class="grid" d="M{across(speed):.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        parts.append(_label(across(speed), _HEIGHT - _BOTTOM + 13, f"{speed:g}", "middle"))
    parts.append(_label((_LEFT + _WIDTH) / 2, _HEIGHT - 5, "write speed of one processor, MB/s", "middle"))
    for row, speed in sorted(zip(rows, speeds, strict=True), key=lambda pair: pair[0].is_best):
        radius = 3 + 3 * sizes.index(row.candidate.batch_size or 0) / max(1, len(sizes) - 1)
        place = f"translate({across(speed):.1f} {down(row.share):.1f}) scale({radius:.1f})"
        best = " best" if row.is_best else ""
        parts.append(
            f'<path class="mark s{_CODECS.index(row.candidate.compression)}{best}" transform="{place}" '
            f'vector-effect="non-scaling-stroke" d="{_SHAPES[row.candidate.format][1]}">'
            f"<title>{text(_described(row))}</title></path>"
        )
    yield _plot(_HEIGHT, "size against write speed", parts)
    yield f'<p class="legend">{"".join(_keys(one, rows))}</p>\n'


def smallest_sizes(one: Study) -> Iterator[str]:
    """Yield a bar for each format and codec: the smallest size of its batch sizes, in percent of the current one."""
    least: dict[tuple[str, str], Outcome] = {}
    for row in one.outcomes:
        key = row.candidate.format, study_output.codec(row.candidate)
        least[key] = min(row, least.get(key, row), key=lambda each: each.share)
    most = max(1.0, *(row.share for row in least.values()))
    left, right = 60 if one.formats == ["2"] else 116, 54
    parts = []
    for number, ((name, codec), row) in enumerate(least.items()):
        y = 4 + 16 * number
        width = row.share / most * (_WIDTH - left - right)
        label = codec if one.formats == ["2"] else f"{name} {codec}"
        parts.append(_label(left - 5, y + 9, label, "end"))
        parts.append(f'<rect class="s{_CODECS.index(row.candidate.compression)}" x="{left}" y="{y}" ')
        parts.append(f'width="{width:.1f}" height="12"><title>{text(_described(row))}</title></rect>')
        parts.append(_label(left + width + 4, y + 9, f"{100 * row.share:.1f} %", "start", "value"))
    height = 8 + 16 * len(least)
    now = left + (_WIDTH - left - right) / most
    parts.insert(0, f'<path class="now" d="M{now:.1f} 0V{height}"/>')
    yield _plot(height, "smallest size of each codec", parts)


def _plot(height: int, name: str, parts: Sequence[str]) -> str:
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">{"".join(parts)}</svg>\n'


def _label(x: float, y: float, words: str, anchor: str, kind: str = "soft") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words)}</text>'


def _described(row: Outcome) -> str:
    one = row.candidate
    rate = "" if row.write_rate is None else f", {row.write_rate:.0f} MB/s"
    tried = f"format {one.format}, {study_output.codec(one)}, batches {study_output.batches(one)}"
    return f"{tried}: {100 * row.share:.1f} %{rate}"


def _keys(one: Study, rows: Sequence[Outcome]) -> Iterator[str]:
    """Yield the legend: codecs, formats if there are several, and what area and outline mean."""
    used = {row.candidate.compression for row in rows}
    for number, codec in enumerate(_CODECS):
        if codec in used:
            yield f'<span class="key"><i class="s{number}"></i>{codec}</span> '
    if len(one.formats) > 1:
        for name in FORMATS:
            if name in one.formats:
                yield f'<span><em class="shape">{_SHAPES[name][0]}</em>format {name}</span> '
    yield f"<span>larger: larger batches; outlined: {text(study_output.starred(one))}</span>"


def _ticks(most: float) -> Iterator[float]:
    step = 0.25 if most < 1.6 else 0.5 if most < 3.2 else floor(most / 3)
    yield from (step * number for number in range(int(most / step) + 1))


def _speeds(low: float, high: float) -> Iterator[float]:
    """Yield 1, 2, 5, 10, 20 ... between two logarithms; without 2 and 5 if there are many."""
    steps = _STEPS if high - low < 2 else _STEPS[:1]
    for power in range(floor(low), floor(high) + 1):
        yield from (step * 10.0**power for step in steps if low <= log10(step) + power <= high)
