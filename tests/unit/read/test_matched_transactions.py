"""Producers (`_c/producer_table.pxd`) compared with a slow implementation over single batches, and the transactions of
logs read in steps of any size."""

import itertools
import random

import builders
import pytest
from reading import FileInMemory

import kafkarec
from kafkarec import InvalidRecordError
from kafkarec._core import Producers
from kafkarec.format import control
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.read import isolation
from kafkarec.read.isolation import match_markers
from kafkarec.read.walk import CHECKED_MARKERS, walk, walk_request
from kafkarec.recover.marker_evidence import Evidence
from kafkarec.recover.steps import ABORT, COMMIT, EPOCH_CHANGED, ROW, UNREADABLE_MARKER, WIDTH, Oddity

pytestmark = pytest.mark.core

MARKER = builders.TRANSACTIONAL | builders.CONTROL
NOTHING, DATA, STAMPED, UNREADABLE = 0, 1, 3, 6  # besides ABORT and COMMIT: MarkCode in producer_table.pxd


def inputs_of(parts):
    """Segments with their .txnindex."""
    return [FileInMemory(data, "0.log", Evidence(lambda index=index: index)) for data, index in parts]


def one_by_one(*want, **options):
    found = walk_request(*want, **options)
    return found._replace(options=found.options._replace(chunk_bytes=1))


def outcome(parts, *, raises):
    try:
        found = match_markers(inputs_of(parts), raises=raises)
    except InvalidRecordError as error:
        return {"error": str(error), "position": error.position, "base_offset": error.base_offset}
    names = ("notes", "decisions", "ahead", "damage", "first_offset", "next_offset", "max_timestamp", "open")
    seen = {name: getattr(found, name) for name in names}
    batch = ROW.index("last_stable_offset")  # what follows differs with the size of the steps
    return seen | {name: [row[:batch] for row in rows(getattr(found, name))] for name in ("ended", "without_data")}


def rows(flat, width=WIDTH):
    return list(zip(*[iter(flat)] * width, strict=True))


def in_small_steps(parts, *, raises=False):
    """The outcome, equal where each batch is a step."""
    found = outcome(parts, raises=raises)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation, "walk_request", one_by_one)
        assert outcome(parts, raises=raises) == found
    return found


def marker(chosen, base, who):
    """A control batch: mostly ABORT or COMMIT; of another type, of two records, without records, unreadable."""
    kind, version, last = chosen.choice([0, 0, 0, 1, 1, 1, 1, 2, 256, -1]), chosen.choice([0, 0, 0, 0, 1, 127]), 0
    key = version.to_bytes(2, "big") + kind.to_bytes(2, "big", signed=True)
    value = bytes([chosen.choice([0, 0, 0, 0x7F, 0x80]), 0]) + chosen.randrange(2**32).to_bytes(4, "big")
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


def times(chosen):
    base = builders.NOW + chosen.randrange(-500, 500)
    return {"base_timestamp": base, "max_timestamp": chosen.choice([base, base + 7, -1])}


def data_batch(chosen, base, who):
    count = chosen.randrange(1, 4)
    attributes = builders.TRANSACTIONAL if chosen.randrange(5) else 0
    attributes |= chosen.choice([0, 0, 0, builders.LOG_APPEND, builders.DELETE_HORIZON])
    records = [builders.record(offset_delta=delta, value=b"v") for delta in range(count)]
    fields = {"base_offset": base, "attributes": attributes, "base_sequence": 0, **times(chosen), **who}
    return builders.batch(records, codec=chosen.choice(["none", "gzip", "snappy"]), **fields)


def message(base):
    """A wrapper of magic 1, whose first offset is not in its header."""
    inner = [builders.message(magic=1, offset=delta, value=b"v") for delta in range(2)]
    return builders.wrapper(inner, magic=1, codec="gzip", offset=base + 1)


