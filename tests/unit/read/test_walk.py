"""The walk over a log: steps of several segments, with what is wanted of them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import builders
import pytest
from reading import FileInMemory

import kafkarec
from kafkarec.errors import CorruptRecordError
from kafkarec.read.decode_options import ALL_CHECKS, CONTROL_PAYLOADS, NO_CHECKS, NO_PAYLOADS, PAYLOAD_CHECKS
from kafkarec.read.walk import (
    CHECKED_MARKERS,
    CHECKSUMS,
    HEADERS,
    MARKERS,
    Buffer,
    Want,
    asked,
    is_preallocated,
    passes_checksum,
    walk,
)

pytestmark = pytest.mark.core

ONE, TWO = builders.good_batch(3), builders.good_batch(2, base_offset=3)
WRONG = TWO[:-1] + bytes([TWO[-1] ^ 1])


def test_what_two_want_is_read_once() -> None:
    assert Want(NO_PAYLOADS, (), NO_CHECKS) == HEADERS and HEADERS | HEADERS == HEADERS
    assert (MARKERS | CHECKSUMS).checks == (CHECKSUMS | CHECKED_MARKERS).checks == ALL_CHECKS
    assert CHECKED_MARKERS.checks == PAYLOAD_CHECKS
    both = MARKERS | Want(CONTROL_PAYLOADS, ("offset", "key"))
    assert both == Want(CONTROL_PAYLOADS, (*MARKERS.columns, "offset"), NO_CHECKS)


def test_each_segment_has_steps_with_its_number() -> None:
    cut = ONE + TWO[:30]
    steps = list(walk([ONE + TWO, b"", cut], asked(HEADERS)))
    found = [(step.number, len(step), step.tail) for step in steps]
    assert found == [(0, 2, None), (1, 0, None), (2, 1, (len(ONE), 30))]
    assert steps[0].column("base_offset") == steps[0].first_offsets(0) == [0, 3] and steps[0].last_offset == 4
    assert steps[2].tail is not None and not is_preallocated(steps[2].segment, steps[2].tail)


def test_zeros_behind_the_batches_of_a_file_are_preallocated() -> None:
    file = FileInMemory(ONE + bytes(100), "0.log")
    [step] = walk([file], asked(HEADERS))
    assert step.tail == (len(ONE), 100) and is_preallocated(file, step.tail)


def test_damage_is_in_the_step_or_raised_behind_the_batches_before_it() -> None:
    [step] = walk([ONE + WRONG + ONE], asked(CHECKSUMS, errors="skip", restore=False))
    assert [one.position for one in step.damage] == [len(ONE)] and len(step) == 2
    raising = walk([ONE + WRONG], asked(CHECKSUMS))
    assert len(next(raising)) == 1
    with pytest.raises(CorruptRecordError):
        next(raising)


def test_only_the_bytes_between_two_positions_are_read() -> None:
    log = ONE + TWO + ONE
    [step] = walk([log], asked(HEADERS), start=len(ONE), stop=len(ONE + TWO))
    assert step.column("position") == [len(ONE)]
    [step] = walk([log], asked(HEADERS), start_of=lambda segment: len(ONE + TWO))
    assert len(step) == 1


def test_the_first_offset_of_a_wrapper_is_that_behind_the_batch_before() -> None:
    wrapper = builders.wrapper([builders.message(offset=n, magic=1) for n in range(3)], offset=9)
    [step] = walk([ONE + wrapper], asked(HEADERS))
    assert step.column("base_offset") == [0, None] and step.first_offsets(0) == [0, 3]


def test_whether_one_batch_passes_its_checksum() -> None:
    assert passes_checksum(Buffer(ONE + WRONG), 0, len(ONE))
    assert not passes_checksum(Buffer(ONE + WRONG), len(ONE), len(WRONG))


@pytest.mark.parametrize("errors", ["skip", "raise"])
def test_the_steps_of_many_small_segments_are_the_same_with_threads(errors: str) -> None:
    logs = [b"".join(builders.good_batch(2, base_offset=2 * n) for n in range(size)) for size in range(40)]
    logs[30] = logs[30][:-1]
    logs[33] = logs[33][:200] + b"\xff" + logs[33][201:]

    def seen(threads: int) -> tuple[list[object], object]:
        found: list[object] = []
        try:
            for step in walk(logs, asked(CHECKSUMS, errors=errors), threads=threads):
                found.append((step.number, step.column("position"), [*step.damage], step.tail))
        except CorruptRecordError as error:
            return found, (error.position, error.reason)
        return found, None

    alone = seen(1)
    assert alone[1] is None if errors == "skip" else alone[1] is not None
    assert all(seen(threads) == alone for threads in (2, 3, 8))


def test_a_walk_with_threads_may_be_left(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n:020}.log" for n in range(0, 60, 3)]
    for path in paths:
        path.write_bytes(builders.good_batch(3, base_offset=int(path.stem)))
    log = kafkarec.open(tmp_path)
    with closing(log.stream(threads=2)) as pieces:
        assert next(pieces).column("offset") == [0, 1, 2]
    assert [piece.column("offset")[0] for piece in log.stream(threads=4)] == list(range(0, 60, 3))
    paths[7].unlink()
    with pytest.raises(FileNotFoundError), closing(log.stream(threads=4)) as pieces:
        assert [len(next(pieces)) for _ in range(7)] == [3] * 7
        next(pieces)
