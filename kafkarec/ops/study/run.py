"""study(): tries each candidate on each piece: its size in the format, the time of writing and reading;
estimates for the whole log.

    bytes     output of the format's write(): for 0, 1 and 2 that of convert()
    writing   encode() of the decoded columns, the fastest way to write them
    reading   decode() of the output, with checksums

Times are CPU seconds of the thread: other candidates may be tried meanwhile.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

from kafkarec.format.enums import Compression
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.ops.convert import converted_batches
from kafkarec.read.decode_options import checked_threads
from kafkarec.read.reader import decode
from kafkarec.storage import opening
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.threads import run_in_threads
from kafkarec.tables.records import RecordColumns

from .candidates import BATCH_SIZES, CODECS, FORMATS, Candidate, NotTried, candidates
from .sampling import PIECE_BYTES, PIECES, sample_pieces

_LONG_ENOUGH = 0.05
_RUNS = 2
_CLOCK_STEP = 1e-6


class Trial(NamedTuple):
    """A candidate, tried on a piece. before, after: bytes of the piece's good batches, and of what is made of them;
    writing, reading: CPU seconds, None: the columns cannot be encoded"""

    before: int
    after: int
    batches: int
    losses: Mapping[str, int]
    refused: int
    writing: float | None
    reading: float


def run_trial(data: bytes, columns: RecordColumns, damaged: int, candidate: Candidate, limit: int) -> Trial:
    """columns: the decoded `data`; damaged: how many batches of it are"""
    form = FORMATS[candidate.format]
    written, made = form.write(data, candidate, limit)
    writing: float | None
    try:
        # the records of the piece, or what magic 0 and 1 have of them
        source = columns if form.magic == BATCH_MAGIC else decode(written, max_decompressed_bytes=limit)
        writing = cpu_seconds(lambda: form.encode(source, candidate))
    except ValueError:
        writing = None  # offsets of old message sets need not ascend; convert splits there, encode refuses
    reading = cpu_seconds(lambda: form.decode(written, limit))
    before, refused = sum(columns.batches.column("size_in_bytes")), max(0, len(made.damage) - damaged)
    return Trial(before, len(written), made.stats.batches_out, made.stats.losses, refused, writing, reading)


def cpu_seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of the faster of two runs; of one run if it takes long."""
    least = float("inf")
    for _ in range(_RUNS):
        start = time.thread_time()
        run()
        least = min(least, time.thread_time() - start)
        if least > _LONG_ENOUGH:
            break
    return max(least, _CLOCK_STEP)


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


def _outcome(candidate: Candidate, trials: Sequence[Trial], size: int, plain: int, whole: bool) -> Outcome:
    """The outcome of a candidate's trials on all pieces."""
    before, after, batches, losses, refused, writing, reading = zip(*trials, strict=True)
    share = sum(after) / sum(before)
    margin = None
    if len(trials) > 1 and not whole:  # twice the standard error of a ratio of sums, assuming independent pieces
        squares = sum((new - share * old) ** 2 for old, new in zip(before, after, strict=True))
        margin = 2 * sqrt(squares / (len(trials) * (len(trials) - 1))) / (sum(before) / len(trials))
    rates = (mb_per_second(plain, None if None in writing else sum(writing)), mb_per_second(plain, sum(reading)))
    lost: Counter[str] = Counter()
    for each in losses:
        lost.update(each)
    return Outcome(candidate, share, margin, round(share * size), sum(batches), *rates, dict(lost), sum(refused))


def mb_per_second(size: int, seconds: float | None) -> float | None:
    return size / seconds / _MB if seconds else None


def mark_best_tradeoffs(outcomes: Sequence[Outcome]) -> None:
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


SAMPLE = PIECES * PIECE_BYTES


class NothingToTry(ValueError):
    """There is no good batch in the bytes that were read. reasons: of the damage there, sorted"""

    def __init__(self, bytes_read: int, reasons: Sequence[str]) -> None:
        super().__init__(f"no good batch in {bytes_read} bytes" + (f" ({', '.join(reasons)})" if reasons else ""))
        self.reasons = reasons


