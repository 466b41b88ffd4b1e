"""`kafkarec explain`: every byte of one batch, annotated."""

from __future__ import annotations

import argparse
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple, cast

from kafkarec.damage import Restored
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.logs import logs_of
from kafkarec.ops.explain import explain
from kafkarec.recover.offset_order import WINDOW
from kafkarec.support.command_line import command
from kafkarec.support.text_table import system_reason

from . import DAMAGED, FINE, explain_output, input_logs, output_files, shared_options
from .input_logs import shown_name
from .shared_options import CouldNot, InputPath, WrongUse, output_path

DESCRIPTION = """Prints every byte of one batch: hex on the left, the field, its value and its meaning on the
right; for a compressed batch also its decompressed payload. A damaged batch is explained as far as it can be read,
with the byte at which it becomes invalid. Without --at or --offset the first batch is explained."""
EXAMPLES = """examples:
  kafkarec explain orders-0 --offset 4711                the batch that contains offset 4711
  kafkarec explain 00000000000000000000.log --at 16384   the batch at byte 16384 (as reported by verify)
  kafkarec explain orders-0 --redact                     the first batch, without its keys, values and headers
  kafkarec explain orders-0 --html batch.html            a page with every byte in colour"""

_LARGEST_BATCH = (1 << 31) + 12
_SECTOR = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", type=InputPath, metavar="PATH", help="a file of record batches, a partition folder, or -"
    )
    which = parser.add_argument_group("which batch").add_mutually_exclusive_group()
    which.add_argument("--at", type=position, metavar="POSITION", help="the batch at this byte of the file")
    which.add_argument("--offset", type=int, metavar="N", help="the batch that contains this offset")
    parser.add_argument("--redact", action="store_true", help="hide the bytes of keys, values and headers")
    parser.add_argument(
        "--records",
        type=lambda text: None if text == "all" else shared_options.count(text),
        default=5,
        metavar="N",
        help="records to print field by field, or all (default: 5)",
    )
    parser.add_argument("--full", action="store_true", help="print all bytes of long fields, not only the first 32")
    help_ = "also write an HTML page with every byte in colour to FILE"
    parser.add_argument("--html", type=output_path("--html"), metavar="FILE", help=help_)
    shared_options.add_limit(parser)
    shared_options.add_output(parser, ("text", "json"))


def position(text: str) -> int:
    """Parse a byte position, decimal or hexadecimal with 0x."""
    if not re.fullmatch(r"\d{1,18}|0x[0-9a-fA-F]{1,15}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a position; write 16384 or 0x4000")
    return int(text, 0)


class BatchPosition(NamedTuple):
    """Bytes [position, stop) of a segment that are explained as one batch, and a remark for the output."""

    segment: Any
    position: int
    stop: int
    remark: str = ""


def run(args: argparse.Namespace) -> int:
    output_files.demand_output_folders(args)
    with input_logs.opened(args.path) as opened:
        logs = logs_of(opened)
        if len(logs) != 1:
            what = f"{len(logs)} partitions; name one of their folders" if logs else "no partition; name a file in it"
            raise WrongUse(f"{args.path} has {what}")
        if not logs[0].segments:
            raise CouldNot(f"{args.path}: a folder without .log files")
        place = find(logs[0].segments, args)
        name = shown_name(str(place.segment.path))
        data, remark = read(place)
        explanation = explain(data, max_decompressed_bytes=args.max_decompressed_bytes, records=args.records)
        restored = restored_at(place)
        explanation = replace(explanation, position=place.position)
    report = explain_output.document(explanation, restored, name, remark, redact=args.redact, full=args.full)
    results = (explain_output.result(one, restored, name, redact=args.redact) for one in (explanation,))
    output_files.write_report(args, report, results)
    return DAMAGED if explanation.faults or restored is not None else FINE


