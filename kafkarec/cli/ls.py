"""`kafkarec ls`: lists partitions, segments, offsets, sizes, codecs and times, and what is left out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log, LogDir, Segment, logs_of
from kafkarec.sources.folders import map_requests
from kafkarec.sources.remote_errors import RemoteError
from kafkarec.storage import names
from kafkarec.storage.segment_summary import summarize
from kafkarec.support.command_line import command

from . import COULD_NOT, DAMAGED, FINE, input_logs, output_files, progress, shared_options
from .ls_output import ListedPath, ListedRow
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
