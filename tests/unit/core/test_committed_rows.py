"""BatchRows.committed_rows: without control records and aborted data, compared with what the decoder leaves out."""

import random

import broker_logs
import pytest
import reading

import kafkarec

pytestmark = pytest.mark.core


def offsets(data, *, control, aborted=()):
    part = reading.read_batches(data, columns=["offset"], control=control, engine={"aborted": tuple(aborted)})
    return [offset for chunk in part.chunks for offset in chunk.values(0, 0, len(chunk))]


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_committed_batches(seed):
    dice, log = random.Random(seed), broker_logs.Log(seed, magics=((2,), (1, 2))[seed % 2])
    part = reading.read_batches(log.data, columns=["offset"], control=True)
    [rows], chunk = part.tables, part.chunks[0] if part.chunks else None
    lasts = [row["last_offset"] for row in kafkarec.scan(log.data)]
    aborted = [(one.number, *sorted(dice.choices([0, *lasts], k=2))) for one in log.producers]
    found, start, shown = [], 0, offsets(log.data, control=True)
    for border in sorted({*dice.choices(lasts, k=3), 2**62}):
        start, spans = rows.committed_rows(chunk, aborted, start, border)
        assert start == sum(last < border for last in lasts)
        assert all(first < stop for first, stop in spans)
        found += [offset for first, stop in spans for offset in shown[first:stop]]
    assert found == offsets(log.data, control=False, aborted=aborted)


def test_a_batch_that_is_not_there_is_refused():
    [rows] = reading.read_batches(broker_logs.Log(1).data, columns=[]).tables
    for start in (-1, len(rows) + 1):
        with pytest.raises(ValueError, match="batch"):
            rows.committed_rows(None, (), start, 5)
    assert rows.committed_rows(None, (), len(rows), 5) == (len(rows), [])
