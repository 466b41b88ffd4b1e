"""What was found on the pieces, and what it means for the whole log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from kafkarec.tables.records import RecordColumns

from .candidates import Candidate
from .trial import Trial

_BATCH_HEADER = 61
_MB = 1e6


@dataclass
class ByteShares:
    """Where the bytes of the pieces are, decompressed; all in bytes but the first two.

    records, batches      how many; of magic 0 and 1 a wrapper with its messages, or a plain message, counts as a batch
    keys, values, headers what the records hold
    plain                 everything, as magic 2 without a codec: what is none of the above is framing
    by_codec              bytes as they lie there, by codec
    """

    records: int = 0
    batches: int = 0
    keys: int = 0
    values: int = 0
    headers: int = 0
    plain: int = 0
    by_codec: Counter[str] = field(default_factory=Counter)

    @property
    def batch_headers(self) -> int:
        return self.batches * _BATCH_HEADER

    @property
    def framing(self) -> int:
        """Lengths, deltas and attributes of the records."""
        return max(0, self.plain - self.batch_headers - self.keys - self.values - self.headers)

    def add(self, columns: RecordColumns, plain: int) -> None:
        self.records += len(columns)
        self.batches += len(columns.batches)
        self.plain += plain
        self.keys += sum(len(key) for key in columns.column("key") if key)
        self.values += sum(len(value) for value in columns.column("value") if value)
        for headers in columns.column("headers"):
            self.headers += sum(len(name) + len(value or b"") for name, value in headers or ())
        for codec, size in zip(
            columns.batches.column("compression"), columns.batches.column("size_in_bytes"), strict=True
        ):
            self.by_codec[codec] += size

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        derived = {"batch_headers": self.batch_headers, "framing": self.framing}
        return {**counts, **derived, "by_codec": dict(self.by_codec)}


@dataclass
class Outcome:
    """One candidate, over all pieces.

    share        bytes written for each byte that is there
    margin       how far the share may be off for the whole log: two standard errors between the pieces; None where
                 everything was read, or one piece only
    size         bytes of the whole log, if it is everywhere as in the pieces
    write_rate, read_rate   MB/s of one processor, of decompressed bytes; None where nothing could be measured
    is_best      no other one tried is both smaller and faster to write
    """

    candidate: Candidate
    share: float
    margin: float | None
    size: int
    batches: int
    write_rate: float | None
    read_rate: float | None
    is_best: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = {name: value for name, value in vars(self).items() if name != "candidate"}
        return {**self.candidate._asdict(), **found}


@dataclass
class Study:
    """size, segments: of the log. pieces, sampled: how many were looked at, and their bytes. read_rate: as it is now.
    damage: places in the pieces that were left out. outcomes: in the order in which they were asked for."""

    size: int
    segments: int
    pieces: int
    sampled: int
    makeup: ByteShares
    read_rate: float | None
    damage: int
    outcomes: list[Outcome]

    @property
    def is_whole(self) -> bool:
        """Whether everything was read. Sizes are then those of `convert`, but for batches that would lie across the
        borders of two pieces, every 2 MiB and at each segment's end."""
        return self.sampled == self.size

    @property
    def smallest(self) -> Outcome | None:
        """The fewest bytes, where they are fewer than there are now."""
        found = min(self.outcomes, key=lambda one: one.share, default=None)
        return found if found is not None and found.share < 1 else None


class CandidateTotals:
    """Adds up the trials of one candidate."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.pairs: list[tuple[int, int]] = []  # bytes before and after, a piece
        self.batches = 0
        self.write_seconds: float | None = 0.0
        self.read_seconds = 0.0

    def add(self, before: int, trial: Trial) -> None:
        self.pairs.append((before, trial.bytes))
        self.batches += trial.batches
        self.read_seconds += trial.read_seconds
        one = trial.write_seconds
        self.write_seconds = None if one is None or self.write_seconds is None else self.write_seconds + one

    def outcome(self, size: int, plain: int, whole: bool) -> Outcome:
        before, after = map(sum, zip(*self.pairs, strict=True))
        share = after / before
        margin = None if whole else _margin(self.pairs, share)
        rates = (rate(plain, self.write_seconds), rate(plain, self.read_seconds))
        return Outcome(self.candidate, share, margin, round(share * size), self.batches, *rates)


def rate(size: int, seconds: float | None) -> float | None:
    return size / seconds / _MB if seconds else None


def _margin(pairs: Sequence[tuple[int, int]], share: float) -> float | None:
    """Twice the standard error of a ratio of sums, the pieces taken for independent."""
    count = len(pairs)
    if count < 2:
        return None
    squares = sum((after - share * before) ** 2 for before, after in pairs)
    mean = sum(before for before, _ in pairs) / count
    return 2 * sqrt(squares / (count * (count - 1))) / mean


def mark_best(outcomes: Sequence[Outcome]) -> None:
    """The ones that nobody beats in both size and speed of writing."""
    for one in outcomes:
        speed = one.write_rate or 0.0
        one.is_best = not any(
            other.share <= one.share and (other.write_rate or 0.0) >= speed
            and (other.share, -(other.write_rate or 0.0)) != (one.share, -speed)
            for other in outcomes
        )  # fmt: skip
