"""`kafkarec build`: segments and batches from JSON Lines, CSV, Arrow IPC and Parquet.

A batch ends where a header field changes (producer, epoch, codec, ...), where `base_offset` changes, or where
--batch-size is reached (RecordInput.write_full_batch). So the columns of `cat --columns base_offset,producer_id,...`
reproduce the original batches. Without `base_offset` each control record is a separate batch, and a batch ends where
the log append time changes.

| field | from |
|---|---|
| magic, compression | the option, else the column, else Kafka's default |
| timestamp type, leader epoch, producer | the column, else Kafka's default |
| magic | 0 where timestamp_type and timestamp are null and there are no headers: only magic 0 has no timestamp type |
| base sequence | the column `sequence` |
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS, MAGICS, MAX_SIZE
from kafkarec.storage.output_rules import STANDARD_INPUT, is_stream
from kafkarec.write.encoding import RecordInput, record_input_of
from kafkarec.write.fields import BatchHeader
from kafkarec.write.sizes import INITIAL_RATIO

from . import DAMAGED, FINE, input_formats, new_log, progress, shared_options
from .input_cells import FORMS, ROW_COLUMNS, Refuse, RowBlock, RowSource
from .input_logs import shown_name
from .problems import FirstLines, say
from .shared_options import InputPath, WrongUse, add_option

DESCRIPTION = """Builds a log from rows: JSON Lines as cat prints them, CSV, Arrow IPC or Parquet. Missing columns have
defaults: no key, no headers, no timestamp, the offset after that of the previous row. The log is a .log file, a
stream of batches on standard output, or a partition folder with indexes that a broker can start on. With the columns
base_offset, producer_id, producer_epoch, sequence, is_transactional, is_control, partition_leader_epoch, magic and
compression, the original batches are reproduced."""
EXAMPLES = """examples:
  kafkarec build orders.jsonl -o orders-0              a partition folder with its indexes
  kafkarec build orders.jsonl -o orders.log --compression zstd
  kafkarec build rows.parquet --columns key,value --value-as json -o new.log
  kafkarec build rows.csv -o copies/                   copies/TOPIC-PARTITION for each partition in the rows
  kafkarec build --base-offset 100 | kafkarec cat -    from standard input, to standard output

exit status: 0 fine, 1 a row cannot be written (nothing is written without --errors skip), 2 wrong usage, 3 failed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input",
        type=InputPath,
        nargs="*",
        default=[InputPath(STANDARD_INPUT)],
        metavar="INPUT",
        help="files of rows; - or nothing: standard input",
    )
    add_option(
        parser,
        f"--from --format {'|'.join(input_formats.FORMATS)}",
        "the input's format (default: by its name and its first bytes)",
        shared_options.row_format,
        dest="form",
        default=None,
    )
    shared_options.add_columns(parser, ROW_COLUMNS, "use only these columns")
    for name in ("key", "value"):
        add_option(
            parser,
            f"--{name}-as {'|'.join(FORMS)}",
            f"how the {name} column is encoded (default utf8); {name}_base64 and {name}_hex are always read",
        )
    text = "a row that cannot be written: write nothing (raise), or leave it out and report it (skip)"
    shared_options.add_errors(parser, text)
    new_log.add_output(parser)
    group = parser.add_argument_group("fields of the rows and batches")
    new_log.add_compression(group, "none")
    add_option(
        group,
        "--batch-size SIZE",
        "the size of a full batch, as the producer's batch.size (default 16k)",
        shared_options.size,
        default=16384,
    )
    add_option(
        group,
        f"--magic {'|'.join(map(str, MAGICS))}",
        "the record format (default 2)",
        int,
        choices=MAGICS,
        default=None,
    )
    add_option(group, "--base-offset N", "number the records from N on, instead of by the column", int)


