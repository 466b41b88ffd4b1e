"""Reads and codecs that fail while a batch is looked for or restored."""

from __future__ import annotations

import errno
from typing import Any

import builders
import pytest
import reading
from core_reading import offsets
from fake_file import FakeFile

import kafkarec
from kafkarec import codecs
from kafkarec.tables.records import BatchTable

SIX = [builders.good_batch(3, base_offset=3 * n) for n in range(6)]


class SmallReadsFail(FakeFile):
    def read_at(self, position: int, length: int) -> bytes:
        if length < 64:
            raise OSError(errno.EIO, "Input/output error")
        return super().read_at(position, length)


@pytest.mark.parametrize("window", [100, 128, 150, 200, 256, 300, 400, 1000])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_batch_that_was_found_and_cannot_be_read_again_is_damage(number: int, window: int) -> None:
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


def test_a_lost_candidate_makes_the_damage_before_it_unreadable() -> None:
    data = b"".join([*SIX[:2], b"x" * 40, *SIX[2:]])
    columns = kafkarec.open(SmallReadsFail(data, 200)).read(errors="skip", columns=["offset"])
    assert [(one.position, one.reason, one.cause) for one in columns.damage] == [
        (212, "unreadable", "input/output error")
    ]


def test_a_decoder_goes_on_after_an_interrupted_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its check of a stream without records is interrupted, after the one that restored the batch. The bytes of that
    batch are gone then: it reads on from the input."""
    real, calls = codecs.probe, []

    def probe(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(codecs, "probe", probe)
    empty = builders.batch([], base_offset=3, codec="gzip")
    pieces = [SIX[0], builders.patched(empty, 8, b"\x00\x00\x00\x77"), builders.good_batch(3, base_offset=4)]
    decoder = reading.decode_request(errors="skip").decoder()
    decoder.feed(b"".join(pieces))
    with pytest.raises(KeyboardInterrupt):
        decoder.run()
    assert not decoder.run()
    assert [position for _, position, _ in decoder.pop_restored()] == [len(SIX[0])]
    assert decoder.pop_damage() == []
    assert BatchTable([decoder.take()[1]]).column("base_offset") == [0, 3, 4]
