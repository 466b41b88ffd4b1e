"""In a task: reads splits as Arrow record batches with exactly Spark's schema, damage included.

    from kafkarec         in the record batch
    offset ... headers    the same buffers under Spark's names; only timestampType and headers are converted
    -                     topic, partition, file: one repeated value, made once per task
    damage                PERMISSIVE: a row of nulls with position and reason, if the column for it is selected

One file is open at a time, one piece (8 MiB of payload and the batch being decompressed) is in memory, one thread runs.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs import decoding, schema
from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import logger, report_cause_first
from spark_udfs.schema import Columns, NamedValues, SparkColumn

from . import planning
from .columns import key_values
from .log_end import GAP, SplitEnd, batches_of
from .options import ReadOptions
from .paths import display_url, open_segment
from .planning import Split

if TYPE_CHECKING:
    from .log_end import Piece


# Larger pieces are no faster. Spark limits the workers' memory only if spark.executor.pyspark.memory is set, and one of
# 512 MiB then has little of it left when it starts.
PIECE_BYTES, LIMITED_PIECE_BYTES = 8 << 20, 4 << 20
LARGEST_BATCH = 64 << 20
# Per task, so that the ranges of a completely damaged disk fit in the driver's memory; further ones are only counted.
MOST_RANGES = 10_000
# What is counted of a split; COUNTS are added up over the splits of a file.
COUNTS = (
    "bytes",
    "batches",
    "records",
    "control_records",
    "damaged",
    "damaged_bytes",
    "remaining",
    "incomplete",
    "missing_offsets",
)
OF_THE_LAST = ("incomplete_position", "last_offset")
OFFSET_COLUMNS = tuple(each for each in schema.RECORD_COLUMNS if each.name == "offset")
# Read if only constant columns are selected: one column is needed for the number of rows.
_CHEAPEST = {"records": "offset", "batches": "position"}
_POSITION = {"records": "batch_position", "batches": "position"}


def read_splits(splits: Iterable[Split], options: ReadOptions, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The work of a task: loads kafkarec, reads each split, logs its error if it fails, and then one line."""
    with closing(TaskCounters()) as counters:
        yield from _read_splits(splits, options, columns, counters)


