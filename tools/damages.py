"""`make damages`: random damage to random logs; what every reader makes of it is compared with what was written.

usage: damages.py [--count DAMAGES] [--seed N] [--only LOG] [--keep FOLDER]

Each log is read as buffers and as a folder (`errors="skip"`); some also in ranges as Spark's tasks read, in pieces, by
`verify`, and by `salvage`. Prints counts; ends with status 1 if anything is wrong, with the numbers of the logs, which
`--only` repeats and `--keep` writes.

The oracle is the log before the damage (tests/support/hurt_logs.py). A batch is *untouched* if its bytes are all there,
in one piece, and not moved past others; it must come back with its own offsets. Each batch that comes back must be one
of those written, record for record, and each restored header field must have the value that was written.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from commands import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import builders  # noqa: E402
import hurt_logs  # noqa: E402
from damage import HEADER, Stored  # noqa: E402
from hurt_logs import Rows, Written, WrittenLog, WrittenSegment  # noqa: E402

import kafkarec  # noqa: E402
from kafkarec.cli.explain import BatchRange, restored_at  # noqa: E402
from kafkarec.recover import offset_order  # noqa: E402

PACKED = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
"""First bytes that `open` refuses with the advice to rename the file; damage may cut all bytes before a payload."""


def untouched(segment: WrittenSegment, one: Stored) -> Iterator[tuple[int, Written]]:
    """(position, batch) of those that must come back."""
    for batch in segment.batches:
        n = len(batch.raw)
        try:
            at = one.origin.index(batch.start)
        except ValueError:
            continue
        if one.data[at : at + n] == batch.raw and one.origin[at : at + n] == array(
            "q", range(batch.start, batch.start + n)
        ):
            yield at, batch


# ---- what a reader makes of it


class Found(NamedTuple):
    """What was read of one segment. batches: (position, size, next offset)."""

    batches: list[tuple[int, int, int]]
    rows: Rows
    damage: tuple[Any, ...]
    restored: tuple[Any, ...]
    remaining: int

    @classmethod
    def of(cls, columns: kafkarec.RecordColumns) -> Found:
        names = ("position", "size_in_bytes", "next_offset")
        batches = list(zip(*(columns.batches.column(name) for name in names), strict=True))
        rows = list(zip(columns.column("offset"), columns.column("value"), strict=True))
        return cls(batches, rows, columns.damage, columns.restored, columns.remaining)


READ: dict[str, Any] = {"errors": "skip", "columns": ["offset", "value"], "control": True}
_FIELDS = {
    "base_offset": lambda one: one.base,
    "batch_length": lambda one: len(one.raw) - 12,
    "partition_leader_epoch": lambda one: one.epoch,
    "magic": lambda one: one.raw[16],
}


class Judge:
    """Compares what was read of segments with what was written; counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.where = ""

    def fault(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.faults.append(f"{kind}: {self.where} {text}")

    def segment(self, log: WrittenLog, segment: WrittenSegment, one: Stored, found: Found, where: str) -> None:
        self.where = f"{where} {segment.name}"
        self._tiles(one, found)
        back = {(at, following) for at, _, following in found.batches}
        by_content = {each.covered: each for part in log.segments for each in part.batches}
        places = [(start, size) for start, size, _ in found.batches]
        places += [(each.position, each.length) for each in found.damage]
        whole = [place for place in places if self._written(one, *place, by_content)]
        for at, batch in untouched(segment, one):
            if any(start < at < start + size for start, size in whole):
                continue  # bytes were removed, and the next ones are the same: another batch is whole with them
            self.counts["untouched"] += 1
            if (at, batch.next) not in back:
                if one.data[:at].endswith(builders.varint(len(batch.raw))):
                    self.counts["lost, as its length is before it, as that of a value is"] += 1
                elif _is_claimed(one, found, at):
                    self.counts["lost in the claim of a damaged batch"] += 1
                elif _is_beside_moved(one, found, at):
                    self.counts["lost beside a block at a wrong place"] += 1
                else:
                    self.fault("lost batch", f"{at} {batch.base}")
        self._restored(one, found, by_content)
        self._invented(one, found, by_content)

    def _tiles(self, one: Stored, found: Found) -> None:
        at = 0
        damage = [(each.position, each.length) for each in found.damage]
        for start, length in sorted([(start, size) for start, size, _ in found.batches] + damage):
            if start != at:
                self.fault("not tiled", f"{start} {at}")
            at = start + length
        if at + found.remaining != len(one.data):
            self.fault("not tiled", f"{at} and {found.remaining} of {len(one.data)}")

    def _written(self, one: Stored, at: int, size: int, by_content: dict[bytes, Written]) -> Written | None:
        """The batch that was written, of which these are the bytes."""
        raw = one.data[at : at + size]
        return by_content.get(raw[17:]) or by_content.get(raw[12:])

    def _restored(self, one: Stored, found: Found, by_content: dict[bytes, Written]) -> None:
        sizes = {at: size for at, size, _ in found.batches}
        for each in found.restored:
            batch = self._written(one, each.position, sizes.get(each.position, 0), by_content)
            for name, (_, used) in each.fields.items():
                self.counts["restored fields"] += 1
                self.counts[f"restored {name}"] += 1
                if batch is not None and _FIELDS[name](batch) == used:
                    continue
                if batch is not None and _is_beside_moved(one, found, each.position):
                    self.counts["restored by a block at a wrong place"] += 1
                else:
                    self.fault("wrong field", f"{each} of {batch and batch[1:4]}")

    def _invented(self, one: Stored, found: Found, by_content: dict[bytes, Written]) -> None:
        rows: Rows = []
        restored = {each.position: each.fields for each in found.restored}
        for at, size, following in found.batches:
            batch = self._written(one, at, size, by_content)
            if batch is None:
                self.fault("invented", f"{at} {size}")
                return
            by = following - batch.next
            if by and not ("base_offset" in restored.get(at, {}) and _is_beside_moved(one, found, at)):
                self.counts["stored offset kept"] += 1
                stored_base = int.from_bytes(one.data[at : at + 8], "big", signed=True)
                if "base_offset" in restored.get(at, {}) or by != stored_base - batch.base:
                    self.fault("invented", f"{at} {size} moved by {by}")
            is_wrapper = one.data[at + 16] < 2 and one.data[at + 17] & 7
            if by and is_wrapper:  # then its records' offsets may be taken for absolute ones
                there = found.rows[len(rows) : len(rows) + len(batch.rows)]
                rows += [(offset, value) for (offset, _), (_, value) in zip(there, batch.rows, strict=True)]
            else:
                rows += [(offset + by, value) for offset, value in batch.rows]
        if rows != found.rows:
            self.fault("invented", "records")


def _is_claimed(one: Stored, found: Found, at: int) -> bool:
    """Whether a batch is within what the length of a damaged one before it says, and reading goes on exactly behind
    that. Nothing in it is looked at, as values may hold batches. (As many bytes were removed as a batch has.)"""
    for damage in found.damage:
        if damage.position < at < damage.position + damage.length:
            claimed = int.from_bytes(one.data[damage.position + 8 : damage.position + 12], "big", signed=True)
            return bool(claimed + 12 == damage.length)
    return False


def _is_beside_moved(one: Stored, found: Found, at: int) -> bool:
    """Whether among the next batches before or behind one is at a wrong place: in a block that is there twice, or was
    exchanged with another one. The bytes do not tell which of the two is right."""
    before = [start for start, _, _ in found.batches if start <= at][-offset_order.WINDOW :]
    behind = [start for start, _, _ in found.batches if start > at][: offset_order.WINDOW]
    return any(one.origin[start + HEADER] < -1 for start in before + behind)


# ---- each reader


def one_log(seed: int, number: int) -> tuple[WrittenLog, list[Stored], int]:
    """Log, damaged segments, number of damages."""
    chance = random.Random(f"{seed} {number}")
    log = hurt_logs.written_log(chance, segments=chance.choice([1, 1, 2, 4]))
    count = 0 if chance.random() < 0.02 else chance.randrange(1, 9)
    return log, hurt_logs.damaged(chance, log, count), count


def check(log: WrittenLog, parts: Sequence[Stored], folder: Path, number: int) -> Judge:
    judge = Judge()
    for segment, one in zip(log.segments, parts, strict=True):
        columns = kafkarec.decode(one.data, **READ)
        judge.segment(log, segment, one, Found.of(columns), "buffer")
    hurt_logs.write_folder(folder, log, parts)
    if number % 3 == 2:  # an active segment without a batch
        (folder / f"{log.segments[-1].batches[-1].next:020d}.log").touch()
    opened = kafkarec.open(folder)
    assert isinstance(opened, kafkarec.Log)
    if any(one.data.startswith(PACKED) for one in parts):
        judge.counts["refused: a file begins as a packed one"] += 1
        return judge
    whole = []
    for written, one, segment in zip(log.segments, parts, opened.segments[: len(parts)], strict=True):
        whole.append(Found.of(segment.read(**READ)))
        judge.segment(log, written, one, whole[-1], "file")
    if number % 5 == 0:
        check_ranges(opened, log, parts, whole, judge)
    if number % 10 == 1:
        check_verify(folder, whole, judge)
    if number % 10 == 2:
        check_explain(opened, whole, judge)
    if number % 50 == 3:
        check_salvage(folder, log, parts, whole, judge)
    return judge


def joined(parts: Sequence[Found]) -> Found:
    """Consecutive ranges of a segment as one."""
    nothing = Found([], [], (), (), 0)
    return Found(*(reduce(add, column) for column in zip(nothing, *parts, strict=True)))


def check_ranges(
    opened: kafkarec.Log, log: WrittenLog, parts: Sequence[Stored], whole: Sequence[Found], judge: Judge
) -> None:
    """Ranges as Spark's tasks read them, pieces of a stream, and ranges of offsets."""
    for segment, found in zip(opened.segments[: len(whole)], whole, strict=True):
        judge.counts["segments in ranges"] += 1
        ranges = [Found.of(segment.between(*ends).read(**READ)) for ends in segment.splits(900)]
        pieces = [Found.of(piece) for piece in segment.stream(**READ, batch_bytes=700)]
        for kind, several in (("ranges differ", ranges), ("pieces differ", pieces)):
            one = joined(several)
            if one._replace(damage=()) != found._replace(damage=()) or places(one.damage) != places(found.damage):
                judge.fault(kind, segment.name)
    offsets = [offset for found in whole for offset, _ in found.rows]
    if offsets != sorted(set(offsets)) or any(at < -1 for one in parts for at in one.origin):
        return  # which of them are right is not known, or an index points into a block at a wrong place
    if any("magic" in one.fields for found in whole for one in found.restored):
        return  # by its header, whose magic tells where its last offset is, such a batch may be outside of the range
    offsets = [offset for offset in offsets if log.segments[0].name <= offset < log.segments[-1].batches[-1].next]
    for first, end in pairwise(offsets[:: max(1, len(offsets) // 5)]):
        judge.counts["ranges of offsets"] += 1
        got = opened.read(**READ, start_offset=first, end_offset=end)
        if got.column("offset") != [offset for offset in offsets if first <= offset < end]:
            judge.fault("range of offsets differs", f"{first} {end}")


def places(damage: Iterable[kafkarec.Damage], but: str | None = None) -> list[tuple[str | None, int, int, str]]:
    return [(one.file, one.position, one.length, one.reason) for one in damage if one.file != but]


def check_verify(folder: Path, whole: Sequence[Found], judge: Judge) -> None:
    report = kafkarec.verify(folder)
    judge.counts["verified logs"] += 1
    damage = [each for one in whole for each in one.damage]
    restored = [each for one in whole for each in one.restored]
    # Where a file beside the log says that its end is missing, verify has no clean tail.
    last = report.files[-1].path if report.partitions[0].end.higher else None
    if places(report.damage, last) != places(damage, last):
        judge.fault("verify differs", f"damage {places(report.damage, last)} {places(damage, last)}")
    if list(report.restored) != restored:
        judge.fault("verify differs", f"restored {report.restored} {restored}")
    if report.total("batches") != sum(len(one.batches) for one in whole):
        judge.fault("verify differs", "batches")
    if (damage or restored) and report.exit_status() != 1:
        judge.fault("verify differs", f"exit status {report.exit_status()}")


def check_explain(opened: kafkarec.Log, whole: Sequence[Found], judge: Judge) -> None:
    """`explain` says of each batch what the others say of it."""
    for segment, found in zip(opened.segments[: len(whole)], whole, strict=True):
        restored = {one.position: one for one in found.restored}
        for at, _, _ in found.batches[:: 1 if restored else 5]:
            judge.counts["explained batches"] += 1
            if restored_at(BatchRange(segment, at, segment.size)) != restored.get(at):
                judge.fault("explain differs", f"{segment.name} {at}")


def check_salvage(folder: Path, log: WrittenLog, parts: Sequence[Stored], whole: Sequence[Found], judge: Judge) -> None:
    """Every untouched batch that was read is in the new log, or set aside; nothing else is but the markers that the
    report lists."""
    out = folder.parent / "salvaged"
    report = kafkarec.salvage(folder, out)
    judge.counts["salvaged logs"] += 1
    made, aside = (
        b"".join(path.read_bytes() for path in sorted(out.glob(pattern)))
        for pattern in ("*/*.log", "set-aside/**/transaction_undecided*")
    )
    log_there = {bytes(batch.raw) for batch in kafkarec.batches(made)}
    for segment, one, found in zip(log.segments, parts, whole, strict=True):
        read = {at for at, _, _ in found.batches}
        for at, batch in untouched(segment, one):
            if at not in read:
                continue
            if batch.raw in aside:
                judge.counts["salvage: set aside with their transaction"] += 1
            elif batch.raw not in log_there:
                judge.fault("not salvaged", f"{batch.base}")
    [partition] = report.partitions
    said = [*partition.lost, *partition.missing, *partition.inner_gaps]
    said += [(each.first_offset, each.last_offset) for each in partition.set_aside]
    there = set(kafkarec.decode(made, **READ).column("offset"))
    for offset in (offset for segment in log.segments for batch in segment.batches for offset, _ in batch.rows):
        spans = ((low or 0) <= offset <= (high if high is not None else offset) for low, high in said)
        if offset not in there and offset < (partition.next_offset or 0) and not any(spans):
            judge.fault("loss not said", f"{offset}")
    contents = {batch.covered for segment in log.segments for batch in segment.batches}
    written = sum(len(each.markers) for each in report.partitions)
    strange = [raw for raw in log_there if raw[17:] not in contents and raw[12:] not in contents]
    if len(strange) > written:
        judge.fault("salvage invents", f"{len(strange)} batches, {written} markers")
    shutil.rmtree(out)


def main() -> int:
    parser = argparse.ArgumentParser(prog="damages.py", description="random damage to random logs")
    parser.add_argument("--count", type=int, default=10_000, help="damages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one log")
    parser.add_argument("--keep", type=Path, help="write the faulty logs there")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    began, damages, number, faulty = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="damages-") as scratch:
        while damages < options.count:
            at = number if options.only is None else options.only
            log, parts, count = one_log(options.seed, at)
            folder = Path(scratch) / "orders-0"
            try:
                judge = check(log, parts, folder, at)
            except Exception:
                print(f"log {at}:", flush=True)
                raise
            if judge.faults:
                faulty += 1
                print(f"log {at}: " + "; ".join(judge.faults[:4]), flush=True)
                if options.keep:
                    shutil.copytree(folder, options.keep / f"{at}" / "orders-0")
            shutil.rmtree(folder)
            total.update(judge.counts)
            number, damages = number + 1, damages + count
            if options.only is not None:
                break
    seconds = time.monotonic() - began
    print(f"damages: {number} logs, {damages} damages, {faulty} logs with faults, {seconds:.0f} s")
    for name, value in sorted(total.items()):
        print(f"  {name}: {value}")
    return int(bool(faulty))


if __name__ == "__main__":
    sys.exit(main())
