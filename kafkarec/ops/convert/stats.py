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

    @property
    def losses(self) -> dict[str, int]:
        """The entries of `lost` that are not 0."""
        return {word: count for word, count in self.lost.items() if count}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return {**counts, "lost": dict(self.lost)}


class LossError(ValueError):
    """Raised with on_loss="raise", at the end of a conversion that loses something: its output is not to be used.

    lost: key of `LOSSES` -> count
    """

    def __init__(self, lost: Mapping[str, int]) -> None:
        self.lost = dict(lost)
        said = ", ".join(f"{LOSSES[word]}: {count}" for word, count in self.lost.items())
        super().__init__(f"the conversion would lose {said}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost,)
