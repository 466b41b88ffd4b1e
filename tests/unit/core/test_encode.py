"""encode and the builder write byte for byte what tests/support/builders.py writes, at the limits of every field.

Rows are passed as tuples, as Arrow columns and as Arrow columns with a batch field: three paths through the encoder
(rows without new batch fields are encoded in a separate loop), one result.
"""

import itertools
import random

import builders
import pyarrow as pa
import pytest
from core_reading import INT_MAX, error_as_oracle
from foreign_arrow import as_arrow

import kafkarec
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader

pytestmark = pytest.mark.core

VARINT_BORDERS = [0, 1, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27 - 1, 2**27, INT_MAX - 1, INT_MAX]


def stamp(row):
    return -1 if row[1] is None else row[1]


def expected_batch(rows):
    """Return one batch of magic 2; base offset and base timestamp are those of the first row."""
    base, time = rows[0][0], stamp(rows[0])
    parts = [
        builders.record(
            offset_delta=row[0] - base,
            timestamp_delta=stamp(row) - time,
            key=row[2],
            value=row[3],
            headers=[(name.encode(), value) for name, value in row[4]],
        )
        for row in rows
    ]
    return builders.batch(
        parts,
        base_offset=base,
        base_timestamp=time,
        max_timestamp=max(map(stamp, rows)),
        last_offset_delta=rows[-1][0] - base,
        leader_epoch=-1,
    )


def row(offset, timestamp=1000, key=b"k", value=b"v"):
    return offset, timestamp, key, value, []


def messages(rows, magic, **fields):
    return b"".join(
        builders.message(magic=magic, offset=one[0], timestamp=stamp(one), key=one[2], value=one[3], **fields)
        for one in rows
    )


def in_every_way(rows, **options):
    """Return the bytes, equal from rows, from columns in one chunk and in several, and with batch fields."""
    table = as_arrow(rows)
    facts = table.append_column("partition_leader_epoch", pa.array([-1] * len(rows), pa.int32()))
    pieces = pa.concat_tables([table.slice(n, 1) for n in range(len(rows))])
    written = [kafkarec.encode(source, **options) for source in (rows, table, pieces, facts)]
    assert all(other == written[0] for other in written)
    return written[0]


def whole(rows):
    """Assert that encode and the builder write the expected batch, and that it decodes to the same rows."""
    wanted = expected_batch(rows)
    assert in_every_way(rows, batch_size=INT_MAX) == wanted
    builder = kafkarec.RecordBatchBuilder(base_offset=rows[0][0])
    for offset, time, key, value, headers in rows:
        builder.append(-1 if time is None else time, key, value, headers, offset)
    assert builder.estimated_bytes_written == len(wanted)
    assert builder.build() == wanted
    assert error_as_oracle(wanted) is None


def test_an_offset_delta_at_the_borders_of_a_varint():
    for delta in VARINT_BORDERS:
        for base in (0, 2**62):
            whole([row(base), row(base + delta)] if delta else [row(base)])


def test_a_timestamp_delta_at_the_borders_of_a_varint():
    for delta in (
        *VARINT_BORDERS,
        2**31,
        2**34 - 1,
        2**34,
        2**41 - 1,
        2**41,
        2**48,
        2**55 - 1,
        2**55,
        2**62 - 1,
        2**62,
    ):
        whole([row(0, 0), row(1, delta)])
        whole([row(0, delta), row(1, 0)])
        whole([row(0, delta), row(1, None)])
        whole([row(0, None), row(1, delta), row(2, 0)])
    whole([row(0, 2**63 - 1), row(1, None), row(2, 0), row(3, 2**63 - 1)])


def test_a_key_or_value_of_every_size():
    for size in (*range(70), 127, 128, 254, 255, 256, 257, 258, 511, 512, 8191, 8192, 8193):
        text = bytes(n * 7 % 251 for n in range(size))
        name = ("0123456789abcdef" * 600)[:size]
        whole(
            [
                (0, 1, text, None, []),
                (1, 1, None, text, []),
                (2, 1, text, text, [(name, text), (name, None), ("", b"")]),
                (3, 1, b"", b"", []),
            ]
        )


