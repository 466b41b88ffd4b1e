"""isolation="read_committed" on hand-made logs: markers, open transactions, overrides."""

from __future__ import annotations

from typing import Any

import builders
import pytest

import kafkarec

pytestmark = pytest.mark.core


def data_batch(base: int, pid: int, count: int = 2, epoch: int = 0, *, transactional: bool = True) -> bytes:
    attributes = builders.TRANSACTIONAL if transactional else 0
    return builders.good_batch(
        count, base_offset=base, attributes=attributes, producer_id=pid, producer_epoch=epoch, base_sequence=0
    )


def committed(data: bytes, **options: object) -> list[int]:
    columns = kafkarec.decode(data, isolation="read_committed", **options)
    return [record.offset for record in columns]


def test_committed_and_aborted_interleaved() -> None:
    log = b"".join(
        [
            data_batch(0, 1),
            data_batch(2, 2),
            builders.end_marker(commit=False, producer_id=1, base_offset=4),
            data_batch(5, 2),
            builders.end_marker(commit=True, producer_id=2, base_offset=7),
            data_batch(8, 1),
            builders.end_marker(commit=True, producer_id=1, base_offset=10),
        ]
    )
    assert committed(log) == [2, 3, 5, 6, 8, 9]
    assert len(kafkarec.decode(log)) == 8
    assert kafkarec.decode(log, isolation="read_committed").last_stable_offset in (None, 11)


def test_markers_match_by_producer_id_across_epochs() -> None:
    """KIP-890: the end marker has the epoch after that of its data."""
    log = data_batch(0, 1, epoch=0) + builders.end_marker(commit=False, producer_id=1, producer_epoch=1, base_offset=2)
    assert committed(log) == []


def test_no_records_after_the_first_open_transaction() -> None:
    log = data_batch(0, 1) + data_batch(2, 2) + builders.end_marker(commit=True, producer_id=1, base_offset=4)
    log += data_batch(5, -1, transactional=False)
    columns = kafkarec.decode(log, isolation="read_committed")
    assert [record.offset for record in columns] == [0, 1]
    assert columns.last_stable_offset == 2
    assert len(columns.batches) == 4


def test_plain_records_pass_and_an_abort_ends_only_its_own_transaction() -> None:
    log = data_batch(0, 1) + data_batch(2, -1, transactional=False)
    log += builders.end_marker(commit=False, producer_id=1, base_offset=4) + data_batch(5, 1)
    log += builders.end_marker(commit=True, producer_id=1, base_offset=7)
    assert committed(log) == [2, 3, 5, 6]


def test_a_marker_without_its_data_is_harmless() -> None:
    log = builders.end_marker(commit=False, producer_id=9) + data_batch(1, -1, transactional=False)
    assert committed(log) == [1, 2]


def test_idempotent_data_of_a_transactional_producer_is_not_dropped() -> None:
    log = data_batch(0, 1, transactional=False) + data_batch(2, 1)
    log += builders.end_marker(commit=False, producer_id=1, base_offset=4)
    assert committed(log) == [0, 1]


def test_only_the_first_record_of_a_control_batch_decides() -> None:
    abort = builders.record(key=b"\0\0\0\0", value=b"\0\0\0\0\0\5")
    commit = builders.record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\5", offset_delta=1)
    flags = builders.TRANSACTIONAL | builders.CONTROL
    log = data_batch(0, 1) + builders.batch([abort, commit], base_offset=2, attributes=flags, producer_id=1)
    assert committed(log) == []
    log = data_batch(0, 1) + builders.batch([commit, abort], base_offset=2, attributes=flags, producer_id=1)
    assert committed(log) == [0, 1]


def test_an_unreadable_marker_is_an_error() -> None:
    flags = builders.TRANSACTIONAL | builders.CONTROL
    bad = builders.batch([builders.record(key=b"\0\0")], base_offset=2, attributes=flags, producer_id=1)
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        committed(data_batch(0, 1) + bad)
    assert caught.value.position == len(data_batch(0, 1))
    assert len(kafkarec.decode(data_batch(0, 1) + bad)) == 2


def test_an_empty_control_batch_ends_no_transaction() -> None:
    empty = builders.batch([], base_offset=2, attributes=builders.TRANSACTIONAL | builders.CONTROL, producer_id=1)
    columns = kafkarec.decode(data_batch(0, -1, transactional=False) + empty, isolation="read_committed")
    assert [record.offset for record in columns] == [0, 1]


def test_the_callers_aborted_list_and_last_stable_offset_override_the_markers() -> None:
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
def test_numbers_that_are_no_offsets_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kafkarec.decode(data_batch(0, 1), isolation="read_committed", **wrong)


def test_control_records_are_left_out_unless_asked_for() -> None:
    log = data_batch(0, 1) + builders.end_marker(commit=True, producer_id=1, base_offset=2)
    assert committed(log) == [0, 1]
    assert committed(log, control=True) == [0, 1, 2]
    [marker] = [record for record in kafkarec.decode(log, control=True) if record.control is not None]
    assert marker.control.type == "COMMIT" or marker.control.type.name == "COMMIT"


def test_enums_are_accepted_as_well_as_strings() -> None:
    log = data_batch(0, 1)
    assert len(kafkarec.decode(log, isolation=kafkarec.Isolation.READ_UNCOMMITTED)) == 2
    assert len(kafkarec.decode(log, isolation=kafkarec.Isolation.READ_COMMITTED)) == 0


def test_a_wrapper_cut_by_the_last_stable_offset_does_not_affect_later_records() -> None:
    inner = [builders.message(offset=i, value=b"wrapped %d" % i) for i in range(3)]
    log = builders.wrapper(inner, offset=2) + builders.message(offset=0, key=None, value=b"plain")
    columns = kafkarec.decode(log, isolation="read_committed", last_stable_offset=1)
    assert [(r.offset, r.key, r.value) for r in columns] == [(0, b"k", b"wrapped 0"), (0, None, b"plain")]
    without_offset = kafkarec.decode(log, isolation="read_committed", last_stable_offset=1, columns=["value"])
    assert [r.value for r in without_offset] == [b"wrapped 0", b"plain"]
