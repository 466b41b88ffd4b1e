"""In a task: reads splits as Arrow record batches with exactly Spark's schema, damage included.

    from kafkarec         in the record batch
    offset ... headers    the same buffers under Spark's names; only timestampType and headers are converted
    -                     topic, partition, file: one repeated value, made once per task
    damage                PERMISSIVE: a row of nulls with position and reason, if the column for it is selected

One file is open at a time, one piece (4 MiB of payload and the batch being decompressed) is in memory, one thread runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs import bootstrap, decoding, schema
from spark_udfs.schema import SparkColumn
from spark_udfs.task_log import logger
from spark_udfs.worker_errors import cause_first

from . import description, planning
from .columns import key_values
from .log_end import SplitEnd, batches_of
from .options import ReadOptions
from .paths import open_segment, shown
from .planning import Split

if TYPE_CHECKING:
    import kafkarec

    from .log_end import Piece


# Larger pieces are no faster, and a worker of 512 MiB has little memory left when it starts.
PIECE_BYTES = 4 << 20
LARGEST_BATCH = 64 << 20
# Read if only constant columns are selected: one column is needed for the number of rows.
_CHEAPEST = {"records": "offset", "batches": "position"}
_POSITION = {"records": "batch_position", "batches": "position"}


def read_splits(
    splits: Iterable[Split], options: ReadOptions, columns: tuple[SparkColumn, ...]
) -> Iterator[pa.RecordBatch]:
    """The work of a task: loads kafkarec, reads each split, logs its error if it fails, and then one line."""
    with closing(TaskCounters()) as counters:
        yield from _read_splits(splits, options, columns, counters)


@cause_first
def _read_splits(
    splits: Iterable[Split], options: ReadOptions, columns: tuple[SparkColumn, ...], counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    bootstrap.load()
    for split in splits:
        yield from read_split(split, options, columns, counters)


def read_split(
    split: Split, options: ReadOptions, columns: tuple[SparkColumn, ...], counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    """The record batches of one split, of at most 64 MiB and maxRecordsPerBatch rows, in the file's order.

    FAILFAST: yields all records before the damage, then raises KafkaRecordError. An incomplete batch at the log's end
    is damage if endOfLog=strict, otherwise it is logged. DataLoss if the file was replaced, removed or truncated since
    it was planned, unless failOnDataLoss is false.
    """
    import kafkarec

    rows = _RowBuilder(split, options, columns)
    try:
        with planning.opened(options, split) as part:
            if part is None:
                return
            counters.add_split(split)
            end = SplitEnd(part, split)
            with closing(pieces(part, split, options, rows.sources)) as decoded:
                for piece in decoded:
                    counters.add_piece(piece)
                    end.add(piece)
                    _check_next_folder(piece, split)
                    yield from decoding.cut(rows.batch(piece), LARGEST_BATCH, options.maxRecordsPerBatch)
            counters.log_gap(end)
            yield from _incomplete_end(end, rows, options, counters)
    except kafkarec.KafkaRecordError as error:
        if not decoding.is_damage(error):
            raise
        if options.mode == "FAILFAST":
            counters.add(0, 0, 0, damaged=1)
            if not hasattr(error, "__notes__"):
                error.add_note(_advice(split, error, options))
            error.add_note(f"{description.damage_report_of(options)} lists all damage")
            raise
        size, reason = (split.end or split.begin) - split.begin, str(error.reason)
        # not a segment at all, for example an encrypted object
        lost = kafkarec.Damage(split.path, split.begin, size, None, None, split.begin + size, reason, str(error))
        counters.add_damage(lost)
        yield rows.damage_only([lost])


def _incomplete_end(
    end: SplitEnd, rows: _RowBuilder, options: ReadOptions, counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    """The row of an incomplete batch at the log's end, if endOfLog=strict; in FAILFAST mode its error."""
    incomplete = end.incomplete()
    if incomplete is None:
        return
    is_damage = options.endOfLog == "strict"
    counters.add_incomplete(incomplete, is_logged=not is_damage)
    if not is_damage:
        return
    if options.mode == "FAILFAST":
        error = decoding.error_of(incomplete)
        error.add_note(f"endOfLog=tail, the default, ends before it: a broker may be writing there; {_PERMISSIVE}")
        raise error
    counters.add_damage(incomplete)
    yield rows.damage_only([incomplete])


