"""One candidate on one piece: its size in the format, and the time of writing and reading.

    bytes     output of the format's write(): for 0, 1 and 2 that of convert()
    writing   encode() of the decoded columns, the fastest way to write them
    reading   decode() of the output, with checksums

Times are CPU seconds of the thread: other candidates may be tried meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkarec.read.reader import decode
from kafkarec.tables.records import RecordColumns

from .formats import FORMATS, Candidate, Made

_LONG_ENOUGH = 0.05
_RUNS = 2
_CLOCK_STEP = 1e-6


class Trial(NamedTuple):
    """made: the output. seconds: CPU time; None if the columns cannot be encoded."""

    made: Made
    write_seconds: float | None
    read_seconds: float


def run_trial(data: bytes, columns: RecordColumns, candidate: Candidate, limit: int) -> Trial:
    """Runs one trial. `columns`: the decoded `data`."""
    form = FORMATS[candidate.format]
    made = form.write(data, candidate, limit)
    writing: float | None
    try:
        source = form.columns(columns, made.data, limit)
        writing = seconds(lambda: form.encode(source, candidate))
    except ValueError:
        writing = None  # offsets of old message sets need not ascend; convert splits there, encode refuses
    reading = seconds(lambda: form.decode(made.data, limit))
    return Trial(made, writing, reading)


def read_seconds(data: bytes, limit: int) -> float:
    """CPU seconds to decode the piece as it is."""
    return seconds(lambda: decode(data, control=True, errors="skip", max_decompressed_bytes=limit))


def seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of the faster of two runs; of one run if it takes long."""
    least = float("inf")
    for _ in range(_RUNS):
        start = time.thread_time()
        run()
        least = min(least, time.thread_time() - start)
        if least > _LONG_ENOUGH:
            break
    return max(least, _CLOCK_STEP)