def run(args: argparse.Namespace) -> int:
    rows_left_out = FirstLines("rows")

    def refused(place: str, problem: str) -> None:
        if args.errors == "raise":
            raise new_log.BadInput(f"{place}: {problem}")
        rows_left_out.add(f"{place}: {problem}; left out")

    fields = {name: getattr(args, name) for name in ("magic", "compression") if getattr(args, name) is not None}
    has_epochs = args.magic is None or args.magic >= BATCH_MAGIC
    inputs = args.input
    with (
        new_log.opened(args) as log,
        progress.show_bytes_read(lambda: progress.bytes_in(inputs), progress.when_writing(args.output)) as tick,
    ):
        if args.base_offset is not None and args.base_offset < 0:
            raise WrongUse("--base-offset must be 0 or more")
        new_log.demand_level(args.compression, args.level)
        if len(fields) == 2 and CODEC_NAMES.index(args.compression) > LATEST_CODECS[args.magic]:
            raise WrongUse(_too_new(args.magic, f"compression {args.compression}"))
        # A null is magic 0 or, as cat prints it, the epoch -1. A batch of Kafka's leader has an epoch.
        defaults = {"timestamp_type": 0} | ({_EPOCH: _LATEST} if log.is_folder and has_epochs else {})
        batch_size = min(args.batch_size, MAX_SIZE, *([args.segment_bytes] if log.is_folder else []))
        builders: dict[new_log.TopicPartition, BatchesFromRows] = {}
        forms = {"key": args.key_as, "value": args.value_as}
        for path in inputs:
            with input_formats.opened(path) as file:
                source = RowSource(shown_name(path), forms, args.columns, refused, defaults)
                for rows in input_formats.rows(file, source, args.form):
                    for partition, part in _by_partition(rows):
                        log.begin(partition, part.position_text(0))
                        if partition not in builders:
                            builders[partition] = BatchesFromRows(args, fields, defaults, refused, batch_size)
                        for batch in builders[partition].add(part):
                            log.write(partition, batch)
                    tick(path, file.tell() if file.seekable() else 0)
        for partition, builder in builders.items():
            for batch in builder.end():
                log.write(partition, batch)
        log.finish()
    if not is_stream(args.output):
        done = builders.values()
        say(
            f"{new_log.amount_text(sum(each.records for each in done), sum(each.batches for each in done), log.size)}, "
            f"in {log.description}"
        )
    rows_left_out.finish()
    return DAMAGED if rows_left_out.count else FINE


def _by_partition(rows: RowBlock) -> Iterator[tuple[new_log.TopicPartition, RowBlock]]:
    """Yield (partition, its rows); all rows with partition (None, None) if they name neither topic nor partition."""
    columns = rows.column("topic"), rows.column("partition")
    rows_of: dict[new_log.TopicPartition, list[int]] = {}
    if columns == (None, None):
        rows_of[None, None] = [0]
    else:
        for row, place in enumerate(zip(*(cells or [None] * len(rows) for cells in columns), strict=True)):
            rows_of.setdefault(place, []).append(row)
    for place, numbers in rows_of.items():
        yield place, rows if len(rows_of) == 1 else rows.take(numbers)


# ---- the batches of a partition


_SEQUENCES = 1 << 31  # 0 follows 2^31-1 (DefaultRecordBatch.incrementSequence)
_DELTAS = 1 << 31
_EPOCH, _LATEST = "partition_leader_epoch", -2  # the epoch of the rows before, in place of a number
_OFFSET_LIMIT = (1 << 63) - 1  # offsets are below it, as the next offset must fit int64


class BatchKey(NamedTuple):
    """Header fields that all rows of a batch have in common, by their names in BatchHeader, which has others for
    `compression` and `sequence` and none for `number`. None: not in the input."""

    magic: int | None = None
    compression: str | None = None
    timestamp_type: int | None = None
    log_append_time: int | None = None
    base_offset: int | None = None
    partition_leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None  # the sequence that offset 0 would have in this batch
    is_transactional: bool | None = None
    is_control: bool | None = None
    number: int | None = None  # row number of a control record, which is a separate batch


_KNOWN = {"magic": MAGICS, "compression": CODEC_NAMES, "timestamp_type": (0, 1)}
# Columns whose values are fields of `BatchKey` unchanged.
_PLAIN = [name for name in BatchKey._fields if name not in ("log_append_time", "sequence", "number")]


def _too_new(magic: int, what: str) -> str:
    return f"magic {magic} cannot store {what}; magic 2 can"


