"""SalvageReport: the saved and lost data, and the next commands; as an object, as JSON, and for people."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkarec._version import __version__
from kafkarec.damage import begins_with_zeros, restored_text
from kafkarec.report import Block, Commands, Document, ReportSection, jsonable, text
from kafkarec.sources.read_failures import REMEDIES, ReadFailure
from kafkarec.storage import names, recorded_ends
from kafkarec.storage.output_rules import STANDARD_INPUT, suggested_output
from kafkarec.support.command_line import command
from kafkarec.support.text_table import counted, lost_offsets

from . import serve_plan
from .salvaged_partition import SalvagedPartition

_MAX_LINES = 6  # of each list
_NUMBER = re.compile(r"\d+")
_NEVER_COMPACTED_NOTE = "by cleaner-offset-checkpoint the log was never compacted"
LOST_AND_FOUND = "lost+found"

REASONS = {
    "conflict_epoch": "another source has these offsets from a later leader (KIP-101)",
    "conflict_content": "another source has these offsets with other content",
    "other_epoch": "another source has the same batch with another leader epoch, which no checksum covers",
    "overlap": "its offsets are in the log already",
    "stale_epoch": "its leader epoch is below that of an earlier batch",
    "outside_of_segment": "its offsets are outside of its segment's range",
    "transaction_undecided": "how its transaction ended is not known, as the marker is lost",
    "transaction_not_ended": "its transaction is open, and cannot be ended in another cluster",
    "transaction_open": "plain, in a transaction of its producer whose end is missing: a broker fails on that (KIP-98)",
    "snapshot_incomplete": "its KRaft snapshot is damaged or has no footer: a controller refuses such a snapshot",
    "offset_out_of_order": "its offsets do not fit between those of the adjacent batches",
    "base_offset_undecided": "its place in the log is not known: of another file, or of another part of this one",
    "inside_damage": "whole, but inside a damaged batch: of another file, or of a record's value",
}
"""The reasons for which a good batch is set aside."""

_ZEROS_AT_END = "zeros: space reserved by the broker, or records that never reached the disk"
OUTCOMES = {
    "abort": "ABORT {written} at offset {offset}",
    "commit": "COMMIT {written} at offset {offset}",
    "open": "left open",
    "aside": "its batches are set aside",
}
"""What is done about a transaction whose marker is lost."""
_IN_ANOTHER_CLUSTER = OUTCOMES | {
    "abort": "aborted: its batches are left out",
    "commit": "committed: its batches stay",
    "open": "open: its batches are set aside",
}


@dataclass
class SalvageReport:
    """The result of a salvage.

    out        the folder
    left_out   (path, reason) of files and folders that were not read
    lost_folders   (path, reason) of partitions that data folders among the sources should have: nothing is left of them
    unread     (path, cause, reason) of those that could not be read, or not completely
    source_ids cluster.id, node.id (broker.id) and directory.id as in meta.properties of the sources' data folders, as
               NAME=ID; those that differ between them are left out, but for the first cluster.id
    """

    out: str
    sources: list[str]
    as_partition: bool
    dry_run: bool
    partitions: list[SalvagedPartition] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    lost_folders: list[tuple[str, str]] = field(default_factory=list)
    unread: list[ReadFailure] = field(default_factory=list)
    source_ids: list[str] = field(default_factory=list)
    new_cluster: bool = False
    version: str = __version__

    @property
    def ok(self) -> bool:
        """Whether every partition is there and ok, and every file and folder could be read."""
        return not (self.unread or self.lost_folders) and all(one.ok for one in self.partitions)

    @property
    def unreadable(self) -> list[str]:
        """The paths of `unread`."""
        return [one.path for one in self.unread]

    def exit_status(self) -> int:
        """The exit status of the command line: 0 everything is saved, 1 something is damaged or set aside, 3 a file
        could not be read, whatever else there is."""
        return 3 if self.unread else int(not self.ok)

    @property
    def damage(self) -> list[dict[str, Any]]:
        return [damage for one in self.partitions for damage in one.damage]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """All data as dicts, lists, strings and numbers."""
        found = jsonable(vars(self))
        return {"kafkarec": found.pop("version"), **found, "unreadable": self.unreadable, "ok": self.ok}

    def __str__(self) -> str:
        return "".join(text(document(self))).rstrip("\n")


def document(report: SalvageReport) -> Document:
    """The report for people, of about one screen, the worst partitions first."""
    return Document("salvage", list(_blocks(report)), state="" if report.ok else "damaged")


def _blocks(report: SalvageReport) -> Iterator[Block]:
    ranked = sorted(report.partitions, key=_worst_first)
    verb = "would save" if report.dry_run else "saved"
    if report.lost_folders:
        lost = recorded_ends.lost_folders_text([path for path, _ in report.lost_folders])
        yield f"lost: {lost}; salvage takes them from a replica or a backup that is named as well"
    for one in ranked[:_MAX_LINES]:
        title, *lines = _partition_lines(one, verb, _IN_ANOTHER_CLUSTER if report.new_cluster else OUTCOMES)
        belongs = _possible_partition(report, one) if one.topic is None else ()
        yield ReportSection(title, [*lines, *belongs])
    if len(ranked) > _MAX_LINES:
        rest = ranked[_MAX_LINES:]
        bad = sum(not one.ok or bool(one.missing and one.reports_missing) for one in rest)
        yield ""
        how = f"{bad} of them incomplete"
        if bad in (0, len(rest)):
            how = f"{'all ' if len(rest) > 1 else ''}{'incomplete' if bad else 'complete'}"
        yield f"and {counted(len(rest), 'more partition')}, {how}"
    yield ""
    for failure in report.unread[:_MAX_LINES]:
        yield f"not read: {failure.path}: {failure.why}"
    # those that may contain records (Kafka's names, lost+found); the others are counted
    left_out = [each for each in report.left_out if each[0] not in report.unreadable]
    known = [each for each in left_out if _may_hold_records(each[0])]
    shown = _by_reason(known)[:_MAX_LINES]
    yield from (f"not read: {line}" for line, _ in shown)
    more = len(left_out) - sum(count for _, count in shown) + max(len(report.unread) - _MAX_LINES, 0)
    if more:
        yield f"not read: {counted(more, 'more name')}, listed in salvage.json"
    causes = {failure.cause for failure in report.unread}
    yield from (f"  {remedy}" for cause, remedy in REMEDIES.items() if cause in causes)
    if len(ranked) > 1:
        batches = counted(sum(one.batches for one in ranked), "batch")
        damaged = sum(one.lost_bytes for one in ranked)
        yield f"total: {batches}, {report.size} bytes of {len(ranked)} partitions; damaged: {damaged} bytes"
    yield from _next_commands(report)


def _next_commands(report: SalvageReport) -> Iterator[Block]:
    if report.dry_run:
        yield "nothing was written (--dry-run)"
        return
    yield f"the full list of copied and lost data: {os.path.join(report.out, 'salvage.json')}"
    saved = [one for one in report.partitions if one.batches]
    if not saved:
        return
    damage = next((damage for one in sorted(report.partitions, key=_worst_first) for damage in one.damage), None)
    if damage is not None and damage["file"] != STANDARD_INPUT:  # which cannot be read once more
        explain = command("explain", [str(damage["file"])], ("--at", damage["position"]))
        yield f"to inspect the first damaged range: {explain}"
    # The commands name the worst partition of a topic that is not internal.
    first = min(saved, key=lambda one: ((one.topic or "").startswith("__"), *_worst_first(one))).folder
    folder = os.path.join(report.out, first)
    steps = [command("verify", [folder if len(report.partitions) == 1 else report.out])]
    if not report.as_partition:
        records = suggested_output("records.jsonl", [*report.sources, report.out])
        steps += [command("cat", [folder], ("-o", records))]
        steps += ["(folders that a broker starts on: --as-partition for the same cluster, else --new-cluster)"]
    yield Commands("next", [("", step) for step in steps])
    if report.as_partition:
        folders = [one.folder for one in saved]
        yield from serve_plan.lines(report.out, folders, report.source_ids, report.new_cluster)


def _possible_partition(report: SalvageReport, one: SalvagedPartition) -> Iterator[str]:
    """Yields the partition to which a file without a known name may belong: one in which its offsets are
    missing."""
    if one.start_offset is None or one.next_offset is None:
        return
    for other in report.partitions:
        for first, last in (*other.missing, *other.lost):
            low, high = (0 if first is None else first), (one.next_offset if last is None else last)
            if other.topic is not None and low <= one.start_offset and one.next_offset - 1 <= high:
                yield (
                    f"  its offsets are missing in {other.folder}: if it belongs there, salvage both together with "
                    f"--topic {other.topic} --partition {other.partition}"
                )
                return
    yield "  its partition is not known: give --topic and --partition to merge it with that partition's folder"


def _worst_first(one: SalvagedPartition) -> tuple[int, int, int, str]:
    """The sort key, worst first: by lost offsets, then damaged bytes, then batches set aside."""
    offsets = sum(last - (first or 0) + 1 for first, last in one.lost if last is not None)
    offsets += one.missing_offsets if one.reports_missing else 0
    offsets += one.beyond_end
    return -offsets, -one.lost_bytes, -len(one.set_aside), one.folder


def _may_hold_records(path: str) -> bool:
    """Whether a path may contain records: a deleted partition's folder, a .deleted segment, lost+found."""
    name = os.path.basename(path)
    parsed, kind = names.segment(name), names.meaning(name).kind
    if parsed is not None and parsed.suffix in names.SIDECARS:
        return False
    return name == LOST_AND_FOUND or names.folder(name) is not None or kind not in ("foreign", "file")


