"""read_committed with errors="skip" where a marker may be lost in damage: what is proven counts, the rest is left out
and listed."""

import pytest
from builders import flipped, patched
from transaction_logs import ABORT, COMMIT, DATA, PLAIN, Event, as_bytes, write_index, write_log
from transaction_logs import read_committed as read

import kafkarec
from kafkarec import UndecidedTransaction
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.sidecars import producer_snapshot

NOTHING = "no file shows whether it ended in the damage, or how"


def seen(folder):
    return set(read(folder).column("offset"))


LOST = [
    Event(DATA, 7, 0, 3),
    Event(ABORT, 7, 3, 1),
    Event(DATA, 7, 4, 2),
    Event(COMMIT, 7, 6, 1),
    Event(PLAIN, -1, 7, 1),
]
T = UndecidedTransaction(7, 0, 0, 2, 3, 3, NOTHING)


def test_without_proof_it_is_left_out_and_listed(tmp_path):
    """Of a log, of its pieces, of two logs and of a buffer."""
    folder, other = (write_log(tmp_path / name, LOST, [3]) for name in ("a-0", "b-0"))
    data = (folder / f"{0:020}.log").read_bytes()
    for found in (read(folder), kafkarec.decode(data, isolation="read_committed", errors="skip", columns=["offset"])):
        assert (found.column("offset"), found.undecided, found[:1].undecided) == ([4, 5, 7], (T,), (T,))
        assert (found.last_stable_offset, len(found.damage)) == (8, 1)
    [piece] = kafkarec.open(folder).stream(isolation="read_committed", errors="skip")
    both = kafkarec.open([folder, other]).read(isolation="read_committed", errors="skip")
    assert piece.undecided == (T,) and both.undecided == (T, T)
    assert kafkarec.decode(data, errors="skip").undecided == ()


@pytest.mark.parametrize(
    "events",
    [
        [Event(PLAIN, -1, 4, 1), Event(DATA, 7, 5, 2), Event(COMMIT, 7, 7, 1)],
        [Event(PLAIN, -1, 4, 1), Event(ABORT, 7, 5, 1), Event(DATA, 7, 6, 2), Event(COMMIT, 7, 8, 1)],
        [Event(DATA, 7, 4, 1), Event(ABORT, 7, 5, 1), Event(DATA, 7, 6, 2), Event(COMMIT, 7, 8, 1)],
    ],
)
def test_in_a_buffer_what_follows_a_wrong_base_offset_is_read(events):
    """By the base offset of the batch behind the damage all later offsets were lost in it."""
    marker, far = flipped(flipped(LOST[1].batch, 68), 70), flipped(events[0].batch, 3)
    data = LOST[0].batch + marker + far + as_bytes(events[1:])
    found = kafkarec.decode(data, isolation="read_committed", errors="skip")
    visible = [offset for offset in found.column("offset") if offset < 9]
    assert (visible, len(found.undecided)) == ([*range(events[-2].base, events[-1].base)], 1)


def decode_and_stream(data, errors):
    """What both give: (offsets, restored fields)."""
    options = {"isolation": "read_committed", "errors": errors, "columns": ["offset"]}
    whole, pieces = kafkarec.decode(data, **options), list(kafkarec.stream(data, **options))
    assert [offset for piece in pieces for offset in piece.column("offset")] == whole.column("offset")
    assert [one for piece in pieces for one in piece.restored] == [*whole.restored]
    return whole.column("offset"), [one.fields for one in whole.restored]


def test_in_a_buffer_what_follows_an_abort_with_a_wrong_base_offset_is_read():
    begun = LOST[0].batch + flipped(LOST[1].batch, 3)
    data = begun + as_bytes(LOST[2:])
    assert decode_and_stream(data, "skip") == ([4, 5, 7], [{"base_offset": (3 + (1 << 32), 3)}])
    with pytest.raises(kafkarec.CorruptRecordError, match="base offset is 3, not 4294967299: proven"):
        kafkarec.decode(data, isolation="read_committed")
    for errors in ("raise", "skip"):
        found = decode_and_stream(begun + as_bytes(LOST[3:]), errors)
        assert found == ([7], []), "how many offsets are missing is not known"


