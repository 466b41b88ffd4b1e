"""SalvageReport: what was saved, what was lost, what to do next; as an object, as JSON, as text"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kafkarec._version import __version__
from kafkarec.storage import names

_MOST = 6  # lines per list
LOST_AND_FOUND = "lost+found"
UNREAD = "cannot be "  # how a reason in `left_out` begins for a disk or permission error

REASONS = {
    "conflict_epoch": "another source has these offsets from a later leader (KIP-101)",
    "conflict_content": "another source has these offsets with other content",
    "other_epoch": "the same batch as another source's but for its leader epoch, which no checksum covers",
    "overlap": "its offsets are in the log already",
    "stale_epoch": "its leader epoch is below one that was in force in front of it",
    "outside_of_segment": "its offsets are not within those of its segment",
    "transaction_open": "plain, while a transaction of its producer is open: a broker does not start on that (KIP-98)",
    "snapshot_incomplete": "of a KRaft snapshot that is damaged or has no footer: a controller refuses it",
    "offset_out_of_order": "its offsets do not fit between its neighbours'",
}
"""Why a good batch is set aside."""


@dataclass
class OutputFile:
    """A segment that was written. sha256: of its bytes as read from the disk."""

    name: str
    size: int
    sha256: str
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None


@dataclass
class SetAside:
    """Batches that are in the file `saved_as` and not in the log. reason: of REASONS or of `errors.REASONS`."""

    file: str
    position: int
    size: int
    first_offset: int | None
    last_offset: int | None
    reason: str
    saved_as: str
    batches: int = 1


@dataclass
class SalvagedPartition:
    """One folder of the output.

    sources        the files that were read for it
    batches, records, size    counts of its log (records inside of wrapper messages are not counted)
    start_offset, next_offset    of the log
    damage         damaged ranges of the sources: dicts of kafkarec.Damage
    snapshots      KRaft snapshots of the log, copied completely
    lost           (first, last) offsets missing where a source is damaged; None: not known
    missing        (first, last) offsets missing before a segment without damage there: a segment is missing, or was
                   compacted
    gaps           number of offsets missing without damage (including those of `missing`): compacted, or never used
    duplicates, duplicate_size    batches that more than one source has
    ends_in_damage the sources end in damage, so the end of the log is not known
    tails          (file, position, length, kind) of bytes after the last batch. kind: "cut" (an incomplete batch),
                   "preallocated" (zeros)
    """

    folder: str
    topic: str | None = None
    partition: int | None = None
    sources: list[str] = field(default_factory=list)
    files: list[OutputFile] = field(default_factory=list)
    snapshots: list[OutputFile] = field(default_factory=list)
    batches: int = 0
    records: int = 0
    size: int = 0
    start_offset: int | None = None
    next_offset: int | None = None
    damage: list[dict[str, Any]] = field(default_factory=list)
    lost: list[tuple[int | None, int | None]] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    gaps: int = 0
    duplicates: int = 0
    duplicate_size: int = 0
    set_aside: list[SetAside] = field(default_factory=list)
    tails: list[tuple[str, int, int, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ends_in_damage: bool = False

    def add(self, step: SalvagedPartition) -> None:
        """Adds the result of a later step."""
        for name in ("sources", "files", "snapshots", "damage", "lost", "missing", "set_aside", "tails", "problems"):
            getattr(self, name).extend(getattr(step, name))
        for name in ("batches", "records", "size", "gaps", "duplicates", "duplicate_size"):
            setattr(self, name, getattr(self, name) + getattr(step, name))
        self.ends_in_damage = step.ends_in_damage
        self.start_offset = step.start_offset if self.start_offset is None else self.start_offset
        self.next_offset = self.next_offset if step.next_offset is None else step.next_offset

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> SalvagedPartition:
        """From the dict of `to_dict`, also after JSON."""
        known = {name.name for name in fields(cls)}
        report = cls(**{name: value for name, value in data.items() if name in known})
        report.files = [OutputFile(**one) for one in data["files"]]
        report.snapshots = [OutputFile(**one) for one in data["snapshots"]]
        report.set_aside = [SetAside(**one) for one in data["set_aside"]]
        report.lost = [(one[0], one[1]) for one in data["lost"]]
        report.missing = [(one[0], one[1]) for one in data["missing"]]
        report.tails = [(one[0], one[1], one[2], one[3]) for one in data["tails"]]
        return report


@dataclass
class SalvageReport:
    """The result of a salvage. out: the folder; left_out: (path, why) of files and folders that were not read."""

    out: str
    sources: list[str]
    as_partition: bool
    dry_run: bool
    partitions: list[SalvagedPartition] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    version: str = __version__

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged, nothing set aside, and every file and folder could be read."""
        return not any(one.damage or one.set_aside for one in self.partitions) and not any(
            why.startswith(UNREAD) for _, why in self.left_out
        )

    @property
    def damage(self) -> list[dict[str, Any]]:
        return [damage for one in self.partitions for damage in one.damage]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        return {"kafkarec": self.version, **{k: v for k, v in asdict(self).items() if k != "version"}, "ok": self.ok}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The report as text of about one screen, the worst partitions first."""
        ranked = sorted(self.partitions, key=_rank)
        verb = "would save" if self.dry_run else "saved"
        for one in ranked[:_MOST]:
            yield from _partition(one, verb)
            if one.topic is None:
                yield from self._whose(one)
        if len(ranked) > _MOST:
            rest = ranked[_MOST:]
            bad = sum(bool(one.damage or one.set_aside or (one.missing and _reports_missing(one))) for one in rest)
            yield f"and {_number(len(rest), 'partition', 'partitions')} more, {bad} of them not whole"
        yield from self._left_out()
        yield from self._sum()
        yield from self._next()

    def _left_out(self) -> Iterator[str]:
        """Lists files and folders that may hold records (Kafka's names, lost+found); other files are counted."""
        known = [(path, why) for path, why in self.left_out if _may_hold_records(path, why)]
        for path, why in known[:_MOST]:
            yield f"not read: {path}: {why}"
        small = [os.path.basename(path) for path, _ in self.left_out if _kind(path) == "file"]
        if small:
            yield f"not copied: {', '.join(small)}: the data folder's own small files, which hold no topic's records"
        more = len(self.left_out) - min(len(known), _MOST) - len(small)
        if more:
            yield f"not read: {_number(more, 'name', 'names')} besides, listed in the map"

    def _sum(self) -> Iterator[str]:
        if len(self.partitions) > 1:
            batches = _number(sum(one.batches for one in self.partitions), "batch", "batches")
            lost = sum(int(damage["length"]) for damage in self.damage)
            yield f"in all: {batches}, {self.size} bytes of {len(self.partitions)} partitions; damaged: {lost} bytes"

    def _next(self) -> Iterator[str]:
        if self.dry_run:
            yield "nothing was written (--dry-run)"
            return
        out = shlex.quote(self.out)
        yield f"the whole map of what was copied and what is lost: {out}/salvage.json"
        saved = [one for one in self.partitions if one.batches]
        if not saved:
            return
        # The example is a topic that is not internal, a damaged one if there is any.
        first = min(saved, key=lambda one: ((one.topic or "").startswith("__"), *_rank(one))).folder
        folder = f"{out}/{shlex.quote(first)}"
        damage = next((damage for one in sorted(self.partitions, key=_rank) for damage in one.damage), None)
        if damage is not None:
            place = f"{shlex.quote(str(damage['file']))} --at {damage['position']}"
            yield f"what the first damaged place looks like: kafkarec explain {place}"
        yield f"next: kafkarec verify {folder if len(self.partitions) == 1 else out}"
        if self.as_partition:
            keep = "partition.metadata" + (" and quorum-state" if first.startswith("__cluster_metadata") else "")
            yield (
                f"      then, with the broker stopped: put {folder} in the place of its folder {first}, but keep the "
                f"{keep} there; delete recovery-point-offset-checkpoint, replication-offset-checkpoint, "
                "log-start-offset-checkpoint and .kafka_cleanshutdown in its data folder, so that it recovers the log; "
                "give the files to its user"
                + ("; and so for the others" if len(saved) > 1 else "")
                + "; mind retention.ms, old records are deleted at once"
            )
        else:
            yield f"      kafkarec cat {folder} -o records.jsonl    (a folder that a broker starts on: --as-partition)"

    def _whose(self, one: SalvagedPartition) -> Iterator[str]:
        """Which partition a file without a known name may belong to: one that misses its offsets."""
        if one.start_offset is None or one.next_offset is None:
            return
        for other in self.partitions:
            for first, last in (*other.missing, *other.lost):
                low, high = (0 if first is None else first), (one.next_offset if last is None else last)
                if other.topic is not None and low <= one.start_offset and one.next_offset - 1 <= high:
                    yield (
                        f"  its offsets are missing in {other.folder}: if they are from there, salvage both with "
                        f"--topic {other.topic} --partition {other.partition}, and they are put in"
                    )
                    return
        yield "  its name does not tell whose it is: --topic and --partition do, and join it with their folder"


def _rank(one: SalvagedPartition) -> tuple[int, int, int, str]:
    """Sort key, worst first: by lost offsets, then damaged bytes, then batches set aside."""
    offsets = sum(last - (first or 0) + 1 for first, last in one.lost if last is not None)
    offsets += sum(last - first + 1 for first, last in one.missing) if _reports_missing(one) else 0
    return -offsets, -sum(int(damage["length"]) for damage in one.damage), -len(one.set_aside), one.folder


def _reports_missing(one: SalvagedPartition) -> bool:
    """Whether offsets missing between segments are reported: if there are gaps within segments, too, the log was
    compacted."""
    return one.gaps <= sum(last - first + 1 for first, last in one.missing)


def _may_hold_records(path: str, why: str) -> bool:
    """Whether it may hold records: a deleted partition's folder, a .deleted segment, lost+found, an unreadable file."""
    name = os.path.basename(path)
    known = name == LOST_AND_FOUND or names.folder(name) is not None or _kind(path) not in ("foreign", "file")
    return known or why.startswith(UNREAD)


def _kind(path: str) -> str:
    return names.explain(os.path.basename(path)).kind


def _partition(one: SalvagedPartition, verb: str) -> Iterator[str]:
    offsets = "no offset" if one.next_offset is None else f"offsets {one.start_offset} to {one.next_offset - 1}"
    files, sources = _number(len(one.files), "segment", "segments"), _number(len(one.sources), "file", "files")
    if one.snapshots:
        files += " and " + _number(len(one.snapshots), "KRaft snapshot", "KRaft snapshots")
    what = f"{_number(one.batches, 'batch', 'batches')}, {_number(one.records, 'record', 'records')}, {one.size} bytes"
    yield f"{one.folder}: {verb} {what} ({offsets}) in {files}, from {sources}"
    if one.damage:
        size = sum(int(damage["length"]) for damage in one.damage)
        yield f"  lost: {size} bytes in {_number(len(one.damage), 'place', 'places')}; {_offsets(one.lost)}"
        for damage in one.damage[:_MOST]:
            reason = f"[{damage['reason']}]{_zeros(damage)}"
            yield f"    {damage['file']}, byte {damage['position']}, {damage['length']} bytes {reason}"
        if len(one.damage) > _MOST:
            yield f"    and {_number(len(one.damage) - _MOST, 'place', 'places')} more"
    if one.missing and _reports_missing(one):
        spans = _spans(one.missing)
        yield f"  missing: offsets {spans}: in no source, between two segments (a segment that is gone, or compaction)"
    for reason in sorted({aside.reason for aside in one.set_aside}):
        those = [aside for aside in one.set_aside if aside.reason == reason]
        size, count = sum(aside.size for aside in those), sum(aside.batches for aside in those)
        why = f": {REASONS[reason]}" if reason in REASONS else ""
        yield f"  set aside: {_number(count, 'batch', 'batches')}, {size} bytes [{reason}]{why}"
        yield f"    kept in {those[0].saved_as}" + (" and others" if len({one.saved_as for one in those}) > 1 else "")
    if any(damage["reason"] == "limit_exceeded" for damage in one.damage):
        yield "    larger than the limit, and perhaps sound: --max-decompressed-bytes raises it"
    if one.duplicates:
        yield f"  {_number(one.duplicates, 'batch', 'batches')} more than once, {one.duplicate_size} bytes: kept once"
    for file, position, length, kind in one.tails[:_MOST]:
        if kind == "cut":
            yield f"  not copied: {length} bytes from byte {position} of {file} on: a batch that was cut off at its end"
    for problem in one.problems[:_MOST]:
        yield f"  note: {problem}"


def _offsets(lost: list[tuple[int | None, int | None]]) -> str:
    if not lost:
        return "no offset is missing there"
    return f"offsets {_spans(lost)} (at most: compaction leaves gaps as well)"


def _zeros(damage: dict[str, Any]) -> str:
    """ ": zeros" if the damage begins with zeros: pages that were never written, or lost by the disk."""
    return ": zeros" if damage["reason"] == "size_too_small" and str(damage["detail"]).endswith("found 0") else ""


def _spans(lost: Sequence[tuple[int | None, int | None]]) -> str:
    parts = []
    for first, last in lost[:_MOST]:
        if first is None:
            parts.append(f"up to {last}")
        elif last is None:
            parts.append(f"from {first} on, if there were any")
        else:
            parts.append(str(first) if first == last else f"{first} to {last}")
    more = f" and {_number(len(lost) - _MOST, 'range', 'ranges')} more" if len(lost) > _MOST else ""
    return ", ".join(parts) + more


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
