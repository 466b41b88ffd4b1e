"""Logs of which one marker is damaged, and what a read_committed consumer may then see.

The truth is in the undamaged log: which offsets a consumer got, and the transaction of each. The rules are checked per
offset, without the code that decides:

    aborted there              hidden
    committed there            visible, unless its transaction is listed as undecided, or open at the damaged end

Of a marker that was cut out with all its bytes nothing is left but a gap, as in a compacted log: there the first rule
holds where a .txnindex lists it, and the second one says nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import builders
import golden
from paths import SEGMENTS, VECTORS

import kafkarec

FOLDERS = (
    SEGMENTS / "txn-0",
    *(VECTORS / "transactions" / name for name in ("orders-158", "orders-84", "deleted-1551")),
)


def _flip(at: int, bit: int) -> Callable[[bytes], bytes]:
    return partial(builders.flipped, position=at, bits=1 << bit)


CUT_OUT = "cut out"
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "length": _flip(11, 6),
    "outcome": _flip(68, 0),  # the type in the marker's key: ABORT becomes COMMIT
    "producer": _flip(50, 3),
    "zeros": lambda raw: bytes(len(raw)),
    "base offset": _flip(7, 2),
    "base offset, far": _flip(2, 4),
    "checksum": _flip(18, 1),
    "two bits": lambda raw: _flip(68, 0)(_flip(50, 3)(raw)),
    "garbage": lambda raw: b"".join(hashlib.sha512(raw + bytes([part])).digest() for part in range(2))[: len(raw)],
    CUT_OUT: lambda raw: b"",
}


class HurtLog(NamedTuple):
    """folder: the damaged log; out: for salvage; source: the whole log; offset: of the damaged marker."""

    folder: Path
    out: Path
    source: Path
    offset: int
    damage: str


class Marker(NamedTuple):
    """A marker of an undamaged log: its segment, the bytes [start, end) of its batch, its offset."""

    segment: Path
    start: int
    end: int
    offset: int


def markers(source: Path) -> list[Marker]:
    return [
        Marker(path, row["position"], row["position"] + row["size_in_bytes"], row["base_offset"])
        for path in sorted(source.glob("*.log"))
        for row in kafkarec.open(path).scan()
        if row["is_control"]
    ]


def hurt(marker: Marker, damage: str, place: Path, keep: Sequence[str] = (), name: str = "orders-0") -> HurtLog:
    """Copy the log of a marker into a new folder below `place`, with the marker damaged."""
    source, data = marker.segment.parent, marker.segment.read_bytes()
    folder = golden.copied(source, place / name, keep)
    hurt = DAMAGE[damage](data[marker.start : marker.end])
    (folder / marker.segment.name).write_bytes(data[: marker.start] + hurt + data[marker.end :])
    return HurtLog(folder, place / "out", source, marker.offset, damage)


def runs(
    source: Path, work: Path, keep: Sequence[str] = (), damage: Iterable[str] = tuple(DAMAGE)
) -> Iterator[HurtLog]:
    """Yield the log with each marker damaged in each way."""
    for marker in markers(source):
        for name in damage:
            yield hurt(marker, name, work / f"{marker.offset}-{name}", keep)


def wrong(
    run: HurtLog, seen: set[int], undecided: Iterable[Any], visible: set[int] | None = None
) -> tuple[set[int], set[int]]:
    """Return the offsets that are published although they were not committed, and those that were visible and are
    hidden although their transaction is neither listed nor open at the damaged end.

    undecided: listed transactions; those with `proven` are decided
    visible: what a consumer gets from the whole log; None: what kafkarec reads from it
    """
    truth = _truth(run.source)
    visible = truth.visible if visible is None else visible
    listed = [one for one in undecided if not getattr(one, "proven", False)]
    left_out = {
        offset
        for producer, base, last in truth.batches
        if any(producer == one.producer_id and base <= one.last_offset for one in listed)
        for offset in range(base, last + 1)
    }
    if may_stay_open(run):
        left_out |= visible
    return seen - truth.committed, visible - seen - left_out


def may_stay_open(run: HurtLog) -> bool:
    """Whether the transaction of the marker may stay open: at the log's end, or where nothing but a gap is left."""
    return run.offset == _truth(run.source).batches[-1][1] or run.damage == CUT_OUT


class _Truth(NamedTuple):
    """Of an undamaged log: (producer id, base, last offset) of its batches, and the offsets that are not in aborted and
    open transactions; visible: those below the last stable offset."""

    batches: list[tuple[int | None, int, int]]
    committed: set[int]
    visible: set[int]


@cache
def _truth(source: Path) -> _Truth:
    log = kafkarec.open(source)
    others = [one for one in log.transactions() if one.state != "committed"]
    committed = {
        offset
        for row in log.scan()
        if not row["is_control"]
        and not any(
            one.producer_id == row["producer_id"] and one.first_offset <= row["base_offset"] <= one.last_offset
            for one in others
        )
        for offset in range(row["base_offset"], row["last_offset"] + 1)
    }
    batches = [(row["producer_id"], row["base_offset"], row["last_offset"]) for row in log.scan()]
    return _Truth(batches, committed, set(log.read(isolation="read_committed", columns=["offset"]).column("offset")))
