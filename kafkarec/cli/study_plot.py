"""Plots a study: size against write speed, a line per codec, a marker per batch size. Needs the extra `study`."""

from __future__ import annotations

import io
import os
from itertools import cycle

from kafkarec.ops.study import Study

from . import study_output
from .shared_options import CouldNot, WrongUse

try:
    from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    raise CouldNot("--plot needs matplotlib: pip install 'kafkarec[study]'") from None

_KINDS = (".svg", ".png", ".pdf")
_MARKERS = "osD^vP*X"  # a marker per batch size; a colour per codec


def image_format(path: str) -> str:
    """Return the format of a file name; WrongUse if its suffix is none of an image."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _KINDS:
        raise WrongUse(f"--plot {path}: the name must end in one of {', '.join(_KINDS)}")
    return suffix.removeprefix(".")


def drawn(kind: str, name: str, one: Study) -> bytes:
    """Return the picture in this format."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    sizes = dict.fromkeys(row.candidate.batch_size for row in one.outcomes)
    markers = dict(zip(sizes, cycle(_MARKERS), strict=False))
    for codec in dict.fromkeys(study_output.codec(row.candidate) for row in one.outcomes):
        rows = [row for row in one.outcomes if study_output.codec(row.candidate) == codec and row.write_rate]
        points = [(row.write_rate or 0.0, 100 * row.share) for row in rows]
        (line,) = axes.plot(*(zip(*points, strict=True) if points else ((), ())), linewidth=1, alpha=0.6, label=codec)
        for point, row in zip(points, rows, strict=True):
            axes.plot(*point, markers[row.candidate.batch_size], color=line.get_color(), markersize=7)
    for size, marker in markers.items():
        label = "batches unchanged" if size is None else f"batches of {study_output.size(size)}"
        axes.plot([], [], marker, color="gray", label=label)
    axes.axhline(100, color="gray", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", xlabel="write speed of one processor, MB/s of decompressed bytes", title=name)
    axes.set(ylabel="% of the current bytes", ylim=(0, None))
    figure.legend(loc="outside right upper", fontsize=8)
    picture = io.BytesIO()
    figure.savefig(picture, format=kind)
    return picture.getvalue()