def odd_log(seed, *, sound=False, damaged=True):
    """Segments of some producers, with the .txnindex that their markers have, or one that contradicts them."""
    chosen = random.Random(seed)
    epochs = dict.fromkeys(range(chosen.randrange(1, 6)), 0)
    base = chosen.choice([0, 5, 2**40, -3])
    first = {}
    parts = []
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
        if damaged and not sound and data and chosen.randrange(3) == 0:
            at = chosen.randrange(len(data))
            data = builders.flipped(data, at, 1 << chosen.randrange(8))
        parts.append((data, chosen.choice([None, [], index, index, index])))
    return parts


def test_random_logs():
    notes, errors, ended = set(), 0, 0
    for seed in range(600):
        found = outcome(odd_log(seed), raises=seed % 2 == 0)
        in_small_steps(odd_log(seed, sound=True))
        errors += "error" in found
        notes |= {note.reason for note in found.get("notes", ())}
        ended += len(found.get("ended", ())) > 0
    assert {"txnindex_differs", "txnindex_ahead", "marker_missing", "marker_unreadable"} <= notes
    assert errors > 20 and ended > 300


def expected_marks(data):
    """(code, coordinator epoch) of each batch, and (first offset, last offset, greatest max timestamp)."""
    marks, table = [], list(kafkarec.scan(data))
    for row, batch in zip(table, kafkarec.batches(data, control=True), strict=True):
        number = -1
        first = next(iter(batch), None) if row["is_control"] else None
        if first is not None:
            code = kinds.get(kind_of(first.key), NOTHING)
            value = first.value or b""
            number = int.from_bytes(value[2:6], "big", signed=True) if len(value) >= 6 and value[0] < 128 else -1
        else:
            stamped = row["timestamp_type"] == 1 or row["delete_horizon_ms"] is not None
            code = (STAMPED if stamped else DATA) if row["is_transactional"] and not row["is_control"] else NOTHING
        marks.append((code, number))
    begin = table[0]["base_offset"]
    times = [-1 if row["max_timestamp"] is None else row["max_timestamp"] for row in table]
    first_offset = table[0]["last_offset"] if begin is None or begin < 0 else begin
    return marks, (first_offset, table[-1]["last_offset"], max(times))


kinds = {0: ABORT, 1: COMMIT, None: UNREADABLE}


def kind_of(key):
    try:
        return control.type_id(key)
    except InvalidRecordError:
        return None


def steps_of(parts):
    """Each segment that has batches, in one step, with its bytes."""
    found = []
    for data, _ in parts:
        found += [(one, data) for one in walk([data], walk_request(CHECKED_MARKERS, errors="skip")) if len(one)]
    return found


def test_ends():
    found = set()
    for seed in range(300):
        for step, data in steps_of(odd_log(seed, sound=True)):
            marks, ends = expected_marks(data)
            producers = Producers()
            producers.take(step.rows, step.chunk, 0, len(step), 0)
            assert (step.first_offset, step.last_offset, producers.max_timestamp) == ends
            of = zip(marks, *(kafkarec.scan(data).column(name) for name in ("producer_id", "last_offset")), strict=True)
            assert step.marker_keys() == {
                (_number(who), last) for (code, _), who, last in of if code in (ABORT, COMMIT)
            }
            found |= {code for code, _ in marks}
    assert found == {NOTHING, DATA, ABORT, STAMPED, COMMIT, UNREADABLE}


def _number(value):
    return -1 if value is None else value


