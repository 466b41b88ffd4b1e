"""One candidate on one piece: the size after `convert`, and the time of writing and reading.

    bytes     output of convert()
    writing   encode() of the decoded columns, the fastest way to write them
    reading   decode() of the output, with checksums

Times are CPU seconds of the thread: other candidates may be tried meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkarec.ops.convert import convert
from kafkarec.read.reader import decode
from kafkarec.tables.records import RecordColumns
from kafkarec.write import encode

from .candidates import Candidate

_LONG_ENOUGH = 0.05
_RUNS = 2
_CLOCK_STEP = 1e-6


class Trial(NamedTuple):
    """bytes, batches: of the output. seconds: CPU time; None if the columns cannot be encoded."""

    bytes: int
    batches: int
    write_seconds: float | None
    read_seconds: float


def run_trial(data: bytes, columns: RecordColumns, candidate: Candidate, limit: int) -> Trial:
    """Runs one trial. `columns`: the decoded `data`."""
    encode_options: dict[str, Any] = {"compression": candidate.compression, "level": candidate.level}
    made = convert(data, **encode_options, batch_size=candidate.batch_size, errors="skip", max_decompressed_bytes=limit)
    try:
        writing = _seconds(lambda: encode(columns, **encode_options, batch_size=candidate.batch_size))
    except ValueError:
        writing = None  # offsets of old message sets need not ascend; convert splits there, encode refuses
    reading = _seconds(lambda: decode(made, control=True, max_decompressed_bytes=limit))
    return Trial(len(made), made.stats.batches_out, writing, reading)


def read_seconds(data: bytes, limit: int) -> float:
    """CPU seconds to decode the piece as it is."""
    return _seconds(lambda: decode(data, control=True, errors="skip", max_decompressed_bytes=limit))


def _seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of the faster of two runs; of one run if it takes long."""
    least = float("inf")
    for _ in range(_RUNS):
        start = time.thread_time()
        run()
        least = min(least, time.thread_time() - start)
        if least > _LONG_ENOUGH:
            break
    return max(least, _CLOCK_STEP)
