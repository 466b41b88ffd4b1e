"""The report of `ls` for one path: a table, what is left out and why; and its JSON objects."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kafkarec.logs import Log, LogDir, Segment
from kafkarec.report import Block, Document, ReportTable
from kafkarec.storage import names
from kafkarec.storage.partition_folder import LeftOut
from kafkarec.storage.segment_summary import SegmentSummary, earliest, latest
from kafkarec.support import text_table
from kafkarec.support.command_line import command
from kafkarec.support.text_table import byte_size, counted

_NAMES_SHOWN = 3
_FOLDERS_SHOWN = 8


@dataclass(frozen=True)
class ListedRow:
    """A line of the listing: a segment, or a partition, of which only the first and the last segment are read.

    seen     the summaries of the segments that were read
    refused  messages about segments that could not be read
    """

    log: Log
    segments: Sequence[Segment]
    is_partition: bool
    seen: Sequence[SegmentSummary]
    refused: Sequence[str]
    status: int

    @property
    def damage(self) -> list[str]:
        return [sentence for one in self.seen for sentence in one.damage]

    @cached_property
    def values(self) -> dict[str, Any]:
        """The values of the row; None if unknown."""
        whole = len(self.seen) == len(self.segments)
        looked = [one for one in self.seen if one.first_offset is not None]
        is_counted = bool(self.seen) and self.seen[0].complete
        return {
            "size": sum(one.size for one in self.seen) if whole else _listed_size(self),
            "first_offset": looked[0].first_offset if looked else None,
            "next_offset": self.seen[-1].next_offset if self.seen and not self.refused else None,
            "first_timestamp": earliest(*(one.first_timestamp for one in looked)),
            "max_timestamp": latest(*(one.max_timestamp for one in looked)),
            "codecs": list(dict.fromkeys(codec for one in self.seen for codec in one.codecs)),
            "magics": sorted({magic for one in self.seen for magic in one.magics}),
            "batches": sum(one.batches or 0 for one in self.seen) if is_counted else None,
            "records": sum(one.records or 0 for one in self.seen) if is_counted else None,
            "notes": _notes(self),
        }


class ListedPath(NamedTuple):
    """What was found at one path. full: all headers were read"""

    path: str
    opened: Segment | Log | LogDir
    rows: Sequence[ListedRow]
    full: bool

    def document(self) -> Document:
        """Return the report: title, table, what could not be read, what is left out, and bytes fetched."""
        return Document("ls", list(self._blocks()), _title(self))

    def _blocks(self) -> Iterator[Block]:
        if self.rows:
            yield ReportTable(_columns(self.rows, self.full))
        yield from (f"not read: {sentence}" for row in self.rows for sentence in row.refused)
        left_out = _left_out(self.opened)
        yield from (f"left out: {line}" for line in _grouped([one for one in left_out if not _is_folder(one)]))
        if not self.rows:
            yield _where_else(self.path, [one.name for one in left_out if _is_folder(one)])
        if self.opened.fetched is not None:
            yield f"{counted(self.opened.fetched, 'byte')} fetched"

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of the kinds segment, checkpoint or partition; left_out; total."""
        size = segments = 0
        for row in self.rows:
            size += row.values["size"]
            segments += 0 if _kind(row) == "checkpoint" else len(row.segments)
            first = row.segments[0]
            yield {
                "kind": _kind(row),
                "path": row.log.path if row.is_partition else first.path,
                "topic": row.log.topic,
                "partition": row.log.partition,
                **({"segments": len(row.segments)} if row.is_partition else {"base_offset": first.base_offset}),
                **row.values,
                "sampled": not self.full,
                "damage": row.damage,
                "not_read": row.refused,
            }
        for one in _left_out(self.opened):
            yield {"kind": "left_out", "path": one.name, "state": one.kind, "why": one.why}
        yield {"kind": "total", "path": self.path, "segments": segments, "size": size, "fetched": self.opened.fetched}


def _kind(row: ListedRow) -> str:
    if row.is_partition:
        return "partition"
    return "checkpoint" if row.segments[0].name.endswith(".checkpoint") else "segment"


def _listed_size(row: ListedRow) -> int:
    """Return the size by the folder's listing; that of compressed segments, which are always opened, decompressed."""
    listed = sum(segment.size for segment in row.segments if not names.is_packed(segment.name))
    return listed + sum(one.size for one in row.seen if one.packed)


