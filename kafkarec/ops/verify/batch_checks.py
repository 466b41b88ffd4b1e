"""Checks of batches: headers, what the decoder noted, control records, epochs, offsets, producers' sequences

Headers         values that no Kafka writer writes and that readers accept or ignore. `_c/row_checks.pxd` finds the
                steps that may have one.

    attributes of magic 2   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon, 7-15 unused
    attributes of magic 1   bits 0-2 codec, 3 timestamp type; magic 0: bits 0-2 codec

Audit           what Kafka's readers accept without an error, noted when a batch is decoded. A note is a kind, how often
                it was seen in a batch, and up to three numbers of the first time; see `_c/audit.pxd`.
Control records must be readable by a read_committed consumer and a KRaft controller. A KRaft snapshot (.checkpoint,
                KIP-630) is written once and never appended to. It begins with a SNAPSHOT_HEADER and ends with a
                SNAPSHOT_FOOTER. Without the footer it is incomplete.
Epochs          each batch of magic 2 has the epoch of the leader that appended it (KIP-101). They never decrease along
                a log, as followers truncate records that a leader with a higher epoch does not have.
Offsets         a broker assigns consecutive offsets, so the base offset of a batch is the last offset of the previous
                one + 1. The cleaner may remove records and batches later, which leaves gaps, but a base offset is never
                lower. Offsets that are missing next to damage belong to the damage; see Damage.lost_from and lost_to.
Sequences       by the rules of a broker (`producers.VIOLATIONS`), which checks a batch against the producer's state.
                Here, a sequence gap is not reported if offsets are missing or bytes are damaged between two batches of
                a producer. A duplicate, or a batch with an old epoch, is reported and then ignored, so that one extra
                batch is one finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kafkarec._core import Producers, RowCheck
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.control import ControlRecordType
from kafkarec.format.layout import BATCH_MAGIC, USED_BITS
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.recover.offset_order import MAX_JUMP
from kafkarec.recover.steps import MARKER_COLUMNS, Step
from kafkarec.state.producers import BROKER

from .findings import Findings, place_of

# In most of these fields -1 means none, for which the columns have null.
_NEVER_NEGATIVE = (
    ("base_offset_negative", "base_offset", "base offset"),
    ("timestamp_negative", "base_timestamp", "base timestamp"),
    ("timestamp_negative", "max_timestamp", "max timestamp"),
    ("producer_id_invalid", "producer_id", "producer id"),
    ("sequence_negative", "base_sequence", "base sequence"),
    ("leader_epoch_negative", "partition_leader_epoch", "partition leader epoch"),
)


def check_headers(step: Step, findings: Findings) -> None:
    """Does all checks of this module on the batches of one step."""
    for kind, name, what in _NEVER_NEGATIVE:
        for row, value in enumerate(step.column(name)):
            if value is not None and value < 0:
                findings.add(kind, f"{what} {value}", *place_of(step, row))
    names = ("magic", "attributes", "record_count", "producer_id", "base_sequence", "is_control")
    rows = step.zip_columns(*names, "base_offset", "last_offset")
    for row, (magic, attributes, count, producer, sequence, is_control, base, last) in enumerate(rows):
        bits = attributes & (0xFFFF if magic >= BATCH_MAGIC else 0xFF) & ~USED_BITS[magic]
        if bits:
            findings.add("attributes_unknown", f"attribute bits {bits:#06x}", *place_of(step, row))
        if count is not None and count > (1 if base is None else last - base + 1):
            detail = f"{count} records in a batch with the offsets {base} to {last}"
            findings.add("count_above_offsets", detail, *place_of(step, row))
        if producer is not None and producer >= 0 and sequence is None and not is_control:  # KIP-98
            findings.add(
                "producer_without_sequence", f"producer id {producer} without a sequence", *place_of(step, row)
            )


_IN_A_RECORD = "in a record of the batch at offset {offset}"

# kind of finding and its text for each kind of note, in the order of the C enum Anomaly: {0}, {1}, {2} are the numbers
_FINDINGS = (
    ("record_offsets_unordered", "offset {0} after offset {1}"),
    ("record_offset_outside", "records with the offsets {0} to {1} in a batch with the offsets {base} to {last}"),
    ("inner_offsets_unordered", "offset {0} after offset {1}"),
    ("inner_offset_above_wrapper", "inner offset {0} in a wrapper with offset {last}"),
    ("header_key_not_utf8", "a header key at offset {0}"),
    ("length_below_minus_one", _IN_A_RECORD),
    ("record_attributes_unknown", _IN_A_RECORD),
    ("varint_not_minimal", _IN_A_RECORD),
    ("count_zero_with_payload", "no records declared, and {0} bytes of records are there"),
    ("count_zero_with_payload", "no records declared, but a payload that cannot be decompressed: {detail}"),
    ("payload_trailing_bytes", "{codec}: {0} bytes after the end of the stream"),
    ("payload_several_streams", "{codec}: {0} {streams} in one payload"),
    ("payload_checksum_ignored", "{codec}: wrong content checksum"),
    ("payload_checksum_ignored", "{codec}: the content does not have the size in the frame's header"),
    ("length_below_minus_one", "a length of {0}"),
    ("message_trailing_bytes", "{0} bytes after a message's value"),
    ("attributes_unknown", "attribute bits {0:#04x} of an inner message"),
    ("inner_magic_differs", "inner message {0} has magic {1}, its wrapper {magic}"),
    ("inner_truncated", "inner message {0} has a size of {1} bytes, but {2} are left"),
    ("inner_trailing_bytes", "{0} bytes after inner message {1}"),
)
_HEADER_KEYS = 4
_LARGEST_RECORD = len(_FINDINGS)
_NUMBERS = 6
_STREAMS = {"gzip": "members", "snappy": "streams", "zstd": "frames"}


def add_audit_findings(step: Step, notes: Findings) -> tuple[int, int | None]:
    """Adds the findings about the good batches of one step; returns the size and offset of its largest record. The size
    is without the record's length; of a message of magic 0 and 1 without its offset and size."""
    largest: tuple[int, int | None] = (0, None)
    numbers = iter(step.rows.audit_notes().cast("q").tolist())
    for row, number, times, *sizes in zip(*[numbers] * _NUMBERS, strict=True):
        if number == _LARGEST_RECORD:
            largest = sizes[0], sizes[1]  # each is larger than the one before
            continue
        kind, text = _FINDINGS[number]
        (position, offset), places = place_of(step, row), times
        if number == _HEADER_KEYS:
            offset, places, _ = sizes
        codec = step.column("compression")[row]
        text = text.format(
            *sizes,
            base=step.column("base_offset")[row],
            codec=codec,
            detail=step.rows.note_details.get(row, ""),
            last=step.column("last_offset")[row],
            magic=step.column("magic")[row],
            offset=offset,
            streams=_STREAMS.get(codec),
        )
        notes.add(kind, text, position, offset, count=times, places=places)
    return largest


