"""isolation="read_committed" on hand-made logs: odd control batches, overrides, columns that are left out.

tests/unit/state/test_transactions.py compares it with a slow implementation on any log of transactions.
"""

import copy

import builders
import pytest
from builders import end_marker
from plain_logs import batch
from refusals import refused

import kafkarec

pytestmark = pytest.mark.core


def data_batch(base, pid, count=2):
    return batch(base, count, transaction=pid)


def committed(data, **options):
    columns = kafkarec.decode(data, isolation="read_committed", **options)
    return [record.offset for record in columns]


def control_batch(base, *types):
    """Of producer 1, a record for each type: 0 is ABORT, 1 is COMMIT."""
    key = {kind: bytes([0, 0, 0, kind]) for kind in types}
    records = [
        builders.record(key=key[kind], value=b"\0\0\0\0\0\5", offset_delta=delta) for delta, kind in enumerate(types)
    ]
    return builders.batch(
        records, base_offset=base, attributes=builders.TRANSACTIONAL | builders.CONTROL, producer_id=1
    )


@pytest.mark.parametrize("types, offsets", [((0, 1), []), ((1, 0), [0, 1])], ids=["ABORT", "COMMIT"])
def test_the_first_record_of_a_control_batch_counts(types, offsets):
    assert committed(data_batch(0, 1) + control_batch(2, *types)) == offsets


def test_an_unreadable_marker_is_an_error():
    flags = builders.TRANSACTIONAL | builders.CONTROL
    bad = batch(2, 1, attributes=flags, producer_id=1, key=b"\0\0")
    error = refused(committed, data_batch(0, 1) + bad)
    assert (error.reason, error.position) == ("control_record_invalid", len(data_batch(0, 1)))
    assert len(kafkarec.decode(data_batch(0, 1) + bad)) == 2


def test_the_callers_aborted_list_and_last_stable_offset_override_the_markers():
    log = data_batch(0, 1) + data_batch(2, 2) + data_batch(4, 1)
    assert committed(log, aborted=[(2, 2)], last_stable_offset=6) == [0, 1, 4, 5]
    assert committed(log, aborted=[], last_stable_offset=4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"aborted": [(2**63, 0)]},
        {"aborted": [(1, 2.5)]},
        {"aborted": [(1, None)]},
        {"aborted": [(1,)]},
        {"last_stable_offset": 2**63},
        {"last_stable_offset": 1.5},
    ],
    ids=str,
)
def test_numbers_that_are_no_offsets_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kafkarec.decode(data_batch(0, 1), isolation="read_committed", **wrong)


@pytest.mark.parametrize("missing", [["key"], ["value"], ["key", "value"]])
def test_a_control_record_without_its_columns_says_which_are_missing(missing):
    columns = [name for name in ("offset", "key", "value") if name not in missing]
    data, _, marker = kafkarec.decode(data_batch(0, 1) + end_marker(2, 1, commit=True), control=True, columns=columns)
    assert data.control is None
    for record in (marker, copy.copy(marker)):
        with pytest.raises(ValueError, match=f"leaves out {' and '.join(missing)}$"):
            _ = record.control


def test_enums_are_accepted_as_well_as_strings():
    log = data_batch(0, 1)
    assert len(kafkarec.decode(log, isolation=kafkarec.Isolation.READ_UNCOMMITTED)) == 2
    assert len(kafkarec.decode(log, isolation=kafkarec.Isolation.READ_COMMITTED)) == 0


def test_a_wrapper_cut_by_the_last_stable_offset_does_not_affect_later_records():
    inner = [builders.message(offset=i, value=b"wrapped %d" % i) for i in range(3)]
    log = builders.wrapper(inner, offset=2) + builders.message(offset=0, key=None, value=b"plain")
    columns = kafkarec.decode(log, isolation="read_committed", last_stable_offset=1)
    assert [(r.offset, r.key, r.value) for r in columns] == [(0, b"k", b"wrapped 0"), (0, None, b"plain")]
    without_offset = kafkarec.decode(log, isolation="read_committed", last_stable_offset=1, columns=["value"])
    assert [r.value for r in without_offset] == [b"wrapped 0", b"plain"]