def _notes(row: ListedRow) -> list[str]:
    notes = list(dict.fromkeys(note for one in row.seen for note in one.notes))
    if row.damage:
        notes.insert(0, "damaged")
    if row.refused:
        notes.insert(0, "not read")
    left_out = [one for one in row.log.left_out if one.kind != names.FOREIGN]
    if row.is_partition and left_out:
        notes.append(f"{counted(len(left_out), 'file')} left out")
    return notes


def _columns(rows: Sequence[ListedRow], full: bool) -> list[tuple[str, list[str]]]:
    owners, values = [_name(row, rows) for row in rows], [row.values for row in rows]
    wide = max(map(len, owners))  # padding left-aligns names, even those that begin with a digit
    columns = [
        (("partition" if rows[0].is_partition else "segment").ljust(wide), [name.ljust(wide) for name in owners]),
        ("bytes", [str(one["size"]) for one in values]),
        ("first", [text_table.or_nothing(one["first_offset"]) for one in values]),
        ("next", [text_table.or_nothing(one["next_offset"]) for one in values]),
        ("earliest", [text_table.timestamp_text(one["first_timestamp"]) for one in values]),
        ("latest", [text_table.timestamp_text(one["max_timestamp"]) for one in values]),
        ("codecs" if full else "codecs (sampled)", [", ".join(one["codecs"]) or text_table.NOTHING for one in values]),
        ("notes", ["; ".join(one["notes"]) for one in values]),
    ]
    if full:
        counts = [(name, [text_table.or_nothing(one[name]) for one in values]) for name in ("batches", "records")]
        columns[4:4] = counts
    if rows[0].is_partition:
        columns.insert(1, ("segments", [str(len(row.segments)) for row in rows]))
    if not any(columns[-1][1]):
        columns.pop()
    return columns


def _name(row: ListedRow, rows: Sequence[ListedRow]) -> str:
    known = row.log.topic is not None and row.log.partition is not None
    owner = f"{row.log.topic}-{row.log.partition}" if known else row.log.path
    if row.is_partition:
        return owner
    return (
        row.segments[0].name
        if row.log is rows[0].log and row.log is rows[-1].log
        else f"{owner}/{row.segments[0].name}"
    )


def _title(listing: ListedPath) -> str:
    said, opened = [], listing.opened
    if isinstance(opened, LogDir):
        said.append(counted(len(opened), "partition"))
        said.append(counted(sum(len(log.segments) for log in opened), "segment"))
    else:
        if opened.topic is not None and opened.partition is not None:
            said.append(f"topic {opened.topic}, partition {opened.partition}")
        if isinstance(opened, Log):
            said.append(counted(len(opened.segments), "segment"))
            said += [counted(len(opened.checkpoints), "KRaft snapshot")] if opened.checkpoints else []
    said.append(byte_size(sum(row.values["size"] for row in listing.rows)))
    return f"{listing.path}: {', '.join(said)}"


def _left_out(opened: Segment | Log | LogDir) -> list[LeftOut]:
    """Return the left-out files and folders of a folder; those of a data folder's partitions have the folder's name."""
    if isinstance(opened, Segment):
        return []
    found = list(opened.left_out)
    if isinstance(opened, LogDir):
        for log in opened:
            found += [one._replace(name=f"{os.path.basename(log.path)}/{one.name}") for one in log.left_out]
    return found


def _is_folder(one: LeftOut) -> bool:
    """Whether it is a folder that is not one of Kafka's, which may contain logs."""
    return one.is_folder and one.kind == names.FOREIGN


def _grouped(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Yield the names and the reason for each reason."""
    by_reason: dict[str, list[str]] = {}
    for one in left_out:
        by_reason.setdefault(one.why, []).append(one.name)
    taken = names.swaps_to_take(one.name for one in left_out)
    for why, found in by_reason.items():
        more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
        yield f"{', '.join(found[:_NAMES_SHOWN])}{more}: {why}"
    if taken:
        yield f"{', '.join(taken)}: a broker that starts here would use these"


def _where_else(path: str, folders: Sequence[str]) -> str:
    if not folders:
        return "no segments here"
    shown = ", ".join(folders[:_FOLDERS_SHOWN]) + (" ..." if len(folders) > _FOLDERS_SHOWN else "")
    first = command("ls", [f"{path.rstrip('/')}/{folders[0]}"])
    return f"no segments here; folders: {shown}; list one with: {first}"
