"""stream: the same results piece by piece, in constant memory; and the rules for files."""

import logging
import warnings

import builders
import golden
import pyarrow as pa
import pytest
import reading
import subprocesses
from plain_logs import batch, batches
from refusals import refused

import kafkarec

pytestmark = pytest.mark.core


def test_the_pieces_together_equal_decode():
    data = b"".join(batches(400, 100, value=bytes(100))) + batch(0, 3)[:40]
    pieces = list(kafkarec.stream(data))
    assert len(pieces) > 3
    whole = kafkarec.decode(data)
    assert pa.concat_tables(map(pa.table, pieces)).equals(pa.table(whole).combine_chunks())
    headers = pa.concat_tables(pa.table(piece.batches) for piece in pieces)
    assert headers.equals(pa.table(whole.batches))
    assert [piece.remaining for piece in pieces] == [0] * (len(pieces) - 1) + [40]


def test_records_before_the_damage_are_yielded_first():
    data = b"".join(batches(100, 100, value=bytes(100)))
    spoiled = data + golden.invalid_case("v2-crc-flipped").bytes
    got = 0
    with pytest.raises(kafkarec.CorruptRecordError) as caught:
        for piece in kafkarec.stream(spoiled):
            got += len(piece)
    assert got == 10_000
    assert caught.value.position == len(data)


@pytest.mark.parametrize("data", [b"", batch(0, 1)[:30], builders.batch([])])
def test_an_empty_input_still_has_a_schema(data):
    pieces = list(kafkarec.stream(data))
    assert len(pieces) >= 1
    assert pieces[-1].remaining == (30 if len(data) == 30 else 0)
    assert list(pieces[0].schema.names) == list(reading.DEFAULT_COLUMNS)


def test_memory_is_flat():
    """128 MB of lz4 batches with 1 GB of content: the peak is one piece, not the whole."""
    code = (
        subprocesses.PEAK
        + """
import builders, kafkarec
one = builders.batch(builders.records(100, value=b"x" * 1000), codec="lz4")
data = one * (8_000_000 // len(one))
begin()
rows = sum(len(piece) for piece in kafkarec.stream(data))
assert rows == 100 * (len(data) // len(one)) and rows * 1000 > 300 << 20, rows
assert peak() < 48 << 20, peak()
"""
    )
    subprocesses.run(code)


def test_zeros_to_the_end_of_a_file_are_preallocated_space():
    good = batch(0, 2)
    data = good + bytes(500)
    with pytest.raises(kafkarec.CorruptRecordError):
        kafkarec.decode(data)
    in_file = reading.decode_file(data, "a.log")
    assert (len(in_file), in_file.remaining, in_file.damage) == (2, 500, ())
    assert reading.decode_file(data, "a.log", errors="skip").damage == ()
    assert reading.decode_file(bytes(500), "a.log").remaining == 500


def test_in_a_file_a_length_beyond_the_end_is_searched_even_when_raising():
    good = batches(3)
    forged = builders.patched(good[1], 8, (10**6).to_bytes(4, "big"))
    error = refused(reading.decode_file, good[0] + forged + good[2], "x.log")
    assert (error.position, error.reason) == (len(good[0]), "length_beyond_end")
    tail = reading.decode_file(good[0] + forged, "x.log")
    assert (len(tail), tail.remaining) == (3, len(forged))


def test_good_data_causes_no_warnings_or_logs(caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in golden.vectors():
            kafkarec.decode(case.bytes)
    assert caplog.records == []
    assert any(isinstance(handler, logging.NullHandler) for handler in kafkarec.logger.handlers)


def test_a_program_that_logs_finds_the_handler_and_others_do_not_wait_for_the_module():
    found = "[type(one).__name__ for one in logging.getLogger('kafkarec').handlers]"
    assert subprocesses.run(f"import logging, kafkarec; print({found})") == "['NullHandler']\n"
    assert subprocesses.run("import sys, kafkarec; print('logging' in sys.modules)") == "False\n"
