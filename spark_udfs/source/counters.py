"""What a task has read of its splits, for its result and for one line in the executor's log; what follows their ends.

| the end of a log | what it is | endOfLog=tail | endOfLog=strict |
|---|---|---|---|
| a batch's end, or that and at least 12 zeros (preallocated) | complete | | |
| an incomplete batch | a broker was or is writing there; or the file was cut | logged and counted | damage |

In a segment that another one follows, an incomplete batch is damage in both. Nothing is said if the query asks for
offsets that end before it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import compress
from typing import TYPE_CHECKING

from spark_udfs import decoding
from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import logger
from spark_udfs.schema import NamedValues

from .gaps import GAP, gap_after
from .paths import NO_END, display_url
from .planning import Split

if TYPE_CHECKING:
    Piece = kafkarec.RecordColumns | kafkarec.BatchTable

# Per task, so that the ranges of a completely damaged disk fit in the driver's memory; further ones are only counted.
MOST_RANGES = 10_000
MOST_LOGGED = 100  # a completely damaged disk must not fill the log
# What is counted of a split; COUNTS are added up over the splits of a file.
COUNTS = (
    "bytes",
    "batches",
    "records",
    "control_records",
    "damaged",
    "damaged_bytes",
    "restored",
    "remaining",
    "incomplete",
    "missing_offsets",
)
OF_THE_LAST = ("incomplete_position", "last_offset")


class TaskCounters:
    """What a task has read. what: the verb of its line in the log.

    rows: of each split topic, partition, file, keys, begin; COUNTS and OF_THE_LAST, as in damage.DamageReport, but
        `records` with those of control batches if they are read; ranges: the damaged ones and missing offsets, with
        decoding.REASON_FIELDS
    next_offset: after the last good batch of the split; None: there is none
    """

    def __init__(self, what: str = "read") -> None:
        self.what = what
        self.rows: list[NamedValues] = []
        self._damaged, self._started = 0, time.monotonic()

    def add_split(self, split: Split) -> None:
        """Begins the row of a split."""
        row = {"topic": split.topic, "partition": split.partition, "file": display_url(split.path), "keys": split.keys}
        counts = {**dict.fromkeys(COUNTS, 0), **dict.fromkeys(OF_THE_LAST)}
        self.rows.append({**row, **counts, "begin": split.begin, "ranges": []})
        self._split = split
        self.next_offset: int | None = None
        self._is_damage = False  # what was read last

    def add(self, **counts: int) -> None:
        for name, number in counts.items():
            self.rows[-1][name] += number

    def add_piece(self, piece: Piece, has_control: bool) -> None:
        batches = batches_of(piece)
        records = sum(filter(None, batches.column("record_count"))) if batches is piece else len(piece)
        if has_control:
            control = compress(batches.column("record_count"), batches.column("is_control"))
            self.add(control_records=sum(filter(None, control)))
        size = sum(batches.column("size_in_bytes")) + piece.remaining
        self.add(batches=len(batches), records=records, remaining=piece.remaining, bytes=size)
        position = -1
        if len(batches):
            last = batches[-1:]  # not batches[-1], which makes a dictionary of all columns
            (offset,), (self.next_offset,), (position,) = map(last.column, ("last_offset", "next_offset", "position"))
            self.rows[-1]["last_offset"], self._is_damage = offset, False
        for each in piece.damage:
            self.add_damage(each)
        # a slice has those of the piece, and so of the batches before the split, too
        for one in (each for each in piece.restored if each.position >= self._split.begin):
            self.add(restored=1)
            if self.rows[-1]["restored"] <= MOST_LOGGED:
                logger.warning("restored: %s", json.dumps(one._asdict()))
        if piece.damage:
            self._is_damage = piece.damage[-1].position > position

    def add_damage(self, damage: kafkarec.Damage) -> None:
        self.add(damaged=1, damaged_bytes=damage.length, bytes=damage.length)
        self._damaged += 1
        if self._damaged <= MOST_LOGGED:
            log_range("damaged", damage)
        if self._damaged <= MOST_RANGES:
            self._list_range(damage)

    def add_unread(self, reason: str, why: str) -> kafkarec.Damage:
        """Adds what was not read of the split as damage."""
        split = self._split
        begin = split.begin + self.rows[-1]["bytes"]
        length = max(0, (begin if split.end is None else split.end) - begin)
        rest = kafkarec.Damage(split.path, begin, length, None, None, begin + length, reason, why)
        self.add_damage(rest)
        return rest

    def add_gap(self) -> None:
        """Adds the missing offsets behind the split, if it does not end in damage, and logs them."""
        gap = None if self._is_damage else gap_after(self._split, self.next_offset)
        if gap is not None:
            self.add(missing_offsets=(gap.lost_to or 0) - (gap.lost_from or 0) + 1)
            self._list_range(gap)
            log_range("missing offsets", gap)

    def _list_range(self, damage: kafkarec.Damage) -> None:
        self.rows[-1]["ranges"].append(decoding.reason_values(damage))

    def incomplete_end(self, part: kafkarec.Segment) -> kafkarec.Damage | None:
        """The incomplete batch behind what was read of the split's bytes, as Damage; None: there is none, or the
        offsets that the query asks for end before it."""
        remaining, following, wanted = self.rows[-1]["remaining"], self.next_offset, self._split.end_offset
        if self._split.uncommitted.last_stable_offset < NO_END and self._split.is_log_end and not remaining:
            # read_committed has stopped before the log's end, which may be a cut batch: the transaction's marker
            for table in part.scan_pieces(errors="skip", end_offset=wanted):
                remaining += table.remaining
                following = table.column("next_offset")[-1] if len(table) else following
        if wanted is not None and following is not None and following >= wanted:
            return None
        end = part.size if part.end is None else part.end
        return distributed.incomplete_end(part, end - remaining, remaining, following)

    def close(self) -> None:
        """Logs the line."""
        files = dict.fromkeys(row["file"] for row in self.rows)
        counts = " ".join(
            f"{name}={sum(row[name] for row in self.rows)}"
            for name in ("bytes", "batches", "records", "damaged", "incomplete")
        )
        seconds, first = time.monotonic() - self._started, next(iter(files), "nothing")
        logger.info("kafkarec %s files=%d %s seconds=%.3f first=%s", self.what, len(files), counts, seconds, first)


def batches_of(piece: Piece) -> kafkarec.BatchTable:
    """The batches of a piece of records, or the piece itself if it is a table of batches."""
    return piece.batches if isinstance(piece, kafkarec.RecordColumns) else piece


def log_range(what: str, damage: kafkarec.Damage) -> None:
    logger.warning("%s: %s", what, decoding.corrupt_record_json(damage))


def counted_splits(
    what: str, read: Callable[[Split, TaskCounters], object], splits: Iterable[Split]
) -> list[NamedValues]:
    """The body of a task whose result is what it has read: `read` reads each split; returns TaskCounters.rows."""
    with closing(TaskCounters(what)) as counters:
        for split in splits:
            read(split, counters)
    return counters.rows


# ---- on the driver: the rows of all tasks ----------------------------------------------------------------


def damaged_ranges(rows: Iterable[NamedValues]) -> Iterator[NamedValues]:
    """The damaged ranges that are listed, each with topic, partition and file."""
    for row in rows:
        identity = {name: row[name] for name in ("topic", "partition", "file")}
        yield from (identity | each for each in row["ranges"] if each["reason"] != GAP)


def gap_texts(row: NamedValues) -> list[str]:
    """A clause for the missing offsets behind a split; none if there are none."""
    return [f"{row['file']}: {each['detail']}" for each in row["ranges"] if each["reason"] == GAP]
