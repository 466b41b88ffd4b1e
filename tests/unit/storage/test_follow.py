"""Log.follow, and its polls while a simulated broker appends, rolls, deletes and truncates at random."""

import gzip
import io
import os
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import builders
import counted_files
import plain_logs
import pytest
from builders import end_marker
from failing_calls import before
from hypothesis import example, given, settings
from hypothesis import strategies as st
from long_run import examples

import kafkarec
from kafkarec import CorruptRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import offset_index, txn_index
from kafkarec.storage import raw_batches

PREALLOCATED = 4096
WINDOW = 64  # batches that are compared with the next one


def after_a_day(monkeypatch):
    """From now on what is in a file has been there for a day: nothing waits for what may follow."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)


def good(base, **fields):
    return plain_logs.batch(base, 1, **fields)


def of(producer, base):
    """A batch of a transaction."""
    return good(base, transaction=producer)


def bad(base):
    return builders.flipped(good(base))


class SimulatedLog:
    """A simulated broker's log: segments of batches, each with a unique value."""

    def __init__(self, folder, preallocate):
        self.folder, self.preallocate = folder, preallocate
        self.segments = {0: []}
        self.next_offset = self.made = 0
        self.cut = 0  # bytes of the last batch that are not yet written
        self.write()

    def write(self):
        for base, batches in self.segments.items():
            data = b"".join(raw for _, raw in batches)
            last = base == max(self.segments)
            if last and self.cut:
                data = data[: -self.cut]
            if last and self.preallocate:
                data = data.ljust(PREALLOCATED, b"\0")
            path = self.folder / f"{base:020}.log"
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.write(data)
                file.truncate()
        for path in self.folder.glob("*.log"):
            if int(path.stem) not in self.segments:
                path.unlink()

    @property
    def active(self):
        """The batches of the last segment, each with its base offset."""
        return self.segments[max(self.segments)]

    def batch(self, count, **fields):
        self.cut = 0
        self.made += 1
        records = [builders.record(offset_delta=i, value=b"%d.%d" % (self.made, i)) for i in range(count)]
        self.add(builders.batch(records, base_offset=self.next_offset, **fields), count)

    def add(self, raw, count):
        self.active.append((self.next_offset, raw))
        self.next_offset += count

    def play(self, what, number):
        if what == "append":
            self.batch(number)
        elif what == "append half of it":
            self.batch(number)
            self.cut = len(self.active[-1][1]) // 2
        elif what == "finish":
            self.cut = 0
        elif what == "roll" and self.active and not self.cut:
            self.segments[self.next_offset] = []
        elif what == "delete" and len(self.segments) > 1:
            del self.segments[min(self.segments)]
        elif what == "truncate" and any(self.segments.values()):
            self.cut = 0
            for _ in range(number):
                if len(self.segments) > 1 and not self.active:
                    del self.segments[max(self.segments)]
                if self.active:
                    self.next_offset = self.active.pop()[0]
        self.write()


def follower(folder, **options):
    """Without restoring: so only damage waits."""
    chosen = {"columns": ["offset", "value"], "errors": "skip", "restore": False} | options
    (one,) = kafkarec.open(folder).followers(**chosen)
    return one


def polled(one):
    rows = []
    for _, records in one.poll():
        assert not records.damage
        rows += zip(records.column("offset"), records.column("value"), strict=True)
    return rows


def polled_offsets(one):
    return [offset for offset, _ in polled(one)]


OPERATIONS = ("append", "append half of it", "finish", "append", "roll", "delete", "truncate")


@settings(max_examples=examples(150))
@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 3), st.booleans()), min_size=6, max_size=30),
    preallocate=st.booleans(),
)
def test_every_record_is_returned_once(steps, preallocate):
    with tempfile.TemporaryDirectory() as name:
        broker = SimulatedLog(Path(name), preallocate)
        one = follower(name)
        returned = []
        for what, number, then_poll in steps:
            broker.play(what, number)
            if then_poll:
                returned += polled(one)
        broker.play("finish", 0)
        returned += polled(one)
        assert polled(one) == []
        values = [value for _, value in returned]
        assert len(set(values)) == len(values)
        if any(broker.segments.values()):
            with kafkarec.open(name) as log:
                kept = log.read(columns=["offset", "value"])
            latest = dict(returned)
            assert [latest.get(offset) for offset in kept.column("offset")] == kept.column("value")