CONTROL_COLUMNS = (*MARKER_COLUMNS, "offset")
_KEY, _VALUE, _OFFSET = map(CONTROL_COLUMNS.index, ("key", "value", "offset"))


def check_control_records(step: Step, findings: Findings) -> None:
    """Checks the control records of one step, the only ones that the audit keeps. With small transactions each marker
    is in a batch of its own, and most have the same few bytes, so equal records are parsed once."""
    if step.chunk is None or not len(step.chunk):
        return
    keys, values = (step.chunk.values(column, 0, len(step.chunk)) for column in (_KEY, _VALUE))
    keys_and_values = list(zip(keys, values, strict=True))
    problems = {one: found for one in set(keys_and_values) if (found := _control_problem(*one))}
    if not problems:
        return
    offsets = step.chunk.values(_OFFSET, 0, len(step.chunk))
    runs = step.chunk.runs().cast("q").tolist()  # a batch, the number of its records
    batches = [row for row, count in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]
    for row, offset, one in zip(batches, offsets, keys_and_values, strict=True):
        if one in problems:
            findings.add(*problems[one], step.cell("position", row), offset)


def _control_problem(key: bytes | None, value: bytes | None) -> tuple[str, str] | None:
    """The (kind, detail) of the problem with a control record; None: no problem."""
    try:
        parsed = control.parse(key, value)
    except KafkaRecordError as error:
        return "control_record_unreadable", str(error)
    if isinstance(parsed, control.UnknownControlRecord):
        return "control_type_unknown", f"control record type {parsed.type_id}"
    if parsed.version > control.last_version(type(parsed)):
        return "control_version_newer", f"{parsed.type.name} in version {parsed.version}"
    return None


