"""What a conversion did, and what it could not take along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What is counted as lost, and what it is called. The words are public: they are keys of `ConversionStats.lost`.
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
    """What came in and went out, and what was lost on the way.

    batches_in, batches_out   of magic 0 and 1 each outer message counts; what is damaged is not counted
    batches_copied            went out as the bytes they were
    records_in, records_out   control records included
    records_converted         went into another magic (Kafka: RecordValidationStats.numRecordsConverted)
    records_below_first       left out because of `first_offset`
    bytes_in, bytes_out       of the batches
    lost                      word of `LOSSES` -> how many; 0 where nothing was lost
    """

    batches_in: int = 0
    batches_out: int = 0
    batches_copied: int = 0
    records_in: int = 0
    records_out: int = 0
    records_converted: int = 0
    records_below_first: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    lost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LOSSES, 0))
    first_lost: dict[str, tuple[str | None, int, int]] = field(default_factory=dict, repr=False)
    """where each loss occurs first: (file, position, last offset of the batch)"""

    @property
    def losses(self) -> dict[str, int]:
        """What was lost, without the zeros."""
        return {word: count for word, count in self.lost.items() if count}

    def lose(self, word: str, count: int, place: tuple[str | None, int, int]) -> None:
        if count:
            self.lost[word] += count
            self.first_lost.setdefault(word, place)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return {**counts, "lost": dict(self.lost)}


class LossError(ValueError):
    """on_loss="raise": what would be lost, how much of it, where first. Nothing was written.

    lost: dict of the words of `LOSSES` to counts
    """

    def __init__(self, lost: Mapping[str, int], places: Mapping[str, tuple[str | None, int, int]]) -> None:
        self.lost = dict(lost)
        self.places = dict(places)
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        parts = []
        for word, count in self.lost.items():
            file, position, offset = self.places[word]
            where = f"{file} at byte" if file else "byte"
            parts.append(f"{LOSSES[word]}: {count}, first in the batch at {where} {position}, offsets up to {offset}")
        return f"the conversion would lose {'; '.join(parts)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost, self.places)
