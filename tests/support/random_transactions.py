"""Random logs with transactions and damage, and random options of a salvage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import builders
from plain_logs import batch, log

from kafkarec.ops.salvage.planned_changes import UNDECIDED_AS


def produced(base: int, size: int, producer: int, *, transactional: bool) -> bytes:
    attributes = builders.TRANSACTIONAL if transactional else 0
    return batch(base, size, attributes=attributes, producer_id=producer, producer_epoch=0)


PLACES = (3, 8, 50, 61)  # base offset, length, header, records


def random_log(chance: random.Random, folder: Path, places: Sequence[int] = PLACES) -> Path:
    """Plain batches, transactions and markers of three producers in several segments, some damaged at these bytes."""
    parts, base = [], chance.choice((0, 40))
    for _ in range(chance.randrange(5, 40)):
        producer, size, ended = chance.randrange(1, 4), chance.randrange(1, 4), chance.random() < 0.3
        if ended:
            part = builders.end_marker(base, producer, commit=chance.random() < 0.5)
        else:
            part = produced(base, size, producer, transactional=chance.random() < 0.6)
        if chance.random() < 0.2:
            part = builders.flipped(part, chance.choice(places), 1 << chance.randrange(3))
        parts.append(part)
        base += 1 if ended else size
    cuts = sorted(chance.sample(range(1, len(parts)), chance.randrange(3)))
    made = log(folder, *(parts[low:high] for low, high in pairwise([0, *cuts, len(parts)])))
    if chance.random() < 0.3:
        last = sorted(made.glob("*.log"))[-1]
        last.write_bytes(last.read_bytes()[: -chance.randrange(1, 40)])
    return made


def choices(chance: random.Random) -> dict[str, Any]:
    return {
        chance.choice(("as_partition", "as_partition", "new_cluster")): chance.random() < 0.6,
        "undecided": chance.choice(UNDECIDED_AS),
        "keep_end": chance.random() < 0.4,
        "restore": chance.random() < 0.7,
    }