def pieces(part: kafkarec.Segment, split: Split, options: ReadOptions, sources: list[str]) -> Generator[Piece]:
    """The records (view=batches: the batches) of a split in these bytes. sources: the columns that kafkarec decodes."""
    wanted: dict[str, Any] = {"start_offset": split.start_offset, "end_offset": split.end_offset}
    if options.view == "batches":
        yield from part.scan_pieces(errors=options.errors, **wanted)
        return
    if split.uncommitted is not None:
        wanted |= {"isolation": "read_committed", "last_stable_offset": split.uncommitted.last_stable_offset}
        wanted["aborted"] = split.uncommitted.aborted  # with the markers' offsets, so no scan for markers is needed
    yield from part.stream(
        **wanted,
        batch_bytes=PIECE_BYTES,
        columns=sources,
        control=options.includeControl,
        check_crcs=options.checkCrcs,
        errors=options.errors,
        restore=options.restore,
        max_decompressed_bytes=options.maxDecompressedBytes,
        timestamp_unit="us",
    )


def _check_next_folder(piece: Piece, split: Split) -> None:
    """ValueError if the segment has offsets that the next segment, of another folder, has too."""
    if split.followed_by is None:
        return
    from kafkarec import distributed

    path, base = split.followed_by
    end = max(batches_of(piece).column("next_offset"), default=base)
    if end > base:
        spans = (shown(split.path), f"up to {end - 1}"), (shown(path), f"from {base} on")
        raise distributed.overlap(f"{split.topic}-{split.partition}", *spans)


_PERMISSIVE = "mode PERMISSIVE keeps everything else; the column columnNameOfCorruptRecord then has the reason"


def _advice(split: Split, error: kafkarec.KafkaRecordError, options: ReadOptions) -> str:
    if not decoding.begins_without_batch(error):
        return _PERMISSIVE
    with open_segment(split.path, options) as opened:
        is_gzip = opened.raw(0, len(decoding.GZIP)) == decoding.GZIP
    if is_gzip:
        return f"the file is compressed by gzip, and is read if its name ends in .log.gz; {_PERMISSIVE}"
    return (
        f"the file does not begin as a log segment does. If it is none, a glob such as dir/*.log leaves it out. If its "
        f"first bytes are damaged: {_PERMISSIVE}"
    )


