"""explain: spans cover every batch, whatever its bytes; what the engine refuses has a fault; guesses are right."""

import random

import builders
import golden
import pytest

import kafkarec
from kafkarec.errors import REASONS
from kafkarec.ops.explain import GROUPS, explain, group_of

CASES = [*golden.vectors(), *golden.invalid()]
# The engine's fast path reads beyond a record's end until a length is compared, so its first error in a
# record of random bytes may be a different error.
OTHER_REASON = {"v2-lz4-labelled-none", "v2-zstd-middle-overwritten"}


def walk(data, **options):
    """Return explanations of all batches of a buffer, in order."""
    explained, at = [], 0
    while at < len(data):
        explained.append(explain(data, at, **options))
        at += explained[-1].size
    return explained


def check_covers_all(explained):
    for section in explained.sections:
        at = 0
        for span in section.spans:
            assert span.start == at and span.length >= 0, (section.name, span)
            at += span.length
            assert group_of(span) in GROUPS
        assert at == len(section.data), section.name
    for fault in explained.faults:
        assert fault.reason in REASONS
        assert 0 <= fault.position <= len(explained.sections[fault.section].data)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_spans_cover_every_batch_and_faults_are_the_engines(case):
    explained = walk(case.bytes)
    faults = [fault for one in explained for fault in one.faults]
    for one in explained:
        check_covers_all(one)
    try:
        refused = "a tail" if kafkarec.decode(case.bytes, control=True).remaining else None
    except kafkarec.KafkaRecordError as error:
        refused = error.reason
    assert bool(faults) == (refused is not None), faults
    if refused not in (None, "a tail") and case.name not in OTHER_REASON:
        assert refused in [fault.reason for fault in faults]


@pytest.mark.parametrize("most", [0, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_records_that_are_not_shown_are_covered_and_checked_too(case, most):
    for some, whole in zip(walk(case.bytes, records=most), walk(case.bytes), strict=True):
        check_covers_all(some)
        assert some.faults == whole.faults


def test_any_bytes_are_covered_and_raise_no_error():
    random_ = random.Random(4)
    batches = [case.bytes for case in golden.vectors() if 0 < len(case.bytes) < 1500]
    for _ in range(3000):
        data = bytearray(random_.choice(batches))
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(len(data))] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
        for explained in walk(bytes(data[: random_.randint(0, len(data))]), max_decompressed_bytes=1 << 20):
            check_covers_all(explained)


def test_a_fault_in_a_record_is_found_and_the_next_record_is_explained():
    parts = builders.records(50)
    parts[30] = builders.record(value=b"x", value_length=900)
    explained = explain(builders.batch(parts, last_offset_delta=49), records=2)
    assert [(fault.path, fault.reason) for fault in explained.faults] == [
        ("records[30].value_length", "value_length_invalid")
    ]
    paths = [span.path for span in explained.spans]
    assert "records[2..29]" in paths and "records[31..49]" in paths


def test_the_parts_of_a_compressed_payload_have_the_values_that_are_in_it():
    parts = builders.records(3)
    values = {span.path: span.value for span in explain(builders.batch(parts, codec="gzip")).spans}
    assert (values["gzip.magic"], values["gzip.size"]) == ("1f 8b", len(b"".join(parts)))


def test_position_and_bounds():
    one = golden.vector("v2-null-key").bytes
    assert explain(one + one, len(one)).position == len(one)
    assert explain(one, len(one)).size == 0
    for position in (-1, len(one) + 1):
        with pytest.raises(ValueError, match="outside"):
            explain(one, position)
