"""Counts of a conversion: what was converted and what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What is counted as lost, with a description. The keys are public, in `ConversionStats.lost`.
LOSSES = {
    "headers": "record headers",
    "records_with_headers": "records with headers",
    "timestamps": "timestamps of records",
    "log_append_times": "batches' timestamp type LogAppendTime",
    "control_batches": "control batches",
    "control_records": "control records",
    "transactional_batches": "batches' transactional flag",
    "producer_ids": "batches' producer id, epoch and sequence",
    "leader_epochs": "batches' leader epoch",
    "delete_horizons": "batches' delete horizon",
    "empty_batches": "batches without records",
    "offset_ranges": "batches' first or last offset where no record has it",
}


@dataclass
class ConversionStats:
    """Counts of input, output and losses.

    batches_in, batches_out   each outer message of magic 0 and 1 counts as one; damaged batches are not counted
    batches_copied            copied byte for byte
    records_in, records_out   including control records
    records_converted         written with another magic (Kafka: RecordValidationStats.numRecordsConverted)
    bytes_in, bytes_out       of the batches
    lost                      key of `LOSSES` -> count, 0 if nothing was lost
    first_lost                key of `LOSSES` -> (file, position, last offset) of the first batch with that loss
    """

    batches_in: int = 0
    batches_out: int = 0
    batches_copied: int = 0
    records_in: int = 0
    records_out: int = 0
    records_converted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    lost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LOSSES, 0))
    first_lost: dict[str, tuple[str | None, int, int]] = field(default_factory=dict, repr=False)

    @property
    def losses(self) -> dict[str, int]:
        """The entries of `lost` that are not 0."""
        return {word: count for word, count in self.lost.items() if count}

    def add_loss(self, word: str, count: int, location: tuple[str | None, int, int]) -> None:
        if count:
            self.lost[word] += count
            self.first_lost.setdefault(word, location)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return {**counts, "lost": dict(self.lost)}


class LossError(ValueError):
    """Raised with on_loss="raise", at the end of a conversion that loses something: its output is not to be used.

    lost: key of `LOSSES` -> count
    first_lost: key of `LOSSES` -> (file, position, last offset) of the first batch with that loss
    """

    def __init__(self, lost: Mapping[str, int], first_lost: Mapping[str, tuple[str | None, int, int]]) -> None:
        self.lost = dict(lost)
        self.first_lost = dict(first_lost)
        parts = []
        for word, count in self.lost.items():
            file, position, offset = self.first_lost[word]
            where = f"{file} at byte" if file else "byte"
            parts.append(f"{LOSSES[word]}: {count}, first in the batch at {where} {position}, offsets up to {offset}")
        super().__init__(f"the conversion would lose {'; '.join(parts)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost, self.first_lost)