class BatchesFromRows:
    """Builds batches from blocks of rows; the rows of an incomplete batch are kept for the next block.

    args       the command line of `build`
    fields     field of `BatchKey` -> its value for all rows; other fields are read from the columns
    defaults   field of `BatchKey` -> its value for rows without this column; null is another value
    """

    def __init__(
        self,
        args: argparse.Namespace,
        fields: dict[str, Any],
        defaults: dict[str, Any],
        refuse: Refuse,
        batch_size: int,
    ) -> None:
        self._args, self._fields, self._defaults, self._refuse = args, fields, defaults, refuse
        self._batch_size = batch_size
        self._held: list[RowBlock] = []
        self._gathered = 0
        self._next_offset = args.base_offset or 0
        self._latest_epoch = 0
        self._ratios = [INITIAL_RATIO] * len(CODEC_NAMES)
        self.records = 0
        self.batches = 0

    def add(self, rows: RowBlock) -> Iterator[bytes]:
        """Yield the batches that are complete with these rows."""
        good = self._good_rows_with_offsets(rows)
        if not len(good):
            return
        for name, cell in self._defaults.items():  # here, as the rows held before these may have the column
            if good.column(name) is None:
                good.set_column(name, [cell] * len(good))
        if _EPOCH in self._defaults:  # the latest one before a row without, as a leader sets it; 0 in a new log
            epochs: list[int | None] = []
            for epoch in good.column(_EPOCH) or ():
                epochs.append(self._latest_epoch if epoch == _LATEST else epoch)
                self._latest_epoch = max(self._latest_epoch, epochs[-1] or 0)
            good.set_column(_EPOCH, epochs)
        self._held.append(good)
        self._gathered += len(good)
        if self._gathered >= len(self._held[0]):  # not for each block, as a batch may be larger than many blocks
            yield from self._batches_of_held(last=False)

    def end(self) -> Iterator[bytes]:
        """Yield the batches of the rows that are left."""
        if self._held:
            yield from self._batches_of_held(last=True)

    # ---- offsets

    def _good_rows_with_offsets(self, rows: RowBlock) -> RowBlock:
        """Return the rows with offsets, without those that cannot be written. A row without an offset
        gets that after the previous row's."""
        given = None if self._args.base_offset is not None else rows.column("offset")
        times: Sequence[int | None] = rows.column("timestamp") or [None] * len(rows)
        good: list[int] = []
        offsets: list[int] = []
        for row, time in enumerate(times):
            least = self._next_offset
            offset = least if given is None or given[row] is None else given[row]
            problem = ""
            if offset >= _OFFSET_LIMIT:
                problem = "offset: 2^63-2 is the largest"
            elif offset < 0:
                problem = "offset: 0 or more is expected, found a negative number"
            elif offset < least:
                problem = f"offset: {offset} follows {least - 1}; offsets must increase within a log (sort the rows; "
                problem += "--base-offset N renumbers them)"
            elif time is not None and time < -1:
                problem = "timestamp: 0 or more is expected (-1: none), found a negative number"
            if problem:
                self._refuse(rows.position_text(row), problem)
                continue
            good.append(row)
            offsets.append(offset)
            self._next_offset = offset + 1
        rows = rows if len(good) == len(rows) else rows.take(good)
        rows.set_column("offset", offsets)
        return rows

    # ---- batches

    def _batches_of_held(self, last: bool) -> Iterator[bytes]:
        """Yield the batches of the held rows; unless `last`, the rows of the last batch stay held."""
        rows = self._held[0].joined(*self._held[1:]) if len(self._held) > 1 else self._held[0]
        self._held, self._gathered = [], 0
        offsets = rows.column("offset") or ()
        record_input = record_input_of(rows.records())
        columns = self._header_columns(rows)
        changing = [name for name, cells in columns.items() if len(set(cells)) > 1]
        cuts = [0, len(rows)]
        if changing:
            cells = list(zip(*(columns[name] for name in changing), strict=True))
            cuts[1:1] = [row for row in range(1, len(rows)) if cells[row] != cells[row - 1]]
        runs = [  # of consecutive rows with the same header fields
            (start, stop, BatchKey(**{name: cells[start] for name, cells in columns.items()}))
            for start, stop in pairwise(cuts)
        ]
        problems: dict[int, str] = {}
        for start, stop, key in runs:
            problems |= self._unstorable_rows(key, rows, start, stop, offsets)
        if problems:
            for row, problem in sorted(problems.items()):
                self._refuse(rows.position_text(row), problem)
            good = [row for row in range(len(rows)) if row not in problems]
            if good:
                self._held = [rows.take(good)]
                yield from self._batches_of_held(last)
            return
        for start, stop, key in runs:
            may_continue = stop == len(rows) and not last
            while start < stop:
                made = self._next_batch(record_input, key, start, stop, offsets, may_continue)
                if made is None:
                    self._held = [rows.take(range(start, stop))]
                    return
                written, start = made
                yield written

    def _header_columns(self, rows: RowBlock) -> dict[str, Sequence[Any]]:
        """Return the fields of `BatchKey` that the input or the settings have, each with a cell per row."""
        count = len(rows)
        columns: dict[str, Sequence[Any]] = {}
        for name in _PLAIN:
            cells = [self._fields[name]] * count if name in self._fields else rows.column(name)
            if cells is not None:
                columns[name] = cells
        offsets = rows.column("offset") or ()
        times: Sequence[int | None] = rows.column("timestamp") or [None] * count
        types = columns.get("timestamp_type")
        if types is not None and 1 in types:
            columns["log_append_time"] = [time if kind == 1 else None for kind, time in zip(types, times, strict=True)]
        if types is not None and None in types and "magic" not in columns:
            columns["magic"] = [
                0 if kind is None and times[row] is None and not rows.has_headers(row) else 2
                for row, kind in enumerate(types)
            ]
        sequences = rows.column("sequence")
        if sequences is not None:
            columns["sequence"] = [
                None if number is None else (number - offset) % _SEQUENCES
                for number, offset in zip(sequences, offsets, strict=True)
            ]
        controls = columns.get("is_control", ())
        if True in controls:
            bases: Sequence[int | None] = columns.get("base_offset", [None] * count)
            columns["number"] = [
                row if flag and base is None else None
                for row, (flag, base) in enumerate(zip(controls, bases, strict=True))
            ]
        return columns

    def _unstorable_rows(
        self, key: BatchKey, rows: RowBlock, start: int, stop: int, offsets: Sequence[int]
    ) -> dict[int, str]:
        """Return the rows of [start, stop) with fields that a batch cannot store, each with what is wrong."""
        magic = 2 if key.magic is None else key.magic
        for name, known in _KNOWN.items():
            if getattr(key, name) not in (None, *known):
                return dict.fromkeys(range(start, stop), f"{name}: one of {', '.join(map(str, known))} is expected")
        found: dict[int, str] = {}
        if magic < BATCH_MAGIC:
            with_headers = [row for row in range(start, stop) if rows.has_headers(row)]
            found |= dict.fromkeys(with_headers, _too_new(magic, "headers"))
            unsupported = {
                f"compression {key.compression}": CODEC_NAMES.index(key.compression or "none") > LATEST_CODECS[magic],
                "a producer id": key.producer_id not in (None, -1),
                "transactions": bool(key.is_transactional),
                "control records": bool(key.is_control),
            }
            for what, is_used in unsupported.items():
                if is_used:
                    return dict.fromkeys(range(start, stop), _too_new(magic, what))
        base = key.base_offset
        if base is not None and not base <= offsets[start] <= offsets[stop - 1] < base + _DELTAS:
            for row in range(start, stop):
                if offsets[row] < base:
                    found[row] = f"offset {offsets[row]} is below its base_offset {base}"
                elif offsets[row] - base >= _DELTAS:
                    found[row] = f"offset {offsets[row]} is more than 2^31-1 away from its base_offset {base}"
        return found

    def _header(self, key: BatchKey, offset: int) -> BatchHeader:
        """Return the header of a batch that begins with this offset."""
        given = {name: value for name, value in key._asdict().items() if value is not None}
        codec = CODEC_NAMES.index(given.pop("compression", "none"))
        if key.is_control and "compression" in self._fields:
            codec = 0  # Kafka does not compress control batches
        given.pop("number", None)
        sequence = given.pop("sequence", None)
        header = BatchHeader(**{"base_offset": offset, **given}, codec=codec, level=self._args.level if codec else None)
        if sequence is not None:
            header = header._replace(base_sequence=(sequence + header.base_offset) % _SEQUENCES)
        return header

    def _next_batch(
        self,
        record_input: RecordInput,
        key: BatchKey,
        start: int,
        stop: int,
        offsets: Sequence[int],
        may_continue: bool,
    ) -> tuple[bytes, int] | None:
        """Return the batch of the first rows of [start, stop), and the row after it: all rows if their base offset is
        given, else those that fit. None if the batch takes all rows and `may_continue`."""
        header = self._header(key, offsets[start])
        # more bytes than a batch can have
        with shared_options.value_errors_refused(f"offsets from {offsets[start]} on: "):
            if key.base_offset is None and key.number is None:
                ratio = self._ratios[header.codec]
                made = record_input.write_full_batch(
                    header, start, stop, self._batch_size, ratio, may_continue=may_continue
                )
                if made is None:
                    return None
                written, end, self._ratios[header.codec] = made
            elif may_continue:
                return None
            else:
                written, end = record_input.write(header, start, stop), stop
        self.records += end - start
        self.batches += 1
        return written, end
