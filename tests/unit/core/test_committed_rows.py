"""Rows.committed: the rows without control records and aborted data, compared with what the decoder leaves out."""

from __future__ import annotations

import random
from collections.abc import Iterable

import compaction_logs
import pytest

import kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import request
from kafkarec.read.passes import read_part

pytestmark = pytest.mark.core


def offsets(data: bytes, *, control: bool, aborted: Iterable[tuple[int, ...]] = ()) -> list[int]:
    asked = request(columns=["offset"], control=control)
    options = asked.options._replace(aborted=tuple(aborted))
    part = read_part(asked._replace(options=options), Source(data))
    return [offset for chunk in part.chunks for offset in chunk.column(0, 8)[1].cast("q")]


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_committed_batches(seed: int) -> None:
    dice, log = random.Random(seed), compaction_logs.Log(seed, magics=((2,), (1, 2))[seed % 2])
    part = read_part(request(columns=["offset"], control=True), Source(log.data))
    [rows], runs = part.tables, part.chunks[0].runs() if part.chunks else b""
    lasts = [row["last_offset"] for row in kafkarec.scan(log.data)]
    aborted = [(one.number, *sorted(dice.choices([0, *lasts], k=2))) for one in log.producers]
    found, start, shown = [], 0, offsets(log.data, control=True)
    for border in sorted({*dice.choices(lasts, k=3), 2**62}):
        before, (start, next_offset, spans) = start, rows.committed(runs, aborted, start, border)
        assert start == sum(last < border for last in lasts)
        assert next_offset == (lasts[start - 1] + 1 if start > before else None)
        assert all(first < stop for first, stop in spans)
        found += [offset for first, stop in spans for offset in shown[first:stop]]
    assert found == offsets(log.data, control=False, aborted=aborted)


def test_a_batch_that_is_not_there_is_refused() -> None:
    [rows] = read_part(request(columns=[]), Source(compaction_logs.Log(1).data)).tables
    for start in (-1, len(rows) + 1):
        with pytest.raises(ValueError, match="batch"):
            rows.committed(b"", (), start, 5)
    assert rows.committed(b"", (), len(rows), 5) == (len(rows), None, [])