@pytest.mark.parametrize("stored", [4, 64, 1 << 40])
def test_in_a_buffer_an_aborted_batch_with_a_wrong_base_offset_is_left_out(stored):
    """Its neighbours prove the right one, so it is read as in a file; else offsets may repeat and fall."""
    events = [Event(PLAIN, -1, 0, 3), Event(DATA, 7, 3, 3), Event(PLAIN, -1, 6, 3), Event(ABORT, 7, 9, 1)]
    before, own, behind = events[0].batch, events[1].batch, as_bytes(events[2:])
    data = before + patched(own, 0, stored.to_bytes(8, "big")) + behind
    assert decode_and_stream(data, "skip") == ([0, 1, 2, 6, 7, 8], [{"base_offset": (stored, 3)}])
    for call in (kafkarec.decode, lambda data, **options: list(kafkarec.stream(data, **options))):
        with pytest.raises(kafkarec.CorruptRecordError, match=f"base offset is 3, not {stored}: proven") as raised:
            call(data, isolation="read_committed")
        assert (raised.value.position, raised.value.file) == (len(before), None)
    assert kafkarec.decode(data, columns=["offset"]).column("offset")[3] == stored, "read_uncommitted"
    assert decode_and_stream(as_bytes(events) * 2, "raise") == ([0, 1, 2, 6, 7, 8] * 2, [])
    for aborted in ([(7, 3)], iter([(7, 3)])):  # which was empty when the data were read again, as a file
        found = kafkarec.decode(data, isolation="read_committed", errors="skip", aborted=aborted)
        assert found.column("offset") == [0, 1, 2, 6, 7, 8]


def test_in_a_buffer_a_base_offset_that_fits_by_chance_is_not_wrong():
    """Batches of several logs or requests: offsets fall elsewhere, too, or no transaction was aborted or is open."""
    fits = [Event(PLAIN, -1, base, 3) for base in (0, 64, 6)]  # 3, not 64, would fit in the middle
    ended = [Event(DATA, 7, 9, 1), Event(ABORT, 7, 10, 1)]
    plain = [0, 1, 2, 64, 65, 66, 6, 7, 8]
    for errors in ("raise", "skip"):
        assert decode_and_stream(as_bytes(fits), errors) == (plain, [])
        several = as_bytes([*fits, *ended, Event(PLAIN, -1, 0, 1)])
        assert decode_and_stream(several, errors) == ([*plain, 0], [])
    with pytest.raises(kafkarec.CorruptRecordError, match="base offset is 3, not 64: proven"):
        decode_and_stream(as_bytes([*fits, *ended]), "raise")


def snapshot(folder, offset, open_since):
    """Write a snapshot; None: it does not have the producer."""
    entries = [] if open_since is None else [SnapshotEntry(7, 0, 2, 2, 2, 0, 5, open_since)]
    (folder / f"{offset:020}.snapshot").write_bytes(producer_snapshot.write(entries))


@pytest.mark.parametrize("since", [-1, 4, None])
def test_commit_needs_its_end_and_an_index_that_goes_on(tmp_path, since):
    events = [*LOST[:1], Event(COMMIT, 7, 3, 1), *LOST[2:], Event(DATA, 8, 8, 1), Event(ABORT, 8, 9, 1)]
    folder = write_log(tmp_path / "a-0", events, [3])
    snapshot(folder, 6, since)
    assert [one.why for one in read(folder).undecided] == ["it ended in the damage, and no file shows how"]
    write_index(folder, (8, 8, 9, 10))
    assert (seen(folder), read(folder).undecided) == ({0, 1, 2, 4, 5, 7}, ())
    write_index(folder)
    assert seen(folder) == {4, 5, 7}, "an empty .txnindex proves nothing"
    write_index(folder, (7, 1, 3, 4), (8, 8, 9, 10))
    assert seen(folder) == {4, 5, 7}, "nor does one with an entry that fits no transaction"
    write_index(folder, (8, 8, 9, 10), (8, 8, 9, 10))
    assert seen(folder) == {4, 5, 7}, "nor one that is not in order"


def test_a_snapshot_whose_checksum_is_wrong_proves_nothing(tmp_path):
    folder = write_log(tmp_path / "a-0", LOST, [3])
    snapshot(folder, 4, 0)
    path = folder / f"{4:020}.snapshot"
    assert (seen(folder), read(folder).undecided) == ({0, 1, 2, 4, 5, 7}, ()), "it has the transaction open there"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    assert read(folder).undecided == (T,)


