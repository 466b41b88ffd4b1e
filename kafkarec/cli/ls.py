"""`kafkarec ls`: lists partitions, segments, offsets, sizes, codecs and times, and what is left out and why."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log, LogDir, Segment, logs_of
from kafkarec.report import Block, ColumnOf, Document, ReportTable
from kafkarec.sources.folders import map_requests
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage import names
from kafkarec.storage.log_folders import LeftOut
from kafkarec.storage.output_rules import STANDARD_INPUT
from kafkarec.storage.segment_file import size_or_zero
from kafkarec.storage.segment_summary import largest_known, least_known, summarize
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
_NAMES_SHOWN = 3
_FOLDERS_SHOWN = 8
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
    flags = {
        "--segments": "one line per segment, in data folders too",
        "--full": "read all headers: all codecs, counts, damaged frames",
    }
    shared_options.add_flags(parser, flags)
    shared_options.add_format_and_output(parser)


def run(args: argparse.Namespace) -> int:
    opened: list[Segment | Log | LogDir] = []
    for path in args.paths:
        if path == STANDARD_INPUT:
            raise WrongUse("ls lists files, folders and URLs; kafkarec scan - shows the batches of standard input")
        opened.append(input_logs.open_input(path, args.topic, args.partition))
    status = FINE
    with output_files.opened(args) as sink:
        for number, (path, one) in enumerate(zip(args.paths, opened, strict=True)):
            if number and args.format == "text":
                sink.write(b"\n")
            listed: list[tuple[Log, Sequence[Segment], bool]] = []
            for log in logs_of(one):
                if args.segments or not isinstance(one, LogDir):
                    listed += [(log, [segment], False) for segment in (*log.segments, *log.checkpoints)]
                elif log.segments:
                    listed.append((log, log.segments, True))
            rows = []
            with progress.show_segments_read(input_logs.segments(logs_of(one))) as tick:
                # Remote segments are read by several threads.
                for row in map_requests(partial(_read_row, full=args.full), listed, one.fetched is not None):
                    rows.append(row)
                    for segment in row.segments:
                        tick(segment.path, size_or_zero(segment))
            document = Document("ls", list(_blocks(path, one, rows, args.full)), _title(path, one, rows))
            output_files.write_rendered(sink, args.format, document, _json_objects(path, one, rows, args.full))
            sink.flush()
            damage = [sentence for row in rows for sentence in row.damage]
            for sentence in damage[:_MAX_LINES]:
                say(sentence)
            if damage:
                more = f"{len(damage) - _MAX_LINES} more; " if len(damage) > _MAX_LINES else ""
                say(f"{more}all damage, and what is lost: {command('verify', [path])}")
            unlisted = COULD_NOT if input_logs.unlisted_folders(one) else FINE
            status = max(status, DAMAGED if damage else FINE, unlisted, *(row.status for row in rows))
    return status


class ListedRow(NamedTuple):
    """A line of the listing: a segment, or a partition, of which only the first and the last segment are read.

    values   of the line; None if unknown
    damage   sentences about what is damaged
    refused  messages about segments that could not be read
    """

    log: Log
    segments: Sequence[Segment]
    is_partition: bool
    values: dict[str, Any]
    damage: list[str]
    refused: list[str]
    status: int


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
            refused.append(input_logs.error_line(error, segment.path))
            status = COULD_NOT
    damage = [sentence for one in seen for sentence in one.damage]
    left_out = [one for one in log.left_out if one.kind != names.FOREIGN] if is_partition else []
    notes = ["not read"] * bool(refused) + ["damaged"] * bool(damage)
    notes += dict.fromkeys(note for one in seen for note in one.notes)
    notes += [f"{counted(len(left_out), 'file')} left out"] if left_out else []
    looked = [one for one in seen if one.first_offset is not None]
    size = sum(one.size for one in seen)
    if len(seen) < len(segments):  # by the folder's listing; compressed segments are always opened
        size = sum(one.size for one in seen if one.packed)
        size += sum(segment.size for segment in segments if not names.is_packed(segment.name))
    is_counted = bool(seen) and seen[0].complete
    values = {
        "size": size,
        "first_offset": looked[0].first_offset if looked else None,
        "next_offset": seen[-1].next_offset if seen and not refused else None,
        "first_timestamp": least_known(*(one.first_timestamp for one in looked)),
        "max_timestamp": largest_known(*(one.max_timestamp for one in looked)),
        "codecs": list(dict.fromkeys(codec for one in seen for codec in one.codecs)),
        "magics": sorted({magic for one in seen for magic in one.magics}),
        "batches": sum(one.batches or 0 for one in seen) if is_counted else None,
        "records": sum(one.records or 0 for one in seen) if is_counted else None,
        "notes": notes,
    }
    return ListedRow(log, segments, is_partition, values, damage, refused, status)


# ---- the report of a path


def _title(path: str, opened: Segment | Log | LogDir, rows: Sequence[ListedRow]) -> str:
    said = []
    if isinstance(opened, LogDir):
        said.append(counted(len(opened), "partition"))
        said.append(counted(sum(len(log.segments) for log in opened), "segment"))
    else:
        if opened.topic is not None and opened.partition is not None:
            said.append(f"topic {opened.topic}, partition {opened.partition}")
        if isinstance(opened, Log):
            said.append(counted(len(opened.segments), "segment"))
            said += [counted(len(opened.checkpoints), "KRaft snapshot")] if opened.checkpoints else []
    said.append(byte_size(sum(row.values["size"] for row in rows)))
    return f"{path}: {', '.join(said)}"


def _blocks(path: str, opened: Segment | Log | LogDir, rows: Sequence[ListedRow], full: bool) -> Iterator[Block]:
    """Yield the table, what could not be read, what is left out and why, and bytes fetched."""
    if rows:
        yield _table(rows, full)
    yield from (f"not read: {sentence}" for row in rows for sentence in row.refused)
    by_reason: dict[str, list[str]] = {}
    folders = []  # that are not Kafka's, and may contain logs
    for one in _left_out(opened):
        if one.is_folder and one.kind == names.FOREIGN:
            folders.append(one.name)
        else:
            by_reason.setdefault(one.why, []).append(one.name)
    for why, found in by_reason.items():
        more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
        yield f"left out: {', '.join(found[:_NAMES_SHOWN])}{more}: {why}"
    if taken := names.swaps_to_rename(name for found in by_reason.values() for name in found):
        yield f"left out: {', '.join(taken)}: a broker that starts here would use these"
    if not rows and folders:
        shown = ", ".join(folders[:_FOLDERS_SHOWN]) + (" ..." if len(folders) > _FOLDERS_SHOWN else "")
        first = command("ls", [f"{path.rstrip('/')}/{folders[0]}"])
        yield f"no segments here; folders: {shown}; list one with: {first}"
    elif not rows:
        yield "no segments here"
    if opened.fetched is not None:
        yield f"{counted(opened.fetched, 'byte')} fetched"


def _json_objects(
    path: str, opened: Segment | Log | LogDir, rows: Sequence[ListedRow], full: bool
) -> Iterator[dict[str, Any]]:
    """Yield the objects of the kinds segment, checkpoint or partition; left_out; total."""
    size = segments = 0
    for row in rows:
        first = row.segments[0]
        kind = "partition" if row.is_partition else "segment"
        if not row.is_partition and first.name.endswith(".checkpoint"):
            kind = "checkpoint"
        size += row.values["size"]
        segments += 0 if kind == "checkpoint" else len(row.segments)
        yield {
            "kind": kind,
            "path": row.log.path if row.is_partition else first.path,
            "topic": row.log.topic,
            "partition": row.log.partition,
            **({"segments": len(row.segments)} if row.is_partition else {"base_offset": first.base_offset}),
            **row.values,
            "sampled": not full,
            "damage": row.damage,
            "not_read": row.refused,
        }
    for one in _left_out(opened):
        yield {"kind": "left_out", "path": one.name, "state": one.kind, "why": one.why}
    yield {"kind": "total", "path": path, "segments": segments, "size": size, "fetched": opened.fetched}


def _table(rows: Sequence[ListedRow], full: bool) -> ReportTable:
    owners = [_name(row, rows) for row in rows]
    wide = max(map(len, owners))  # padding left-aligns names, even those that begin with a digit
    columns: dict[str, ColumnOf[dict[str, Any]]] = {"segment".ljust(wide): "owner"}
    if rows[0].is_partition:
        columns = {"partition".ljust(wide): "owner", "segments": "segments"}
    columns |= {"bytes": "size", "first": "first_offset", "next": "next_offset"}
    columns |= {"batches": "batches", "records": "records"} if full else {}
    columns |= {"earliest": "first_timestamp", "latest": "max_timestamp"}
    columns["codecs" if full else "codecs (sampled)"] = "codecs"
    if any(row.values["notes"] for row in rows):
        columns["notes"] = lambda values: "; ".join(values["notes"])
    shown = [
        row.values | {"owner": owner.ljust(wide), "segments": len(row.segments)}
        for row, owner in zip(rows, owners, strict=True)
    ]
    return ReportTable.of(shown, columns)


def _name(row: ListedRow, rows: Sequence[ListedRow]) -> str:
    owner, name = input_logs.name_of(row.log), row.segments[0].name
    if row.is_partition:
        return owner
    return name if row.log is rows[0].log and row.log is rows[-1].log else f"{owner}/{name}"


def _left_out(opened: Segment | Log | LogDir) -> list[LeftOut]:
    """Return the left-out files and folders of a folder; those of a data folder's partitions have the folder's name."""
    if isinstance(opened, Segment):
        return []
    found = list(opened.left_out)
    if isinstance(opened, LogDir):
        for log in opened:
            found += [one._replace(name=f"{os.path.basename(log.path)}/{one.name}") for one in log.left_out]
    return found
