"""Magic 3, a discarded proposal for Kafka's record batches. No broker reads it.

A batch of magic 2 with a shorter header (`framing` has the bytes), and, with attribute bit 7
(ignoreMessageAttributes), without the attributes byte in each record. docs/explanation/magic-3.md has the whole
format, where it deviates from the proposal, and why.
"""

from __future__ import annotations

from typing import Any

from kafkarec import codecs
from kafkarec._verbs import rewrite_records
from kafkarec.format.enums import Compression
from kafkarec.format.layout import V2Header

from .framing import (
    HEADER_FIRST,
    NO_ATTRIBUTES,
    Format,
    FramingOptions,
    WholeBatch,
    codec_errors,
)

__all__ = ["decode", "encode", "from_v2", "to_v2"]


class _V3(Format):
    fixed_bits, own_bits = 0, NO_ATTRIBUTES | HEADER_FIRST
    other_form = "attribute bit 8 is set: kafkarec.experimental.header_first reads it"

    def payload_parts(self, batch: WholeBatch, codec: int, options: FramingOptions) -> Any:
        keep = options.keep_attributes
        if keep and codec == batch.codec and options.level is None:
            return 0, [batch.payload]
        with codec_errors(batch, options.limit):
            content = codecs.decompress(batch.codec, batch.payload, options.limit)
            if not keep:
                count = batch.header.record_count
                content = rewrite_records(content, None, count, True, False, False, False, batch.fault_fields)
                if content is None:
                    return None
            return 0 if keep else NO_ATTRIBUTES, [codecs.compress(codec, content, options.level)]

    def v2_records(self, batch: WholeBatch, limit: int) -> Any:
        with codec_errors(batch, limit):
            content = codecs.decompress(batch.codec, batch.payload, limit)
        return rewrite_records(content, None, batch.header.record_count, False, False, False, True, batch.fault_fields)

    def has_v2_payload(self, header: V2Header) -> bool:
        return not header.attributes & NO_ATTRIBUTES


_FORMAT = _V3()
decode, to_v2 = _FORMAT.decode, _FORMAT.to_v2


def encode(source: Any, *, keep_attributes: bool = False, **options: Any) -> bytes:
    """Consecutive batches of magic 3 of records or Arrow columns: those that `kafkarec.encode` makes, converted.

    source, options: as for `kafkarec.encode`, but `magic`. A batch has the records that it would have in magic 2, so
        it may be smaller than `batch_size`
    keep_attributes: True writes bit 7 = 0: each record has an attributes byte, which is 0
    """
    return _FORMAT.encode(source, 1, keep_attributes, options)


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
    return _FORMAT.from_v2(data, FramingOptions(compression, level, keep_attributes, max_decompressed_bytes))
