"""What can be read and yet not be converted: where Kafka's builder or its down-conversion raises."""

from __future__ import annotations

from typing import Any

from .. import faults
from ..enums import Compression
from ..errors import InvalidRecordError, KafkaRecordError
from ..faults import Damage
from .units import Unit

NOT_CONVERTIBLE = "not_convertible"


def not_convertible(unit: Unit, why: str) -> KafkaRecordError:
    """MemoryRecordsBuilder throws an IllegalArgumentException there."""
    where = f"in {unit.file} at byte" if unit.file else "at byte"
    return InvalidRecordError(
        f"the batch cannot be converted {where} {unit.position} (last offset {unit.last_offset}): {why}",
        reason=NOT_CONVERTIBLE, position=unit.position, base_offset=unit.base_offset,
        next_position=unit.position + unit.size_in_bytes, file=unit.file,
    )  # fmt: skip


def zstd_below_2(unit: Unit) -> KafkaRecordError:
    """RecordsUtil.downConvert throws an UnsupportedCompressionTypeException, also for a batch without records."""
    detail = "magic 0 and 1 do not have zstd; compression= names another codec"
    sides = {"expected": Compression.LZ4.value, "found": Compression.ZSTD.value}
    return faults.error("unsupported_codec", {**_place(unit), **sides, "detail": detail})


def missing_codec(unit: Unit, what: str) -> KafkaRecordError:
    return faults.error("missing_codec", {**_place(unit), "detail": what})


def _place(unit: Unit) -> dict[str, Any]:
    return {
        "position": unit.position, "base_offset": unit.base_offset, "file": unit.file,
        "next_position": unit.position + unit.size_in_bytes,
    }  # fmt: skip


def as_damage(unit: Unit, refusal: KafkaRecordError) -> Damage:
    """For errors="skip": the batch is good and missing all the same."""
    first = unit.base_offset if unit.base_offset is not None else unit.last_offset
    end = unit.position + unit.size_in_bytes
    return Damage(
        unit.file, unit.position, unit.size_in_bytes, first, unit.last_offset, end, str(refusal.reason), str(refusal)
    )
