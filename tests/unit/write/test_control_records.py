"""Control records as bytes: every type round-trips, what Kafka's builder does not write is refused."""

from uuid import UUID

import pytest
import typed_control

import kafkarec
from kafkarec import ControlRecordType, RecordBatchBuilder
from kafkarec.format.control import (
    ControlRecord,
    Endpoint,
    EndTxnMarker,
    KRaftVersionFeature,
    KRaftVoter,
    LeaderChangeRecord,
    LeaderChangeVoter,
)

pytestmark = [pytest.mark.core, pytest.mark.python]

TRANSACTION = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0, "is_transactional": True}
WITH_DIRECTORY = LeaderChangeVoter(1, UUID(int=1))
VOTER = KRaftVoter(3, UUID(int=2**127 + 9), (Endpoint("CONTROLLER", "höst", 65_535),), KRaftVersionFeature(0, 1))


def test_every_control_type_round_trips():
    made = RecordBatchBuilder(is_control=True, partition_leader_epoch=1, **TRANSACTION)
    made.append_end_txn_marker(1, "abort", 2**31 - 1)
    made.append_end_txn_marker(2, ControlRecordType.COMMIT, 4)
    one, two = LeaderChangeVoter(1), LeaderChangeVoter(2)
    others = [
        typed_control.control("LEADER_CHANGE", 1, (one, two), (two,)),
        typed_control.control("SNAPSHOT_HEADER", 1_700_000_000_000),
        typed_control.control("SNAPSHOT_FOOTER"),
        typed_control.control("KRAFT_VERSION", 1),
        typed_control.control("KRAFT_VOTERS", (VOTER, VOTER)),
    ]
    for number, control in enumerate(others, 3):
        made.append_control(number, control)
    controls = [row.control for row in kafkarec.decode(made.build(), control=True)]
    assert [control.type for control in controls] == list(ControlRecordType)[1:]
    assert controls[0].coordinator_epoch == 2**31 - 1 and controls[1].coordinator_epoch == 4
    assert controls[2:] == others
    again = RecordBatchBuilder(is_control=True, partition_leader_epoch=1, **TRANSACTION)
    for number, control in enumerate(controls, 1):
        again.append_control(number, control)
    assert again.build() == made.build()


@pytest.mark.parametrize(
    "record, words",
    [
        (LeaderChangeRecord(ControlRecordType.LEADER_CHANGE, 2, 1, 1, (), ()), "version 0 only"),
        (LeaderChangeRecord(ControlRecordType.LEADER_CHANGE, 2, 0, 1, (WITH_DIRECTORY,), ()), "no field for a voter"),
        (EndTxnMarker(ControlRecordType.ABORT, 0, 0, 2**31), "does not fit the 32 bits"),
        (EndTxnMarker(ControlRecordType.ABORT, 0, 0, None), "ABORT needs coordinatorEpoch"),
        (EndTxnMarker(None, 0, 0, 1), "control type None: one of"),
        (LeaderChangeRecord(ControlRecordType.LEADER_CHANGE, 2, 0, 1, None, ()), "field of another type"),
        (LeaderChangeRecord(ControlRecordType.LEADER_CHANGE, 2, 0, 1, (None,), ()), "field of another type"),
        (typed_control.control("KRAFT_VOTERS", None), "field of another type"),
        (EndTxnMarker(ControlRecordType.KRAFT_VERSION, 5, 0, 1), "is not the class of"),
        (ControlRecord(ControlRecordType.UNKNOWN, 9, 0), "UNKNOWN"),
    ],
)
def test_control_records_that_cannot_be_written(record, words):
    made = RecordBatchBuilder(is_control=True, partition_leader_epoch=1, **TRANSACTION)
    with pytest.raises(ValueError, match=words):
        made.append_control(0, record)
    with pytest.raises(TypeError, match="a control record is needed"):
        made.append_control(0, b"")
    assert len(made) == 0


@pytest.mark.parametrize(
    "name, words",
    [("\ud800", "string name has half of a surrogate pair"), ("x" * 0x8000, "string name has 32768 bytes")],
)
def test_names_of_endpoints_that_cannot_be_written(name, words):
    voter = KRaftVoter(3, UUID(int=1), (Endpoint(name, "", 1),), KRaftVersionFeature(0, 1))
    with pytest.raises(ValueError, match=words):
        RecordBatchBuilder(is_control=True).append_control(0, typed_control.control("KRAFT_VOTERS", (voter,)))


def test_raw_control_records():
    """Written unchanged, also of future versions; the type must be known, as in appendControlRecordWithOffset."""
    made = RecordBatchBuilder(is_control=True)
    made.append_control_record(5, b"\0\x07\0\x02more", b"value", [("h", None)], 9)
    [row] = kafkarec.decode(made.build(), control=True)
    assert (row.offset, row.key, row.value, row.headers) == (9, b"\0\x07\0\x02more", b"value", [("h", None)])
    for key in (b"\0\0\0\x07", b"\0\0\xff\xff"):
        with pytest.raises(ValueError, match="unknown type"):
            made.append_control_record(5, key, b"")
    for key in (b"", b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(kafkarec.InvalidRecordError):
            made.append_control_record(5, key, b"")
