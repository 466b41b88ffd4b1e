"""Fields of the first 17 bytes, which no checksum covers, are restored where checksum and neighbours prove them."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import builders
import pytest
from core_reading import offsets
from measured_calls import calls_of
from plain_logs import batch, batches

import kafkarec
from kafkarec.sidecars import leader_epochs, offset_index

pytestmark = pytest.mark.core

THREE = [batch(base, 3, epoch=7, base_timestamp=builders.NOW + base) for base in (0, 3, 6)]


def skipped(data, **options):
    return kafkarec.decode(data, errors="skip", **options)


def in_file(folder, pieces, index=None, base=0):
    """Write a segment, and read it."""
    path = folder / f"{base:020d}.log"
    path.write_bytes(b"".join(pieces))
    if index is not None:
        path.with_suffix(".index").write_bytes(offset_index.write(index, base))
    return kafkarec.open(path).read(errors="skip", columns=["offset"])


def hurt(at, new, number=1, pieces=THREE):
    return [builders.patched(one, at, new) if n == number else one for n, one in enumerate(pieces)]


@pytest.mark.parametrize("codec", builders.CODECS)
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("first", [0, 40])
def test_length_and_magic_of_magic_2(codec, number, first):
    """At a length that is 4 too low, the next base offset is read as a length, of a batch of magic 0."""
    pieces = [batch(base, 3, codec=codec, epoch=7) for base in range(first, first + 9, 3)]
    right = len(pieces[number]) - 12
    start = sum(map(len, pieces[:number]))
    lengths = (0, -1, right - 1, right + 1, right - 4, right ^ 1 << 20, right ^ 1 << 4, 2**31 - 1)
    for length in (*lengths, len(b"".join(pieces)) - 12):
        for magic in (2, 3, 66, 0, 1, -1):
            data = hurt(8, length.to_bytes(4, "big", signed=True), number, pieces)
            data = hurt(16, bytes([magic & 0xFF]), number, data)
            columns = skipped(b"".join(data))
            wanted = {"batch_length": (length, right)} | ({"magic": (magic, 2)} if magic != 2 else {})
            assert offsets(columns) == list(range(first, first + 9)), (length, magic)
            assert columns.damage == () and columns.remaining == 0
            assert columns.restored == (kafkarec.Restored(None, start, wanted, "the checksum"),)
            assert columns.batches.column("size_in_bytes") == [len(one) for one in pieces]
            given = skipped(b"".join(data), restore=False)
            assert given.restored == () and len(given) < 9


def test_the_length_of_a_message_but_not_its_magic():
    for magic in (0, 1):
        one = builders.message(magic=magic, offset=5, key=b"key", value=b"value")
        following = builders.message(magic=magic, offset=6)
        for length in (0, 14, 23, 10**6):
            columns = skipped(builders.patched(one, 8, length.to_bytes(4, "big")) + following)
            assert offsets(columns) == [5, 6]
            assert [other.fields for other in columns.restored] == [{"batch_length": (length, len(one) - 12)}]
        columns = skipped(builders.flipped(one, 16) + following)
        assert columns.restored == () and offsets(columns) == [6]


def test_what_the_checksum_covers_is_never_restored():
    for at in (17, 20, 21, 40, 61, len(THREE[1]) - 1):
        columns = skipped(b"".join(hurt(at, bytes([THREE[1][at] ^ 4]))))
        assert columns.restored == () and offsets(columns) == [0, 1, 2, 6, 7, 8]
    hurt_both = hurt(8, bytes(4), 1, hurt(70, b"!"))
    assert skipped(b"".join(hurt_both)).restored == ()


def test_errors_raise_stays_the_verdict_of_kafka():
    with pytest.raises(kafkarec.CorruptRecordError, match="size field"):
        kafkarec.decode(b"".join(hurt(8, bytes(4))))
    assert skipped(b"".join(hurt(8, bytes(4))), check_crcs=False).restored == ()


class Case(NamedTuple):
    """A segment in which one batch, `number`, has another base offset: each of `stored`.

    right: the one that is restored; None: the stored one is kept
    index: (offset, number of its batch) of an entry of the .index
    name: of the segment; following: of the one behind it; lost: the number of a batch that is damaged
    """

    pieces: list[bytes]
    number: int
    stored: tuple[int, ...]
    right: int | None = None
    evidence: str = "the offsets before and after it"
    index: tuple[int, int] | None = None
    name: int = 0
    following: int | None = None
    lost: int | None = None


def log_of(*batches):
    """(base offset, count) of each batch."""
    return [batch(base, count) for base, count in batches]


INDEX = "the .index entry"
GAP = [*THREE[:2], *log_of((60, 3))]  # a compacted log
LATE = log_of((30, 3), (33, 3), (36, 3))
FOUR = log_of((0, 1), (10, 1), (11, 1), (20, 1))
HURT_BEHIND = [*FOUR[:2], FOUR[2][:-1] + b"!", FOUR[3]]
ANY = (0, 2, 7, 300, 2**40)
CASES = {
    "only one exactly fits": Case(THREE, 1, (0, 1, 2, 4, 2**35 + 3, 2**62, -1), 3),
    "in a gap: it contradicts nothing": Case(GAP, 1, (3, 4, 57)),
    "in a gap: it contradicts, and more than one is possible": Case(GAP, 1, (2, 58, 10**6)),
    "an index entry": Case(GAP, 1, (0,), 40, INDEX, index=(42, 1)),
    "an index entry below does not fit": Case(GAP, 1, (0,), index=(1, 1)),
    "an index entry of the next batch does not fit": Case(GAP, 1, (0,), index=(60, 1)),
    "an index entry above does not fit": Case(GAP, 1, (0,), index=(10**6, 1)),
    "the last one of a log is undecided": Case(THREE, 2, (2**35, *ANY)),
    "an index entry of the last one": Case(THREE, 2, (2**35, 7, 6 + 2**20), 6, INDEX, index=(8, 2)),
    "an index entry of the last one, of a compacted log": Case(THREE, 2, (7,), index=(9, 2)),
    "an index entry of the last one, of two appended at once": Case(THREE, 2, (7,), index=(19, 2)),
    "an index entry of the last one, of neither": Case(THREE, 2, (7, 6 + 2**20), index=(7, 2)),
    "an index entry, far above, of a compacted log": Case(THREE, 2, (6 + 2**20,), index=(8 + 2**20, 2)),
    "an index entry, far above, of two appended at once": Case(THREE, 2, (6 + 2**20,), index=(18 + 2**20, 2)),
    "an index entry of a batch that is lost": Case(
        [THREE[0], b"\xff" * len(THREE[1]), THREE[2]], 2, (7,), index=(5, 2), lost=1
    ),
    # [2, 5) fits exactly before a batch that is hurt itself, 5 instead of 6
    "the batch behind may be the wrong one": Case(log_of((0, 2), (3, 3), (6, 1), (8, 2), (10, 2)), 2, (5,)),
    "the first one, below the name of its file": Case(LATE, 0, (22, 0, -1), 30, name=30),
    "the first one, at the name of its file or above": Case([LATE[0], LATE[2]], 0, (30, 31), name=30),
    # a block of the disk in the place of another one of the same size: the gap fits, but the records are others
    "a copy of the first batch": Case([THREE[0], THREE[0], THREE[2]], 1, (0,)),
    "a copy of the first batch at the end": Case([*THREE[:2], THREE[0]], 2, (0,)),
    # brokers index what was appended at once, by its last offset; the batch behind is damaged, so it is not known
    "an index entry of several batches": Case(HURT_BEHIND, 1, (12,), index=(11, 1), lost=2),
    "an index entry of one batch": Case(FOUR, 1, (12,), 10, INDEX, index=(10, 1)),
    "an index entry of the batch behind": Case(FOUR, 1, (12,), index=(11, 1)),
    "nothing is missing before an index entry's offset": Case(
        [*log_of((0, 10)), *HURT_BEHIND[1:]], 1, (12,), 10, INDEX, index=(10, 1), lost=2
    ),
    "the last one, before the next segment": Case(THREE, 2, ANY, 6, following=9),
    "the last one, before a segment that begins later": Case(THREE, 2, ANY, following=12),
    # the batch before it is missing with all of its bytes, and the entry was that one's
    "an index entry where the next segment begins behind the batch": Case(
        [THREE[0], THREE[2]], 1, (6,), index=(5, 1), following=9
    ),
    "an index entry where the next segment begins later": Case(
        [THREE[0], THREE[2]], 1, (6,), 3, INDEX, index=(5, 1), following=10
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_base_offsets(name, tmp_path):
    case = CASES[name]
    file = tmp_path / f"{case.name:020d}.log"
    starts = [0, *accumulate(map(len, case.pieces))]
    entries = [(case.index[0], starts[case.index[1]])] if case.index is not None else None
    if case.following is not None:
        (tmp_path / f"{case.following:020d}.log").write_bytes(batch(case.following, 1))
    for stored in case.stored:
        pieces = hurt(0, stored.to_bytes(8, "big", signed=True), case.number, case.pieces)
        columns = in_file(tmp_path, pieces, entries, case.name)
        used = stored if case.right is None else case.right
        bases = [int.from_bytes(piece[:8], "big", signed=True) for piece in pieces]
        bases[case.number] = used
        assert columns.batches.column("base_offset") == [base for n, base in enumerate(bases) if n != case.lost]
        restored = kafkarec.Restored(str(file), starts[case.number], {"base_offset": (stored, used)}, case.evidence)
        assert columns.restored == (() if case.right is None else (restored,))
        assert [one.position for one in columns.damage] == ([] if case.lost is None else [starts[case.lost]])


@pytest.mark.parametrize("epoch, used", [(6, 7), (8, 7), (2**31 - 1, 7), (-1, -1), (7, 7)])
def test_the_leader_epoch(epoch, used, tmp_path):
    columns = in_file(tmp_path, hurt(12, epoch.to_bytes(4, "big", signed=True)))
    assert columns.batches.column("partition_leader_epoch") == [7, None if used == -1 else used, 7]
    assert [one.fields for one in columns.restored] == (
        [] if used == epoch else [{"partition_leader_epoch": (epoch, used)}]
    )
    assert skipped(b"".join(hurt(12, epoch.to_bytes(4, "big", signed=True)))).restored == ()


def test_all_seventeen_bytes(tmp_path):
    for kind in (bytes(17), b"\xff" * 17):
        columns = in_file(tmp_path, hurt(0, kind))
        assert offsets(columns) == list(range(9)), kind
        [restored] = columns.restored
        assert restored.fields["base_offset"][1] == 3 and restored.fields["batch_length"][1] == len(THREE[1]) - 12


def test_a_restored_batch_above_the_range_is_not_read_by_its_stored_offset(tmp_path):
    pieces = hurt(0, bytes(7) + b"\x01", 4, batches(9))
    assert offsets(in_file(tmp_path, pieces)) == list(range(27))
    part = kafkarec.open(tmp_path / f"{0:020d}.log").read(errors="skip", end_offset=9, columns=["offset"])
    assert offsets(part) == list(range(9))


@pytest.mark.parametrize("read", [kafkarec.Log.read, lambda log, **how: [*log.stream(**how)]], ids=["read", "stream"])
def test_read_committed_that_restores_nothing_refuses_a_wrong_base_offset(read, tmp_path):
    """Its markers are matched by the right offset: by the stored one it is above the last batch, and was left out."""
    pieces = hurt(0, bytes(7) + b"\x40", 1)
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(pieces))
    with kafkarec.open(tmp_path) as log:
        wrong = pytest.raises(kafkarec.CorruptRecordError, match="base offset is 3, not 64: proven by the offsets")
        with wrong as caught:
            read(log, isolation="read_committed")
        assert (caught.value.reason, caught.value.position) == ("base_offset_undecided", len(THREE[0]))
        assert caught.value.base_offset == 64 and log.last_stable_offset == 9
        assert offsets(log.read(isolation="read_committed", errors="skip")) == list(range(9))
        assert offsets(log.read()) == [0, 1, 2, 64, 65, 66, 6, 7, 8]


@pytest.mark.parametrize(
    ("stored", "within", "read"),
    [
        (64, {"end_offset": 3}, [0, 1, 2]),
        (64, {"start_offset": 6}, [6, 7, 8]),
        (64, {"start_offset": 5}, None),
        (64, {"end_offset": 4}, None),
        (0, {"end_offset": 3}, None),  # by which the batch would be in the range
    ],
)
def test_read_committed_refuses_a_wrong_base_offset_in_its_range(stored, within, read, tmp_path):
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(hurt(0, stored.to_bytes(8, "big"), 1)))
    with kafkarec.open(tmp_path) as log:
        if read is None:
            with pytest.raises(kafkarec.CorruptRecordError, match=f"base offset is 3, not {stored}"):
                log.read(isolation="read_committed", **within)
        else:
            assert offsets(log.read(isolation="read_committed", **within)) == read


def test_read_committed_ends_before_a_wrong_base_offset_that_an_open_transaction_precedes(tmp_path):
    opened = batch(0, 3, transaction=5)
    (tmp_path / f"{0:020d}.log").write_bytes(opened + b"".join(hurt(0, bytes(7) + b"\x40", 1)[1:]))
    with kafkarec.open(tmp_path) as log:
        assert offsets(log.read(isolation="read_committed", errors="skip")) == []
        assert offsets(log.read(isolation="read_committed")) == []
        assert [one.fields["base_offset"] for one in log.read(errors="skip").restored] == [(64, 3)]


def test_the_two_batches_before_a_range_are_neighbours(tmp_path):
    """The second one before tells that the first one is not the wrong one."""
    pieces = [batch(base, 10) for base in (0, 10, 15, 30)]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(pieces))
    for start in (None, 20):
        columns = kafkarec.open(path).read(start_offset=start, errors="skip", columns=["offset"])
        assert [one.fields for one in columns.restored] == [{"base_offset": (15, 20)}]
        assert columns.column("offset") == list(range(start or 0, 40))


def test_damaged_batches_in_a_row_are_not_tried_again_for_each():
    """At the end of the input each of them is damage of its own, and the lengths of one lead to the next ones."""
    raw = batches(300, 1)
    broken = [one[:-1] + b"\xff" for one in raw[1:]]
    columns, calls = calls_of(lambda: skipped(b"".join([raw[0], *broken])))
    assert len(columns.damage) == 299 and calls < 100 * 299
    broken[250] = builders.patched(raw[251], 8, bytes(4))
    columns = skipped(b"".join([raw[0], *broken]))
    assert offsets(columns) == [0, 251] and [one.position for one in columns.restored] == [251 * len(raw[0])]


def test_the_ends_of_compressed_batches_in_work_that_does_not_grow_with_the_square():
    """No good batch is behind: where such a batch ends could be tried up to the end of the input, for each of them."""
    raw = batches(400, codec="lz4")
    broken = [builders.flipped(one) for one in raw]

    def every_second(*patches):
        hurt = raw[1::2]
        for at, new in patches:
            hurt = [builders.patched(one, at, new) for one in hurt]
        return skipped(b"".join(piece for pair in zip(broken[::2], hurt, strict=True) for piece in pair))

    columns = skipped(b"".join([*broken[:-1], builders.patched(raw[-1], 8, bytes(4))]))
    assert offsets(columns) == [1197, 1198, 1199]
    length, magic = (8, bytes(4)), (16, b"\x42")
    for one in (length, magic):  # the other one shows where the batches before them end
        columns = every_second(one)
        assert len(columns) == 600 and {each.reason for each in columns.damage} == {"crc_mismatch"}
    columns = every_second(length, magic)
    assert len(columns) < 600 and "search_limit" in {each.reason for each in columns.damage}


def test_frames_in_a_value_that_lead_to_a_cut_batch_lead_nowhere(tmp_path):
    """The frames of the log, which lead there too, were followed before: of them it is the next batch."""
    nested = batch(5000, 1) + batch(5001, 1)
    pieces = [
        batch(0, 3, codec="lz4"),
        batch(3, 2),
        builders.message(magic=0, offset=5, value=nested),
        builders.message(magic=0, offset=6, value=b"w" * 80),
        batch(7, 3),
        batch(10, 3),
    ]
    pieces = hurt(8, (len(pieces[0]) - 13).to_bytes(4, "big"), 0, pieces)
    pieces = hurt(13, bytes([pieces[2][13] ^ 1]), 2, pieces)
    pieces = hurt(8, (len(pieces[3]) - 12 | 1 << 17).to_bytes(4, "big"), 3, pieces)
    columns = in_file(tmp_path, pieces)
    assert offsets(columns) == [0, 1, 2, 3, 4, *range(7, 13)]
    assert [one.reason for one in columns.damage] == ["crc_mismatch", "base_offset_undecided"]


def test_a_restored_marker_ends_its_transaction():
    data, marker = batch(0, 2, transaction=7), builders.end_marker(2, 7, commit=False)
    last = batch(3, 1)
    both = data + builders.patched(marker, 8, bytes(4)) + last
    columns = skipped(both, isolation="read_committed")
    assert offsets(columns) == [3] and len(columns.restored) == 1  # aborted
    columns = skipped(both, isolation="read_committed", restore=False)  # legible in the damage, it proves the same
    assert offsets(columns) == [3] and columns.restored == () and len(columns.damage) == 1


def test_wrapper_messages_prove_no_offsets(tmp_path):
    """A wrapper's header has its last offset, and not how many it has: one beside it with a wrong last offset, which
    would be right if this one had a single record, is no reason to change this one."""

    def wrapper(last):
        messages = [builders.message(magic=1, offset=row, value=b"%d" % row) for row in range(3)]
        return builders.wrapper(messages, magic=1, offset=last)

    columns = in_file(tmp_path, [wrapper(9), wrapper(8)], base=7)
    assert (columns.column("offset")[:3], columns.restored) == ([7, 8, 9], ())
    columns = in_file(tmp_path, [wrapper(7), wrapper(12)], base=7)
    assert (columns.column("offset")[3:], columns.restored) == ([10, 11, 12], ())


def test_the_leader_epoch_checkpoint_gives_the_epoch(tmp_path):
    """Where the epochs on both sides differ, and at the end. A log is only compared with a file that agrees with it."""
    pieces = [batch(base, 1, epoch=epoch) for base, epoch in ((0, 3), (1, 3), (2, 5), (3, 5))]
    file = tmp_path / "leader-epoch-checkpoint"
    for number, right in ((1, 3), (2, 5), (3, 5)):
        for epoch in (2, 6, -7, 2**31 - 1):
            hurt_pieces = hurt(12, epoch.to_bytes(4, "big", signed=True), number, pieces)
            file.write_bytes(leader_epochs.write([(3, 0), (5, 2)]))
            columns = in_file(tmp_path, hurt_pieces)
            disproved = number < 3 or epoch < 5  # behind the last one a new leader's batches may come
            wanted = [{"partition_leader_epoch": (epoch, right)}] if disproved else []
            assert [one.fields for one in columns.restored] == wanted, (number, epoch)
            if disproved:
                assert columns.restored[0].evidence == "the leader-epoch-checkpoint"
            file.write_bytes(leader_epochs.write([(4, 0), (5, 2)]))
            if number < 3:
                assert in_file(tmp_path, hurt_pieces).restored == ()
            file.unlink()
            assert in_file(tmp_path, hurt_pieces).restored == ()


@pytest.mark.parametrize("epoch", [0, 6, 8, 2**31 - 1])
@pytest.mark.parametrize(("following", "right"), [((7, 7), True), ((), False), ((99, 7), False)])
def test_the_leader_epoch_of_a_segments_last_batch(epoch, following, right, tmp_path):
    """The next segment's first batch has the same one as the batch before it. One that is above the next one of its
    own segment is damaged itself."""
    behind = [batch(9 + 3 * n, 3, epoch=one) for n, one in enumerate(following)]
    (tmp_path / f"{9:020d}.log").write_bytes(b"".join(behind))
    columns = in_file(tmp_path, hurt(12, epoch.to_bytes(4, "big"), 2))
    assert [one.fields for one in columns.restored] == [{"partition_leader_epoch": (epoch, 7)}] * right