TRANSACTIONS = st.tuples(
    st.sampled_from(["data", "data", "plain", "commit", "abort", "roll"]), st.integers(1, 3), st.booleans()
)


@settings(max_examples=examples(100))
@given(steps=st.lists(TRANSACTIONS, min_size=6, max_size=30), preallocate=st.booleans(), is_indexed=st.booleans())
@example(steps=[(what, 1, True) for what in ("data", "abort", "data", "plain")], preallocate=False, is_indexed=True)
def test_committed_records_are_returned_at_their_commit(steps, preallocate, is_indexed):
    """is_indexed: as a broker does, each ABORT is entered in its segment's .txnindex."""
    with tempfile.TemporaryDirectory() as name:
        broker = SimulatedLog(Path(name), preallocate)
        one = follower(name, isolation="read_committed")
        returned, firsts = [], {}
        for what, producer, then_poll in steps:
            if what == "data":
                firsts.setdefault(producer, broker.next_offset)
                broker.batch(2, producer_id=producer, attributes=builders.TRANSACTIONAL)
            elif what == "plain":
                broker.batch(1)
            elif what == "roll":
                broker.play("roll", 0)
            else:
                first, last = firsts.pop(producer, None), broker.next_offset
                broker.add(end_marker(last, producer, commit=what == "commit"), 1)
                if what == "abort" and first is not None and is_indexed:
                    entry = AbortedTransaction(producer, first, last, min(firsts.values(), default=last))
                    with (broker.folder / f"{max(broker.segments):020}.txnindex").open("ab") as file:
                        file.write(txn_index.write([entry]))
            broker.write()
            if then_poll:
                returned += polled(one)
                with kafkarec.open(name) as log:
                    now = log.read(columns=["offset"], isolation="read_committed").column("offset")
                assert [offset for offset, _ in returned] == now


def test_files_with_an_unchanged_mtime_are_read_again(tmp_path, monkeypatch):
    broker = SimulatedLog(tmp_path, preallocate=True)
    broker.play("append", 1)
    one = follower(tmp_path)
    path = tmp_path / f"{0:020}.log"
    before = path.stat().st_mtime_ns
    assert len(polled(one)) == 1
    broker.play("append", 1)
    os.utime(path, ns=(before, before))  # the same tick of the file system's clock, the same size
    assert len(polled(one)) == 1
    after_a_day(monkeypatch)
    assert polled(one) == []
    broker.play("append", 1)
    assert len(polled(one)) == 1


def log_folder(tmp_path, *batches, name="t-0"):
    folder = plain_logs.log(tmp_path / name, (0, b"".join(batches)))
    os.utime(folder / f"{0:020}.log", (1, 1))  # what is there is old
    return folder


def append(folder, *batches):
    with (folder / f"{0:020}.log").open("ab") as file:
        file.write(b"".join(batches))


def offsets(pieces):
    return [offset for piece in pieces for offset in piece.column("offset")]


def test_follow_yields_what_is_there_and_what_arrives_until_it_is_closed(tmp_path):
    folder = log_folder(tmp_path, good(0), good(1))
    before = os.listdir("/proc/self/fd")
    with kafkarec.open(folder) as log:
        pieces = log.follow(columns=["offset"], interval=0.01, batch_bytes=1)
        assert offsets(islice(pieces, 2)) == [0, 1]
        writer = threading.Timer(0.3, append, (folder, good(2), good(3)))
        writer.start()
        assert offsets(islice(pieces, 1)) == [2]
        pieces.close()
        writer.join()
    assert os.listdir("/proc/self/fd") == before