class SlowProducers:
    """Producers over rows of `scan`, one batch at a time."""

    def __init__(self):
        self.open = {}
        self.coordinator_epochs = {}
        self.ended = []
        self.without_data = []
        self.odd = []

    def stable(self, marker):
        return min((txn[1] for txn in self.open.values()), default=marker + 1)

    def take(self, batch, mark, number, segment):
        code, coordinator = mark
        row = {name: -1 if value is None else value for name, value in batch.items() if "timestamp" not in name}
        begun, time = (_number(batch[name]) for name in ("base_timestamp", "max_timestamp"))
        producer, epoch, last = row["producer_id"], row["producer_epoch"], row["last_offset"]
        if producer < 0 or code == NOTHING:
            return
        txn = self.open.get(producer)
        if code == UNREADABLE:
            self.odd.append((UNREADABLE_MARKER, producer, number))
        elif code in (ABORT, COMMIT):
            head = (producer, code, last, time, coordinator, segment)
            if txn is None:
                stable = self.stable(row["base_offset"])
                self.without_data.append((*head, epoch, -1, -1, -1, -1, 0, 0, 0, segment, stable, number))
            else:
                del self.open[producer]
                self.ended.append((*head, *txn[:-2], self.stable(row["base_offset"]), number))
            self.coordinator_epochs[producer] = coordinator
        elif txn is None:
            place = (segment, row["position"], row["size_in_bytes"])
            counts = (1, row["record_count"], row["size_in_bytes"])
            begun = time if code == STAMPED else begun
            self.open[producer] = [epoch, row["base_offset"], last, begun, time, *counts, *place]
        else:
            if txn[0] != epoch:
                self.odd.append((EPOCH_CHANGED, producer, txn[0], txn[1], number))
            more = (1, row["record_count"], row["size_in_bytes"])
            counts = [one + other for one, other in zip(txn[5:8], more, strict=True)]
            self.open[producer] = [epoch, txn[1], last, txn[3], max(txn[4], time), *counts, *txn[8:]]


def test_producers():
    """Of any log, whole or in parts, what ended, what is open and what is odd."""
    kinds_of_odd, some_open = set(), 0
    for seed in range(400):
        producers, slow, chosen = Producers(), SlowProducers(), random.Random(seed)
        taken = {"ended": [], "without_data": [], "odd": []}
        for segment, (step, data) in enumerate(steps_of(odd_log(seed, damaged=False))):
            marks, _ = expected_marks(data)
            for number, (row, mark) in enumerate(zip(kafkarec.scan(data), marks, strict=True)):
                slow.take(row, mark, number, segment)
            cuts = sorted({0, len(step), chosen.randrange(len(step) + 1)})
            for start, stop in itertools.pairwise(cuts):
                parts = producers.take(step.rows, step.chunk, start, stop, segment)
                for name, part, width in zip(taken, parts, (WIDTH, WIDTH, len(Oddity._fields)), strict=True):
                    taken[name] += rows(memoryview(part).cast("q"), width)
        assert taken["ended"] == slow.ended and taken["without_data"] == slow.without_data
        odd = [one if one[0] == EPOCH_CHANGED else (*one[:2], one[-1]) for one in taken["odd"]]
        assert odd == slow.odd
        opened = {one: (one, slow.coordinator_epochs.get(one, -1), *numbers) for one, numbers in slow.open.items()}
        assert list(producers.open_transactions().items()) == list(opened.items())
        for producer in range(-2, 7):
            assert producers.pop_open(producer) == opened.get(producer)
            assert producers.pop_open(producer) is None
        kinds_of_odd |= {one[0] for one in odd}
        some_open += bool(slow.open)
    assert kinds_of_odd == {EPOCH_CHANGED, UNREADABLE_MARKER} and some_open > 100


def sound_log(chosen, producers, count):
    """Transactions without contradiction, some still open at the end, and the .txnindex."""
    batches, index, first = [], [], {}
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
def test_a_sound_log(producers):
    chosen = random.Random(producers)
    ids = [*range(producers - 1), 2**63 - 1]
    data, index = sound_log(chosen, ids, 2000 + producers)
    found = in_small_steps([(data, index)], raises=True)
    assert not found["notes"] and in_small_steps([(data, None)])["ended"] == found["ended"]
    assert len(found["open"]) >= producers // 4 and len(found["ended"]) > 120
    aborted = [(one[0], one[ROW.index("first_offset")], one[2]) for one in found["ended"] if one[1] == ABORT]
    assert aborted == [(one.producer_id, one.first_offset, one.last_offset) for one in index]


@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_without_checks_a_last_batch_with_a_wrong_checksum_is_read(errors):
    """The markers' reading, which checks them to skip damage, did not see it."""
    one, other = (builders.batch(builders.records(2), base_offset=base) for base in (0, 2))
    data = one + other[:-3] + b"x" + other[-2:]
    records = kafkarec.decode(data, isolation="read_committed", errors=errors, check_crcs=False)
    assert records.column("offset") == [0, 1, 2, 3]
