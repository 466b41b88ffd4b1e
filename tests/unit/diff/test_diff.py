"""diff: replicas that are equal, or differ in epoch, content, batching, compaction or damage."""

import random
from pathlib import Path
from tempfile import mkdtemp

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_calls import calls_of
from plain_logs import batch, exchange, flip, log

import kafkarec
from kafkarec import stamp
from kafkarec.ops.diff import compare
from kafkarec.sidecars.leader_epochs import EpochEntry
from kafkarec.state import epoch_history
from kafkarec.state.epoch_history import EpochHistory, truncation


def spans(extents):
    return [(e.first, e.last, e.kind) for e in extents]


def compared(tmp_path, a, b):
    """The difference of two logs of these batches, the last of which is a segment of its own; it is mirrored with
    swapped arguments."""
    a, b = (log(Path(mkdtemp(dir=tmp_path)), *filter(None, (one[:-1], one[-1:]))) for one in (a, b))
    difference, other = compare(a, b), compare(b, a)
    assert spans(difference.only_a) == spans(other.only_b) and spans(difference.only_b) == spans(other.only_a)
    assert spans(difference.changed) == spans(other.changed) and difference.same == other.same
    assert difference.a_follows_b == other.b_follows_a
    return difference


def stored(*counts, producer=False, **options):
    """Batches of so many records each, whose offsets rise from one to the next, as do the sequences of a producer."""
    out, at = [], 0
    for count in counts:
        sequence = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5 + at} if producer else {}
        parts = [builders.record(offset_delta=i, timestamp_delta=i, value=b"%d" % (at + i)) for i in range(count)]
        out.append(builders.batch(parts, base_offset=at, base_timestamp=at, **sequence, **options))
        at += count
    return out


def wrappers(*codecs):
    """Messages of five records each."""
    inner = [[builders.message(offset=i, value=b"%d" % (5 * n + i)) for i in range(5)] for n in range(len(codecs))]
    return [builders.wrapper(one, offset=5 * n + 4, codec=codecs[n]) for n, one in enumerate(inner)]


@pytest.mark.parametrize(
    "a, b, identical_to",
    [
        *((stored(5, 7, 8, 10), stored(5) + stored(5, 4, 8, 13, codec=codec)[1:], 5) for codec in builders.CODECS),
        (wrappers("gzip", "gzip"), wrappers("gzip", "lz4"), 5),
        (stored(2, 3, 3, producer=True), stored(2, 2, 4, producer=True), 2),
    ],
    ids=[*builders.CODECS, "wrappers", "sequences"],
)
def test_other_codec_and_other_batches_are_the_same_records(tmp_path, a, b, identical_to):
    difference = compared(tmp_path, a, b)
    assert difference.same and not difference.identical and not difference
    assert difference.identical_to == identical_to
    assert spans(difference.rebatched) == [(identical_to, kafkarec.scan(a[-1])[0]["last_offset"], "batching")]


def test_a_compacted_replica_has_gaps(tmp_path):
    parts = builders.records(10)
    cleaned = builders.batch([parts[2], parts[9]], base_offset=10, last_offset_delta=9)
    difference = compared(tmp_path, [batch(0, 10), batch(10, 10), batch(20, 10)], [cleaned, batch(20, 10)])
    assert spans(difference.only_a) == [(0, 9, "head"), (10, 11, "gap"), (13, 18, "gap")]
    assert difference.first == (10, "only A has a record here")
    assert not difference.only_b and not difference.changed
    assert any("in a compacted topic, gaps are not a loss" in note for note in difference.notes)