def test_damage_is_raised_after_the_records_before_it_once_a_batch_is_behind_it(tmp_path, monkeypatch):
    folder = log_folder(tmp_path, good(0), bad(1))
    one = follower(folder, errors="raise", restore=True)
    after_a_day(monkeypatch)
    assert polled_offsets(one) == [0]
    append(folder, good(2))
    with pytest.raises(CorruptRecordError) as of_stream:
        list(kafkarec.open(folder).stream())
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as raised:
            list(one.poll())
        assert vars(raised.value) == vars(of_stream.value) and raised.value.position == len(good(0))


@pytest.mark.parametrize(
    "batch, field",
    [(good(900), "base_offset"), (good(2, epoch=900), "partition_leader_epoch"), (bad(2), None)],
    ids=["an offset is skipped", "another leader epoch", "damage"],
)
def test_what_may_be_damage_waits_for_what_tells_more(batch, field, tmp_path, monkeypatch):
    folder = log_folder(tmp_path, good(0), good(1))
    one = follower(folder, restore=True)
    assert len(polled(one)) == 2
    append(folder, batch)
    assert polled(one) == []
    append(folder, good(3), good(4))
    assert polled(one) == []
    after_a_day(monkeypatch)
    ((_, records),) = one.poll()
    assert records.column("offset") == ([2, 3, 4] if field else [3, 4])
    assert [list(restored.fields) for restored in records.restored] == ([[field]] if field else [])
    assert [damage.position for damage in records.damage] == ([] if field else [2 * len(good(0))])


def test_a_batch_that_may_be_wrong_is_yielded_after_a_while(tmp_path, monkeypatch):
    folder = log_folder(tmp_path, good(0))
    one = follower(folder, restore=True)
    assert len(polled(one)) == 1
    now, path = [1e9], folder / f"{0:020}.log"
    monkeypatch.setattr(time, "time", lambda: now[0])

    def appended(data):
        append(folder, data)
        os.utime(path, (now[0], now[0]))  # the file always changes
        return polled_offsets(one)

    assert appended(good(5)) == []
    for _ in range(7):
        now[0] += 0.25
        assert appended(b"\0") == []
    now[0] += 0.25
    assert appended(b"\0") == [5], "after two seconds"


def test_a_range_that_begins_behind_the_end(tmp_path):
    """What arrives below it is left out, batch for batch and within the first one in it."""
    first, *later = plain_logs.batches(6)
    folder = log_folder(tmp_path, first)
    one = follower(folder, start_offset=13)
    for batches, expected in (([], []), (later[:1], []), (later[1:4], [13, 14]), (later[4:], [15, 16, 17])):
        append(folder, *batches)
        assert polled_offsets(one) == expected


def test_damage_before_the_range_is_not_reported(tmp_path):
    old, new = ({"base_timestamp": time, "max_timestamp": time} for time in (1000, 2000))
    folder = log_folder(tmp_path, good(0, **old), bad(1), good(2, **old), good(3, **new))
    assert polled_offsets(follower(folder, start_timestamp=2000)) == [3]


def test_each_file_that_is_named_is_followed(tmp_path):
    """Also a compressed copy, which is left out of a folder."""
    path = log_folder(tmp_path, good(0)) / f"{0:020}.log"
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(good(0)))
    for name, found in {path: [0], packed: [0], path.parent: [0]}.items():
        assert polled_offsets(follower(name)) == found
    assert polled_offsets(follower([path, packed])) == [0, 0]


@pytest.mark.parametrize("end", [b"", bad(1)], ids=["read to its end", "damage at its end"])
def test_a_log_that_does_not_change_is_not_read_again(tmp_path, end, monkeypatch):
    folder = log_folder(tmp_path, good(0), end)
    one = follower(folder, isolation="read_committed")
    assert polled_offsets(one) == [0]
    if not end:
        os.utime(folder / f"{0:020}.log")
    readings = counted_files.counted(monkeypatch)
    assert polled(one) == []
    assert {one.position for one in readings} == {0}, "the last batch is compared"


