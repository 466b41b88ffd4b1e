"""The offset map: exact keys of all kinds, and a run that ends when there are too many."""

from __future__ import annotations

import random
import struct
from array import array
from itertools import accumulate

import pytest

from kafkarec._verbs import LastOffsets

pytestmark = pytest.mark.core

Columns = tuple[tuple[bytes | None, bytes, bytes | None], bytes, int]


def columns(rows: list[tuple[bytes | None, int]]) -> Columns:
    """Return rows of (key, offset) as a chunk's columns."""
    ends = array("i", accumulate((len(key or b"") for key, _ in rows), initial=0))
    bits = sum(1 << i for i, (key, _) in enumerate(rows) if key is not None)
    validity = bits.to_bytes((len(rows) + 7) // 8, "little") if any(key is None for key, _ in rows) else None
    data = b"".join(key or b"" for key, _ in rows)
    return (validity, ends.tobytes(), data or None), array("q", [offset for _, offset in rows]).tobytes(), len(rows)


def keys(random_: random.Random, kind: int) -> bytes | None:
    number = random_.randrange(4000)
    return [
        b"%d" % number,
        struct.pack(">q", number),
        b"prefix that all of them have in common %d" % number,
        b"k" * (number % 600),
        bytes(number % 9),
        None if number % 3 else b"",
    ][kind]


@pytest.mark.parametrize("kind", range(6))
def test_the_map_behaves_as_a_dict(kind: int) -> None:
    random_ = random.Random(kind)
    table, known = LastOffsets(), dict[bytes, int]()
    for _ in range(30):
        rows = [(keys(random_, kind), random_.randrange(-5, 2**62)) for _ in range(random_.choice([0, 1, 15, 500]))]
        table.put(*columns(rows))
        known.update((key, offset) for key, offset in rows if key is not None)
        queries = [(keys(random_, kind), random_.randrange(-5, 2**62)) for _ in range(100)]
        queries += [(key, known.get(key or b"", 7)) for key, _ in queries]
        wanted = [key is not None and offset >= known.get(key, -1) for key, offset in queries]
        assert list(table.latest(*columns(queries))) == wanted
        assert len(table) == len(known)


@pytest.mark.slow
def test_a_key_takes_the_memory_that_the_docs_state() -> None:
    table, count = LastOffsets(), 300_000
    for start in range(0, count, 10_000):
        table.put(*columns([(b"%016d" % i, i) for i in range(start, start + 10_000)]))
    assert len(table) == count
    assert 38 <= table.nbytes / count <= 70  # 17 plus 21 to 43, and free slots


def test_columns_that_are_too_short_are_refused() -> None:
    (validity, ends, data), offsets, rows = columns([(b"abc", 1), (None, 2)])
    for wrong in (
        ((validity, ends[:-1], data), offsets, rows),
        ((b"", ends, data), offsets, rows),
        ((validity, ends, b"ab"), offsets, rows),
        ((validity, ends, None), offsets, rows),
        ((validity, ends, data), offsets[:-1], rows),
        ((validity, ends, data), offsets, -1),
    ):
        with pytest.raises(ValueError, match=r"needed|offsets that fall"):
            LastOffsets().put(*wrong)
