"""Errors for readable batches that cannot be converted, as Kafka's builder or its down-conversion raises for them."""

from __future__ import annotations

from typing import Any

from kafkarec import damage
from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import LATEST_CODECS
from kafkarec.ops.rewrite.batches import SourceBatch

from .target import Shape


def refused(unit: SourceBatch, reason: str, **sides: Any) -> KafkaRecordError:
    """The error for a batch that cannot be written: `sides` is expected and found, or `detail`."""
    return damage.error(reason, unit.place | sides)


def too_wide(unit: SourceBatch, base: int, last: int) -> KafkaRecordError:
    """MemoryRecordsBuilder: Maximum offset delta exceeded."""
    where = f"in {unit.file} at byte" if unit.file else "at byte"
    message = f"the batch cannot be rewritten {where} {unit.position}: offset {last} is too far from the first, {base}"
    return unit.error("batch_not_rewritable", message)


def codec_unfit(unit: SourceBatch, shape: Shape) -> KafkaRecordError:
    """RecordsUtil.downConvert throws an UnsupportedCompressionTypeException, also for a batch without records."""
    detail = f"magic {shape.magic} does not support {CODEC_NAMES[shape.codec]}; choose another compression"
    known = LATEST_CODECS[shape.magic]
    return refused(unit, "unsupported_codec", expected=known, found=shape.codec, detail=detail)


def as_damage(unit: SourceBatch, refusal: KafkaRecordError) -> Damage:
    """The Damage entry, with errors="skip", for a good batch that is left out of the output."""
    first = unit.base_offset if unit.base_offset is not None else unit.last_offset
    end = unit.position + unit.size_in_bytes
    reason, text = str(refusal.reason), str(refusal)
    damage = Damage(unit.file, unit.position, unit.size_in_bytes, first, unit.last_offset, end, reason, text)
    return damage.with_values(refusal.expected, refusal.found, refusal.cause)
