"""study(): tries each candidate on each piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafkarec.format.enums import Compression
from kafkarec.ops.convert import converted
from kafkarec.read.decode_options import checked_threads
from kafkarec.read.reader import decode
from kafkarec.read.threads import in_order
from kafkarec.storage import opening
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.segment_file import SegmentFile

from .candidates import BATCH_SIZES, CODECS, candidates
from .outcomes import CandidateTotals, Makeup, Study, mark_best, rate
from .sampling import PIECE_BYTES, PIECES, pieces
from .trial import read_seconds, run_trial

SAMPLE = PIECES * PIECE_BYTES


class NothingToTry(ValueError):
    """There is no good batch in the bytes that were read."""


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
    totals = [CandidateTotals(candidate) for candidate in wanted]
    segments = _segments(log)
    size = sum(segment.size for segment in segments)
    whole = sample is None or size <= sample
    makeup, seconds, bytes_read, damage, count = Makeup(), 0.0, 0, 0, 0
    limits: dict[str, Any] = {"errors": "skip", "max_decompressed_bytes": max_decompressed_bytes}
    for piece in pieces(segments, sample):
        columns = decode(piece.data, control=True, header_keys="binary", **limits)
        bytes_read += len(piece.data)
        damage += len(columns.damage)
        before = sum(columns.batches.column("size_in_bytes"))
        if not before:
            continue
        count += 1
        conversion = converted(piece.data, compression="none", **limits)
        plain = b"".join(conversion)
        makeup.add(columns, len(plain))
        seconds += read_seconds(piece.data, max_decompressed_bytes)
        calls = [partial(run_trial, piece.data, columns, each, max_decompressed_bytes) for each in wanted]
        for number, (total, trial) in enumerate(zip(totals, in_order(iter(calls), threads), strict=True)):
            total.add(before, trial, len(conversion.damage))
            share = (bytes_read - len(piece.data) * (1 - (number + 1) / len(totals))) / min(size, sample or size)
            done(min(1.0, share))
    if not count:
        raise NothingToTry(f"no good batch in {bytes_read} bytes")
    outcomes = [total.outcome(size, makeup.plain, whole) for total in totals]
    mark_best(outcomes)
    sampled = size if whole else bytes_read
    return Study(
        size,
        len(segments),
        count,
        sampled,
        makeup,
        rate(makeup.plain, seconds),
        damage,
        outcomes,
        not_tried,
    )


def _segments(log: Any) -> list[SegmentFile]:
    opened = log if isinstance(log, PartitionFiles | SegmentFile) else opening.open(log)
    if not isinstance(opened, PartitionFiles | SegmentFile):
        raise TypeError("several partitions; study one at a time: [study(log) for log in kafkarec.open(...)]")
    return [opened] if isinstance(opened, SegmentFile) else list(opened.segments)
