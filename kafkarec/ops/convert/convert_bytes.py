"""convert() and converted(): what users call."""

from __future__ import annotations

from typing import Any

from kafkarec.damage import Damage
from kafkarec.format.enums import Compression

from .run import Conversion
from .source_batches import Units
from .stats import ConversionStats, LossError
from .target import target


class Converted(bytes):
    """The converted batches, as bytes.

    .stats       ConversionStats: what was done, what was lost
    .damage      tuple of Damage: batches that errors="skip" left out
    .remaining   bytes of the input behind its last batch: a cut tail, which is left out
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
    first_offset: int | None = None,
    on_loss: str = "count",
    check_crcs: bool | str = "all",
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
) -> Conversion:
    """As `convert`, an iterator over the batches of the output: flat memory. Its .stats grow as it goes.

    Under errors="raise" everything in front of the damage comes first; with on_loss="raise" the input is read twice,
    and nothing comes before it is known that nothing is lost.
    """
    wanted = target(magic, compression, level, batch_size, first_offset)
    if on_loss not in ("count", "raise"):
        raise ValueError(f"on_loss {on_loss!r}: one of count, raise")
    units = Units(data, check_crcs=check_crcs, errors=errors, max_decompressed_bytes=max_decompressed_bytes)
    if on_loss == "raise":
        trial = Conversion(units, wanted, max_decompressed_bytes, writes=False)
        for _ in trial:
            pass
        if trial.stats.losses:
            raise LossError(trial.stats.losses, trial.stats.first_lost)
    return Conversion(units, wanted, max_decompressed_bytes)


def convert(
    data: Any,
    *,
    magic: int | None = 2,
    compression: Compression | str | None = None,
    level: int | None = None,
    batch_size: int | None = None,
    first_offset: int | None = None,
    on_loss: str = "count",
    check_crcs: bool | str = "all",
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
) -> Converted:
    """Record batches in another magic, codec, level or size. What needs no change is copied byte for byte.

    data: a buffer of batches of any magic, a Segment or a Log, or an iterable of RecordBatch
    magic: 2 converts 0 and 1 up. 1 and 0 convert down as RecordsUtil.downConvert of Kafka 3.9 does: headers and
        producer fields are lost, control batches and batches without records are left out (so what was aborted looks
        committed), zstd is refused (UnsupportedCompressionError) unless `compression` names another codec, lower
        magics stay. None: each its own
    compression: none, gzip, snappy, lz4, zstd; None: each its own. Markers that are not compressed stay so
    level: of `compression`; None is Kafka's default. Batches that have the codec already are then written anew, too
    batch_size: bytes, before compression. Neighbours are put together up to it, and cut above it, where no reader can
        tell: the producer, its epoch and sequence, the transaction, the leader epoch, the timestamp type and the delete
        horizon must be the same. None: batches stay as they are cut; plain messages of magic 0 and 1, which nobody cut,
        are gathered to 16384 bytes where they are converted or compressed
    first_offset: on the way down records below it are left out of batches that were not compressed, as Kafka has it
    on_loss: "count" what is lost in `.stats.lost`, or "raise" a LossError that says what and where, and return nothing
    check_crcs, errors, max_decompressed_bytes: as decode has them. What Kafka cannot read is not converted: every batch
        is validated, with check_crcs="all" inner messages of magic 0 and 1 too, since they get a new checksum

    InvalidRecordError for what Kafka's builder refuses: on the way down offsets_out_of_order and timestamp_negative,
    offsets that are too far apart for one batch. `errors="skip"` leaves such batches out and lists them in `.damage`.
    """
    conversion = converted(
        data, magic=magic, compression=compression, level=level, batch_size=batch_size, first_offset=first_offset,
        on_loss=on_loss, check_crcs=check_crcs, errors=errors, max_decompressed_bytes=max_decompressed_bytes,
    )  # fmt: skip
    found = Converted(b"".join(conversion))
    found.stats, found.damage, found.remaining = conversion.stats, conversion.damage, conversion.remaining
    return found
