"""`kafkarec ls`: lists partitions, segments, offsets, sizes, codecs and times, and what is left out and why."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log, LogDir, Segment, logs_of
from kafkarec.report import Block, Document, ReportTable
from kafkarec.sources.folders import map_requests
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage import names
from kafkarec.storage.log_folders import LeftOut
from kafkarec.storage.segment_summary import SegmentSummary, earliest, latest, summarize
from kafkarec.support import text_table
from kafkarec.support.command_line import command
from kafkarec.support.text_table import byte_size, counted

from . import COULD_NOT, DAMAGED, FINE, input_logs, output_files, progress, shared_options
from .problems import exit_status, say
from .shared_options import WrongUse

DESCRIPTION = """Lists the segments in files, partition folders, data folders and buckets with offsets, sizes, times and
codecs, and which files and folders are left out and why. Reads only the first and the last batches, so times and codecs
are those of these batches (sampled); all headers of a file whose first or last batches are damaged. --full reads all
headers."""
EXAMPLES = """examples:
  kafkarec ls /kafka-logs                           one line per partition
  kafkarec ls /kafka-logs/orders-0                  one line per segment
  kafkarec ls s3://bucket/kafka-backup/             the same in a bucket (pip install 'kafkarec[remote]')
  kafkarec ls /kafka-logs --segments --format json  everything as JSON, one object per line

Credentials and endpoint of a bucket: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_DEFAULT_REGION;
AWS_ENDPOINT_URL for a server that is not Amazon's."""

_MAX_LINES = 20
# Errors after which no other object can be read. Others may concern one object, which is archived or forbidden.
_FATAL_REMOTE_ERRORS = (
    "unreachable",
    "no_credentials",
    "bad_credentials",
    "expired",
    "region",
    "clock",
    "tls",
    "no_bucket",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "files, partition folders, a broker's data folder, or URLs such as s3://bucket/kafka-backup/; default: ."
    shared_options.add_inputs(parser, text, nargs="*", default=["."])
    parser.add_argument("--segments", action="store_true", help="one line per segment, in data folders too")
    parser.add_argument("--full", action="store_true", help="read all headers: all codecs, counts, damaged frames")
    shared_options.add_output(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    opened = [_open(path, args.topic, args.partition) for path in args.paths]
    status = FINE
    with output_files.opened(args) as sink:
        for number, (path, one) in enumerate(zip(args.paths, opened, strict=True)):
            if number and args.format == "text":
                sink.write(b"\n")
            rows = []
            with progress.shown(input_logs.segments(logs_of(one))) as tick:
                for row in _rows(one, args.full, args.segments or not isinstance(one, LogDir)):
                    rows.append(row)
                    for segment in row.segments:
                        tick(segment.path, progress.size_of(segment))
            listing = ListedPath(path, one, rows, args.full)
            output_files.write_rendered(sink, args.format, listing.document(), listing.objects())
            sink.flush()
            damage = [sentence for row in rows for sentence in row.damage]
            _report_damage(path, damage)
            status = max(status, DAMAGED if damage else FINE, *(row.status for row in rows))
    return status


def _open(path: str, topic: str | None, number: int | None) -> Segment | Log | LogDir:
    if path == input_logs.STANDARD_INPUT:
        raise WrongUse("ls lists files, folders and URLs; kafkarec scan - shows the batches of standard input")
    return input_logs.opened(path, topic, number)


def _report_damage(path: str, damage: Sequence[str]) -> None:
    for sentence in damage[:_MAX_LINES]:
        say(sentence)
    if damage:
        more = f"{len(damage) - _MAX_LINES} more; " if len(damage) > _MAX_LINES else ""
        say(f"{more}all damage, and what is lost: {command('verify', [path])}")


def _rows(opened: Segment | Log | LogDir, full: bool, each_segment: bool) -> Iterator[ListedRow]:
    """Yield rows in the order of the listing. Remote segments are read by several threads."""
    listed: list[tuple[Log, Sequence[Segment], bool]] = []
    for log in logs_of(opened):
        if each_segment:
            listed += [(log, [segment], False) for segment in (*log.segments, *log.checkpoints)]
        elif log.segments:
            listed.append((log, log.segments, True))
    yield from map_requests(partial(_read_row, full=full), listed, opened.fetched is not None)


def _read_row(item: tuple[Log, Sequence[Segment], bool], full: bool) -> ListedRow:
    log, segments, is_partition = item
    ends = {0, len(segments) - 1}
    seen, refused, status = [], [], FINE
    for number, segment in enumerate(segments):
        # In the listing a pipe, a device and a dangling link have no bytes, either.
        if not full and number not in ends and not names.is_packed(segment.name) and segment.size:
            continue
        try:
            seen.append(summarize(segment, full))
        except KafkaRecordError as error:
            refused.append(str(error))
            status = max(status, exit_status(error.reason))
        except OSError as error:
            if isinstance(error, RemoteError) and error.kind in _FATAL_REMOTE_ERRORS:
                raise
            refused.append(input_logs.reason(error, segment.path))
            status = COULD_NOT
    return ListedRow(log, segments, is_partition, seen, refused, status)


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
