"""The transactions of logs are the same, matched in C (`_c/transactions.pxd`) and batch by batch in Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import builders
import pytest

import kafkarec
from kafkarec._core import Layout, Source, TransactionMatcher
from kafkarec.errors import InvalidRecordError
from kafkarec.format import control
from kafkarec.format.schema import record_schema
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.read import marker_matching
from kafkarec.read.marker_columns import ABORT, COMMIT, DATA, NOTHING, STAMPED, UNREADABLE, MarkerInput, read
from kafkarec.read.marker_matching import Match, match

pytestmark = pytest.mark.core

MARKER = builders.TRANSACTIONAL | builders.CONTROL
Parts = list[tuple[bytes, list[AbortedTransaction] | None]]


def inputs_of(parts: Parts) -> list[MarkerInput]:
    """Segments with their .txnindex."""
    return [
        MarkerInput(lambda data=data: nullcontext(Source(data)), "0.log", lambda index=index: index)  # type: ignore[misc]
        for data, index in parts
    ]


def outcome(parts: Parts, *, raises: bool) -> dict[str, Any]:
    try:
        found = match(inputs_of(parts), raises=raises)
    except InvalidRecordError as error:
        return {"error": str(error), "position": error.position, "base_offset": error.base_offset}
    names = ("ended", "without_data", "notes", "decisions", "coordinator_epochs", "ahead", "damage")
    offsets = ("first_offset", "next_offset", "max_timestamp")
    return {name: getattr(found, name) for name in (*names, *offsets)} | {"open": list(found.open.items())}


def same_in_python(parts: Parts, *, raises: bool = False) -> dict[str, Any]:
    """The outcome, equal with and without the compiled matcher."""
    found = outcome(parts, raises=raises)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marker_matching, "TransactionMatcher", lambda: None)
        assert outcome(parts, raises=raises) == found
    return found


def marker(chosen: random.Random, base: int, who: dict[str, int]) -> bytes:
    """A control batch: mostly ABORT or COMMIT; of another type, of two records, without records, unreadable."""
    kind, version, last = chosen.choice([0, 0, 0, 1, 1, 1, 1, 2, 256, -1]), chosen.choice([0, 0, 0, 0, 1, 127]), 0
    key: bytes | None = version.to_bytes(2, "big") + kind.to_bytes(2, "big", signed=True)
    value: bytes | None = bytes([chosen.choice([0, 0, 0, 0x7F, 0x80]), 0]) + chosen.randrange(2**32).to_bytes(4, "big")
    if chosen.randrange(40) == 0:
        key = chosen.choice([None, b"", b"\0\0\0", b"\xff\xff\0\0"])
    if chosen.randrange(10) == 0:
        value = chosen.choice([None, b"\0\0\0\0\0", b"\0\0\0\0\0\7more"])
    records = [builders.record(key=key, value=value)]
    if chosen.randrange(6) == 0:
        records.append(builders.record(key=b"\0\0\0\1", value=None, offset_delta=1))
        last = 1
    if chosen.randrange(12) == 0:
        records = []
    return builders.batch(records, base_offset=base, attributes=MARKER, last_offset_delta=last, **times(chosen), **who)


def times(chosen: random.Random) -> dict[str, int]:
    base = builders.NOW + chosen.randrange(-500, 500)
    return {"base_timestamp": base, "max_timestamp": chosen.choice([base, base + 7, -1])}


def data_batch(chosen: random.Random, base: int, who: dict[str, int]) -> bytes:
    count = chosen.randrange(1, 4)
    attributes = builders.TRANSACTIONAL if chosen.randrange(5) else 0
    attributes |= chosen.choice([0, 0, 0, builders.LOG_APPEND, builders.DELETE_HORIZON])
    records = [builders.record(offset_delta=delta, value=b"v") for delta in range(count)]
    fields = {"base_offset": base, "attributes": attributes, "base_sequence": 0, **times(chosen), **who}
    return builders.batch(records, codec=chosen.choice(["none", "gzip", "snappy"]), **fields)  # type: ignore[arg-type]


def message(base: int) -> bytes:
    """A wrapper of magic 1, whose first offset is not in its header."""
    inner = [builders.message(magic=1, offset=delta, value=b"v") for delta in range(2)]
    return builders.wrapper(inner, magic=1, codec="gzip", offset=base + 1)


def odd_log(seed: int, *, sound: bool = False) -> Parts:
    """Segments of some producers, with the .txnindex that their markers have, or one that contradicts them."""
    chosen = random.Random(seed)
    epochs = dict.fromkeys(range(chosen.randrange(1, 6)), 0)
    base = chosen.choice([0, 5, 2**40, -3])
    first: dict[int, int] = {}
    parts: Parts = []
    sound = bool(chosen.randrange(2)) or sound
    for _ in range(chosen.randrange(1, 4)):
        batches, index = [], []
        for _ in range(chosen.randrange(0, 25)):
            producer = chosen.choice([*epochs, -1])
            if not sound and producer >= 0 and chosen.randrange(30) == 0:
                epochs[producer] += 1
            who = {"producer_id": producer, "producer_epoch": epochs.get(producer, -1)}
            kind = chosen.randrange(12)
            if kind == 0:
                raw, last = message(base), base + 1
            elif kind < 4:
                raw = marker(chosen, base, who)
                last = base + int.from_bytes(raw[23:27], "big")
                if producer in first and chosen.randrange(8):
                    start = first.pop(producer) - (chosen.randrange(12) == 0)
                    index.append(AbortedTransaction(producer, start, last, last + 1))
                first.pop(producer, None)
            else:
                raw = data_batch(chosen, base, who)
                last = base + int.from_bytes(raw[23:27], "big")
                if producer >= 0 and raw[22] & builders.TRANSACTIONAL:
                    first.setdefault(producer, base)
            batches.append(raw)
            base = last + 1 + (0 if chosen.randrange(9) else 3)
        if chosen.randrange(6) == 0:
            index.append(AbortedTransaction(chosen.randrange(4), base - 2, chosen.randrange(base, base + 9), base))
        data = b"".join(batches)
        if not sound and data and chosen.randrange(3) == 0:
            at = chosen.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << chosen.randrange(8)]) + data[at + 1 :]
        parts.append((data, chosen.choice([None, [], index, index, index])))
    return parts


def test_random_logs() -> None:
    notes, errors, ended = set(), 0, 0
    for seed in range(600):
        found = same_in_python(odd_log(seed), raises=seed % 2 == 0)
        errors += "error" in found
        notes |= {note.reason for note in found.get("notes", ())}
        ended += len(found.get("ended", ())) > 0
    assert {"txnindex_differs", "txnindex_ahead", "marker_missing", "marker_unreadable"} <= notes
    assert errors > 20 and ended > 300


def expected_codes(data: bytes) -> tuple[list[tuple[int, int]], tuple[int, int, int]]:
    """(code, coordinator epoch or record count) of each batch, and (first, last offset, greatest max timestamp)."""
    codes, table = [], list(kafkarec.scan(data))
    for row, batch in zip(table, kafkarec.batches(data, control=True), strict=True):
        number = row["record_count"]
        first = next(iter(batch), None) if row["is_control"] else None
        if first is not None:
            code = kinds.get(kind_of(first.key), NOTHING)
            value = first.value or b""
            number = int.from_bytes(value[2:6], "big", signed=True) if len(value) >= 6 and value[0] < 128 else -1
        else:
            stamped = row["timestamp_type"] == 1 or row["delete_horizon_ms"] is not None
            code = (STAMPED if stamped else DATA) if row["is_transactional"] and not row["is_control"] else NOTHING
        codes.append((code, -1 if number is None else number))
    begin = table[0]["base_offset"]
    times = [-1 if row["max_timestamp"] is None else row["max_timestamp"] for row in table]
    first_offset = table[0]["last_offset"] if begin is None or begin < 0 else begin
    return codes, (first_offset, table[-1]["last_offset"], max(times))


kinds = {0: ABORT, 1: COMMIT, None: UNREADABLE}


def kind_of(key: bytes | None) -> int | None:
    try:
        return control.type_id(key)
    except InvalidRecordError:
        return None


def test_codes_and_coordinator_epochs() -> None:
    found = set()
    for seed in range(300):
        for data, _ in odd_log(seed, sound=True):
            for step in read(MarkerInput.of(data), check_all=False, damage=[], tails=[]):
                codes, ends = expected_codes(data)
                numbers = step.column("record_count")
                assert list(zip(step.codes, numbers, strict=True)) == codes
                assert (step.first_offset, step.last_offset, step.max_timestamp) == ends
                found.update(step.codes)
    assert found == {NOTHING, DATA, ABORT, STAMPED, COMMIT, UNREADABLE}


def sound_log(chosen: random.Random, producers: Sequence[int], count: int) -> tuple[bytes, list[AbortedTransaction]]:
    """Transactions without contradiction, some still open at the end, and the .txnindex."""
    batches, index, first = [], [], dict[int, int]()
    for base in range(count):
        producer = chosen.choice(producers)
        who = {"producer_id": producer, "base_offset": base, "base_timestamp": builders.NOW + chosen.randrange(99)}
        if producer in first and chosen.randrange(3) == 0:
            commit = bool(chosen.randrange(2))
            batches.append(builders.end_marker(commit=commit, **who))
            start = first.pop(producer)
            if not commit:
                index.append(AbortedTransaction(producer, start, base, base + 1))
        else:
            first.setdefault(producer, base)
            batches.append(builders.good_batch(1, attributes=builders.TRANSACTIONAL, base_sequence=0, **who))
    return b"".join(batches), index


@pytest.mark.parametrize("producers", [1, 7, 3000])
def test_a_sound_log_is_matched_in_c_alone(monkeypatch: pytest.MonkeyPatch, producers: int) -> None:
    chosen = random.Random(producers)
    ids = [*range(producers - 1), 2**63 - 1]
    data, index = sound_log(chosen, ids, 2000 + producers)
    with monkeypatch.context() as patch:
        patch.setattr(Match, "_match_one_by_one", None)
        alone = outcome([(data, index)], raises=True)
    found = same_in_python([(data, index)])
    assert found == alone and not found["notes"]
    assert same_in_python([(data, None)])["ended"] == found["ended"]
    assert len(found["open"]) >= producers // 4 and len(found["ended"]) > 2000


def test_a_transaction_begun_before_the_first_segment() -> None:
    """The .txnindex has its first offset: with data of it in the input, and without."""
    who = {"producer_id": 3, "producer_epoch": 2}
    data = builders.good_batch(1, base_offset=10, attributes=builders.TRANSACTIONAL, base_sequence=0, **who)
    last = builders.end_marker(commit=False, base_offset=11, **who)
    at = marker_matching.ROW.index("first_offset")
    for raw, first in ((data + last, 4), (data + last, 10), (last, 4), (last, 11)):
        found = same_in_python([(raw, [AbortedTransaction(3, first, 11, 12)])])
        assert not found["notes"] and len(found["ended"]) == marker_matching.WIDTH
        assert found["ended"][at] == first
    other = builders.good_batch(1, base_offset=8)
    for first, notes in ((8, 1), (7, 0), (9, 1), (10, 0), (11, 1)):
        found = same_in_python([(other + data + last, [AbortedTransaction(3, first, 11, 12)])])
        assert len(found["notes"]) == notes
        assert found["ended"][at] == (10 if notes else first)


def test_entries_and_markers_with_the_same_offset() -> None:
    """The producer decides which entry is that of a marker."""

    def of(producer: int, base: int) -> bytes:
        flags = builders.TRANSACTIONAL
        return builders.good_batch(1, base_offset=base, attributes=flags, producer_id=producer, base_sequence=0)

    def end(producer: int) -> bytes:
        return builders.end_marker(commit=False, producer_id=producer, base_offset=4)

    log = b"".join([*(of(producer, producer) for producer in (1, 2, 3)), end(2), end(3), end(1)])
    index = [AbortedTransaction(producer, producer, 4, 5) for producer in (1, 2, 3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Match, "_match_one_by_one", None)
        alone = outcome([(log, index)], raises=True)
    assert alone == same_in_python([(log, index)]) and not alone["notes"] and not alone["open"]
    assert len(alone["ended"]) == 3 * marker_matching.WIDTH
    found = same_in_python([(of(1, 1) + end(1), [AbortedTransaction(2, 1, 4, 5)])])
    assert {note.reason for note in found["notes"]} == {"marker_missing", "txnindex_differs"}


def test_wrong_arguments_are_refused() -> None:
    [step] = read(MarkerInput.of(builders.good_batch(1)), check_all=False, damage=[], tails=[])
    assert bytes(step.codes) == b"\0" and (step.first_offset, step.last_offset) == (0, 0)
    with pytest.raises(ValueError, match="keys and values of these batches are needed"):
        step.table.mark(step.table.chunk(Layout(record_schema((), "ms"))))
    for start, stop in ((0, 2), (-1, 1), (1, 0)):
        with pytest.raises(ValueError, match=f"batches {start} to {stop} of 1"):
            TransactionMatcher().run(step.table, step.codes, start, stop, 0, 0)
    with pytest.raises(ValueError, match="0 codes of 1 batches"):
        TransactionMatcher().run(step.table, bytearray(), 0, 1, 0, 0)
    with pytest.raises(ValueError, match="2 codes of 1 batches"):
        TransactionMatcher().has_markers(step.table, bytearray(2))