def test_a_damaged_data_batch_has_no_marker_in_it(tmp_path):
    events = [Event(DATA, 7, 0, 3), Event(PLAIN, -1, 3, 4), Event(DATA, 7, 7, 1), Event(COMMIT, 7, 8, 1)]
    found = read(write_log(tmp_path / "a-0", events, [3], instead=flipped(events[1].batch, 70)))
    assert (found.column("offset"), found.undecided, len(found.damage)) == ([0, 1, 2, 7], (), 1)


@pytest.mark.parametrize("byte", [*range(8, 12), *range(16, 78)])
def test_one_flipped_bit_of_a_marker(tmp_path, byte):
    """Every byte but base offset and leader epoch, which no checksum covers: the marker is legible."""
    found = read(write_log(tmp_path / "a-0", LOST, [3], instead=flipped(LOST[1].batch, byte, 1 << byte % 8)))
    assert (found.column("offset"), found.undecided) == ([4, 5, 7], ())


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(flipped(flipped(LOST[1].batch, 68), 70), id="two flipped bits are not guessed"),
        # fewer bytes are left than a marker has, but its offset is missing
        pytest.param(LOST[1].batch[40:], id="bytes are missing"),
    ],
)
def test_a_marker_that_is_not_legible(tmp_path, left):
    found = read(write_log(tmp_path / "a-0", LOST, [3], instead=left))
    assert (found.column("offset"), found.undecided) == ([4, 5, 7], (T,))


def test_open_at_the_damaged_end(tmp_path):
    events = [*LOST[:1], Event(PLAIN, -1, 3, 1), Event(COMMIT, 7, 4, 1)]
    folder = write_log(tmp_path / "a-0", events, [4], instead=b"\xff" * 90)
    found = read(folder)
    assert (found.column("offset"), found.undecided, found.last_stable_offset) == ([], (), 0)
    write_index(folder, (7, 0, 4, 5))
    assert read(folder).column("offset") == [3]


@pytest.mark.parametrize("first", [0, 2])
def test_an_entry_of_a_producer_without_data_before_the_damage_accounts_for_nothing(tmp_path, first):
    """The .txnindex may be another log's."""
    events = [Event(DATA, 7, 5, 3), Event(ABORT, 9, 8, 1), Event(DATA, 7, 9, 1), Event(COMMIT, 7, 10, 1)]
    folder = write_log(tmp_path / "a-0", events, [8])
    write_index(folder, (9, first, 8, 9))
    assert [one.why for one in read(folder).undecided] == [NOTHING]
    write_index(folder, (7, 5, 8, 9))
    assert read(folder).undecided == () and seen(folder) == {9}


def test_a_snapshot_between_two_damages_says_nothing_of_the_second(tmp_path):
    lost = [Event(ABORT, 8, 3, 1), Event(ABORT, 7, 5, 1)]
    events = [*LOST[:1], lost[0], Event(PLAIN, -1, 4, 1), lost[1], Event(DATA, 7, 6, 1), Event(COMMIT, 7, 7, 1)]
    folder = write_log(tmp_path / "a-0", events, [3, 5])
    snapshot(folder, 5, 0)
    assert [one.why for one in read(folder).undecided] == [NOTHING]
    snapshot(folder, 6, 0)
    assert (seen(folder), read(folder).undecided) == ({0, 1, 2, 4, 6}, ())


def test_damage_whose_markers_are_listed_has_none_of_others(tmp_path):
    """So the snapshot from before it has the transaction open behind the other damage."""
    lost = [Event(ABORT, 9, 3, 1), Event(ABORT, 8, 5, 1)]
    events = [*LOST[:1], lost[0], Event(DATA, 8, 4, 1), lost[1], Event(DATA, 7, 6, 1), Event(COMMIT, 7, 7, 1)]
    folder = write_log(tmp_path / "a-0", events, [3, 5])
    snapshot(folder, 5, 0)
    write_index(folder, (8, 4, 5, 6))
    assert (seen(folder), read(folder).undecided) == ({0, 1, 2, 6}, ())


def test_a_commit_of_a_later_epoch_than_the_data_before_the_damage(tmp_path):
    """It has the epoch after that of the first data, but that of the last one: it may be without KIP-890."""
    events = [*LOST[:2], Event(DATA, 7, 4, 2, 1), Event(COMMIT, 7, 6, 1, 1), LOST[-1]]
    assert [one.why for one in read(write_log(tmp_path / "a-0", events, [3])).undecided] == [NOTHING]