def test_differences_of_random_histories_are_found(tmp_path):
    """The same records in other batches are equal; any changed or missing record is found."""
    random_ = random.Random(7)
    values = [b"%d" % random_.randrange(1000) for _ in range(60)]

    def cut(values):
        out, at = [], 0
        while at < len(values):
            stop = min(len(values), at + random_.randint(1, 9))
            parts = [
                builders.record(offset_delta=i - at, value=values[i]) for i in range(at, stop) if values[i] is not None
            ]
            codec = random_.choice(["none", "lz4", "zstd"])
            out.append(builders.batch(parts, base_offset=at, last_offset_delta=stop - at - 1, codec=codec))
            at = stop
        return out

    for _ in range(40):
        other = list(values)
        changed = sorted(random_.sample(range(60), random_.randint(0, 3)))
        gone = sorted(set(random_.sample(range(59), random_.randint(0, 3))) - set(changed))
        for at in changed:
            other[at] = b"changed"
        for at in gone:
            other[at] = None
        difference = compared(tmp_path, cut(values), cut(other))
        assert [i for e in difference.changed for i in range(e.first, e.last + 1)] == changed
        assert [i for e in difference.only_a for i in range(e.first, e.last + 1)] == gone
        assert not difference.only_b
        assert difference.same == (not changed and not gone)
        if not difference.same:
            assert difference.first is not None and difference.first[0] == min(changed + gone)


def entries(*pairs, end):
    return EpochHistory(tuple(EpochEntry(*pair) for pair in pairs), end, "test")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_truncation_ends_where_the_histories_diverge(lengths, data):
    """A common history, then epochs of one replica only, or one that continues the last epoch."""
    common = []
    end, epoch = 0, 0
    for length in lengths:
        common.append((epoch, end))
        end += length
        epoch += data.draw(st.integers(1, 3))

    def going_on(first_epoch, start):
        outputs = []
        for length in data.draw(st.lists(st.integers(1, 9), max_size=3)):
            outputs.append((first_epoch, start))
            first_epoch += 2
            start += length
        return outputs, start

    longer = data.draw(st.integers(0, 5))
    more_a, end_a = going_on(epoch + epoch % 2, end + longer)
    more_b, end_b = going_on(epoch + epoch % 2 + 1, end)
    a, b = entries(*common, *more_a, end=end_a), entries(*common, *more_b, end=end_b)
    assert truncation(a, b).offset == end
    assert truncation(b, a).offset == end


def test_a_checkpoint_that_the_batches_contradict_is_not_followed(tmp_path):
    a = log(tmp_path / "a", [batch(0, 10, epoch=3), batch(10, 10, epoch=4)], epochs=[(3, 0), (4, 15)])
    difference = compare(a, a)
    assert difference.a.lineage.origin == "batches"
    assert "it has epoch 3 for offset 10, but the batch there has epoch 4" in difference.a.lineage.note
    (a / "leader-epoch-checkpoint").write_text("rubbish")
    difference = compare(a, a)
    assert difference.a.lineage.entries == ((3, 0), (4, 10)) and "checkpoint" in difference.a.lineage.note
    assert epoch_history.from_batches([(3, 0), (4, 10), (3, 20)]) == ((3, 0), (4, 10))


def test_segments_with_swapped_names_are_compared_by_their_offsets(tmp_path):
    parts = [batch(0, 10), batch(10, 10)], [batch(20, 10)], [batch(30, 5)]
    a = log(tmp_path / "a", *parts)
    b = log(tmp_path / "b", *parts)
    exchange(b, 20, 30)
    difference = compare(a, b)
    assert difference.identical and difference.identical_to == 35 and not difference.only_a and not difference.only_b
    assert difference.b.misnamed == [(f"{30:020}.log", 20), (f"{20:020}.log", 30)]
    (note,) = difference.notes
    assert note.startswith("B: names of segments contradict their offsets: ")
    assert "00000000000000000030.log begins with 20, 00000000000000000020.log begins with 30;" in note


