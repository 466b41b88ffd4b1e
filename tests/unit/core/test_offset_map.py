"""The map of last offsets, compared with a dict."""

from pathlib import Path

import builders
import pytest
import reading
from plain_logs import batch

from kafkarec._verbs import LastOffsets

pytestmark = pytest.mark.core


def chunk_of(keys, offsets):
    records = [builders.record(offset_delta=offset, key=key) for key, offset in zip(keys, offsets, strict=True)]
    [chunk] = reading.read_batches(builders.batch(records), columns=["value", "key", "offset"]).chunks
    return chunk


def put(table, keys, offsets):
    table.put(chunk_of(keys, offsets), [(0, len(keys))])


def agrees(keys, offsets, parts=1):
    """Insert the keys in `parts` calls; look up each row, with its offset and with one less and one more."""
    table = LastOffsets()
    last = {}
    size = -(-len(keys) // parts) or 1
    for start in range(0, len(keys), size):
        put(table, keys[start : start + size], offsets[start : start + size])
    for key, offset in zip(keys, offsets, strict=True):
        if key is not None:
            last[key] = offset
    assert len(table) == len(last)
    queries = [*keys, b"never put", b"", b"\0"]
    for more in (-1, 0, 1):
        wanted_at = [offset + more for offset in offsets] + [-2, -1, 0]
        result = table.latest(chunk_of(queries, wanted_at))
        wanted = [key is not None and at >= last.get(key, -1) for key, at in zip(queries, wanted_at, strict=True)]
        assert list(result) == [int(latest) for latest in wanted]


def test_keys_of_every_length():
    """Rows without a key are skipped; a later row replaces an earlier one whatever its offset."""
    text = bytes(range(256)) * 300
    sizes = [*range(40), *range(250, 262), 511, 512, 65535, 65536, 70000]
    keys = [text[:size] for size in sizes]
    some = [key if n % 4 else None for n, key in enumerate(keys)]
    for parts in (1, 2, 7):
        agrees(keys, list(range(len(keys))), parts)
        agrees(keys + some[::-1], [*range(len(keys)), *range(len(keys), 0, -1)], parts)
    assert len(set(sizes)) == len(keys)


def test_the_decoder_selects_keys_with_their_offsets_or_any():
    table, keys = LastOffsets(), [b"a", b"b", b"c"]
    for key, offset in zip(keys, [3, -(2**63), 9], strict=True):
        table.set(key, offset)
    records = [builders.record(offset_delta=n, key=key) for n, key in enumerate([b"a", b"b", b"c", b"a", b"d", b"b"])]
    data = builders.batch([*records, builders.record(offset_delta=6)])
    got = reading.decode_source(data, columns=["offset", "key"], engine={"keys": table})
    assert got.column("offset") == [1, 3, 5] and got.column("key") == [b"b", b"a", b"b"]


def test_slots_are_doubled_when_16_more_keys_might_fill_three_quarters():
    """Of 1024 slots 768 may be used, and keys are inserted 16 at a time: after 752 keys 16 more fit."""
    table = LastOffsets()
    small = table.nbytes
    for start in range(0, 768, 16):
        put(table, [b"%d" % n for n in range(start, start + 16)], range(16))
    assert len(table) == 768 and small < table.nbytes < small + 66_000
    put(table, [b"0"], [5])
    assert len(table) == 768 and table.nbytes > 2 * small + 65_536


def test_spans_of_rows_and_what_has_no_such_rows_or_columns():
    table, chunk = LastOffsets(), chunk_of([b"a", b"b", None, b"a", b"c"], [1, 2, 3, 4, 5])
    table.put(chunk, [(1, 3), (4, 4), (4, 5)])
    assert len(table) == 2 and list(table.latest(chunk)) == [1, 1, 0, 1, 1]
    for span in ((-1, 1), (2, 1), (0, 6)):
        with pytest.raises(ValueError, match="of 5"):
            table.put(chunk, [span])
    [without] = reading.read_batches(batch(0, 1, key=b"a"), columns=["offset"]).chunks
    for wrong in (lambda: table.put(without, [(0, 1)]), lambda: table.latest(without)):
        with pytest.raises(ValueError, match="are needed"):
            wrong()
    with pytest.raises(TypeError):
        table.put(None, [(0, 1)])
    assert len(table) == 2


def test_a_table_keeps_no_memory():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    many = [b"%d" % n for n in range(4000)]
    cases = (([bytes(60_000)], 1000), ([*many], 200))
    for keys, times in cases:
        given, every = chunk_of(keys, range(len(keys))), [(0, len(keys))]
        for n in range(times + 10):
            LastOffsets().put(given, every)
            if n == 10:
                before = resident()
        assert resident() - before < 6 << 20, len(keys)


@pytest.mark.slow
def test_a_key_takes_the_memory_that_the_docs_state():
    table, count = LastOffsets(), 300_000
    for start in range(0, count, 10_000):
        put(table, [b"%016d" % n for n in range(start, start + 10_000)], range(10_000))
    assert len(table) == count
    assert 38 <= table.nbytes / count <= 70  # 17 plus 21 to 43, and free slots
