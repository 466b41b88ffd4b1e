"""In a task: reads splits as Arrow record batches with exactly Spark's schema, damage included.

    from kafkarec         in the record batch
    offset ... headers    the same buffers under Spark's names; only timestampType and headers are converted
    -                     topic, partition, file: one repeated value
    damage                PERMISSIVE: a row of nulls with position and reason, if the column for it is selected

One file is open at a time, one piece (8 MiB of payload and the batch being decompressed) is in memory, one thread runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from operator import le
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs import decoding, schema
from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import report_cause_first
from spark_udfs.schema import Columns, NamedValues, SparkColumn

from . import planning
from .columns import key_values
from .counters import TaskCounters, batches_of, log_range
from .options import ReadOptions
from .paths import display_url, open_segment
from .planning import Split

if TYPE_CHECKING:
    from .counters import Piece


# Larger pieces are no faster. Spark limits the workers' memory only if spark.executor.pyspark.memory is set, and one of
# 512 MiB then has little of it left when it starts.
PIECE_BYTES, LIMITED_PIECE_BYTES = 8 << 20, 4 << 20
LARGEST_BATCH = 64 << 20
OFFSET_COLUMNS = tuple(each for each in schema.RECORD_COLUMNS if each.name == "offset")
# Read if only constant columns are selected: one column is needed for the number of rows.
_CHEAPEST = {"records": "offset", "batches": "position"}
_POSITION = {"records": "batch_position", "batches": "position"}


@report_cause_first
def read_splits(splits: Iterable[Split], options: ReadOptions, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The work of a task: loads kafkarec, reads each split, logs one line, and its error if it fails."""
    with closing(TaskCounters()) as counters:
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
                        _demand_rising(split, counters.next_offset, piece)
                    counters.add_piece(piece, options.includeControl)
                    yield from decoding.split_by_size(rows.batch(piece), LARGEST_BATCH, options.maxRecordsPerBatch)
            counters.add_gap()
            yield from _incomplete_end(part, rows, options, counters)
    except kafkarec.KafkaRecordError as error:
        if not decoding.is_damage(error):
            raise
        if options.mode == "FAILFAST":
            counters.add(damaged=1)
            if not hasattr(error, "__notes__"):
                error.add_note(_advice(split, error, options, counters.what))
            error.add_note(f"{planning.damage_report_call(options)} lists all damage")
            raise
        # not a segment at all, for example an encrypted object
        yield rows.damage_rows([counters.add_unread(str(error.reason), str(error))])


def _demand_rising(split: Split, low: int | None, piece: Piece) -> None:
    """CorruptRecordError if offsets of a piece do not rise from `low`, that after what was read, up to the next
    segment's: no checksum covers a batch's base offset."""
    batches = batches_of(piece)
    if not len(batches):
        return
    positions, bases, lasts, nexts = map(batches.column, ("position", "base_offset", "last_offset", "next_offset"))
    if low is None and split.start_offset is None:
        low = split.first_offset
    firsts = [last if base is None else base for base, last in zip(bases, lasts, strict=True)]
    befores, high = [firsts[0] if low is None else low, *nexts][: len(firsts)], split.next_base_offset
    if not all(map(le, befores, firsts)) or (high is not None and nexts[-1] > high):
        at = next((number for number, offset in enumerate(firsts) if offset < befores[number]), -1)
        raise planning.order_error(split.path, positions[at], firsts[at])


def _incomplete_end(
    part: kafkarec.Segment, rows: _RowBuilder, options: ReadOptions, counters: TaskCounters
) -> Iterator[pa.RecordBatch]:
    """The row of an incomplete batch at the log's end, if endOfLog=strict; in FAILFAST mode its error."""
    incomplete = counters.incomplete_end(part)
    if incomplete is None:
        return
    is_damage = options.endOfLog == "strict"
    counters.add(incomplete=incomplete.length)
    counters.rows[-1]["incomplete_position"] = incomplete.position
    if not is_damage:
        log_range("incomplete batch at the log's end", incomplete)
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


def _advice(split: Split, error: kafkarec.KafkaRecordError, options: ReadOptions, what: str) -> str:
    permissive = _PERMISSIVE
    if what == "write_table":  # its mode is another one, and its rows have no such column
        permissive = "read_mode PERMISSIVE keeps everything else; _quarantine in the table then has the reason"
    if not decoding.is_no_batch(error):
        return permissive
    # who reads the advice needs the damage, and not an error of this look at the file
    with suppress(OSError, kafkarec.KafkaRecordError), open_segment(split.path, options.storageOptions) as opened:
        if opened.raw(0, len(decoding.GZIP)) == decoding.GZIP:
            return f"{decoding.GZIP_FILE_NOTE}; {permissive}"
    return (
        f"the file does not begin as a log segment does. If it is none, a glob such as dir/*.log leaves it out. If its "
        f"first bytes are damaged: {permissive}"
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
        if column.source is not None:
            return decoding.to_spark_type(_one_array(table.column(column.source)), column, wanted)
        if column.name == "_batch_crc":
            batches = pa.table(batches_of(piece))
            positions = _one_array(table.column(self.position_column))
            rows = pc.index_in(positions, value_set=_one_array(batches.column("position")))
            return _one_array(batches.column("crc")).cast(wanted).take(rows)
        return pa.repeat(pa.scalar(self.constants.get(column.name), wanted), count)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
