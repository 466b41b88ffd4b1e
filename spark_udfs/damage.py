"""`damage_report(spark, path)`: the executors check every batch and report the damaged ranges of bytes.

    driver   plans the splits, as spark.read.format("kafkarec") does; with Spark Connect a task does it
    tasks    read and check every batch; return the damaged ranges and counts of each split
    driver   combines them by file

The ranges are those of the rows that the data source returns in PERMISSIVE mode with the same options.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from .bootstrap import distributed
from .read_functions import plan_and_run, read_options
from .schema import NamedValues, Paths
from .source.counters import COUNTS, OF_THE_LAST, TaskCounters, counted_splits
from .source.gaps import GAP
from .source.listing import CONTINUE_ADVICE, DataLoss
from .source.options import ReadOptions
from .source.planning import Split, counted
from .source.reading import OFFSET_COLUMNS, read_split

COLUMNS = (
    "topic string, partition int, file string, position bigint, length bigint, lost_from bigint, lost_to bigint, "
    "next_position bigint, reason string, detail string"
)
_SHOWN = 20


@dataclass(frozen=True)
class DamageReport:
    """The damage and the files that were checked. Printable.

    rows: one dict per damaged range, by file and position, with the columns of `frame`; one, of length 0 and with the
        reason segment_gap, where offsets are missing between a file and the next one, as is normal in a compacted topic
    files: one dict per file that was read:
        topic, partition, file
        bytes: all bytes that were read = those of good batches + damaged_bytes + remaining
        batches, records, control_records: good batches; their records, those of control batches counted apart
        damaged, damaged_bytes: damaged ranges, and the sum of their lengths
        restored: good batches whose header is damaged, and was restored; with restore=False they are damaged ranges
        remaining: bytes after the last batch that are no damage: an incomplete batch, or preallocated zeros
        incomplete, incomplete_position: bytes of an incomplete batch at the log's end, and where it begins; 0 and None
            if there is none. With endOfLog=strict it is one of the damaged ranges, otherwise part of `remaining`
        last_offset: the last offset of the last good batch; None: there is none
        missing_offsets: number of offsets that neither this segment nor the next one has
    left_out: ranges that are counted in `files` only
    """

    rows: tuple[NamedValues, ...]
    files: tuple[NamedValues, ...]
    left_out: int
    _spark: Any = field(repr=False, compare=False)
    _keys: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def frame(self) -> Any:
        """A DataFrame with one row per damaged range: topic, partition, file, position, length, lost_from, lost_to,
        next_position, reason, detail (docs/damage.md), and the keys of key=value folders as text."""
        names = [each.split()[0] for each in COLUMNS.split(", ")]
        keys = [key for key in self._keys if key not in names]
        columns = ", ".join([COLUMNS, *(f"`{key}` string" for key in keys)])
        rows = [tuple(row.get(name) for name in (*names, *keys)) for row in self.rows]
        return self._spark.createDataFrame(rows, columns)

    def __str__(self) -> str:
        sums = {name: sum(each[name] for each in self.files) for name in COUNTS}
        bad = [each for each in self.files if each["damaged"]]
        cut = [each for each in self.files if each["incomplete"] and each["remaining"]]
        ends = f", {len(cut)} {'ends' if len(cut) == 1 else 'end'} in an incomplete batch" if cut else ""
        headers = f", {counted(sums['restored'], 'header')} restored" if sums["restored"] else ""
        missing = f", {counted(sums['missing_offsets'], 'offset')} missing" if sums["missing_offsets"] else ""
        control = f" and {counted(sums['control_records'], 'control record')}" if sums["control_records"] else ""
        lines = [
            f"{len(bad)} of {len(self.files)} files damaged{headers}{ends}{missing}: "
            f"{counted(sums['damaged'], 'range')}, {sums['damaged_bytes']} of {sums['bytes']} bytes; "
            f"{counted(sums['batches'], 'batch', 'batches')} with "
            f"{counted(sums['records'], 'record')}{control} are good"
        ]
        shown = self.rows[:_SHOWN]
        for number, row in enumerate(shown):
            if not number or shown[number - 1]["file"] != row["file"]:
                lines.append(f"  {row['file']}")
            what = f"{row['reason']}{_lost_offsets_text(row)}" if row["length"] else row["detail"]
            lines.append(f"    byte {row['position']}, {counted(row['length'], 'byte')}: {what}")
        if len(self.rows) + self.left_out > len(shown):
            lines.append(f"  and {counted(len(self.rows) + self.left_out - len(shown), 'range')} more")
        for each in cut[:_SHOWN]:
            last, size = each["last_offset"], counted(each["incomplete"], "byte")
            after = "without a batch before it" if last is None else f"after offset {last}"
            lines.append(f"  {each['file']}")
            lines.append(f"    byte {each['incomplete_position']}, {size}: incomplete batch, {after}")
        if len(cut) > _SHOWN:
            lines.append(f"  and {counted(len(cut) - _SHOWN, 'incomplete batch', 'incomplete batches')} more")
        if cut:
            why = "a broker is or was writing it, or the file was cut; endOfLog=strict: it is damage"
            lines.append(f"  (incomplete batch: {why})")
        if headers:
            lines.append("  (restored headers: their batches are read; restore=False lists them as damage)")
        return "\n".join(lines)

    __repr__ = __str__


def _lost_offsets_text(row: NamedValues) -> str:
    """Which offsets are lost, as far as the batches on both sides tell."""
    lost = row["lost_from"], row["lost_to"]
    return ", lost offsets unknown" if lost == (None, None) else f", {distributed.lost_offsets(*lost)} lost"


def damage_report(spark: Any, path: Paths, **options: Any) -> DamageReport:
    """Reads and checks every batch below `path` on the executors; reports each damaged range. Printable.

    path     files, folders, globs or URLs, as for spark.read.format("kafkarec")
    options  of that source: subscribe, subscribePattern, assign, where, basePath, storageOptions, maxPartitionBytes,
             minPartitions, splitScan, checkCrcs, restore, maxDecompressedBytes, endOfLog

    `.rows` and `.frame` (a DataFrame) have one row per damaged range: topic, partition, file, position, length,
    lost_from, lost_to, next_position, reason, detail. They are the ranges that mode PERMISSIVE returns with the same
    options, and offsets that no segment has, between two (reason segment_gap). `.files` has sums per file, and where a
    log stops in mid-batch: `incomplete`, `incomplete_position`, `last_offset`; with endOfLog="strict" that is a damaged
    range, too. A file that cannot be read is damage with the reason `unreadable`; damage never fails the job.

    >>> print(damage_report(spark, "tests/vectors/segments/txn-0"))
    0 of 2 files damaged: 0 ranges, 0 of 18016 bytes; 149 batches with 267 records and 26 control records are good
    """
    chosen = read_options(spark, path, options, "damage_report")
    chosen = replace(chosen, mode="PERMISSIVE", includeControl=True)
    body = partial(counted_splits, "damage_report", partial(_read_completely, options=chosen))
    counts = [*chain.from_iterable(plan_and_run(spark, "damage_report", chosen, body))]
    counts.sort(key=lambda each: (each["file"], each["begin"]))
    files: dict[str, NamedValues] = {}
    rows = []
    for each in counts:
        identity = {**dict(each["keys"]), **{name: each[name] for name in ("topic", "partition", "file")}}
        sums = files.setdefault(each["file"], identity | dict.fromkeys(COUNTS, 0) | dict.fromkeys(OF_THE_LAST))
        for name in COUNTS:
            sums[name] += each[name]
        sums["records"] -= each["control_records"]
        sums |= {name: each[name] for name in OF_THE_LAST if each[name] is not None}
        rows += [identity | one for one in each["ranges"]]
    left_out = sum(each["damaged"] for each in counts) - sum(row["reason"] != GAP for row in rows)
    keys = dict.fromkeys(name for each in counts for name, _ in each["keys"])
    return DamageReport(tuple(rows), tuple(files.values()), left_out, spark, tuple(keys))


def _read_completely(split: Split, counters: TaskCounters, *, options: ReadOptions) -> None:
    """In a task. A file that cannot be read is damage, and so is one that a broker has removed, replaced or truncated
    since it was planned."""
    try:
        for _ in read_split(split._replace(followed_by=None), options, OFFSET_COLUMNS, counters):
            pass
    except (OSError, DataLoss) as error:
        counters.add_unread("unreadable", str(error).removesuffix(CONTINUE_ADVICE))  # an option that is not here