@report_cause_first
def _read_splits(
    splits: Iterable[Split], options: ReadOptions, columns: Columns, counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from read_split(split, options, columns, counters)


def read_split(
    split: Split, options: ReadOptions, columns: Columns, counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    """The record batches of one split, of at most 64 MiB and maxRecordsPerBatch rows, in the file's order.

    FAILFAST: yields all records before the damage, then raises KafkaRecordError. An incomplete batch at the log's end
    is damage if endOfLog=strict, otherwise it is logged. DataLoss if the file was replaced, removed or truncated since
    it was planned, unless failOnDataLoss is false. ValueError if the next segment, of another folder, has its offsets.
    """
    rows = _RowBuilder(split, options, columns)
    counters.add_split(split)
    try:
        with planning.opened_split(options, split) as part:
            if part is None:
                return
            end = SplitEnd(part, split)
            if split.context is not None:
                counters.add(bytes=split.context - split.begin)  # not counted twice
            with closing(read_pieces(part, split, options, rows.sources)) as decoded:
                for piece in decoded:
                    piece = rows.without_context(piece)
                    if split.followed_by is not None:  # the next segment, of another folder, may have the same offsets
                        path, base = split.followed_by
                        last = max(batches_of(piece).column("next_offset"), default=base)
                        if last > base:
                            spans = (
                                (display_url(split.path), f"up to {last - 1}"),
                                (display_url(path), f"from {base} on"),
                            )
                            raise distributed.overlap(f"{split.topic}-{split.partition}", *spans)
                    if split.must_rise and options.mode == "FAILFAST":
                        end.demand_rising(piece)
                    counters.add_piece(piece, options.includeControl)
                    end.add(piece)
                    yield from decoding.split_by_size(rows.batch(piece), LARGEST_BATCH, options.maxRecordsPerBatch)
            counters.add_end(end)
            yield from _incomplete_end(end, rows, options, counters)
    except kafkarec.KafkaRecordError as error:
        if not decoding.is_damage(error):
            raise
        if options.mode == "FAILFAST":
            counters.add(damaged=1)
            if not hasattr(error, "__notes__"):
                error.add_note(_advice(split, error, options))
            error.add_note(f"{planning.damage_report_call(options)} lists all damage")
            raise
        # not a segment at all, for example an encrypted object
        yield rows.damage_rows([counters.add_unread(split, str(error.reason), str(error))])


def _incomplete_end(
    end: SplitEnd, rows: _RowBuilder, options: ReadOptions, counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    """The row of an incomplete batch at the log's end, if endOfLog=strict; in FAILFAST mode its error."""
    incomplete = end.incomplete_end()
    if incomplete is None:
        return
    is_damage = options.endOfLog == "strict"
    counters.add(incomplete=incomplete.length)
    counters.rows[-1]["incomplete_position"] = incomplete.position
    if not is_damage:
        _warn("incomplete batch at the log's end", incomplete)
        return
    counters.add(remaining=-incomplete.length, bytes=-incomplete.length)
    if options.mode == "FAILFAST":
        error = decoding.incomplete_batch_error(incomplete)
        error.add_note(f"endOfLog=tail, the default, ends before it: a broker may be writing there; {_PERMISSIVE}")
        raise error
    counters.add_damage(incomplete)
    yield rows.damage_rows([incomplete])


def read_pieces(part: kafkarec.Segment, split: Split, options: ReadOptions, sources: list[str]) -> Generator[Piece]:
    """The records (view=batches: the batches) of a split in these bytes. sources: the columns that kafkarec decodes."""
    import resource  # not at the top: a Spark Connect client on a system without it imports this module

    wanted: NamedValues = {"start_offset": split.start_offset, "end_offset": split.end_offset}
    if options.view == "batches":
        yield from part.scan_pieces(errors=options.errors, **wanted)
        return
    if options.is_read_committed:
        wanted |= {"isolation": "read_committed", "last_stable_offset": split.uncommitted.last_stable_offset}
        wanted["aborted"] = split.uncommitted.aborted  # with the markers' offsets, so no scan for markers is needed
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    yield from part.stream(
        **wanted,
        batch_bytes=LIMITED_PIECE_BYTES if is_limited else PIECE_BYTES,
        columns=sources,
        control=options.includeControl,
        check_crcs=options.checkCrcs,
        errors=options.errors,
        restore=options.restore,
        max_decompressed_bytes=options.maxDecompressedBytes,
        timestamp_unit="us",
    )


_PERMISSIVE = "mode PERMISSIVE keeps everything else; the column columnNameOfCorruptRecord then has the reason"


def _advice(split: Split, error: kafkarec.KafkaRecordError, options: ReadOptions) -> str:
    if not decoding.is_no_batch(error):
        return _PERMISSIVE
    with open_segment(split.path, options.storageOptions) as opened:
        is_gzip = opened.raw(0, len(decoding.GZIP)) == decoding.GZIP
    if is_gzip:
        return f"{decoding.GZIP_FILE_NOTE}; {_PERMISSIVE}"
    return (
        f"the file does not begin as a log segment does. If it is none, a glob such as dir/*.log leaves it out. If its "
        f"first bytes are damaged: {_PERMISSIVE}"
    )


class _RowBuilder:
    """Makes record batches of one schema from the pieces of a split. `sources`: the columns that kafkarec decodes."""

    def __init__(self, split: Split, options: ReadOptions, columns: Columns) -> None:
        self.split, self.columns = split, columns
        self.schema = pa.schema(list(schema.arrow_struct(columns)))
        self.corrupt = options.columnNameOfCorruptRecord
        self.position_column = _POSITION[options.view]
        self.has_reasons = options.mode == "PERMISSIVE" and self.corrupt in self.schema.names
        path = display_url(split.path)
        self.constants = {
            "topic": split.topic,
            "partition": split.partition,
            "file": path,
            "_file_path": path,
            **key_values(split.keys, columns, path),
        }
        self.repeated: dict[tuple[str, Any], pa.Array] = {}
        sources = schema.kafkarec_names(columns)
        has_positions = self.has_reasons or "_batch_crc" in self.schema.names or split.context is not None
        if has_positions and self.position_column not in sources:
            sources.append(self.position_column)
        self.sources = sources or [_CHEAPEST[options.view]]

    def without_context(self, piece: Piece) -> Piece:
        """Without the records of batches before the split, which were read for what they prove."""
        if self.split.context is None:
            return piece
        return piece[sum(position < self.split.begin for position in piece.column(self.position_column)) :]

    def batch(self, piece: Piece) -> pa.RecordBatch:
        """The rows of one piece, with a row for each damaged range in its place."""
        table, count = pa.table(piece), len(piece)
        arrays = [self._column_array(column, table, piece, count) for column in self.columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not self.has_reasons or not piece.damage:
            return batch
        positions = table.column(self.position_column)
        indices = [pc.sum(pc.less(positions, each.position)).as_py() or 0 for each in piece.damage]
        damaged = self.damage_rows(piece.damage).to_struct_array()
        return pa.RecordBatch.from_struct_array(decoding.with_rows_inserted(batch.to_struct_array(), indices, damaged))

    def damage_rows(self, damage: Iterable[kafkarec.Damage]) -> pa.RecordBatch:
        """A row for each damaged range: position and reason; all other columns are null."""
        if not self.has_reasons:
            return pa.RecordBatch.from_pylist([], self.schema)
        rows = [
            self.constants
            | {
                "_file_position": each.position,
                "position": each.position,
                self.corrupt: decoding.corrupt_record_json(each),
            }
            for each in damage
        ]
        return pa.RecordBatch.from_pylist(rows, self.schema)

    def _column_array(self, column: SparkColumn, table: pa.Table, piece: Piece, count: int) -> pa.Array:
        wanted = schema.arrow_type(column.type)
        if column.source == "timestamp_type" and self.position_column == _POSITION["records"]:
            types = set(batches_of(piece).column("timestamp_type"))
            if len(types) == 1:  # nearly always one value for all records
                type_ = types.pop()
                value = schema.NO_TIMESTAMP_TYPE if type_ is None else int(type_)
                return self._repeated(column.name, value, wanted, count)
        if column.source is not None:
            return decoding.to_spark_type(_one_array(table.column(column.source)), column, wanted)
        if column.name == "_batch_crc":
            batches = pa.table(batches_of(piece))
            positions = _one_array(table.column(self.position_column))
            rows = pc.index_in(positions, value_set=_one_array(batches.column("position")))
            return _one_array(batches.column("crc")).cast(wanted).take(rows)
        return self._repeated(column.name, self.constants.get(column.name), wanted, count)

    def _repeated(self, name: str, value: Any, wanted: pa.DataType, count: int) -> pa.Array:
        made = self.repeated.get((name, value))
        if made is None or len(made) < count:
            made = self.repeated[name, value] = pa.repeat(pa.scalar(value, wanted), count)
        return made.slice(0, count)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


class TaskCounters:
    """What a task has read, for its result and for one line in the executor's log. what: the verb of that line.

    rows: of each split topic, partition, file, keys, begin; COUNTS and OF_THE_LAST, as in damage.DamageReport, but
        `records` with those of control batches if they are read; ranges: the damaged ones and missing offsets, with
        decoding.REASON_FIELDS
    """

    def __init__(self, what: str = "read") -> None:
        self.what = what
        self.rows: list[NamedValues] = []
        self.damaged, self.started = 0, time.monotonic()

    def add_split(self, split: Split) -> None:
        """Begins the row of a split."""
        row = {"topic": split.topic, "partition": split.partition, "file": display_url(split.path), "keys": split.keys}
        counts = {**dict.fromkeys(COUNTS, 0), **dict.fromkeys(OF_THE_LAST)}
        self.rows.append({**row, **counts, "begin": split.begin, "ranges": []})

    def add(self, **counts: int) -> None:
        for name, number in counts.items():
            self.rows[-1][name] += number

    def add_piece(self, piece: Piece, has_control: bool) -> None:
        batches = batches_of(piece)
        records = sum(filter(None, batches.column("record_count"))) if batches is piece else len(piece)
        if has_control:
            control = compress(batches.column("record_count"), batches.column("is_control"))
            self.add(control_records=sum(filter(None, control)))
        size = sum(batches.column("size_in_bytes")) + piece.remaining
        self.add(batches=len(batches), records=records, remaining=piece.remaining, bytes=size)
        for each in piece.damage:
            self.add_damage(each)

    def add_damage(self, damage: kafkarec.Damage) -> None:
        self.add(damaged=1, damaged_bytes=damage.length, bytes=damage.length)
        self.damaged += 1
        if self.damaged <= 100:  # a completely damaged disk must not fill the log
            _warn("damaged", damage)
        self._list_range(damage)

    def add_unread(self, split: Split, reason: str, why: str) -> kafkarec.Damage:
        """Adds what was not read of a split as damage."""
        begin = split.begin + self.rows[-1]["bytes"]
        length = max(0, (begin if split.end is None else split.end) - begin)
        rest = kafkarec.Damage(split.path, begin, length, None, None, begin + length, reason, why)
        self.add_damage(rest)
        return rest

    def add_end(self, end: SplitEnd) -> None:
        """Adds the last offset, and the missing ones after it, which are logged."""
        self.rows[-1]["last_offset"] = end.last_offset
        gap = end.gap()
        if gap is not None:
            self.add(missing_offsets=(gap.lost_to or 0) - (gap.lost_from or 0) + 1)
            self._list_range(gap)
            _warn("missing offsets", gap)

    def _list_range(self, damage: kafkarec.Damage) -> None:
        if self.damaged <= MOST_RANGES or damage.reason == GAP:
            self.rows[-1]["ranges"].append(decoding.reason_values(damage))

    def damage(self) -> list[NamedValues]:
        """The damaged ranges of all splits, each with topic, partition and file."""
        return [
            {name: row[name] for name in ("topic", "partition", "file")} | each
            for row in self.rows
            for each in row["ranges"]
            if each["reason"] != GAP
        ]

    def gap_texts(self) -> list[str]:
        """A clause for the missing offsets behind each split."""
        return [
            f"{row['file']}: {each['detail']}" for row in self.rows for each in row["ranges"] if each["reason"] == GAP
        ]

    def close(self) -> None:
        """Logs the line."""
        files = dict.fromkeys(row["file"] for row in self.rows)
        counts = " ".join(
            f"{name}={sum(row[name] for row in self.rows)}"
            for name in ("bytes", "batches", "records", "damaged", "incomplete")
        )
        seconds, first = time.monotonic() - self.started, next(iter(files), "nothing")
        logger.info("kafkarec %s files=%d %s seconds=%.3f first=%s", self.what, len(files), counts, seconds, first)


def _warn(what: str, damage: kafkarec.Damage) -> None:
    logger.warning("%s: %s", what, decoding.corrupt_record_json(damage))
