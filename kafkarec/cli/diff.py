"""`kafkarec diff`: two replicas of a partition."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kafkarec.ops.diff import Difference, Replica, compare
from kafkarec.report import Document
from kafkarec.state.epoch_history import Truncation
from kafkarec.storage.output_rules import STANDARD_INPUT
from kafkarec.support.text_table import counted, lost_offsets

from . import DAMAGED, FINE, input_logs, output_files, progress, shared_options
from .shared_options import InputPath, WrongUse

DESCRIPTION = """Compares two replicas of a partition record by record. Reports where they differ, by leader epoch,
content and producer, which records only one of them has, and to which offset each would truncate with the other as its
leader (KIP-101, KIP-279). The same records in other batches or with another codec are not a difference."""
EXAMPLES = """examples:
  kafkarec diff /mnt/broker1/orders-0 /mnt/broker2/orders-0
  kafkarec diff a.log b.log --format json

exit status: 0 the same records, 1 a difference (or damage), 2 wrong usage, 3 failed"""

_MOST = 8  # ranges printed per list
_KINDS = {
    "head": "before the other's first offset",
    "tail": "after the other's end",
    "gap": "a gap in the other",
    "damaged": "damaged in the other",
    "epoch": "by leader epoch",
    "producer": "by producer",
    "content": "by content",
    "batching": "",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("a", "b"):
        parser.add_argument(name, type=InputPath, metavar=name.upper(), help="a partition folder or a segment")
    shared_options.add_decompressed_limit(parser)
    shared_options.add_format_and_output(parser)


def run(args: argparse.Namespace) -> int:
    if STANDARD_INPUT in (args.a, args.b):
        raise WrongUse("diff compares files and folders, and - is standard input; write it to a file first")
    logs = [input_logs.one_log(path, input_logs.open_input(path)) for path in (args.a, args.b)]
    with progress.show_segments_read(input_logs.segments(logs)) as tick:
        difference = compare(
            *logs,
            max_decompressed_bytes=args.max_decompressed_bytes,
            progress=lambda segment, end: tick(segment.path, end),
        )
    output_files.write_report(args, Document("diff", list(_lines(difference))), [difference])
    return DAMAGED if difference or difference.a.damage or difference.b.damage else FINE


def _lines(difference: Difference) -> Iterator[str]:
    for name, side in (("A", difference.a), ("B", difference.b)):
        segments, batches = counted(side.segments, "segment"), counted(side.batches, "batch")
        offsets = "no batch" if side.start is None or side.end is None else f"offsets {side.start} to {side.end - 1}"
        line = f"{name}  {side.path}: {offsets}, {batches}, {side.size} bytes in {segments}"
        if side.lineage.entries:
            epochs = ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in side.lineage.entries[-4:])
            more = "... " if len(side.lineage.entries) > 4 else ""
            line += f"; leader epochs {more}{epochs} (by its {side.lineage.origin})"
        yield line + (f"; {counted(len(side.damage), 'damaged range')}" if side.damage else "")
    yield ""
    if difference.identical_batches:
        what = f"{counted(difference.identical_batches, 'batch')}, {difference.identical_size} bytes"
        yield f"identical, byte for byte, up to offset {difference.identical_to}: {what}"
    if difference.first is not None:
        yield f"first difference at offset {difference.first[0]}: {difference.first[1]}"
    for title, extents in (
        ("only in A", difference.only_a),
        ("only in B", difference.only_b),
        ("different", difference.changed),
        ("other batches, same records", difference.rebatched),
    ):
        for extent in extents[:_MOST]:
            records = "" if extent.records is None else f", {counted(extent.records, 'record')}"
            why = f" ({_KINDS[extent.kind]})" if _KINDS[extent.kind] else ""
            yield f"  {title}: {lost_offsets(extent.first, extent.last)}{records}, {extent.size} bytes{why}"
        if len(extents) > _MOST:
            rest = extents[_MOST:]
            left = counted(sum(extent.records or 0 for extent in rest), "record")
            yield f"  {title}: {counted(len(rest), 'range')} more up to offset {rest[-1].last}, {left}"
    what = "the same, byte for byte" if difference.identical else "the same records, in other batches"
    if difference.same and (difference.a.damage or difference.b.damage):
        yield f"what can be read is {what}" if difference.a.batches else "NOT COMPARED: there is no good batch"
    else:
        yield what if difference.same else "DIFFERENT"
    if not difference.same:
        yield ""
        yield from _truncation_lines("A", difference.a, "B", difference.b, difference.a_follows_b)
        yield from _truncation_lines("B", difference.b, "A", difference.a, difference.b_follows_a)
    for note in difference.notes:
        yield f"note: {note}"


def _truncation_lines(name: str, side: Replica, other: str, leader: Replica, truncation: Truncation) -> Iterator[str]:
    if side.end is None or (leader.end is None and leader.damage):
        return
    how = "by leader epochs" if truncation.steps else "by log ends alone, as there are no leader epochs"
    if truncation.offset >= side.end:
        yield f"with {other} as the leader, {name} truncates nothing ({how})"
    else:
        lost = f"offsets {truncation.offset} to {side.end - 1}"
        yield f"with {other} as the leader, {name} truncates to offset {truncation.offset} and loses {lost} ({how})"
