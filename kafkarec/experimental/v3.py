"""Magic 3, a discarded proposal for Kafka's record batches. No broker reads it.

A batch of magic 2 with a shorter header (`framing` has the bytes), and, with attribute bit 7
(ignoreMessageAttributes), without the attributes byte in each record. docs/explanation/magic-3.md has the whole
format, where it deviates from the proposal, and why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkarec import codecs
from kafkarec._verbs import rewrite_records
from kafkarec.format.enums import Compression
from kafkarec.format.layout import V2Header
from kafkarec.tables.records import RecordColumns
from kafkarec.write.encoding import encode as encode_v2

from .framing import (
    HEADER_FIRST,
    NO_ATTRIBUTES,
    Format,
    Options,
    WholeBatch,
    codec_errors,
)

__all__ = ["decode", "encode", "from_v2", "to_v2"]


class _V3(Format):
    fixed_bits, own_bits = 0, NO_ATTRIBUTES | HEADER_FIRST
    other_form = "attribute bit 8 is set: kafkarec.experimental.header_first reads it"

    def written(self, batch: WholeBatch, codec: int, options: Options) -> Any:
        keep = options.keep_attributes
        if keep and codec == batch.codec and options.level is None:
            return 0, [batch.payload]
        with codec_errors(batch, options.limit):
            content = codecs.decompress(batch.codec, batch.payload, options.limit)
            if not keep:
                count = batch.header.record_count
                content = rewrite_records(content, None, count, True, False, False, False, batch.place)
                if content is None:
                    return None
            return 0 if keep else NO_ATTRIBUTES, [codecs.compress(codec, content, options.level)]

    def records(self, batch: WholeBatch, limit: int) -> Any:
        with codec_errors(batch, limit):
            content = codecs.decompress(batch.codec, batch.payload, limit)
        return rewrite_records(content, None, batch.header.record_count, False, False, False, True, batch.place)

    def has_v2_payload(self, header: V2Header) -> bool:
        return not header.attributes & NO_ATTRIBUTES


_FORMAT = _V3()


def encode(source: Any, *, keep_attributes: bool = False, **options: Any) -> bytes:
    """Consecutive batches of magic 3 of records or Arrow columns: those that `kafkarec.encode` makes, converted.

    source, options: as for `kafkarec.encode`, but `magic`. A batch has the records that it would have in magic 2, so
        it may be smaller than `batch_size`
    keep_attributes: True writes bit 7 = 0: each record has an attributes byte, which is 0
    """
    written = encode_v2(source, magic=2, **options)
    compression, level = options.get("compression"), options.get("level")
    kept = compression in (None, "keep")
    return from_v2(
        written,
        compression=None if kept else compression,
        level=None if kept else level,
        keep_attributes=keep_attributes,
        max_decompressed_bytes=1 << 62,
    )


def decode(
    data: Any,
    *,
    columns: Iterable[str] | None = None,
    control: bool = False,
    check_crcs: bool | str = True,
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    timestamp_unit: str = "ms",
    header_keys: str = "utf8",
) -> RecordColumns:
    """Decodes batches of magic 3 into the columns that `kafkarec.decode` makes of magic 2.

    data, columns, control, check_crcs, max_decompressed_bytes, timestamp_unit, header_keys: as for `kafkarec.decode`.
        Batches of another magic are refused: UnsupportedMagicError
    errors: "raise" the first damage, or "skip": continue with the next batch of magic 3 whose checksum is right, and
        list the damage in `.damage`

    The batch table has the fields of the magic 3 bytes. For read_committed and views decode `to_v2(data)`.
    """
    return _FORMAT.decode(
        data,
        columns=columns,
        control=control,
        check_crcs=check_crcs,
        errors=errors,
        max_decompressed_bytes=max_decompressed_bytes,
        timestamp_unit=timestamp_unit,
        header_keys=header_keys,
    )


def from_v2(
    data: Any,
    *,
    compression: Compression | str | None = None,
    level: int | None = None,
    keep_attributes: bool | None = None,
    max_decompressed_bytes: int = 128 << 20,
) -> bytes:
    """Batches of magic 2 as batches of magic 3.

    data: any buffer of whole batches of magic 2. A checksum or record that `kafkarec.decode` refuses is refused, as is
        attribute bit 7 or 8, which magic 2 does not use: KafkaRecordError
    compression: the name of a codec (`Compression`); None: every batch keeps its codec. Markers and batches without
        records keep theirs
    level: of `compression`; None is Kafka's default
    keep_attributes: False drops the attributes byte of each record (bit 7 = 1) and refuses one that is not zero. True
        keeps it; without a change of the codec or a level the payload is copied, and its records are not looked at.
        None: False for batches whose attributes are all zero, True for the others
    max_decompressed_bytes: cap per compressed payload, LimitExceededError above it
    """
    return _FORMAT.from_v2(data, Options.of(compression, level, keep_attributes, max_decompressed_bytes))


def to_v2(data: Any, *, max_decompressed_bytes: int = 128 << 20) -> bytes:
    """Batches of magic 3 as batches of magic 2, with their codecs at Kafka's default level.

    With bit 7 = 0 the payload is copied, so the result is the batch that `from_v2` got. The same holds without a codec,
    if its records' lengths were as short as possible.
    """
    return _FORMAT.to_v2(data, max_decompressed_bytes)
