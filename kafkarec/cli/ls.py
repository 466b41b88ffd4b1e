"""`kafkarec ls`: what paths hold: partitions, segments, offsets, sizes, codecs, times, and what is left out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kafkarec import storage
from kafkarec.errors import KafkaRecordError
from kafkarec.storage import Log, LogDir, Segment, names
from kafkarec.storage.remote_errors import RemoteError
from kafkarec.storage.segment_summary import summarize

from . import inputs, ls_text, output, shared_options
from .ls_text import ListedRow
from .problems import COULD_NOT, DAMAGED, FINE, exit_status, say
from .shared_options import CouldNot, WrongUse

DESCRIPTION = """Lists what is in files, partition folders, data folders and buckets: segments, offsets, sizes, times
and codecs, and which files and folders are left out and why. Looks at the first and the last batches only, so it
costs some hundred bytes a segment; codecs are those of the batches looked at (sampled). --full reads all headers."""
EXAMPLES = """examples:
  kafkarec ls /kafka-logs                           one line a partition
  kafkarec ls /kafka-logs/orders-0                  one line a segment
  kafkarec ls s3://bucket/kafka-backup/             the same in a bucket (pip install 'kafkarec[remote]')
  kafkarec ls /kafka-logs --segments --format json  everything, for a program: one object a line

A bucket's credentials and place: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_DEFAULT_REGION;
AWS_ENDPOINT_URL for a server that is not Amazon's."""

# Threads: requests wait for the network, not for the processor.
_REQUESTS_AT_ONCE = 16
_LINES_AT_MOST = 20
# One object may be archived or forbidden; after one of these errors no other object can be read either.
_HOPELESS = ("unreachable", "no_credentials", "bad_credentials", "expired", "region", "clock", "tls", "no_bucket")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="files, partition folders, a broker's data folder, or URLs such as s3://bucket/kafka-backup/; default: .",
    )
    parser.add_argument("--topic", help="the topic, where the folder's name does not give it")
    parser.add_argument("--partition", type=int, help="the partition, likewise")
    parser.add_argument("--segments", action="store_true", help="one line a segment in data folders, too")
    parser.add_argument("--full", action="store_true", help="read all headers: all codecs, counts, damaged frames")
    shared_options.add_output(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    opened = [_open(path, args.topic, args.partition) for path in args.paths]
    status = FINE
    write: Callable[..., Iterator[str]] = ls_text.as_json if args.format == "json" else ls_text.as_text
    with output.opened(args) as sink:
        for number, (path, one) in enumerate(zip(args.paths, opened, strict=True)):
            if number and args.format == "text":
                sink.write(b"\n")
            rows = _Watched(_rows(one, args.full, args.segments or not isinstance(one, LogDir)))
            for text in write(path, one, rows, args.full):
                sink.write(text.encode())
            sink.flush()
            status = max(status, rows.status)
            _tell_damage(path, rows.damage)
    return status


def _open(path: str, topic: str | None, number: int | None) -> Segment | Log | LogDir:
    if path == inputs.STANDARD_INPUT:
        raise WrongUse("ls lists files, folders and URLs; kafkarec scan - shows the batches of standard input")
    try:
        return storage.open(path, topic=topic, partition=number)
    except OSError as error:
        raise CouldNot(inputs.reason(error, path)) from error
    except ValueError as error:
        raise WrongUse(str(error)) from error


class _Watched:
    """Prints rows as they arrive; keeps what the exit status depends on."""

    def __init__(self, rows: Iterator[ListedRow]) -> None:
        self._rows = rows
        self.status = FINE
        self.damage: list[str] = []

    def __iter__(self) -> Iterator[ListedRow]:
        for row in self._rows:
            found = [sentence for one in row.seen for sentence in one.damage]
            self.damage += found
            self.status = max(self.status, row.status, DAMAGED if found else FINE)
            yield row


def _tell_damage(path: str, damage: Sequence[str]) -> None:
    for sentence in damage[:_LINES_AT_MOST]:
        say(sentence)
    if damage:
        more = f"{len(damage) - _LINES_AT_MOST} more; " if len(damage) > _LINES_AT_MOST else ""
        say(f"{more}all of it, and what is lost: kafkarec verify {ls_text.quoted(path)}")


def _rows(opened: Segment | Log | LogDir, full: bool, each_segment: bool) -> Iterator[ListedRow]:
    """In the listing's order. Remote segments are read by several threads."""
    wanted: list[tuple[Log, Sequence[Segment], bool]] = []
    for log in storage.logs(opened):
        if each_segment:
            wanted += [(log, [segment], False) for segment in (*log.segments, *log.checkpoints)]
        elif log.segments:
            wanted.append((log, log.segments, True))
    look = partial(_look, full=full)
    if opened.fetched is None or len(wanted) < 2:
        yield from map(look, wanted)
        return
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        try:
            yield from pool.map(look, wanted)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _look(wanted: tuple[Log, Sequence[Segment], bool], full: bool) -> ListedRow:
    log, segments, is_partition = wanted
    ends = {0, len(segments) - 1}
    seen, refused, status = [], [], FINE
    for number, segment in enumerate(segments):
        if not full and number not in ends and not _is_packed(segment):
            continue
        try:
            seen.append(summarize(segment, full))
        except KafkaRecordError as error:
            refused.append(str(error))
            status = max(status, exit_status(error.reason or ""))
        except OSError as error:
            if isinstance(error, RemoteError) and error.kind in _HOPELESS:
                raise
            refused.append(inputs.reason(error, segment.path))
            status = COULD_NOT
    return ListedRow(log, segments, is_partition, seen, refused, status)


def _is_packed(segment: Segment) -> bool:
    """A row for a segment whose size is known only from opening it."""
    return segment.name.endswith(tuple(names.PACKED_SUFFIXES))