def ends_with_footer(step: Step) -> bool:
    """Whether the last record of a step, whose control records are kept, is a SNAPSHOT_FOOTER."""
    last, count = len(step) - 1, 0 if step.chunk is None else len(step.chunk)
    if not count or not step.cell("is_control", last) or not step.cell("record_count", last):
        return False
    assert step.chunk is not None
    try:
        return control.type_id(*step.chunk.values(_KEY, count - 1, count)) == ControlRecordType.SNAPSHOT_FOOTER
    except KafkaRecordError:
        return False


_LOWEST = -(2**31)


@dataclass(slots=True)
class FileEpochCheck:
    """The check of the epochs in one file: the first epoch with its position, the highest and the last one so far."""

    file: str
    first: int | None = None
    first_place: tuple[int, int] | tuple[()] = ()
    highest: int = _LOWEST
    last: int | None = None

    def check(self, step: Step, findings: Findings) -> None:
        """Checks the good batches of the next step with another epoch than the one before."""
        for row, epoch in enumerate(step.column("partition_leader_epoch")):
            if epoch == self.last or epoch is None:
                continue
            if self.first is None:
                self.first, self.first_place = epoch, place_of(step, row)
            if epoch < self.highest:
                findings.add("epoch_goes_back", f"leader epoch {epoch} after {self.highest}", *place_of(step, row))
            self.highest = max(epoch, self.highest)
            self.last = epoch


def check_epochs_between(files: Iterable[FileEpochCheck], findings: Findings) -> None:
    """Adds findings for epochs that decrease from one file of a log to the next."""
    highest = _LOWEST
    for file in files:
        if file.first is not None and file.first < highest:
            detail = f"leader epoch {file.first} after {highest} in the segments before"
            findings.add("epoch_goes_back", detail, *file.first_place, file=file.file)
        highest = max(highest, file.highest)


# What RowCheck.check says of the batches of a step, from `_c/row_checks.pxd`.
APART, GAP, OFFSETS, EPOCH, HEADER, EMPTIED = 1, 2, 4, 8, 16, 32
_MAX_GAPS = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """The offsets `first` to `last` are missing before the batch at `position` of `file` (None: between two files)."""

    file: str
    position: int | None
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class CountedGaps:
    """Gaps in a file, of which the first `_MAX_GAPS` are listed, or between files: `count`, `offsets` are of all."""

    def __init__(self, gaps: Iterable[Gap] = ()) -> None:
        self.listed = list(gaps)
        self.count, self.offsets = len(self.listed), sum(gap.length for gap in self.listed)

    def add(self, gap: Gap) -> None:
        self.count += 1
        self.offsets += gap.length
        if len(self.listed) < _MAX_GAPS:
            self.listed.append(gap)

    def remove(self, gaps: Collection[Gap]) -> None:
        """Removes some that are listed."""
        self.listed = [gap for gap in self.listed if gap not in gaps]
        self.count -= len(gaps)
        self.offsets -= sum(gap.length for gap in gaps)


