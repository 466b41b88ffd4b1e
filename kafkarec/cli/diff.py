"""`kafkarec diff`: two replicas of a partition."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.ops.diff import Difference, Extent, Replica, compare
from kafkarec.state.leader_epochs import Truncation
from kafkarec.support.text_table import safe

from . import output, shared_options
from .problems import DAMAGED, FINE
from .shared_options import CouldNot, WrongUse

DESCRIPTION = """Compares two replicas of a partition record by record: where they part, by leader epoch and CRC,
who holds what the other lacks, and to which offset each would truncate with the other as its leader (KIP-101,
KIP-279). Other batching or compression of the same records is no difference."""
EXAMPLES = """examples:
  kafkarec diff /mnt/broker1/orders-0 /mnt/broker2/orders-0
  kafkarec diff a.log b.log --format json

exit status: 0 the same records, 1 a difference (or damage), 2 wrong use, 3 could not"""

_MOST = 8  # ranges printed per list


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("a", "b"):
        parser.add_argument(name, metavar=name.upper(), help="a partition folder or a segment")
    parser.add_argument(
        "--max-decompressed-bytes", type=shared_options.size, default=128 << 20, metavar="SIZE", help="default: 128m"
    )
    shared_options.add_output(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    output.demand_ways(args)
    try:
        found = compare(args.a, args.b, max_decompressed_bytes=args.max_decompressed_bytes)
    except KafkaRecordError:
        raise
    except ValueError as error:
        raise WrongUse(str(error)) from error
    for side in (found.a, found.b):
        if not side.segments:
            raise CouldNot(f"{side.path}: a folder without .log files")
    with output.opened(args) as sink:
        if args.format == "json":
            sink.write((json.dumps(as_json(found)) + "\n").encode())
        else:
            for line in text(found):
                sink.write(f"{safe(line)}\n".encode())
    return DAMAGED if found or found.a.damage or found.b.damage else FINE


def text(found: Difference) -> Iterator[str]:
    """The lines of the text output."""
    for name, side in (("A", found.a), ("B", found.b)):
        yield _replica(name, side)
    yield ""
    if found.identical_batches:
        what = f"{_number(found.identical_batches, 'batch', 'batches')}, {found.identical_size} bytes"
        yield f"identical, byte for byte, up to offset {found.identical_to}: {what}"
    if found.first is not None:
        yield f"first difference at offset {found.first[0]}: {found.first[1]}"
    for title, extents in (
        ("only in A", found.only_a),
        ("only in B", found.only_b),
        ("different", found.changed),
        ("other batches, same records", found.rebatched),
    ):
        yield from _extents(title, extents)
    yield _verdict(found)
    if not found.same:
        yield ""
        yield from _follows("A", "B", found.a, found.a_follows_b)
        yield from _follows("B", "A", found.b, found.b_follows_a)
    for note in found.notes:
        yield f"note: {note}"


def _replica(name: str, side: Replica) -> str:
    segments, batches = _number(side.segments, "segment", "segments"), _number(side.batches, "batch", "batches")
    offsets = "no batch" if side.start is None or side.end is None else f"offsets {side.start} to {side.end - 1}"
    line = f"{name}  {side.path}: {offsets}, {batches}, {side.size} bytes in {segments}"
    if side.lineage.entries:
        epochs = ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in side.lineage.entries[-4:])
        more = "... " if len(side.lineage.entries) > 4 else ""
        line += f"; leader epochs {more}{epochs} (by its {side.lineage.origin})"
    return line + (f"; DAMAGED in {_number(len(side.damage), 'place', 'places')}" if side.damage else "")


_KINDS = {
    "head": "in front of the other's first offset",
    "tail": "behind the other's end",
    "gap": "a gap in the other",
    "damaged": "damaged in the other",
    "epoch": "by leader epoch",
    "content": "by content",
    "batching": "",
}


def _extents(title: str, extents: list[Extent]) -> Iterator[str]:
    for extent in extents[:_MOST]:
        records = "" if extent.records is None else f", {_number(extent.records, 'record', 'records')}"
        offsets = (
            f"offset {extent.first}" if extent.first == extent.last else f"offsets {extent.first} to {extent.last}"
        )
        why = _KINDS[extent.kind]
        yield f"  {title}: {offsets}{records}, {extent.size} bytes" + (f" ({why})" if why else "")
    if len(extents) > _MOST:
        rest = extents[_MOST:]
        left = _number(sum(extent.records or 0 for extent in rest), "record", "records")
        more = _number(len(rest), "range", "ranges")
        yield f"  {title}: {more} more up to offset {rest[-1].last}, {left}"


def _verdict(found: Difference) -> str:
    if found.identical:
        return "the same, byte for byte"
    if found.same:
        return "the same records, in other batches"
    return "DIFFERENT"


def _follows(name: str, other: str, side: Replica, cut: Truncation) -> Iterator[str]:
    if side.end is None:
        return
    how = "by leader epochs" if cut.steps else "by log ends alone, as no leader epochs are known"
    if cut.offset >= side.end:
        yield f"with {other} as the leader, {name} truncates nothing ({how})"
    else:
        lost = f"offsets {cut.offset} to {side.end - 1}"
        yield f"with {other} as the leader, {name} truncates to offset {cut.offset} and gives up {lost} ({how})"


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def as_json(found: Difference) -> dict[str, Any]:
    """The fields of the Difference as JSON values; epochs and damage as objects."""
    out = asdict(found)
    for name, side in (("a", found.a), ("b", found.b)):
        out[name]["damage"] = [damage._asdict() for damage in side.damage]
        out[name]["lineage"] = _lineage(side)
    for name in ("a_follows_b", "b_follows_a"):
        cut: Truncation = getattr(found, name)
        out[name] = {"truncate_to": cut.offset, "steps": [step._asdict() for step in cut.steps]}
    out["first"] = None if found.first is None else {"offset": found.first[0], "what": found.first[1]}
    return out


def _lineage(side: Replica) -> dict[str, Any]:
    entries = [entry._asdict() for entry in side.lineage.entries]
    return {"epochs": entries, "origin": side.lineage.origin, "note": side.lineage.note}