WRONG = 1 << 40


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("stored", [11, 64, WRONG, 4])
def test_read_committed_that_restores_nothing_raises_at_a_wrong_base_offset(stored, rolls, tmp_path, monkeypatch):
    """By its stored offset it is part of no transaction, or of another one, and was left out without a word."""
    hurt = builders.patched(of(7, 10), 0, stored.to_bytes(8, "big"))
    before = [
        good(3),
        of(8, 4),
        of(9, 5),
        end_marker(6, 8, commit=True),
        end_marker(7, 9, commit=False),
        good(8),
        good(9),
    ]
    behind = [good(11), end_marker(12, 7, commit=True), good(13)]
    folder = log_folder(tmp_path, *[good(base) for base in range(3)], *before)
    one = follower(folder, errors="raise", restore=True, isolation="read_committed")
    kept = [0, 1, 2, 3, 4, 8, 9]
    assert polled_offsets(one) == kept
    append(folder, hurt)
    assert polled(one) == [], "only what is behind it can tell"
    if rolls:
        (folder / f"{11:020}.log").write_bytes(b"".join(behind))
    else:
        append(folder, *behind)
        assert polled(one) == []
        after_a_day(monkeypatch)
    later = follower(folder, errors="raise", restore=True, isolation="read_committed")
    for following, expected in ((one, []), (one, []), (later, kept)):
        seen = []
        with pytest.raises(
            CorruptRecordError, match=f"base offset is 10, not {stored}: proven by the offsets"
        ) as raised:
            for _, records in following.poll():
                seen += records.column("offset")
        assert seen == expected and raised.value.position == (folder / f"{0:020}.log").read_bytes().index(hurt)
    with kafkarec.open(folder) as log, pytest.raises(CorruptRecordError) as of_read:
        log.read(isolation="read_committed")
    assert vars(of_read.value) == vars(raised.value)
    after_a_day(monkeypatch)
    for options, expected in (
        ({"errors": "skip"}, [*kept, 10, 11, 13]),
        ({"start_offset": 11}, [11, 13]),
        ({"isolation": "read_uncommitted"}, [*range(6), 8, 9, stored, 11, 13]),
    ):
        chosen = {"errors": "raise", "restore": True, "isolation": "read_committed"} | options
        if options != {"start_offset": 11} or stored == WRONG:
            assert polled_offsets(follower(folder, **chosen)) == expected, options


def test_a_batch_whose_offset_is_far_too_high_holds_up_none_behind_it(tmp_path, monkeypatch):
    """It was read at the end of the log, and the offsets behind it prove nothing: one is missing."""
    after_a_day(monkeypatch)
    folder = log_folder(tmp_path, good(0), good(1), good(WRONG))
    one = follower(folder, isolation="read_committed")
    assert polled_offsets(one) == [0, 1, WRONG]
    append(folder, good(4), of(7, 5))
    assert polled_offsets(one) == [4]


def test_a_marker_that_cannot_be_read_is_raised_after_what_is_before_it(tmp_path, monkeypatch):
    """It ended no transaction, which an ABORT of the next one then ended."""
    unreadable = plain_logs.batch(
        3, 1, attributes=builders.TRANSACTIONAL | builders.CONTROL, producer_id=7, key=b"\0", value=b""
    )
    log = [
        good(0),
        of(8, 1),
        of(7, 2),
        unreadable,
        end_marker(4, 8, commit=True),
        of(7, 5),
        end_marker(6, 7, commit=False),
    ]
    folder = log_folder(tmp_path, *log, good(7))
    after_a_day(monkeypatch)
    one = follower(folder, errors="raise", restore=True, isolation="read_committed")
    for expected in ([0], []):
        seen = []
        with pytest.raises(kafkarec.InvalidRecordError) as raised:
            for _, records in one.poll():
                seen += records.column("offset")
        assert seen == expected
    with kafkarec.open(folder) as log, pytest.raises(kafkarec.InvalidRecordError) as of_read:
        log.read(isolation="read_committed")
    assert vars(of_read.value) == vars(raised.value)
    folder.joinpath(f"{0:020}.log").write_bytes(b"".join([good(0), of(8, 1), end_marker(2, 8, commit=True), good(3)]))
    assert polled_offsets(one) == [1, 3], "the log was truncated"


