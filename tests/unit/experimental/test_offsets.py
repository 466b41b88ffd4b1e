"""header_first.offsets: which offsets it refuses, and how much it decompresses; test_damage.py has damaged batches."""

import random

import builders
import pytest
from builders import CODECS
from magic3_forms import FORMS, real_batches

import kafkarec
from kafkarec.experimental import header_first

pytestmark = pytest.mark.core
HEADER_FIRST = [form for form in FORMS if form.header_first]
each_form = pytest.mark.parametrize("form", HEADER_FIRST, ids=str)


def read_batch_header(deltas, **options):
    return builders.batch([builders.record(offset_delta=delta) for delta in deltas], **options)


@each_form
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "deltas, last, record, sides",
    [
        ([0, 0, 1], 1, 1, (0, 0)),
        ([0, 2, 1, 3], 3, 2, (2, 1)),
        ([-1, -2, 0], 0, 0, (-1, -1)),
        ([-(2**31), 5], 5, 0, (-1, -(2**31))),
        ([0, 1], 2, 1, (None, None)),
        ([0, 1], 0, 1, (None, None)),
    ],
)
def test_other_offsets_are_refused_and_still_decoded(form, codec, deltas, last, record, sides):
    good = form.from_v2(read_batch_header([0]))
    data = good + form.from_v2(read_batch_header(deltas, last_offset_delta=last, codec=codec, base_offset=50))
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        header_first.offsets(data)
    error = caught.value
    assert (error.reason, error.position, error.base_offset) == ("offsets_out_of_order", len(good), 50)
    assert (error.record, error.expected, error.found) == (record, *sides)
    assert len(form.module.decode(data)) == 1 + len(deltas)


@each_form
def test_real_batches_are_accepted_unless_compaction_left_gaps_at_their_end(form):
    accepted = 0
    for data in real_batches().values():
        batches = list(kafkarec.batches(data))
        whole = all(
            not batch.record_count or [record.offset for record in batch][-1] == batch.last_offset for batch in batches
        )
        try:
            found = header_first.offsets(form.from_v2(data))
        except kafkarec.KafkaRecordError as error:
            assert not whole and error.reason == "offsets_out_of_order"
        else:
            assert whole and found[:2] == (len(batches), sum(batch.record_count or 0 for batch in batches))
            accepted += 1
    assert accepted > 60
    empty = read_batch_header([], payload=b"", codec="gzip")
    assert header_first.offsets(form.from_v2(empty))[:2] == (1, 0) and header_first.offsets(b"") == (0, 0, 0, 0)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_of_two_frames_the_fields_alone_are_decompressed(codec):
    random_ = random.Random(3)
    parts = [builders.record(offset_delta=n, key=None, value=random_.randbytes(1000)) for n in range(500)]
    data = builders.batch(parts, codec=codec)
    content = sum(map(len, parts)) - 500  # without the attributes
    fields = content - 500 * 1000
    one, two = (header_first.from_v2(data, frames=frames) for frames in (1, 2))
    found = header_first.offsets(two, max_decompressed_bytes=fields)
    assert found.decompressed_bytes == fields and found.compressed_bytes < fields
    assert header_first.offsets(one).decompressed_bytes == content
    with pytest.raises(kafkarec.LimitExceededError):
        header_first.offsets(one, max_decompressed_bytes=content - 1)
