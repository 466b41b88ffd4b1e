"""The engine's chunks, checks, ranges and limits, and its state from one input to the next."""

import itertools

import builders
import pytest
import reading
from core_reading import decode_range
from plain_logs import batch

import kafkarec
from kafkarec._core import Source

pytestmark = pytest.mark.core

FAR = 2**31
NO_PAYLOADS, CONTROL_PAYLOADS, ALL_PAYLOADS = range(3)  # as in decode.pxd
NO_CHECKS, ALL_CHECKS, PAYLOAD_CHECKS = range(3)


def decoder_of(**engine):
    return reading.decoder("offset", control=True, engine=engine)


def chunks_of(decoder, data):
    """Return (batches, records) of each chunk of one input."""
    decoder.feed(Source(data))
    result = []
    more = True
    while more:
        more = decoder.run()
        part = decoder.take(more)
        result.append((len(part.tables[0]), sum(map(len, part.chunks))))
    return result


def spoiled(raw):
    """Return the batch with a wrong checksum and readable records."""
    at = 17 if raw[16] == 2 else 12
    return builders.flipped(raw, at)


def test_checksums_are_checked_as_asked_for():
    """Of all batches, of those whose records are read, or of none."""
    plain, control = batch(0, 2), builders.end_marker(2, 7, commit=True)
    for payloads, checks in itertools.product(
        (NO_PAYLOADS, CONTROL_PAYLOADS, ALL_PAYLOADS), (NO_CHECKS, ALL_CHECKS, PAYLOAD_CHECKS)
    ):
        options = {"payloads": payloads, "check_crc": checks}
        read_kinds = {NO_PAYLOADS: set(), CONTROL_PAYLOADS: {"control"}, ALL_PAYLOADS: {"plain", "control"}}[payloads]
        checked = {NO_CHECKS: set(), ALL_CHECKS: {"plain", "control"}, PAYLOAD_CHECKS: read_kinds}[checks]
        records = 2 * ("plain" in read_kinds) + ("control" in read_kinds)
        assert chunks_of(decoder_of(**options), plain + control) == [(2, records)], options
        for kind, data in (("plain", spoiled(plain) + control), ("control", plain + spoiled(control))):
            decoder = decoder_of(**options)
            if kind in checked:
                with pytest.raises(kafkarec.CorruptRecordError, match="crc"):
                    chunks_of(decoder, data)
            else:
                assert chunks_of(decoder, data) == [(2, records)], (options, kind)


def offsets_or_none(data, **limits):
    """Return the offsets, or None if refused."""
    try:
        return list(decode_range(data, columns=["offset"], **limits).column("offset"))
    except kafkarec.CorruptRecordError:
        return None


def test_a_corrupt_batch_outside_of_the_range_by_its_header_is_skipped():
    """Below a range by its last offset or max timestamp; above a range of times only by its log append time."""
    first = batch(0, 4, base_timestamp=1000)
    last = batch(8, 4, base_timestamp=3000)
    for kind in (0, 8):
        middle = spoiled(batch(4, 4, base_timestamp=2000, max_timestamp=2003, attributes=kind))
        data = first + middle + last
        assert offsets_or_none(data) is None
        for start in range(13):
            assert (offsets_or_none(data, offsets=(start, None)) is None) == (start <= 7), start
            assert (offsets_or_none(data, offsets=(None, start)) is None) == (start > 4), start
        for time in (1000, 1999, 2000, 2001, 2002, 2003, 2004, 3000):
            assert (offsets_or_none(data, times=(time, None)) is None) == (time <= 2003), (kind, time)
            above = kind == 8 and time <= 2003
            assert (offsets_or_none(data, times=(None, time)) is None) == (not above), (kind, time)
            assert offsets_or_none(data, times=(2004, time)) == [], (kind, time)
        for high in (3001, 3004):
            assert offsets_or_none(data, times=(2004, high)) == [8 + n for n in range(high - 3000)]
    # a base offset that the next one contradicts ends no range; a damaged batch with one may be in it
    for base in (9, 8 + FAR + 1):
        above = batch(base, 1)
        assert offsets_or_none(first + above + last, offsets=(0, 9)) == [0, 1, 2, 3, 8]
        assert offsets_or_none(first + spoiled(above) + last, offsets=(0, 9)) is None
        assert offsets_or_none(first + spoiled(above) + last, offsets=(0, 9), check_crcs=False) == [0, 1, 2, 3, 8]