def test_a_wrong_base_offset_reorders_no_segment_and_is_noticed(tmp_path):
    parts = [batch(0, 10), batch(10, 10)], [batch(20, 10), batch(30, 5)]
    a = log(tmp_path / "a", *parts)
    b = log(tmp_path / "b", *parts)
    flip(b / f"{0:020}.log", 5)  # the first batch's base offset is 65536
    difference = compare(a, b)
    assert not difference.same and not difference.b.misnamed
    assert not difference.b.in_order
    assert any(n.startswith("B: batches do not come in the order of their offsets; see ") for n in difference.notes)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_magic_has_no_leader_epoch_which_is_no_difference(tmp_path, magic):
    rows = [{"value": b"%d" % number} | ({"timestamp": number} if magic else {}) for number in range(20)]
    old = kafkarec.encode(rows, magic=magic)
    new = bytearray(kafkarec.convert(old, magic=2))
    position = 0
    while position < len(new):
        position = stamp(new, position=position, partition_leader_epoch=3)
    difference = compared(tmp_path, [old], [bytes(new)])
    assert difference.same and not difference.identical
    rows[7]["value"] = b"other"
    difference = compared(tmp_path, [old], [kafkarec.encode(rows, magic=magic)])
    assert spans(difference.changed) == [(7, 7, "content")]
    assert difference.first is not None and difference.first[1].startswith("other content (crc ")


@pytest.mark.parametrize(
    "fields, text",
    [
        ({}, "no producer"),
        ({"producer_id": 8, "producer_epoch": 1, "base_sequence": 5}, "producer 8, epoch 1, sequence 5"),
        ({"producer_id": 7, "producer_epoch": 2, "base_sequence": 5}, "producer 7, epoch 2, sequence 5"),
        ({"producer_id": 7, "producer_epoch": 1, "base_sequence": 6}, "producer 7, epoch 1, sequence 6"),
        (
            {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5, "attributes": 16},
            "transactional producer 7, epoch 1, sequence 5",
        ),
    ],
)
def test_another_producer_is_a_difference(tmp_path, fields, text):
    first, producer = batch(0, 2), {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5}
    difference = compared(tmp_path, [first, batch(2, 2, **producer)], [first, batch(2, 2, **fields)])
    assert spans(difference.changed) == [(2, 3, "producer")]
    assert difference.first == (2, f"same leader epoch 0, producer 7, epoch 1, sequence 5 in A, {text} in B")


def test_a_batch_that_the_cleaner_emptied_is_no_difference(tmp_path):
    def emptied(base, count):
        return builders.batch([], base_offset=base, last_offset_delta=count - 1, producer_id=7, producer_epoch=1)

    first = batch(0, 10)
    difference = compared(tmp_path, [first, emptied(10, 5), batch(20, 10)], [first, batch(20, 10)])
    assert difference.same and not difference.identical and difference.first is None and difference.identical_to == 10
    assert [(one.first, one.last, one.records) for one in difference.rebatched] == [(10, 14, 0)]
    ends_later = compared(tmp_path, [first, emptied(10, 5)], [first])
    assert spans(ends_later.only_a) == [(10, 14, "tail")] and not ends_later.rebatched
    assert not ends_later.same and ends_later.first == (10, "only one of the two continues here")
    whole = batch(0, 10, last_offset_delta=14)  # its last records were removed
    assert compared(tmp_path, [whole], [first]).first == ends_later.first
    assert ends_later.a_follows_b.offset == 10


def test_the_work_grows_as_the_damage_does(tmp_path):
    counts = []
    for number in (300, 600):
        good = [batch(5 * n) for n in range(2 * number)]
        hurt = [data if n % 2 else data[:-1] + b"\xff" for n, data in enumerate(good)]
        a, b = (log(tmp_path / f"{name}-{number}", data) for name, data in (("a", good), ("b", hurt)))
        difference, calls = calls_of(lambda a=a, b=b: compare(a, b))
        assert spans(difference.only_a) == [(10 * n, 10 * n + 4, "damaged") for n in range(number)]
        counts.append(calls)
    assert counts[1] < 2.2 * counts[0]