def study(
    log: Any,
    *,
    formats: Iterable[int | str] = (2,),
    codecs: Iterable[Compression | str] = CODECS,
    batch_sizes: Iterable[int | None] = BATCH_SIZES,
    sample: int | None = SAMPLE,
    max_decompressed_bytes: int = 128 << 20,
    threads: int = 1,
    done: Callable[[float], Any] = lambda share: None,
) -> Study:
    """Estimates the size of a log with other formats, codecs, levels and batch sizes by converting pieces of it in
    memory.

    log: a SegmentFile or a PartitionFiles, or an argument of kafkarec.open for one
    formats: of 0, 1, 2, 3 and "header-first", in any order. 0 and 1 are those before Kafka 0.11: they lose headers,
        producers and markers, which `losses` of each outcome counts, and have no zstd (`not_tried`). 3 and header-first
        are proposals that no broker reads (kafkarec.experimental)
    codecs: names, optionally with a level: "zstd", "zstd:9"; or members of `Compression`
    batch_sizes: bytes before compression, as for `convert`; None: keep the batches
    sample: bytes to read, in pieces spread over the log; None: all of it
    max_decompressed_bytes: limit of one payload; a batch above it is left out and counted as damage
    threads: how many candidates are tried at once; times are those of each thread alone
    done: called from time to time with the finished share of the work, 0 to 1

    Sizes in formats 0, 1 and 2 are those of `convert`, in 3 and header-first those of `from_v2` of an uncompressed
    conversion to 2. Damaged bytes are left out.

    TypeError for a folder of several partitions; ValueError for an unknown format, codec or level; NothingToTry, a
    ValueError, if there is no good batch in the pieces.
    """
    checked_threads(threads)
    wanted, not_tried = candidates(formats, codecs, batch_sizes)
    trials: list[list[Trial]] = [[] for _ in wanted]
    opened = log if isinstance(log, PartitionFiles | SegmentFile) else opening.open(log)
    if not isinstance(opened, PartitionFiles | SegmentFile):
        raise TypeError("several partitions; study one at a time: [study(log) for log in kafkarec.open(...)]")
    segments = [opened] if isinstance(opened, SegmentFile) else list(opened.segments)
    size = sum(segment.size for segment in segments)
    whole = sample is None or size <= sample
    makeup, reading, bytes_read, count = Makeup(), 0.0, 0, 0
    reasons: list[str] = []  # of each damaged range
    limits: dict[str, Any] = {"errors": "skip", "max_decompressed_bytes": max_decompressed_bytes}
    for piece in sample_pieces(segments, sample):
        columns = decode(piece, control=True, header_keys="binary", **limits)
        bytes_read += len(piece)
        reasons += [one.reason for one in columns.damage]
        if not len(columns.batches):
            continue
        count += 1
        conversion = converted_batches(piece, compression="none", **limits)
        plain = b"".join(conversion)
        makeup.add(columns, len(plain))
        reading += cpu_seconds(partial(decode, piece, control=True, **limits))
        damaged = len(conversion.damage)
        calls = [partial(run_trial, piece, columns, damaged, each, max_decompressed_bytes) for each in wanted]
        for number, trial in enumerate(run_in_threads(iter(calls), threads)):
            trials[number].append(trial)
            share = (bytes_read - len(piece) * (1 - (number + 1) / len(trials))) / min(size, sample or size)
            done(min(1.0, share))
    if not count:
        raise NothingToTry(bytes_read, sorted(set(reasons)))
    outcomes = [_outcome(*each, size, makeup.plain, whole) for each in zip(wanted, trials, strict=True)]
    mark_best_tradeoffs(outcomes)
    sampled = size if whole else bytes_read
    return Study(
        size,
        len(segments),
        count,
        sampled,
        makeup,
        mb_per_second(makeup.plain, reading),
        len(reasons),
        outcomes,
        not_tried,
    )