@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_records_of_transactions_that_begin_while_a_log_is_read(tmp_path, monkeypatch, preallocate, begun):
    """Before each opening of a file a broker begins a transaction, or aborts it: of what is written after the markers
    were read nobody knows whether it will be aborted. In a preallocated file the size does not tell.

    begun: before the first opening
    """
    broker, plain, first = SimulatedLog(tmp_path, preallocate), [], 0

    def write(*_):
        nonlocal begun
        if begun:
            broker.add(end_marker(broker.next_offset, 7, commit=False), 1)
            plain.append(broker.next_offset)
            broker.batch(1)
        else:
            broker.batch(1, producer_id=7, attributes=builders.TRANSACTIONAL)
        begun = not begun
        broker.write()

    if begun:
        broker.batch(1, producer_id=7, attributes=builders.TRANSACTIONAL)
        broker.write()
    one = follower(tmp_path, isolation="read_committed")
    before(monkeypatch, os, "open", write)
    for _ in range(6):
        with kafkarec.open(tmp_path) as log:
            read = list(log.read(columns=["offset"], isolation="read_committed").column("offset"))
        assert read == plain[: len(read)]
        followed = polled_offsets(one)
        assert followed == plain[first : first + len(followed)]
        first += len(followed)
    monkeypatch.undo()
    assert polled_offsets(one) == plain[first:]


def write_segments(folder, segments, *, cut=False):
    """cut: files are written in place; else replaced, as by the log cleaner."""
    for base, batches in segments.items():
        path, new = folder / f"{base:020}.log", folder / f"{base:020}.log.cleaned"
        (path if cut else new).write_bytes(b"".join(batches))
        if not cut:
            new.replace(path)
    for path in folder.glob("*.log"):
        if int(path.stem) not in segments:
            path.unlink()


