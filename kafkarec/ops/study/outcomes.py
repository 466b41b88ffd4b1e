"""Results on the sampled pieces, and estimates for the whole log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from kafkarec.tables.records import RecordColumns

from .candidates import NotTried
from .formats import Candidate
from .trial import Trial

_MB = 1e6


@dataclass
class Makeup:
    """The batches of the pieces.

    records, batches   counts; in magic 0 and 1 a wrapper with its messages, or a plain message, is a batch
    plain              their bytes as uncompressed magic 2
    by_codec           stored bytes by codec
    """

    records: int = 0
    batches: int = 0
    plain: int = 0
    by_codec: Counter[str] = field(default_factory=Counter)

    def add(self, columns: RecordColumns, plain: int) -> None:
        self.records += len(columns)
        self.batches += len(columns.batches)
        self.plain += plain
        for codec, size in zip(
            columns.batches.column("compression"), columns.batches.column("size_in_bytes"), strict=True
        ):
            self.by_codec[codec] += size


@dataclass
class Outcome:
    """One candidate, over all pieces.

    share        new size / current size
    margin       error of `share` for the whole log: two standard errors over the pieces; None if everything was read,
                 or only one piece
    size         estimated bytes of the whole log
    write_rate, read_rate   MB of decompressed bytes per CPU second; None if not measured
    losses       what formats 0 and 1 do not keep of the pieces, as ConversionStats.losses: {"headers": 840, ...}
    refused      batches of the pieces that the format cannot hold; they are not in its size
    is_best      no other candidate of its format is both smaller and faster to write
    """

    candidate: Candidate
    share: float
    margin: float | None
    size: int
    batches: int
    write_rate: float | None
    read_rate: float | None
    losses: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    is_best: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = {name: value for name, value in vars(self).items() if name != "candidate"}
        return {**self.candidate._asdict(), **fields}


@dataclass
class Study:
    """The result of study().

    size, segments   of the log
    pieces, sampled  number of pieces read, and their bytes
    read_rate        MB/s of the current batches
    damage           damaged ranges in the pieces, left out
    outcomes         one for each candidate, in the order given
    not_tried        codecs that a format does not have
    """

    size: int
    segments: int
    pieces: int
    sampled: int
    makeup: Makeup
    read_rate: float | None
    damage: int
    outcomes: list[Outcome]
    not_tried: list[NotTried] = field(default_factory=list)

    @property
    def formats(self) -> list[str]:
        """The formats that were tried, in the order given."""
        return list(dict.fromkeys(one.candidate.format for one in self.outcomes))

    @property
    def is_whole(self) -> bool:
        """Whether everything was read. Sizes are then those of `convert`, except that batches are not joined across
        pieces, which end every 2 MiB and at each segment's end."""
        return self.sampled == self.size

    @property
    def smallest(self) -> Outcome | None:
        """The outcome with the smallest size in format 2, which loses nothing and which every broker reads; None if
        none is below the current size."""
        smallest = min(self.of_format("2"), key=lambda one: one.share, default=None)
        return smallest if smallest is not None and smallest.share < 1 else None

    def of_format(self, name: str) -> list[Outcome]:
        """The outcomes of a format."""
        return [one for one in self.outcomes if one.candidate.format == name]


class CandidateTotals:
    """The sum of the trials of one candidate."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.pairs: list[tuple[int, int]] = []  # (bytes before, bytes after) of each piece
        self.batches = 0
        self.write_seconds: float | None = 0.0
        self.read_seconds = 0.0
        self.losses: Counter[str] = Counter()
        self.refused = 0

    def add(self, before: int, trial: Trial, damaged: int) -> None:
        """before: bytes of the piece's good batches; damaged: how many others it has."""
        made = trial.made
        self.pairs.append((before, len(made.data)))
        self.batches += made.batches
        self.read_seconds += trial.read_seconds
        self.losses.update(made.losses)
        self.refused += max(0, made.refused - damaged)
        one = trial.write_seconds
        self.write_seconds = None if one is None or self.write_seconds is None else self.write_seconds + one

    def outcome(self, size: int, plain: int, whole: bool) -> Outcome:
        before, after = map(sum, zip(*self.pairs, strict=True))
        share = after / before
        margin = None if whole else _margin(self.pairs, share)
        rates = (rate(plain, self.write_seconds), rate(plain, self.read_seconds))
        return Outcome(
            self.candidate, share, margin, round(share * size), self.batches, *rates, dict(self.losses), self.refused
        )


def rate(size: int, seconds: float | None) -> float | None:
    return size / seconds / _MB if seconds else None


def _margin(pairs: Sequence[tuple[int, int]], share: float) -> float | None:
    """Twice the standard error of a ratio of sums, assuming independent pieces."""
    count = len(pairs)
    if count < 2:
        return None
    squares = sum((after - share * before) ** 2 for before, after in pairs)
    mean = sum(before for before, _ in pairs) / count
    return 2 * sqrt(squares / (count * (count - 1))) / mean


def mark_best(outcomes: Sequence[Outcome]) -> None:
    """Sets `is_best` on the outcomes that no other one of their format beats in both size and write rate."""
    for one in outcomes:
        speed = one.write_rate or 0.0
        one.is_best = not any(
            other.candidate.format == one.candidate.format
            and other.share <= one.share
            and (other.write_rate or 0.0) >= speed
            and (other.share, -(other.write_rate or 0.0)) != (one.share, -speed)
            for other in outcomes
        )
