"""Rows to batches: where a batch ends, and the fields of its header.

A batch ends where a field of the header changes (producer, epoch, codec, ...), where `base_offset` does, else where
--batch-size is reached. So the columns of `cat --columns base_offset,producer_id,...` reproduce the original batches;
without `base_offset` control records get batches of their own, and so do log append times, of which a batch has one.

| field | from |
|---|---|
| magic, compression, timestamp type, leader epoch, producer | the option, else the column, else Kafka's default |
| magic | 0 where timestamp_type and timestamp are null and there are no headers: only magic 0 has no timestamp type |
| base sequence | the column `sequence`; with --producer-id counted from --base-sequence on |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import Compression
from kafkarec.write.compression_ratio import CompressionRatioEstimator
from kafkarec.write.fields import single
from kafkarec.write.header import BatchHeader
from kafkarec.write.record_input import record_input_of
from kafkarec.write.sizes import batch_header_size

from .input_rows import InputRows, Refuse, varint_size
from .shared_options import WrongUse

CODECS = {codec.name.lower(): int(codec) for codec in Compression}
_SEQUENCES = 1 << 31  # after 2^31-1 comes 0 (DefaultRecordBatch.incrementSequence)
_DELTAS = 1 << 31
_WHOLE, _HALF = 1 << 64, 1 << 63  # timestamp deltas wrap around
_AT_MOST = 1.06  # of the margin, without the roundings of 32 bits
_LONGEST = (1 << 63) - 1  # after this offset there is no next one
_MARGIN = single(1.05)  # MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR


Part = tuple[int, int, int]  # a batch's first row, the one after its last, bytes of its records (0: not counted)
_TOPIC = ""  # a log has one, whatever its name


class Key(NamedTuple):
    """Header fields that all rows of a batch have in common. None: not given."""

    magic: int | None = None
    compression: str | None = None
    timestamp_type: int | None = None
    log_append_time: int | None = None
    base_offset: int | None = None
    partition_leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None  # the one that offset 0 would have in this batch
    is_transactional: bool | None = None
    is_control: bool | None = None
    number: int | None = None  # of a row that gets a batch of its own


# Columns whose values are fields of `Key` unchanged.
_PLAIN = (
    "magic",
    "compression",
    "timestamp_type",
    "base_offset",
    "partition_leader_epoch",
    "producer_id",
    "producer_epoch",
    "is_transactional",
    "is_control",
)


@dataclass(frozen=True)
class BuildSettings:
    """The options of `build`.

    odd        take what Kafka's writers refuse
    fields     names of `Key` -> the value for all rows; the columns give the others
    defaults   likewise, for what neither says
    """

    fields: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    level: int | None = None
    batch_size: int = 16384
    base_offset: int | None = None
    base_sequence: int = 0
    timestamp: int | None = None
    odd: bool = False


class RowBatches:
    """Takes rows block by block and returns batches; rows of an incomplete batch are held."""

    def __init__(self, settings: BuildSettings, refuse: Refuse) -> None:
        self._settings = settings
        self._refuse = refuse
        self._held: list[InputRows] = []
        self._gathered = 0
        self._next_offset = settings.base_offset or 0
        self._sequence = settings.base_sequence
        self._ratios = CompressionRatioEstimator()
        self.records = 0
        self.batches = 0
        self.first_offset: int | None = None

    @property
    def next_offset(self) -> int:
        return self._next_offset

    def add(self, rows: InputRows) -> Iterator[bytes]:
        """The batches that are complete with these rows."""
        good = self._numbered(rows)
        if not len(good):
            return
        self._held.append(good)
        self._gathered += len(good)
        if self._gathered >= len(self._held[0]):  # not with each block, where a batch is larger than many blocks
            yield from self._batches_of_held(last=False)

    def end(self) -> Iterator[bytes]:
        """The batches of the rows that are still held."""
        if self._held:
            yield from self._batches_of_held(last=True)

    # ---- rows with offsets and timestamps

    def _numbered(self, rows: InputRows) -> InputRows:
        """The rows with their offsets and timestamps, without those that cannot be written."""
        while len(rows):
            offsets = self._offsets(rows)
            bad = self._bad_offset(offsets) or self._bad_time(rows.column("timestamp") or ())
            if bad is None:
                break
            row, problem = bad
            self._refuse(rows.where(row), problem)
            rows = rows.slice(0, row).joined(rows.slice(row + 1, len(rows)))
        else:
            return rows
        rows.set("offset", offsets)
        self._next_offset = offsets[-1] + 1
        times = rows.column("timestamp")
        if self._settings.timestamp is not None and (times is None or None in times):
            filled = [self._settings.timestamp if time is None else time for time in times or [None] * len(rows)]
            rows.set("timestamp", filled)
        return rows

    def _offsets(self, rows: InputRows) -> Sequence[int]:
        """The rows' offsets; a row without one gets the offset after the previous row's."""
        given = rows.column("offset")
        at = self._next_offset
        if given is None or self._settings.base_offset is not None:
            return range(at, at + len(rows))
        if None not in given:
            return given
        offsets = []
        for offset in given:
            offsets.append(at if offset is None else offset)
            at = offsets[-1] + 1
        return offsets

    def _bad_offset(self, offsets: Sequence[int]) -> tuple[int, str] | None:
        if max(offsets) >= _LONGEST:
            row = next(row for row, offset in enumerate(offsets) if offset >= _LONGEST)
            return row, "offset: there is none behind 2^63-2"
        if self._settings.odd:
            return None
        before = self._next_offset - 1
        for row, offset in enumerate(offsets):
            if offset <= before:
                if offset < 0:
                    return row, "offset: 0 or more is expected, found a negative number"
                return row, (
                    f"offset: {offset} stands behind {before}: offsets increase within a log (sort the rows; "
                    "--base-offset N numbers them anew; --odd takes them as they are)"
                )
            before = offset
        return None

    def _bad_time(self, times: Sequence[int | None]) -> tuple[int, str] | None:
        if self._settings.odd or min((time for time in times if time is not None), default=0) >= -1:
            return None
        row = next(row for row, time in enumerate(times) if time is not None and time < -1)
        return row, "timestamp: 0 or more is expected (-1: none), found a negative number (--odd takes it)"

    # ---- rows to batches

    def _batches_of_held(self, last: bool) -> Iterator[bytes]:
        """The batches of the held rows; unless `last`, the rows of the last batch stay held."""
        rows = self._held[0].joined(*self._held[1:]) if len(self._held) > 1 else self._held[0]
        self._held, self._gathered = [], 0
        offsets = rows.column("offset") or ()
        record_input = record_input_of(rows.records())
        for key, start, stop in self._runs(rows):
            self._demand(key, rows, start, stop, offsets)
            header = self._header(key, offsets[start])
            for first, end, used in self._split(rows, header, key, start, stop):
                if end == len(rows) and not last:
                    self._held = [rows.slice(first, end)]
                    return
                written = self._written(record_input, header, key, first, end, offsets)
                if header.codec and used:
                    packed = (len(written) - batch_header_size(header.magic, header.codec)) / used
                    self._ratios.update_estimation(_TOPIC, Compression(header.codec), packed)
                yield written

    def _runs(self, rows: InputRows) -> Iterator[tuple[Key, int, int]]:
        """Consecutive rows with the same header fields: (fields, first row, the row after the last)."""
        columns = self._columns(rows)
        changing = [name for name, cells in columns.items() if len(set(cells)) > 1]
        cuts = [0, len(rows)]
        if changing:
            cells = list(zip(*(columns[name] for name in changing), strict=True))
            cuts[1:1] = [row for row in range(1, len(rows)) if cells[row] != cells[row - 1]]
        for start, stop in pairwise(cuts):
            yield Key(**{name: cells[start] for name, cells in columns.items()}), start, stop

    def _columns(self, rows: InputRows) -> dict[str, Sequence[Any]]:
        """The fields of `Key` that are given, each with a cell per row."""
        count = len(rows)
        fields = self._settings.fields
        columns: dict[str, Sequence[Any]] = {}
        for name in _PLAIN:
            cells = [fields[name]] * count if name in fields else rows.column(name)
            if cells is None and name in self._settings.defaults:
                cells = [self._settings.defaults[name]] * count
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
        if sequences is not None and "producer_id" not in fields:
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

    def _demand(self, key: Key, rows: InputRows, start: int, stop: int, offsets: Sequence[int]) -> None:
        """Raises WrongUse for fields that a batch cannot hold, with the row."""
        magic = 2 if key.magic is None else key.magic
        place = rows.where(start)
        if magic not in (0, 1, 2):
            raise WrongUse(f"{place}: magic {magic}: 0, 1 or 2")
        if key.compression is not None and key.compression not in CODECS:
            raise WrongUse(f"{place}: compression: one of {', '.join(CODECS)}")
        if key.timestamp_type not in (0, 1, None):
            raise WrongUse(f"{place}: timestamp_type: 0 (create time) or 1 (log append time)")
        if magic < 2:
            self._demand_legacy(key, magic, rows, start, stop)
        base = offsets[start] if key.base_offset is None else key.base_offset
        if not self._settings.odd and offsets[start] < base:
            raise WrongUse(f"{place}: offset {offsets[start]} lies before its base_offset {base} (--odd takes it)")
        if key.base_offset is not None and not -_DELTAS <= offsets[stop - 1] - base < _DELTAS:
            raise WrongUse(f"{rows.where(stop - 1)}: further than 2^31-1 behind its base_offset {base}")

    def _demand_legacy(self, key: Key, magic: int, rows: InputRows, start: int, stop: int) -> None:
        with_headers = next((row for row in range(start, stop) if rows.has_headers(row)), None)
        wanted = {
            "headers": with_headers is not None,
            "compression zstd": key.compression == "zstd",
            "a producer id": key.producer_id not in (None, -1),
            "transactions": bool(key.is_transactional),
            "control records": bool(key.is_control),
        }
        for what, there in wanted.items():
            if there:
                place = rows.where(start if with_headers is None else with_headers)
                raise WrongUse(f"{place}: magic {magic} has no place for {what}: magic 2 has")

    def _header(self, key: Key, offset: int) -> BatchHeader:
        """The header of a batch that begins with this offset."""
        magic = 2 if key.magic is None else key.magic
        codec = CODECS[key.compression or "none"]
        if key.is_control and "compression" in self._settings.fields:
            codec = 0  # as Kafka writes them
        return BatchHeader(
            magic=magic,
            codec=codec,
            level=self._settings.level if codec else None,
            timestamp_type=key.timestamp_type or 0,
            log_append_time=-1 if key.log_append_time is None else key.log_append_time,
            base_offset=offset if key.base_offset is None else key.base_offset,
            partition_leader_epoch=_or_absent(key.partition_leader_epoch),
            producer_id=_or_absent(key.producer_id),
            producer_epoch=_or_absent(key.producer_epoch),
            is_transactional=bool(key.is_transactional),
            is_control=bool(key.is_control),
        )

    def _split(self, rows: InputRows, header: BatchHeader, key: Key, start: int, stop: int) -> Iterator[Part]:
        """The rows from start to stop in batches as Kafka's builder ends them (MemoryRecordsBuilder.hasRoomFor); as one
        where the base offset is given."""
        if key.base_offset is not None or key.number is not None:
            yield start, stop, 0
            return
        limit = self._settings.batch_size - batch_header_size(header.magic, header.codec)
        offsets: Sequence[int] = rows.column("offset") or ()
        times = [-1 if time is None else time for time in rows.column("timestamp") or [None] * len(rows)]
        first, used = start, 0
        base, base_time = offsets[start], times[start]
        ratio = self._ratio(header)
        for row, least in enumerate(rows.slice(start, stop).least_sizes(header.magic), start):
            distance = offsets[row] - base
            size = least
            if header.magic == 2:
                later = times[row] - base_time
                size += 1 if -64 <= distance < 64 else varint_size(distance)
                size += 1 if -64 <= later < 64 else varint_size((later + _HALF) % _WHOLE - _HALF)
                size += 1 if size < 64 else varint_size(size)
            if row > first and (
                (limit < used * ratio * _AT_MOST + size and limit < self._packed(used, header) + size)
                or not -_DELTAS <= distance < _DELTAS
            ):
                yield first, row, used
                first, used = row, 0
                base, base_time = offsets[row], times[row]
                ratio = self._ratio(header)
                size = least if header.magic < 2 else least + 2 + varint_size(least + 2)
            used += size
        yield first, stop, used

    def _ratio(self, header: BatchHeader) -> float:
        return self._ratios.estimation(_TOPIC, Compression(header.codec)) if header.codec else 1.0

    def _packed(self, used: int, header: BatchHeader) -> int:
        """The estimated compressed size of `used` bytes of records, by the ratio of earlier batches."""
        if not header.codec:
            return used
        return int(single(single(used * self._ratio(header)) * _MARGIN))

    def _written(
        self, record_input: Any, header: BatchHeader, key: Key, start: int, stop: int, offsets: Sequence[int]
    ) -> bytes:
        base = header.base_offset if key.base_offset is not None else offsets[start]
        sequence = -1 if key.sequence is None else (key.sequence + base) % _SEQUENCES
        if "producer_id" in self._settings.fields and not key.is_control and header.producer_id >= 0:
            sequence = self._sequence
            self._sequence = (sequence + offsets[stop - 1] - base + 1) % _SEQUENCES
        try:
            written: bytes = record_input.write(header._replace(base_offset=base, base_sequence=sequence), start, stop)
        except KafkaRecordError:
            raise
        except ValueError as error:  # more bytes than a batch can have
            raise WrongUse(f"offsets {offsets[start]} to {offsets[stop - 1]}: {error}") from error
        self.records += stop - start
        self.batches += 1
        if self.first_offset is None:
            self.first_offset = offsets[start]
        return written


def _or_absent(value: int | None) -> int:
    return -1 if value is None else value