def _partition_lines(one: SalvagedPartition, verb: str, outcomes: dict[str, str]) -> Iterator[str]:
    files, sources = counted(len(one.files), "segment"), counted(len(one.sources), "file")
    snapshots = counted(len(one.snapshots), "KRaft snapshot") if one.snapshots else ""
    if one.batches:
        what = f"{counted(one.batches, 'batch')}, {counted(one.records, 'record')}, {counted(one.size, 'byte')}"
        offsets = f" ({lost_offsets(one.start_offset, one.next_offset - 1)})" if one.next_offset is not None else ""
        both = f"{files} and {snapshots}" if snapshots else files
        yield f"{one.folder}: {verb} {what}{offsets} in {both}, from {sources}"
    elif snapshots:
        yield f"{one.folder}: {verb} {snapshots}, from {sources}"
    else:
        yield f"{one.folder}: {f'no batch to save in {sources}' if one.sources else 'no segment is left of it'}"
    if one.damage:
        offsets = "all of their offsets are in the new log"
        if one.lost:
            offsets = _offsets_text(one.lost)
            offsets += "" if set(one.lost) == {(None, None)} else " (fewer if the topic is compacted)"
        yield f"  lost: {counted(one.lost_bytes, 'byte')} in {counted(len(one.damage), 'range')}; {offsets}"
        for damage in one.damage[:_MAX_LINES]:
            zeros = ": zeros" if begins_with_zeros(damage["reason"], damage.get("found")) else ""
            reason = f"{counted(damage['length'], 'byte')} [{damage['reason']}]{zeros}"
            yield f"    {_shown(damage['file'])}, byte {damage['position']}, {reason}"
        yield from _more_line(one.damage, "range", "")
    elif one.lost and (one.unread or one.set_aside):
        why = "a file could not be read, or batches there were set aside"
        yield f"  not in the new log, as {why}: {_offsets_text(one.lost)}"
    if one.restored:
        yield f"  restored: header fields of {counted(len(one.restored), 'batch')}, which are saved"
        for each in one.restored[:_MAX_LINES]:
            values = {name: (value["stored"], value["used"]) for name, value in each["fields"].items()}
            yield f"    {_shown(each['file'])}, byte {each['position']}: {restored_text(values, each['evidence'])}"
        yield from _more_line(one.restored, "batch", "")
    if one.missing and one.reports_missing:
        unproven = _NEVER_COMPACTED_NOTE if one.never_compacted else "a missing segment, or compaction"
        why = one.proofs[0] if one.proofs else unproven
        yield f"  missing: {_offsets_text(one.missing)}: in no source, or only in batches that were set aside ({why})"
    within = one.gaps - one.missing_offsets
    if one.never_compacted and within:
        yield f"  missing: {counted(within, 'offset')} between batches of a segment ({_NEVER_COMPACTED_NOTE})"
    if one.recorded_ends:
        yield f"  {one.end.headline}"
        if one.beyond_end and one.next_offset in (one.log_end, None):
            top = max(each["end"] for each in one.recorded_ends)
            yield f"    --keep-end lets the log end at {top}, so that a broker does not use these offsets again"
    for reason in sorted({each.reason for each in one.set_aside}):
        ranges = [each for each in one.set_aside if each.reason == reason]
        size, count = sum(each.size for each in ranges), sum(each.batches for each in ranges)
        why = f": {REASONS[reason]}" if reason in REASONS else ""
        yield f"  set aside: {counted(count, 'batch')}, {counted(size, 'byte')} [{reason}]{why}"
        yield f"    kept in {ranges[0].saved_as}" + (" and others" if len({one.saved_as for one in ranges}) > 1 else "")
    undecided = [marker for marker in one.markers if not marker.proven]
    written = "would be written" if verb.startswith("would") else "written"
    for marker in sorted(one.markers, key=lambda marker: marker.proven)[:_MAX_LINES]:
        data = f"offset {marker.first_offset}" if marker.first_offset >= 0 else "deleted segments"
        what = outcomes[marker.outcome].format(written=written, offset=marker.marker_offset)
        state = "lost marker" if marker.proven else "undecided"
        yield f"  {state}: producer {marker.producer_id}'s transaction from {data}: {what}: {marker.sentence}"
    yield from _more_line(one.markers, "lost marker")
    if undecided:
        open_ones = counted(len(undecided), "transaction is")
        yield f"    {open_ones} neither proven aborted nor committed: --undecided abort|commit|open|aside decides"
    if any(damage["reason"] == "limit_exceeded" for damage in one.damage):
        yield "    batches above the limit may be good: --max-decompressed-bytes raises it"
    if one.duplicates:
        yield f"  {counted(one.duplicates, 'batch')} more than once, {counted(one.duplicate_size, 'byte')}: kept once"
    for file, position, length, kind in one.tails[:_MAX_LINES]:
        what = "an incomplete batch at its end" if kind == "cut" else _ZEROS_AT_END
        yield f"  not copied: {counted(length, 'byte')} from byte {position} of {_shown(file)} on: {what}"
    yield from _more_line(one.tails, "file")
    used = [known for known in one.other_files if known.used]
    yield from (f"  used: {known.path}: {known.why}" for known in used[:_MAX_LINES])
    yield from _more_line(used, "file")
    yield from (f"  note: {problem}" for problem in one.problems[:_MAX_LINES])
    yield from _more_line(one.problems, "note")
    unused = [known for known in one.other_files if not known.used]
    reasons = _by_reason((known.path, known.why) for known in unused)
    yield from (f"  not used: {line}" for line, _ in reasons[:_MAX_LINES])
    yield from _more_line(reasons, "reason")
    if any(names.segment(os.path.basename(known.path)) for known in unused):
        yield "    --use FILE adds such a file nevertheless"


def _shown(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path


def _more_line(listed: Sequence[Any], what: str, where: str = ", listed in salvage.json") -> Iterator[str]:
    """The line about those that do not fit."""
    if len(listed) > _MAX_LINES:
        yield f"    and {counted(len(listed) - _MAX_LINES, f'more {what}')}{where}"


def _by_reason(files: Iterable[tuple[str, str]]) -> list[tuple[str, int]]:
    """A line for the (path, why) of all files with the same reason, whatever the numbers in it; and their number."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    for path, why in files:
        reasons.setdefault(_NUMBER.sub("", why), []).append((path, why))
    return [
        (f"{path}{f' and {len(others)} more' if others else ''}: {why}", 1 + len(others))
        for (path, why), *others in reasons.values()
    ]


def _offsets_text(lost: Sequence[tuple[int | None, int | None]]) -> str:
    more = f" and {counted(len(lost) - _MAX_LINES, 'more range')}" if len(lost) > _MAX_LINES else ""
    return ", ".join(lost_offsets(*one) for one in lost[:_MAX_LINES]) + more
