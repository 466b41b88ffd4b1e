"""One candidate on one piece: what `convert` makes of the bytes, and how long writing and reading take.

    bytes     convert() itself, so that they are those of the command that does it
    writing   encode() of the decoded columns, the fastest that this library writes them
    reading   decode() of the outcome, checksums verified

Seconds are those of one processor, whatever else the machine does.
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
_TURNS = 3
_CLOCK_STEP = 1e-6


class Trial(NamedTuple):
    """bytes, batches: of the outcome. seconds: of the processor; None where the columns cannot be written so."""

    bytes: int
    batches: int
    write_seconds: float | None
    read_seconds: float


def tried(data: bytes, columns: RecordColumns, candidate: Candidate, limit: int) -> Trial:
    """`columns`: what `data` decodes to."""
    encode_options: dict[str, Any] = {"compression": candidate.compression, "level": candidate.level}
    made = convert(data, **encode_options, batch_size=candidate.batch_size, errors="skip", max_decompressed_bytes=limit)
    try:
        writing = _seconds(lambda: encode(columns, **encode_options, batch_size=candidate.batch_size))
    except ValueError:
        writing = None  # offsets of old message sets need not rise; convert cuts there, encode does not
    reading = _seconds(lambda: decode(made, control=True, max_decompressed_bytes=limit))
    return Trial(len(made), made.stats.batches_out, writing, reading)


def read_seconds(data: bytes, limit: int) -> float:
    """Of the piece as it is."""
    return _seconds(lambda: decode(data, control=True, errors="skip", max_decompressed_bytes=limit))


def _seconds(run: Callable[[], Any]) -> float:
    """The least of a few turns; one turn where it is long."""
    least = float("inf")
    for _ in range(_TURNS):
        start = time.process_time()
        run()
        least = min(least, time.process_time() - start)
        if least > _LONG_ENOUGH:
            break
    return max(least, _CLOCK_STEP)
