"""Plots a study: size against write speed, a line per codec, a marker per batch size. Needs the extra `study`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import partial
from itertools import cycle

from kafkarec.ops.study import Study

from . import study_output
from .shared_options import CouldNot, WrongUse

try:
    import matplotlib  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    raise CouldNot("--plot needs matplotlib: pip install 'kafkarec[study]'") from None

matplotlib.use("Agg")
from matplotlib import pyplot  # type: ignore[import-not-found,unused-ignore]

_KINDS = (".svg", ".png", ".pdf")
_MARKERS = "osD^vP*X"  # a marker per batch size; a colour per codec


def drawing(path: str) -> Callable[[str, Study], bytes]:
    """Return the plot function for a file name; WrongUse if its suffix is not an image format."""
    kind = os.path.splitext(path)[1].lower()
    if kind not in _KINDS:
        raise WrongUse(f"--plot {path}: the name must end in one of {', '.join(_KINDS)}")
    return partial(_drawn, kind.removeprefix("."))


def _drawn(kind: str, name: str, one: Study) -> bytes:
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    sizes = list(dict.fromkeys(row.candidate.batch_size for row in one.outcomes))
    markers = dict(zip(sizes, cycle(_MARKERS), strict=False))
    for codec in dict.fromkeys(study_output.codec(row.candidate) for row in one.outcomes):
        rows = [row for row in one.outcomes if study_output.codec(row.candidate) == codec and row.write_rate]
        speeds, shares = [row.write_rate or 0.0 for row in rows], [100 * row.share for row in rows]
        (line,) = axes.plot(speeds, shares, linewidth=1, alpha=0.6, label=codec)
        for speed, share, row in zip(speeds, shares, rows, strict=True):
            axes.plot(speed, share, markers[row.candidate.batch_size], color=line.get_color(), markersize=7)
    for size, marker in markers.items():
        label = "batches unchanged" if size is None else f"batches of {study_output.size(size)}"
        axes.plot([], [], marker, color="gray", label=label)
    axes.axhline(100, color="gray", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("write speed of one processor, MB/s of decompressed bytes")
    axes.set_ylabel("% of the current bytes")
    axes.set_title(name)
    figure.legend(loc="outside right upper", fontsize=8)
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=kind)
    finally:
        pyplot.close(figure)
    return picture.getvalue()
