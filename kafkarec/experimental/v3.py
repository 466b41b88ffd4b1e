"""Magic 3, a discarded proposal for Kafka's record batches. No broker reads it.

A batch of magic 2 with a shorter header (`framing` has the bytes), and, with attribute bit 7
(ignoreMessageAttributes), without the attributes byte in each record. docs/explanation/magic-3.md has the whole
format, where it deviates from the proposal, and why.
"""

from __future__ import annotations

from typing import Any

from kafkarec import codecs
from kafkarec._verbs import rewrite_records
from kafkarec.format.layout import V2Header

from .framing import (
    HEADER_FIRST,
    NO_ATTRIBUTES,
    Format,
    WholeBatch,
    codec_errors,
)

__all__ = ["decode", "encode", "from_v2", "to_v2"]


class _V3(Format):
    fixed_bits, own_bits = 0, NO_ATTRIBUTES | HEADER_FIRST
    other_form = "attribute bit 8 is set: kafkarec.experimental.header_first reads it"

    def payload_parts(self, batch: WholeBatch, codec: int, level: int | None, keep: bool, limit: int) -> Any:
        if keep and codec == batch.codec and level is None:
            return 0, [batch.payload]
        with codec_errors(batch, limit):
            content = codecs.decompress(batch.codec, batch.payload, limit)
            if not keep:
                count = batch.header.record_count
                content = rewrite_records(content, None, count, True, False, False, False, batch.fault_fields)
                if content is None:
                    return None
            return 0 if keep else NO_ATTRIBUTES, [codecs.compress(codec, content, level)]

    def v2_records(self, batch: WholeBatch, limit: int) -> Any:
        with codec_errors(batch, limit):
            content = codecs.decompress(batch.codec, batch.payload, limit)
        return rewrite_records(content, None, batch.header.record_count, False, False, False, True, batch.fault_fields)

    def has_v2_payload(self, header: V2Header) -> bool:
        return not header.attributes & NO_ATTRIBUTES


_FORMAT = _V3()
encode, from_v2, decode, to_v2 = _FORMAT.encode, _FORMAT.from_v2, _FORMAT.decode, _FORMAT.to_v2