@pytest.mark.parametrize(
    "cleaned",
    [{0: [good(1), good(3)], 4: [good(4)]}, {0: [good(1)], 2: [good(3)], 4: [good(4)]}, {0: [good(3)], 4: [good(4)]}],
    ids=["merged", "not merged", "nothing before it is left"],
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_log_that_is_cleaned_goes_on_at_the_next_offset(tmp_path, behind, cleaned):
    """behind: a reader stops in a segment that a later one follows; else in the last one, which is rolled."""
    notes = []
    write_segments(tmp_path, {0: [good(0), good(1)], 2: [good(2)]})
    one = follower(tmp_path, batch_bytes=1, on_note=notes.append)
    if behind:
        write_segments(tmp_path, {0: [good(0), good(1)], 2: [good(2), good(3)], 4: []})
        pieces = one.poll()
        assert offsets(piece for _, piece in islice(pieces, 3)) == [0, 1, 2]
        pieces.close()
    else:
        assert polled_offsets(one) == [0, 1, 2]
    write_segments(tmp_path, cleaned)
    assert [offset for offset, _ in polled(one) + polled(one)] == [3, 4]
    assert notes == []
    write_segments(tmp_path, {8: [good(8)]})  # retention, before 5 to 7 were read
    assert polled_offsets(one) == [8]
    assert [note.partition(": ")[2] for note in notes] == ["offsets 5 to 7 were deleted before they were read"]


def test_a_log_that_was_truncated_and_rolled_again_is_read_from_the_cut(tmp_path):
    """The segment that was read is gone, as after cleaning, but the one before it was cut."""
    notes = []
    write_segments(tmp_path, {0: [good(0), good(1)], 2: [good(2)]})
    one = follower(tmp_path, on_note=notes.append)
    assert polled_offsets(one) == [0, 1, 2]
    again = [good(offset, epoch=1) for offset in (1, 2, 3)]
    write_segments(tmp_path, {0: [good(0), *again[:2]], 3: again[2:]}, cut=True)
    assert polled_offsets(one) == [1, 2, 3]
    assert [note.partition(": ")[2] for note in notes] == ["the log was truncated; continuing from offset 1"]


def test_a_transaction_whose_marker_was_truncated_is_open_again(tmp_path):
    data, first, second = of(1, 0), end_marker(1, 1, commit=True), end_marker(2, 1, commit=True)
    write_segments(tmp_path, {0: [data], 1: [first, good(2)]})
    one = follower(tmp_path, isolation="read_committed")
    assert polled_offsets(one) == [0, 2]
    write_segments(tmp_path, {0: [data], 1: [first, good(2), good(3)]}, cut=True)
    assert polled_offsets(one) == [3], "this poll began at the second segment"
    write_segments(tmp_path, {0: [data], 1: [good(1, epoch=1)]}, cut=True)
    assert polled(one) == []
    write_segments(tmp_path, {0: [data], 1: [good(1, epoch=1), second]}, cut=True)
    assert polled_offsets(one) == [1]


def before_opening(monkeypatch, number, name, change):
    """Runs `change` before a segment is opened for the `number`th time."""
    opened = []

    def act(path, *_):
        if str(path).endswith(name):
            opened.append(path)
            len(opened) == number and change()

    before(monkeypatch, os, "open", act)


def test_a_range_begins_at_the_index_entry_that_has_enough_batches_behind_it(tmp_path, monkeypatch):
    """They are compared with the batches behind damage."""
    folder, size = log_folder(tmp_path, *(good(base) for base in range(2000))), len(good(0))
    entries = [(base, base * size) for base in range(10, 2000, 10)]
    (folder / f"{0:020}.index").write_bytes(offset_index.write(entries, 0))
    one = follower(folder, start_offset=1900)
    readings = counted_files.counted(monkeypatch)
    assert polled_offsets(one) == list(range(1900, 2000))
    begin = min(found.position for found in readings if found.length > 64 and found.path.endswith(".log"))
    assert 0 <= 1900 - WINDOW - begin / size < 10  # one index entry further back


def test_what_cannot_be_followed_is_refused_at_once(tmp_path):
    folder = log_folder(tmp_path, good(0))
    with pytest.raises(ValueError, match="on this machine"):
        kafkarec.open(io.BytesIO(good(0))).follow()
    with pytest.raises(ValueError, match="of one folder"):
        kafkarec.open([folder / f"{0:020}.log", log_folder(tmp_path / "t-0", name="t-0") / f"{0:020}.log"]).follow()
    with pytest.raises(ValueError, match="interval -1"):
        kafkarec.open(folder).follow(interval=-1)
    with pytest.raises(TypeError, match="no such option: end_offset"):
        kafkarec.open(folder).follow(end_offset=3)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_truncation_while_a_piece_is_read(tmp_path, monkeypatch, isolation):
    """What the broker wrote in the place of a batch is read, although it came before that was noted as read."""
    path = tmp_path / f"{0:020}.log"
    first, old, new = (plain_logs.batch(base, 3, value=value) for base, value in ((0, b"a"), (3, b"old"), (3, b"new")))
    path.write_bytes(first + old)
    real, replaced = raw_batches.fingerprint, list[bool]()

    def fingerprint(segment, position):
        if not replaced:
            path.write_bytes(first + new)
            replaced.append(True)
        return real(segment, position)

    monkeypatch.setattr(raw_batches, "fingerprint", fingerprint)
    (follower,) = kafkarec.open(tmp_path).followers(isolation=isolation)
    found = {}
    for _ in range(3):
        for _, records in follower.poll():
            found |= dict(zip(records.column("offset"), records.column("value"), strict=True))
    assert found == dict(enumerate([b"a"] * 3 + [b"new"] * 3))