def test_rows_that_a_mask_keeps():
    """One byte per row, from `start` on; if no row is kept, the batch is empty."""
    rows = [(n, 1000 + n * 3 % 5, b"k%d" % n, None if n % 3 else b"v", [("h", None)] * (n % 2)) for n in range(10)]
    pieces = pa.concat_tables([as_arrow(rows[:1]), as_arrow(rows[1:6]), as_arrow(rows[6:])])
    for record_input in (record_input_of(rows), record_input_of(as_arrow(rows)), record_input_of(pieces)):
        for start, stop in ((0, 10), (0, 1), (1, 10), (3, 8), (9, 10), (5, 5)):
            for mask in range(0, 1 << (stop - start), 7):
                keep = bytes(mask >> n & 1 for n in range(stop - start))
                kept = [one for one, wanted in zip(rows[start:stop], keep, strict=True) if wanted]
                header = BatchHeader(base_offset=kept[0][0] if kept else 4)
                result = record_input.write(header, start, stop, keep)
                if kept:
                    assert result == expected_batch(kept), (start, stop, keep)
                else:
                    assert len(result) == 61 and kafkarec.scan(result)[0]["record_count"] == 0
        for start, stop in ((0, 9), (0, 10), (1, 9), (2, 5), (8, 9), (9, 10)):
            assert record_input.write(BatchHeader(base_offset=start), start, stop) == expected_batch(rows[start:stop])
        for start, stop, size in ((0, 10, 9), (0, 10, 11), (2, 10, 10)):
            with pytest.raises(ValueError, match=f"`keep` has {size} bytes for {stop - start} rows"):
                record_input.write(BatchHeader(), start, stop, bytes(size))
        for start, stop, size in ((-1, 3, 4), (3, 2, 0), (0, 11, 11)):
            with pytest.raises(ValueError, match=f"rows {start} to {stop} of 10"):
                record_input.write(BatchHeader(), start, stop, bytes(size))


# magic 0 and 1


LEGACY = [
    row(3, 50, None, b""),
    row(4, None, b"", None),
    row(6, 90, b"k" * 63, b"v" * 64),
    row(9, 70, b"k" * 8192, None),
]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_written_byte_for_byte_by_encode_and_by_the_builder(magic):
    for count in range(1, 5):
        data = kafkarec.encode(LEGACY[:count], magic=magic)
        assert data == kafkarec.encode(as_arrow(LEGACY[:count]), magic=magic) == messages(LEGACY[:count], magic)
        builder = kafkarec.RecordBatchBuilder(magic=magic, base_offset=3)
        for offset, time, key, value, _ in LEGACY[:count]:
            builder.append(time, key, value, (), offset)
        assert builder.build() == data
    stamped = kafkarec.encode(LEGACY, magic=magic, timestamp_type="log_append_time", log_append_time=33)
    if magic == 0:
        assert stamped == messages(LEGACY, 0), "magic 0 has no such flag"
    else:
        assert stamped == messages([(one[0], 33, *one[2:]) for one in LEGACY], 1, attributes=8)


def odd_rows(chosen, count):
    """Rows whose offsets mostly rise; null and extreme timestamps, nulls, headers, sizes at the borders of varints."""
    offset, rows = chosen.choice([-5, 0, 2**62]), []
    for _ in range(count):
        offset += chosen.choice([1, 1, 1, 1, 2, 60, 9000, 0, -1] if chosen.randrange(9) else [1])
        time = chosen.choice([None, -1, 0, 1, 63, 64, 2**40, -(2**63), 2**63 - 1])
        key, value = (chosen.choice([None, b"", b"k" * chosen.choice([1, 50, 54, 63, 64, 8190])]) for _ in range(2))
        headers = [("h", b"v")] * chosen.choice([0, 0, 0, 1, 70])
        rows.append((offset, time, key, value, headers))
    return rows


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batches_begin_before_the_first_row_that_does_not_fit(magic):
    """Each batch, written without a codec, is within the limit, and is above it with the row that follows."""
    chosen = random.Random(12 + magic)
    several = 0
    for _ in range(60):
        rows = [one if magic == 2 else (*one[:4], []) for one in odd_rows(chosen, chosen.randrange(1, 40))]
        table = as_arrow(rows)
        record_input = record_input_of(chosen.choice([table, pa.concat_tables([table[:3], table[3:]]), rows]))
        horizon = chosen.choice([None, 0, 2**62]) if magic == 2 else None
        start, stop = sorted(chosen.choices(range(len(rows) + 1), k=2))

        def size(begin, end):
            header = BatchHeader(magic, base_offset=rows[begin][0], delete_horizon_ms=horizon)  # noqa: B023
            return len(record_input.write(header, begin, end))  # noqa: B023

        sizes = [size(at, at + 1) for at in range(start, stop)]
        for limit in {1, *(chosen.choice(sizes) + chosen.randrange(-1, 200) for _ in range(9) if sizes), 2**63 - 1}:
            header = BatchHeader(magic, delete_horizon_ms=horizon)
            starts = record_input.batch_starts(header, start, stop, limit)
            assert starts[:1] == ([start] if start < stop else [])
            for begin, end in itertools.pairwise([*starts, stop]):
                assert end == begin + 1 or size(begin, end) <= limit
                assert end == stop or size(begin, end + 1) > limit
                several += end > begin + 1
    assert several > 100
    with pytest.raises(ValueError, match="rows 0 to 2 of 1"):
        record_input_of([row(0)]).batch_starts(BatchHeader(magic), 0, 2, 100)