@dataclass(slots=True)
class FileOffsetCheck:
    """The offset check of one file.

    rising               whether offsets must ascend, as in a log's segment
    first_is_last        the file begins with a wrapper of magic 0 or 1, of which only the last offset is known
    follows_break, before_break   batches before the first, or behind the last, are damaged or not the log's, as
                         LogOrder says
    """

    file: str
    rising: bool = True
    first: int | None = None
    first_is_last: bool = False
    next: int | None = None
    follows_break: bool = False
    before_break: bool = False
    gaps: CountedGaps = field(default_factory=CountedGaps)

    def check(self, step: Step, rows: RowCheck, flags: int, gap_rows: Sequence[int], findings: Findings) -> None:
        """Checks the good batches of the next step. flags, gap_rows: what `rows` says of them; a gap before a batch at
        the end of damage belongs to the damage."""
        if self.first is None:
            base = step.cell("base_offset", 0)
            self.first = step.cell("last_offset", 0) if base is None else base
            self.first_is_last = base is None
        damaged = {one.position + one.length for one in step.damage}
        if flags & OFFSETS:
            self.next = self._check_rows(step, damaged, findings)
            rows.expect_offset(self.next)
            return
        for row in gap_rows:
            expected = step.cell("next_offset", row - 1) if row else self.next or 0
            if step.cell("position", row) not in damaged:
                self.add_gap(step.cell("position", row), expected, step.cell("base_offset", row) - 1)
        self.next = rows.next_offset

    def _check_rows(self, step: Step, damaged: set[int], findings: Findings) -> int:
        """Returns the next offset after these batches."""
        bases, nexts, positions = map(step.column, ("base_offset", "next_offset", "position"))
        expected = self.next
        for row, (base, after) in enumerate(zip(bases, nexts, strict=True)):
            # Only the last offset of a wrapper of magic 0 or 1 is known, so only a decrease can be detected.
            begin = after - 1 if base is None else base
            following = bases[row + 1] if row + 1 < len(bases) else None
            # The base offset, which no checksum covers, is too high: above that of the next batch, which fits the one
            # before, or further above than a log goes on.
            if (
                self.rising
                and expected is not None
                and base is not None
                and base > expected
                and (base - expected > MAX_JUMP or (following is not None and expected <= following < after))
            ):
                ends = f", and the next one begins at {following}" if following is not None else ""
                detail = f"base offset {base}, but the previous batch ends at offset {expected - 1}{ends}"
                findings.add("base_offset_wrong", detail, *place_of(step, row))
                expected = expected if following is None else max(expected, following)
                continue
            if expected is not None and begin < expected:
                detail = f"offsets {begin} to {after - 1}, but the previous batch ends at offset {expected - 1}"
                severity = None if self.rising else "anomaly"
                findings.add("offset_overlap", detail, *place_of(step, row), severity=severity)
            elif expected is not None and base is not None and base > expected and positions[row] not in damaged:
                self.add_gap(positions[row], expected, base - 1)
            # After a batch with lower offsets: in a log the highest offset counts, elsewhere that of the batch.
            expected = after if expected is None or not self.rising else max(expected, after)
        return int(nexts[-1]) if expected is None else expected

    def add_gap(self, position: int, first: int, last: int) -> None:
        """Adds the offsets that are missing before the batch at `position`."""
        self.gaps.add(Gap(self.file, position, first, last))


_OUT_OF_SEQUENCE = "{who}: {span} {after}"
# By the members of the C enum Violation of `_c/producer_table.pxd`: kind of finding, what is said of the batch.
_VIOLATIONS = (
    ("", ""),
    ("producer_epoch_goes_back", "{who} after epoch {known.producer_epoch}"),
    ("sequence_duplicate", "{who}: {span} are already in the log"),
    ("sequence_gap", _OUT_OF_SEQUENCE),
    ("sequence_gap", _OUT_OF_SEQUENCE),
    ("sequence_order", _OUT_OF_SEQUENCE),
    ("producer_not_transactional", "{who}: a plain batch within its transaction"),
)
_OF_PRODUCER = ("producer_id", "producer_epoch", "base_sequence", "last_sequence")


class SequenceCheck:
    """The producer states of one log. findings: gets those of all its files."""

    def __init__(self, findings: Findings) -> None:
        self._findings, self._producers = findings, Producers(BROKER)

    def check(self, file: str, step: Step) -> None:
        """Checks the good batches of the next step."""
        start = 0
        while refused := self._producers.take_to_refused(step.rows, start):
            row, why, before = refused
            known = SnapshotEntry(*before)
            producer, epoch, first, last = (step.cell(name, row) for name in _OF_PRODUCER)
            kind, detail = _VIOLATIONS[why]
            detail = detail.format(
                who=f"producer {producer} epoch {epoch}",
                span=f"sequences {first} to {last}",
                after=f"after sequence {known.last_sequence}" if known.last_offset >= 0 else "at the start of an epoch",
                known=known,
            )
            self._findings.add(kind, detail, *place_of(step, row), file=file)
            start = row + 1
