"""The 91 requests to Kafka's writer classes: the same refusals, the same number of bytes, or a listed difference."""

import json
from functools import partial
from types import SimpleNamespace

import differences
import golden
import pytest
import typed_control
from compact_filter import BatchDecision, filter_to

import kafkarec
from kafkarec import ControlRecordType, RecordBatchBuilder, stamp
from kafkarec.format.control import UnknownControlRecord

ATTEMPTS = json.loads((golden.VECTORS / "writer-refusals.json").read_text())["attempts"]

NOTHING = (None, None)
KEY_VALUE = (b"k", b"v")
PRODUCER = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
TRANSACTION = {**PRODUCER, "is_transactional": True}


def built(*calls, **options):
    """Return the batch after these calls of a builder."""
    builder = RecordBatchBuilder(**options)
    for call in calls:
        call(builder)
    return builder.build()


def one(fields=KEY_VALUE, timestamp=5, **options):
    """Return a batch of one record."""
    return built(lambda made: made.append(timestamp, *fields), **options)


def at(first, *more, **options):
    """Return a batch of records at these offsets."""
    calls = [lambda made, offset=offset: made.append(5, *NOTHING, offset=offset) for offset in (first, *more)]
    return built(*calls, **options)


def with_headers(headers, **options):
    return built(lambda made: made.append(5, *NOTHING, headers), **options)


def marker(kind="commit", **options):
    return built(lambda made: made.append_end_txn_marker(5, kind, 0), is_control=True, **options)


def control(record):
    return built(lambda made: made.append_control(5, record), is_control=True)


def stamped(fields, **options):
    """Return a batch of one record of which these fields are changed in place."""
    buffer = bytearray(one(**options))
    stamp(buffer, **fields)
    return bytes(buffer)


EMPTYING = SimpleNamespace(
    check_batch_retention=lambda batch: BatchDecision(records=False, keeps_header=True), retained_rows=None
)
"""Of the cleaner: each batch keeps its header and none of its records, of which none is chosen."""
OF_EACH_MAGIC = {
    "timestamp -2": partial(one, NOTHING, -2),
    "timestamp -1": partial(one, NOTHING, -1),
    "repeated offset": partial(at, 3, 3),
    "offset below the base offset": partial(at, 5, base_offset=10),
    "offset delta Integer.MAX_VALUE + 1": partial(at, 0, 2**31),
    "negative base offset": partial(one, base_offset=-5),
    "one header": partial(with_headers, [("h", None)]),
    "headers null": partial(with_headers, None),
    "zstd": partial(one, compression="zstd"),
    "producer id": partial(one, **PRODUCER),
    "transactional": partial(one, **TRANSACTION),
    "control batch": lambda magic: marker(magic=magic, **(TRANSACTION if magic == 2 else {})),
    "delete horizon": partial(one, delete_horizon_ms=6),
    "no timestamp type": partial(one, timestamp_type=None),
    "LogAppendTime without a time": partial(one, timestamp_type="log_append_time"),
    "no records": built,
    "no records, gzip": partial(built, compression="gzip"),
    "set partition leader epoch in place": partial(stamped, {"partition_leader_epoch": 3}),
    "set max timestamp in place": partial(stamped, {"timestamp_type": "log_append_time", "max_timestamp": 99}),
    "cleaner retains an emptied batch": lambda magic: filter_to(
        one(magic=magic), EMPTYING, now=0, delete_retention_ms=0
    ),
}
LEVELS = {"gzip": (-2, -1, 0, 1, 9, 10), "lz4": (0, 1, 17, 18), "zstd": (-131073, -131072, 0, 22, 23)}
REQUESTS = {
    **{
        f"magic {magic}: {name}": partial(run, magic=magic)
        for magic in (0, 1, 2)
        for name, run in OF_EACH_MAGIC.items()
    },
    "magic 3": partial(one, magic=3),
    "header key null": partial(with_headers, [(None, None)]),
    "transactional without producer id": partial(one, is_transactional=True),
    "producer id with epoch -1": partial(one, producer_id=1, base_sequence=0),
    "producer id with sequence -1": partial(one, producer_id=1, producer_epoch=0),
    "producer id -2": partial(one, producer_id=-2, producer_epoch=0, base_sequence=0),
    "sequence without producer id": partial(one, base_sequence=7),
    "first timestamp of a batch -1, LogAppendTime": partial(one, NOTHING, -1, timestamp_type="log_append_time"),
    "data record in a control batch": partial(one, NOTHING, is_control=True),
    "control record in a data batch": partial(
        built, lambda made: made.append_end_txn_marker(5, "commit"), **TRANSACTION
    ),
    "control record of type UNKNOWN": partial(control, UnknownControlRecord(ControlRecordType.UNKNOWN, -1, 0, b"")),
    "end marker of type LEADER_CHANGE": partial(marker, "leader_change", **TRANSACTION),
    "end marker without producer id": partial(marker, is_transactional=True),
    "end marker in a batch that is not transactional": partial(marker, **PRODUCER),
    "leader change without leader epoch": partial(control, typed_control.control("LEADER_CHANGE", 1, (), ())),
    "override of the last offset below the last record": partial(
        built,
        lambda made: made.append(5, *NOTHING),
        lambda made: made.append(5, *NOTHING),
        lambda made: made.override_last_offset(0),
    ),
    **{
        f"{codec} level {number}": partial(one, compression=codec, level=number)
        for codec, numbers in LEVELS.items()
        for number in numbers
    },
}


def test_every_request_is_made():
    assert len(ATTEMPTS) == 91 and [attempt["attempt"] for attempt in ATTEMPTS] == list(REQUESTS)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt["attempt"])
def test_each_request_has_kafkas_outcome(attempt):
    name = attempt["attempt"]
    try:
        written = REQUESTS[name]()
    except ValueError as refusal:
        written = None
        assert str(refusal), "a refusal says why"
    if name in differences.WRITERS:
        assert (written is None) != (attempt["exception"] is not None), "a listed difference that is none"
        return
    assert (written is None) == (attempt["exception"] is not None)
    if written is None:
        return
    if "zstd" in name:
        # Kafka's stream ends the frame with an empty block and has no content size
        assert [(r.key, r.value) for r in kafkarec.decode(written)] == [KEY_VALUE]
        assert abs(len(written) - attempt["bytesWritten"]) <= 4
    else:
        assert len(written) == attempt["bytesWritten"]
    assert kafkarec.decode(written, control=True, isolation="read_uncommitted").remaining == 0


def test_listed_differences_are_requests():
    assert set(differences.WRITERS) <= set(REQUESTS)