def read(place: BatchPosition) -> tuple[bytes, str]:
    """Return (bytes, remark). After a read error: the bytes before it."""
    length = min(place.stop - place.position, _LARGEST_BATCH)
    try:
        return place.segment.raw(place.position, length), place.remark
    except OSError as error:
        data = bytearray()
        try:
            while len(data) < length:
                data += place.segment.raw(place.position + len(data), min(_SECTOR, length - len(data)))
        except OSError:
            where = place.position + len(data)
            why = system_reason(error)
            return bytes(
                data
            ), f"the file cannot be read at byte {where} ({why}): only the bytes before it are explained"
        return bytes(data), place.remark  # smaller reads succeed


def restored_at(place: BatchPosition) -> Restored | None:
    """Return what is restored in the header of the batch there. The batches before it are read, too: their offsets and
    leader epochs are compared."""
    segment = place.segment
    recent = deque([0], maxlen=2 * WINDOW)  # some of them may be damaged
    for table in segment.scan_pieces(errors="skip"):
        recent.extend(position for position in table.column("position") if position < place.position)
        if len(table) and table[-1]["position"] >= place.position:
            break
    part = segment.between(recent[0], segment.size)
    with closing(part.stream(errors="skip", columns=[], batch_bytes=1)) as pieces:
        for piece in pieces:
            for one in piece.restored:
                if one.position == place.position:
                    return cast(Restored, one)
            if any(at >= place.position for at in piece.batches.column("position")):
                return None
    return None


def find(segments: Sequence[Any], args: argparse.Namespace) -> BatchPosition:
    """Find the batch of --at or --offset; the first batch without them."""
    segment, at, remark = segments[0], args.at, ""
    if args.offset is not None:
        segment, at = at_offset(segments, args.offset)
    elif at is None:
        at = 0
    elif len(segments) > 1:
        explain = command("explain", [str(segment.path)], ("--at", at))
        raise WrongUse(f"--at counts the bytes of one file; name it: {explain}")
    elif at >= segment.size:
        raise WrongUse(f"--at {at}: the file ends at byte {segment.size}")
    start, size, stop = neighbours(segment, at)
    if start < at < start + size:
        remark = f"byte {at} is inside the batch at byte {start}, whose header is good: --at {start} explains that one"
    return BatchPosition(segment, at, stop, remark)


def neighbours(segment: Any, position: int) -> tuple[int, int, int]:
    """Return (start, size) of the last good frame at or before a position, and the start of the first one after it."""
    start = size = 0
    for _, at, length, *_ in batches([segment]):
        if at > position:
            return start, size, at
        start, size = at, length
    return start, size, int(segment.size)


def batches(segments: Sequence[Any]) -> Iterator[tuple[Any, int, int, int, int, int]]:
    """Yield (segment, position, size, base offset, last offset, magic) of each good frame."""
    columns = ("position", "size_in_bytes", "base_offset", "last_offset", "magic")
    for segment in segments:
        for table in segment.scan_pieces(errors="skip"):
            for row in zip(*map(table.column, columns), strict=True):
                yield segment, *row


def at_offset(segments: Sequence[Any], offset: int) -> tuple[Any, int]:
    """Return segment and position of the batch that contains an offset: by its range for magic 2, by the last offset
    for older messages."""
    before = after = None
    for segment, position, _, base, last, magic in batches(segments):
        if last < offset:
            before = last
        elif magic < BATCH_MAGIC or base <= offset:
            return segment, position
        else:
            after = base if after is None else min(after, base)
    text = f"no batch contains offset {offset}"
    if before is None and after is None:
        raise CouldNot(f"{text}: there is no batch at all")
    text += f": a batch ends with {before} and " if before is not None else ": "
    text += f"the next one begins with {after}" if after is not None else "the log ends there"
    for segment in segments:
        for table in segment.scan_pieces(errors="skip"):
            for one in table.damage:
                if (one.lost_from is None or one.lost_from <= offset) and (
                    one.lost_to is None or offset <= one.lost_to
                ):
                    explain = command("explain", [str(segment.path)], ("--at", one.position))
                    raise CouldNot(f"{text}; it may be in the damaged range: {explain}")
    raise CouldNot(text)
