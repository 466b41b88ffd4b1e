"""The functions convert() and converted()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkarec.damage import Damage
from kafkarec.format.enums import Compression

from .run import Conversion
from .source_batches import SourceBatches
from .stats import ConversionStats, LossError
from .target import target


class Converted(bytes):
    """The converted batches, as bytes.

    .stats       ConversionStats: what was done, what was lost
    .damage      tuple of Damage: batches that errors="skip" left out
    .remaining   bytes of the input after its last batch: an incomplete batch, which is left out
    """

    stats: ConversionStats
    damage: tuple[Damage, ...]
    remaining: int

    def __repr__(self) -> str:
        lost = ", ".join(f"{count} {word}" for word, count in self.stats.losses.items())
        return (
            f"<Converted: {len(self)} bytes, {self.stats.records_out} records in {self.stats.batches_out} batches, "
            f"lost: {lost or 'nothing'}>"
        )

    __str__ = __repr__


def converted(
    data: Any,
    *,
    magic: int | None = 2,
    compression: Compression | str | None = None,
    level: int | None = None,
    batch_size: int | None = None,
    on_loss: str = "count",
    check_crcs: bool | str = "all",
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    threads: int = 1,
    progress: Callable[[str, int], object] = lambda path, end: None,
) -> Conversion:
    """Like `convert`, as an iterator over the output batches, in constant memory. Its .stats are updated as it runs.

    Under errors="raise" all batches before the damage are yielded first. With on_loss="raise" the input is read twice:
    the first pass raises LossError before anything is yielded. `progress` is called with the path of a file and the
    position up to which it was read.
    """
    output = target(magic, compression, level, batch_size)
    if on_loss not in ("count", "raise"):
        raise ValueError(f"on_loss {on_loss!r}: one of count, raise")
    units = SourceBatches(
        data,
        progress=progress,
        threads=threads,
        check_crcs=check_crcs,
        errors=errors,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    if on_loss == "raise":
        trial = Conversion(units, output, max_decompressed_bytes, writes=False, threads=threads)
        for _ in trial:
            pass
        if trial.stats.losses:
            raise LossError(trial.stats.losses, trial.stats.first_lost)
    return Conversion(units, output, max_decompressed_bytes, threads=threads)


def convert(
    data: Any,
    *,
    magic: int | None = 2,
    compression: Compression | str | None = None,
    level: int | None = None,
    batch_size: int | None = None,
    on_loss: str = "count",
    check_crcs: bool | str = "all",
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    threads: int = 1,
) -> Converted:
    """Convert record batches to another magic, codec, level or size. Unchanged batches are copied byte for byte.

    data: a buffer of batches of any magic, a Segment or a Log, or an iterable of RecordBatch
    magic: 2 converts 0 and 1 up. 1 and 0 convert down as RecordsUtil.downConvert of Kafka 3.9 does: headers and
        producer fields are lost, control batches and batches without records are left out (so what was aborted looks
        committed), zstd is refused (UnsupportedCompressionError) unless `compression` names another codec, batches of a
        lower magic keep it. None: every batch keeps its magic
    compression: the name of a codec (`Compression`); None: every batch keeps its codec. Uncompressed markers stay
        uncompressed
    level: of `compression`; None is Kafka's default. With a level, batches that already have the codec are compressed
        again
    batch_size: bytes before compression. Adjacent batches are joined up to it and split above it if they have the same
        producer, epoch, consecutive sequences, transaction, leader epoch, timestamp type and delete horizon, so that
        readers see no difference. None: batches are neither joined nor split, except that uncompressed messages of
        magic 0 and 1 are joined into batches of 16384 bytes when they are converted or compressed
    on_loss: "count" counts losses in `.stats.lost`; "raise" raises a LossError that says what is lost and where
    threads: how many threads decode and compress, the calling one included, with the same result
    check_crcs, errors, max_decompressed_bytes: as for `decode`. Every batch is validated, so what Kafka cannot read is
        not converted; with check_crcs="all" inner messages of magic 0 and 1 too, since they get a new checksum

    InvalidRecordError for what Kafka's builder refuses: in down-conversion offsets_out_of_order and timestamp_negative;
    offsets that are too far apart for one batch. `errors="skip"` leaves such batches out and lists them in `.damage`.
    """
    conversion = converted(
        data,
        magic=magic,
        compression=compression,
        level=level,
        batch_size=batch_size,
        on_loss=on_loss,
        check_crcs=check_crcs,
        errors=errors,
        max_decompressed_bytes=max_decompressed_bytes,
        threads=threads,
    )
    result = Converted(b"".join(conversion))
    result.stats, result.damage, result.remaining = conversion.stats, conversion.damage, conversion.remaining
    return result
