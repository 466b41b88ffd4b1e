"""`write_table(spark, path, out)`: the tasks write the records to Parquet files; no row passes through the JVM.

    driver   the offsets that the table has (_table.json) -> the splits of what it lacks, as a micro-batch of a stream
    tasks    read their splits, stage files by partition column; return their names, and the damaged ranges
    driver   one commit: these files get their final names, and the table its new offsets; see source/publishing

With Spark Connect a task does what the driver does here, since only the cluster can read and write the files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from uuid import uuid4

from . import cluster
from .bootstrap import distributed
from .errors import log_to_stderr, logger
from .read_functions import Splits, Tasks, read_options, run_tasks
from .schema import Columns, NamedValues, Paths
from .source import batch, columns, growing_log, planning, publishing, reading, selection
from .source.counters import TaskCounters, damaged_ranges, gap_texts
from .source.growing_log import GrowingLog
from .source.listing import Listing
from .source.options import MODES as DAMAGE_MODES
from .source.options import Offsets, ReadOptions, WriteOptions, offsets_from_json, offsets_to_json
from .source.paths import Partitions, display_url, given_paths, key_types
from .source.planning import Split
from .source.staging import WriteJob, attempt_name, staging_folder, task_and_attempt

MODES = ("append", "overwrite", "errorifexists")
CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
# Parquet files are staged under another suffix, so that the glob **/*.parquet does not find them.
STAGED = ".staged"
QUARANTINE = "_quarantine"
DATE = "date"
MOST_GAPS = 100  # of a call, that are notes of its result


@dataclass(frozen=True)
class WrittenTable:
    """What a call of write_table has added to a table. Printable.

    rows, bytes: of the new files; files: their paths, relative to the table
    offsets: {topic: {partition: [from, to]}}: the table had the offsets below `from`, and has those below `to` now
    damage: a dict per damaged range that was left out: topic, partition, file, position, length, lost_from, lost_to,
        next_position, reason, detail
    notes: what stands in the way of later offsets, which offsets no segment has, what was only counted
    """

    rows: int
    files: tuple[str, ...]
    bytes: int
    offsets: dict[str, dict[int, list[int]]]
    damage: tuple[NamedValues, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        new = [
            f"  {topic}-{number}: {begin} to {end - 1}"
            for topic, each in self.offsets.items()
            for number, (begin, end) in each.items()
            if begin < end
        ]
        rows, files, damage = map(
            planning.counted, (self.rows, len(self.files), len(self.damage)), ("row", "file", "damaged range")
        )
        amount = f"{rows} in {files}, {self.bytes} bytes; {damage}"
        return "\n".join([amount, *new, *(f"  note: {each}" for each in self.notes)])

    __repr__ = __str__


class _Layout(NamedTuple):
    """How a table is written. by: the partition columns; wanted: all columns; helping: those of them that are read for
    the partition columns only; as_text: the value is a string."""

    by: tuple[str, ...]
    wanted: Columns
    helping: tuple[str, ...]
    compression: str
    as_text: bool

    @property
    def table_schema(self) -> NamedValues:
        """What all commits of a table have in common."""
        kept = [each for each in self.wanted if each.name not in self.helping]
        types = [(each.name, "string" if self.as_text and each.name == "value" else each.type) for each in kept]
        return {"partition_by": list(self.by), "columns": [f"{name} {kind}" for name, kind in sorted(types)]}


class _Plan(NamedTuple):
    """tasks: none if there is nothing to write. starts, ends: of what is written. table_starts, table_ends: the same of
    what the table has."""

    job: WriteJob
    tasks: Tasks
    follows: str | None
    table_starts: Offsets
    table_ends: Offsets
    starts: Offsets
    ends: Offsets
    notes: list[str]


def write_table(
    spark: Any,
    path: Paths,
    out: str | os.PathLike[str],
    *,
    format: str = "parquet",
    partition_by: str | Iterable[str] = ("topic", "date"),
    columns: Sequence[str] | None = None,
    value_as: str | None = None,
    compression: str = "zstd",
    mode: str = "append",
    read_mode: str = "FAILFAST",
    **options: Any,
) -> WrittenTable:
    """Writes the records of logs to a table, a folder of Parquet files; the tasks write them, no row passes the JVM.

    path          files, folders, globs or URLs, as for spark.read.format("kafkarec")
    out           a new folder that driver and executors share, a table that write_table has made, or a URL of one
    format        "parquet"; "iceberg" and "delta" are a ValueError
    partition_by  some of topic, partition, date (the UTC day of the timestamp) and the keys of key=value folders
    columns       as the option of that source: without it key, value, topic, partition, offset, timestamp, ...
    value_as      "utf8": the value is a string, and bytes that are not UTF-8 are a ValueError. None: bytes
    compression   "zstd", "snappy", "gzip", "lz4" or "none"
    mode          "append": what the table lacks, by the offsets of its last commit; "overwrite"; "errorifexists"
    read_mode     the source's option mode. "FAILFAST": damage fails the job. "PERMISSIVE", "DROPMALFORMED": it is left
                  out, and stands in the result and in <out>/_quarantine, as JSON Lines
    options       of that source, as Python values: subscribe="orders", isolationLevel="read_committed", ...

    All of a call is in the table, or nothing. DataLoss where a log ends before the table's end, or begins after it:
    failOnDataLoss=False continues with the records that exist. Conflict if another job has changed the table meanwhile.

    >>> write_table(spark, "tests/vectors/segments", "table", subscribe="txn").offsets
    {'txn': {0: [0, 293]}}
    """
    began = time.monotonic()
    _check_arguments(format, value_as, compression, mode)
    out = os.fspath(out)
    chosen = read_options(spark, path, {**options, "columns": columns, "mode": read_mode}, "write_table")
    cluster.ship(spark)
    log_to_stderr()
    found = cluster.call_where_files_are(spark, key_types, chosen)
    by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    layout = _layout(chosen, found, by, compression, value_as is not None)
    plan: _Plan = cluster.call_where_files_are(spark, _plan_and_begin, chosen, layout, out, mode)
    try:
        body = partial(_stage_rows, plan.job, chosen, layout)
        what = f" to {display_url(plan.job.path)!r}"
        results = run_tasks(spark, "write_table", plan.tasks, chosen, body, what)
        written: WrittenTable = cluster.call_where_files_are(spark, _commit, plan, layout, results)
    except BaseException:
        cluster.call_where_files_are(spark, _abort, plan.job)
        raise
    damaged = sum(row["damaged"] for each in results for row in each["rows"])
    amount = written.rows, len(written.files), written.bytes, damaged, time.monotonic() - began
    text = "kafkarec write_table table=%s rows=%d files=%d bytes=%d damaged=%d seconds=%.3f"
    logger.info(text, display_url(plan.job.path), *amount)
    return written


def _check_arguments(format: str, value_as: str | None, compression: str, mode: str) -> None:
    if format in ("iceberg", "delta"):
        raise ValueError(f"write_table does not write format={format!r} yet; format='parquet' is a folder of files")
    if mode.upper() in DAMAGE_MODES:
        raise ValueError(f"mode is what happens to the table: {', '.join(MODES)}. For damage set read_mode={mode!r}")
    for name, value, valid in (
        ("format", format, ("parquet",)),
        ("value_as", value_as, (None, "utf8")),
        ("compression", compression, CODECS),
        ("mode", mode, MODES),
    ):
        if value not in valid:
            raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(str, valid))}")


def _layout(chosen: ReadOptions, found: Any, by: tuple[str, ...], compression: str, as_text: bool) -> _Layout:
    key_names = [name for name, _ in found]
    known = dict.fromkeys(("topic", "partition", DATE, *key_names))
    if not set(by) <= known.keys() or len(set(by)) < len(by):
        raise ValueError(f"partition_by={by!r}: must be some of {', '.join(known)}, each once")
    hidden = [name for name in by if name.startswith(("_", "."))]
    if hidden:
        raise ValueError(f"partition_by={by!r}: readers ignore folders whose names begin with {hidden[0][0]!r}")
    wanted = columns.select_columns(chosen, found)
    names = [each.name for each in wanted]
    if not set(names) - set(by):
        raise ValueError(f"columns={names!r}: partition_by={by!r} leaves none of them for the files")
    if as_text and "value" not in names:
        raise ValueError("value_as is for the column value, which is not among the columns")
    helping = ("timestamp",) if DATE in by and DATE not in key_names and "timestamp" not in names else ()
    read = tuple(each for each in columns.RECORDS if each.name in helping)
    return _Layout(by, wanted + read, helping, compression, as_text)


# ---- on the driver, or with Spark Connect in a task ---------------------------------------------------------------


def _plan_and_begin(chosen: ReadOptions, layout: _Layout, out: str, mode: str) -> _Plan:
    storage = chosen.storageOptions
    target = publishing.resolve_table(out, storage)
    if (place := distributed.local_path(target)) is not None:
        distributed.demand_apart(given_paths(chosen), place, f"table {target}")
    publisher = publishing.Publisher(target, storage)
    table = publisher.finish_and_read_table()
    if table and mode == "errorifexists":
        raise ValueError(f"{target} is a table already; mode 'append' adds what it lacks, 'overwrite' replaces it")
    if table and mode == "append":
        for name, value in layout.table_schema.items():
            if table[name] != value:
                was, wanted = (", ".join(each) or "nothing" for each in (table[name], value))
                raise ValueError(
                    f"{target} was written with {name} {was}; not with {wanted}. Give the same, or mode 'overwrite'"
                )
    kept = {} if mode == "overwrite" else table
    table_ends = offsets_from_json(kept.get("offsets", {}))
    table_starts = {**dict.fromkeys(table_ends, 0), **offsets_from_json(kept.get("starts", {}))}
    overwrite = "static" if mode == "overwrite" else None
    job = WriteJob(target, uuid4().hex, overwrite, WriteOptions(storageOptions=storage))
    listing = Listing(chosen)

    def plan_listed(found: Partitions) -> _Plan:
        empty = _Plan(job, [], table.get("job"), table_starts, table_ends, {}, {}, [])
        return _plan_partitions(chosen, empty, batch.select_and_warn(listing, found))

    plan = listing.retry(plan_listed)
    columns.check_key_values((split for task in plan.tasks for split in task), layout.wanted)
    publisher.begin(job)
    return plan


def _plan_partitions(chosen: ReadOptions, plan: _Plan, listed: Partitions) -> _Plan:
    """What the table lacks: of each partition the offsets from its end there to the log's planned end. DataLoss where
    the log does not have them, unless failOnDataLoss is false."""
    listed = selection.with_ranges(chosen, listed)
    spans = {}
    for key in sorted(listed):
        log, (first, last) = GrowingLog(chosen), listed[key].wanted
        log.update(listed[key])
        begin = max(log.start, first or 0)
        if begin < plan.table_starts.get(key, 0):
            plan.notes.append(
                f"{key[0]}-{key[1]}: the table begins at offset {plan.table_starts[key]}, and what is chosen of the "
                f"log at {begin}: append does not go back; mode='overwrite' writes all of it"
            )
        if key in plan.table_ends:
            begin = log.clamp_reporting_loss(plan.table_ends[key], "the table ends at")
        stable = log.stable_end(begin)
        end = max(begin, stable if last is None else min(stable, last))
        plan.starts[key], plan.ends[key] = begin, end
        if stable < log.end and end == max(begin, stable):
            plan.notes.append(
                f"{key[0]}-{key[1]}: a transaction is open since offset {stable}, and read_committed ends there; the "
                f"log ends at {log.end}. While it is open no later offset is written; kafkarec txn says if it hangs"
            )
        spans[key] = log, begin, end
    for note in plan.notes:
        logger.warning("kafkarec write_table: %s", note)
    plan.notes.extend(log.waiting[1] for log, _, _ in spans.values() if log.waiting)  # which it has logged
    return plan._replace(tasks=planning.group_into_tasks(chosen, growing_log.plan_splits(chosen, spans)))


def _commit(plan: _Plan, layout: _Layout, results: Sequence[NamedValues]) -> WrittenTable:
    """Commits what the tasks have staged. results: of `_stage_rows`"""
    files, counts = ([one for each in results for one in each[name]] for name in ("files", "rows"))
    damage, gaps = [*damaged_ranges(counts)], [*chain.from_iterable(map(gap_texts, counts))]
    names = [path.partition("/")[2].removesuffix(STAGED) for path, _, _ in files]  # without the folder of the attempt
    publisher = publishing.publisher(plan.job)
    offsets, starts = {**plan.table_ends, **plan.ends}, {**plan.starts, **plan.table_starts}
    if not plan.tasks and offsets == plan.table_ends and plan.follows is not None and not plan.job.overwrite:
        publisher.abort(plan.job)
    else:
        moved = [(path, name) for (path, _, _), name in zip(files, names, strict=True)]
        if damage:
            lines = "".join(f"{json.dumps(row)}\n" for row in damage)
            publisher.store.put(f"{staging_folder(plan.job.job_id)}/damage.json", lines.encode())
            moved.append(("damage.json", f"{QUARANTINE}/{plan.job.job_id}.json"))
        spans = {"starts": offsets_to_json(starts), "offsets": offsets_to_json(offsets)}
        publisher.commit_table(plan.job, plan.follows, moved, layout.table_schema | spans)
    notes = [*plan.notes, *gaps[:MOST_GAPS]]
    if len(gaps) > MOST_GAPS:
        notes.append(f"{len(gaps) - MOST_GAPS} more gaps between segments")
    more = sum(each["damaged"] for each in counts) - len(damage)
    if more:
        notes.append(f"{more} more damaged ranges, which were only counted")
    written: dict[str, dict[int, list[int]]] = {}
    for (topic, number), end in plan.ends.items():
        written.setdefault(topic, {})[number] = [plan.starts[topic, number], end]
    rows, size = (sum(each[at] for each in files) for at in (1, 2))
    return WrittenTable(rows, tuple(names), size, written, tuple(damage), tuple(notes))


def _abort(job: WriteJob) -> None:
    publishing.publisher(job).abort(job)


# ---- in a task -----------------------------------------------------------------------------------------------------


def _stage_rows(job: WriteJob, chosen: ReadOptions, layout: _Layout, splits: Splits) -> NamedValues:
    """Stages the rows of splits; returns the files (path, rows, bytes), and the rows of TaskCounters."""
    name = attempt_name(*task_and_attempt())
    store = publishing.publisher(job).store
    with store.attempt_folder(job, name) as folder:
        parquet = distributed.PartitionedFiles(
            folder,
            layout.by,
            name=f"part-{job.job_id[:8]}-{name}",
            suffix=STAGED,
            compression=layout.compression,
            leave_out=layout.helping,
        )
        with closing(TaskCounters("write_table")) as counters:
            try:
                for split in splits:
                    values = {**dict(split.keys), "topic": split.topic, "partition": split.partition}
                    for rows in reading.read_split(split, chosen, layout.wanted, counters):
                        parquet.add(_with_text(rows, split) if layout.as_text else rows, values)
                written = parquet.close()
            finally:
                parquet.drop()
    files = [(f"{name}/{each.path}", each.rows, each.size) for each in written]
    return {"files": files, "rows": counters.rows}


def _with_text(rows: Any, split: Split) -> Any:
    """The rows with the value as a string. ValueError for one that is not UTF-8."""
    import pyarrow as pa  # type: ignore[import-untyped]

    at = rows.schema.get_field_index("value")
    try:
        return rows.set_column(at, "value", rows.column(at).cast(pa.string()))
    except pa.ArrowInvalid:
        for number, value in enumerate(rows.column(at)):
            try:
                (value.as_py() or b"").decode()
            except UnicodeDecodeError as error:
                offsets = rows.schema.get_field_index("offset")
                where = f", offset {rows.column(offsets)[number]}" if offsets >= 0 else ""
                raise ValueError(
                    f"{split.topic}-{split.partition}{where}: byte {error.start} of the value is not UTF-8, as "
                    f"value_as='utf8' needs; without value_as values are bytes"
                ) from None
        raise  # Arrow and Python differ about UTF-8
