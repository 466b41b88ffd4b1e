"""`make damages`: random damage to random logs; what every reader makes of it is compared with what was written.

usage: damages.py [--count DAMAGES] [--seed N] [--only LOG] [--keep FOLDER]

Each log is read as buffers and as a folder (`errors="skip"`); some also in ranges as Spark's tasks read, in pieces, by
`verify`, and by `salvage`. tests/support/hurt_logs.py says what must come back. Prints counts; ends with status 1 if
anything is wrong, with the numbers of the logs, which `--only` repeats and `--keep` writes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import hurt_logs  # noqa: E402
from hurt_logs import READ, Found, Judge, Stored, WrittenLog  # noqa: E402

import kafkarec  # noqa: E402
from kafkarec.cli.explain import BatchPosition, restored_at  # noqa: E402

PACKED = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
"""First bytes that `open` refuses with the advice to rename the file; damage may cut all bytes before a payload."""


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
    opened = kafkarec.open(folder)
    assert isinstance(opened, kafkarec.Log)
    if any(one.data.startswith(PACKED) for one in parts):
        judge.counts["refused: a file begins as a packed one"] += 1
        return judge
    whole = []
    for written, one, segment in zip(log.segments, parts, opened.segments, strict=True):
        whole.append(Found.of(segment.read(**READ)))
        judge.segment(log, written, one, whole[-1], "file")
    if number % 5 == 0:
        check_ranges(opened, whole, judge)
    if number % 10 == 1:
        check_verify(folder, whole, judge)
    if number % 10 == 2:
        check_explain(opened, whole, judge)
    if number % 50 == 3:
        check_salvage(folder, log, parts, whole, judge)
    return judge


def joined(parts: Sequence[Found]) -> Found:
    """Consecutive ranges of a segment as one."""
    return Found(
        [each for one in parts for each in one.batches],
        [each for one in parts for each in one.rows],
        tuple(each for one in parts for each in one.damage),
        tuple(each for one in parts for each in one.restored),
        sum(one.remaining for one in parts),
    )


def check_ranges(opened: kafkarec.Log, whole: Sequence[Found], judge: Judge) -> None:
    """Ranges as Spark's tasks read them, and pieces of a stream."""
    for segment, found in zip(opened.segments, whole, strict=True):
        judge.counts["segments in ranges"] += 1
        ranges = [Found.of(segment.between(*ends).read(**READ)) for ends in segment.splits(900)]
        pieces = [Found.of(piece) for piece in segment.stream(**READ, batch_bytes=700)]
        for kind, parts in (("ranges differ", ranges), ("pieces differ", pieces)):
            one = joined(parts)
            if one._replace(damage=()) != found._replace(damage=()) or places(one.damage) != places(found.damage):
                judge.fault(kind, segment.name)


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
    for segment, found in zip(opened.segments, whole, strict=True):
        restored = {one.position: one for one in found.restored}
        for at, _, _ in found.batches[:: 1 if restored else 5]:
            judge.counts["explained batches"] += 1
            if restored_at(BatchPosition(segment, at, segment.size)) != restored.get(at):
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
        for at, batch in hurt_logs.untouched(segment, one):
            if at not in read:
                continue
            if batch.raw in aside:
                judge.counts["salvage: set aside with their transaction"] += 1
            elif batch.raw not in log_there:
                judge.fault("not salvaged", f"{batch.base}")
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
