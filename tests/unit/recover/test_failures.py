"""Reads and codecs that fail while a batch is looked for or restored."""

import errno

import builders
import pytest
from core_reading import offsets
from fake_file import FakeFile
from plain_logs import batches

import kafkarec

SIX = batches(6)


class SmallReadsFail(FakeFile):
    def read_at(self, position, length):
        if length < 64:
            raise OSError(errno.EIO, "Input/output error")
        return super().read_at(position, length)


@pytest.mark.parametrize("window", [100, 128, 150, 200, 256, 300, 400, 1000])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_batch_that_was_found_and_cannot_be_read_again_is_damage(number, window):
    spoiled = builders.patched(SIX[number], 30, b"\xff\xff")
    for piece in (spoiled, builders.patched(SIX[number], 8, b"\xff\xff"), SIX[number] + b"x" * 40):
        data = b"".join(piece if n == number else one for n, one in enumerate(SIX))
        columns = kafkarec.open(SmallReadsFail(data, window)).read(errors="skip", columns=["offset"])
        batches = columns.batches
        spans = [*zip(batches.column("position"), batches.column("size_in_bytes"), strict=True)]
        spans += [(one.position, one.length) for one in columns.damage]
        at = 0
        for position, length in sorted(spans):
            assert position == at
            at += length
        assert at == len(data) and columns.remaining == 0
        assert {one.reason for one in columns.damage} <= {"unreadable", "crc_mismatch", "unsupported_magic"}
        assert offsets(columns) == [3 * (base // 3) + n for base in batches.column("base_offset") for n in range(3)]