class _RowBuilder:
    """Makes record batches of one schema from the pieces of a split. `sources`: the columns that kafkarec decodes."""

    def __init__(self, split: Split, options: ReadOptions, columns: tuple[SparkColumn, ...]) -> None:
        self.columns = columns
        self.schema = pa.schema(list(schema.arrow_struct(columns)))
        self.corrupt = options.columnNameOfCorruptRecord
        self.position_column = _POSITION[options.view]
        self.has_reasons = options.mode == "PERMISSIVE" and self.corrupt in self.schema.names
        path = shown(split.path)
        self.constants = {
            "topic": split.topic,
            "partition": split.partition,
            "file": path,
            "_file_path": path,
            **key_values(split.keys, columns, path),
        }
        self.repeated: dict[tuple[str, Any], pa.Array] = {}
        sources = schema.sources(columns)
        if (self.has_reasons or "_batch_crc" in self.schema.names) and self.position_column not in sources:
            sources.append(self.position_column)
        self.sources = sources or [_CHEAPEST[options.view]]

    def batch(self, piece: Piece) -> pa.RecordBatch:
        """The rows of one piece, with a row for each damaged range in its place."""
        table = pa.table(piece).combine_chunks()
        count = len(table)
        arrays = [self._array(column, table, piece, count) for column in self.columns]
        if self.has_reasons and piece.damage:
            positions = table.column(self.position_column)
            indices = [pc.sum(pc.less(positions, each.position)).as_py() or 0 for each in piece.damage]
            rows = self.damage_only(piece.damage)
            arrays = [decoding.insert(array, indices, rows.column(at)) for at, array in enumerate(arrays)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def damage_only(self, damage: Iterable[kafkarec.Damage]) -> pa.RecordBatch:
        """A row for each damaged range: position and reason; all other columns are null."""
        if not self.has_reasons:
            return pa.RecordBatch.from_pylist([], self.schema)
        values = [
            self.constants
            | {"_file_position": each.position, "position": each.position, self.corrupt: decoding.corrupt_text(each)}
            for each in damage
        ]
        rows = [{name: each.get(name) for name in self.schema.names} for each in values]
        return pa.RecordBatch.from_pylist(rows, self.schema)

    def _array(self, column: SparkColumn, table: pa.Table, piece: Piece, count: int) -> pa.Array:
        wanted = schema.arrow_type(column.type)
        if column.source == "timestamp_type" and self.position_column == _POSITION["records"]:
            types = set(batches_of(piece).column("timestamp_type"))
            if len(types) == 1:  # nearly always one value for all records
                type_ = types.pop()
                value = schema.NO_TIMESTAMP_TYPE if type_ is None else int(type_)
                return self._repeated(column.name, value, wanted, count)
        if column.source is not None:
            return decoding.convert(_one_array(table.column(column.source)), column, wanted)
        if column.name == "_batch_crc":
            return _crc_of_each_record(batches_of(piece), _one_array(table.column(self.position_column)), wanted)
        return self._repeated(column.name, self.constants.get(column.name), wanted, count)

    def _repeated(self, name: str, value: Any, wanted: pa.DataType, count: int) -> pa.Array:
        made = self.repeated.get((name, value))
        if made is None or len(made) < count:
            made = self.repeated[name, value] = pa.repeat(pa.scalar(value, wanted), count)
        return made.slice(0, count)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _crc_of_each_record(batches: kafkarec.BatchTable, positions: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The checksum of each record's batch."""
    table = pa.table(batches)
    rows = pc.index_in(positions, value_set=_one_array(table.column("position")))
    return _one_array(table.column("crc")).cast(wanted).take(rows)


class TaskCounters:
    """Counts what a task has read, for one line in the executor's log. what: the verb of that line.

    .on_damage   called with each damaged range
    """

    def __init__(self, what: str = "read") -> None:
        self.what = what
        self.on_damage: Callable[[kafkarec.Damage], object] | None = None
        self.paths: dict[str, None] = {}
        self.gaps: list[str] = []
        self.bytes = self.batches = self.records = self.damaged = self.incomplete = 0
        self.started = time.monotonic()

    def add_split(self, split: Split) -> None:
        self.paths[shown(split.path)] = None

    def add_piece(self, piece: Piece) -> None:
        batches = batches_of(piece)
        records = sum(filter(None, batches.column("record_count"))) if batches is piece else len(piece)
        self.add(sum(batches.column("size_in_bytes")), len(batches), records)
        for each in piece.damage:
            self.add_damage(each)

    def add(self, size: int, batches: int, records: int, damaged: int = 0) -> None:
        self.bytes += size
        self.batches += batches
        self.records += records
        self.damaged += damaged

    def add_damage(self, damage: kafkarec.Damage) -> None:
        self.damaged += 1
        self.bytes += damage.length
        if self.damaged <= 100:  # a completely damaged disk must not fill the log
            _warn("damaged", damage)
        if self.on_damage is not None:
            self.on_damage(damage)

    def add_incomplete(self, damage: kafkarec.Damage, is_logged: bool = True) -> None:
        """Counts the bytes of an incomplete batch at a log's end; logs it unless it is logged as damage."""
        self.incomplete += damage.length
        if is_logged:
            _warn("incomplete batch at the log's end", damage)

    def log_gap(self, end: SplitEnd) -> None:
        gap = end.gap()
        if gap is not None:
            self.gaps.append(f"{shown(gap.file or '')}: {gap.detail}")
            _warn("missing offsets", gap)

    def missing(self) -> list[str]:
        """What is missing in what was read, a clause for each gap and one for all damage."""
        ranges = "1 damaged range is" if self.damaged == 1 else f"{self.damaged} damaged ranges are"
        return self.gaps + ([f"{', '.join(self.paths)}: {ranges} left out"] if self.damaged else [])

    def close(self) -> None:
        """Logs the line."""
        seconds = time.monotonic() - self.started
        first = next(iter(self.paths), "nothing")
        logger.info(
            "kafkarec %s files=%d bytes=%d batches=%d records=%d damaged=%d incomplete=%d seconds=%.3f first=%s",
            self.what,
            len(self.paths),
            self.bytes,
            self.batches,
            self.records,
            self.damaged,
            self.incomplete,
            seconds,
            first,
        )


def _warn(what: str, damage: kafkarec.Damage) -> None:
    fields = {"path": damage.file} | {name: getattr(damage, name) for name in decoding.REASON_FIELDS}
    logger.warning("%s: %s", what, json.dumps(fields))
