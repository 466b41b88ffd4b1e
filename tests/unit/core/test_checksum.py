"""`_c/checksum.pxd` with each of its routines: ISA-L's, the processor's instructions, the table; `_c/xxh32.pxd`."""

from __future__ import annotations

import random
import zlib

import pytest
import subprocesses
from oracle_codecs import xxh32

from kafkarec import _core

pytestmark = pytest.mark.core

EVERY_WAY = """
import random, zlib, crc32c
from kafkarec import _core
chance = random.Random(1)
block = chance.randbytes(100_000)
for length in [*range(700), 4095, 65_537, 100_000]:
    for start in (0, 1, 7):
        piece = block[start : start + length]
        used, own, legacy = _core.checksums_of(piece)
        assert used == own == crc32c.crc32c(piece), length
        assert legacy == zlib.crc32(piece), length
print(_core.CRC32C_WAY)
"""


@pytest.mark.parametrize("way", ["isal", "own", "table"])
def test_each_routine_agrees_with_the_libraries(way: str) -> None:
    taken = subprocesses.run(f"import os; os.environ['KAFKAREC_CRC32C'] = {way!r}\n{EVERY_WAY}").strip()
    assert taken == way


def test_check_values_of_the_catalogue() -> None:
    assert _core.xxh32_of(b"123456789") == 0x937BAD67
    assert _core.checksums_of(b"123456789") == (0xE3069283, 0xE3069283, 0xCBF43926)


def test_xxh32_of_each_length_and_alignment() -> None:
    data = memoryview(random.Random(3).randbytes(5000))
    for start in range(9):
        for length in (*range(70), 4991):
            piece = data[start : start + length]
            assert _core.xxh32_of(piece) == xxh32(bytes(piece))


def test_unaligned_places_in_a_larger_buffer() -> None:
    data = memoryview(random.Random(2).randbytes(5000))
    for start in range(1, 64):
        assert _core.checksums_of(data[start:])[2] == zlib.crc32(data[start:])


def test_an_unknown_routine_is_refused_by_name() -> None:
    code = """
import os
os.environ["KAFKAREC_CRC32C"] = "sse5"
import kafkarec
try:
    kafkarec.decode(b"")
except ValueError as error:
    print(error)
"""
    assert "isal, own, table" in subprocesses.run(code)
