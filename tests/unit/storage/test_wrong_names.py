"""Logs two of whose segments have each other's name: ranges and read_committed go by the batches."""

import builders
import plain_logs
import pytest
from plain_logs import batch

import kafkarec
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import txn_index

BASES = (0, 20, 40, 60)
EVERY = range(80)
PAIRS = [(0, 20), (20, 40), (0, 60), (40, 60)]


def exchanged(folder, pair, suffixes=(".log",)):
    for suffix in suffixes:
        plain_logs.exchange(folder, *pair, suffix)
    return kafkarec.open(folder)


@pytest.fixture
def folder(tmp_path):
    """Four segments of two batches; offset n has the timestamp 1000 + n."""
    segments = [[batch(base + at, 10, base_timestamp=1000 + base + at) for at in (0, 10)] for base in BASES]
    return plain_logs.log(tmp_path / "orders-0", *segments)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_ranges(folder, pair, errors):
    log = exchanged(folder, pair)
    assert sorted(log.read(errors=errors).column("offset")) == list(EVERY)
    for start in (None, 0, 5, 19, 20, 41, 60, 79, 80):
        for end in (None, 0, 16, 20, 45, 80):
            if (start, end) == (None, None):
                continue
            bounds = {"start_offset": start, "end_offset": end}
            wanted = [offset for offset in EVERY if (start or 0) <= offset < (80 if end is None else end)]
            assert log.read(errors=errors, **bounds).column("offset") == wanted
            for options in ({}, {"threads": 2}, {"first": 3}, {"last": 3}):
                pieces = log.stream(errors=errors, **bounds, **options)
                chosen = wanted[: options.get("first")][-options.get("last", 80) :]
                assert [offset for piece in pieces for offset in piece.column("offset")] == chosen
            bases = log.scan(errors=errors, **bounds).column("base_offset")
            assert not wanted or bases == [base for base in EVERY[::10] if set(wanted) & set(range(base, base + 10))]
    for offset in (0, 19, 20, 45, 79):
        assert log.offset_for_timestamp(1000 + offset) == offset
        times = log.read(start_timestamp=1000 + offset, errors=errors)
        assert times.column("offset") == list(EVERY[offset:])


def test_a_damaged_offset_is_no_wrong_name(folder):
    """The first batch of a segment, whose base offset no checksum covers, seems to be elsewhere."""
    path = folder / f"{20:020}.log"
    path.write_bytes(builders.patched(path.read_bytes(), 0, (1 << 40).to_bytes(8, "big")))
    log = kafkarec.open(folder)
    assert log.read(errors="skip", start_offset=15, end_offset=50).column("offset") == list(range(15, 50))


@pytest.mark.parametrize("hit", [0, 10, 20, 30])
def test_a_damaged_offset_of_the_only_batch_is_no_wrong_name(tmp_path, hit):
    """With the offset of its name it ends where the next segment begins, which may be empty."""
    folder = plain_logs.log(tmp_path / "orders-0", *([plain_logs.batch(base, 10)] for base in (0, 10, 20, 30)))
    (folder / f"{40:020}.log").touch()
    path = folder / f"{hit:020}.log"
    path.write_bytes(builders.patched(path.read_bytes(), 0, (hit + (1 << 40)).to_bytes(8, "big")))
    log = kafkarec.open(folder)
    assert log.read(errors="skip", start_offset=5, end_offset=35).column("offset") == list(range(5, 35))
    kafkarec.salvage(folder, tmp_path / "out")
    saved = kafkarec.open(tmp_path / "out" / "orders-0")
    assert saved.read().column("offset") == list(range(40))
    assert [one.name for one in saved.segments] == [f"{base:020}.log" for base in (0, 10, 20, 30, 40)]


def test_a_damaged_batch_at_the_start_is_no_wrong_name(folder):
    """Its base offset, size and payload are wrong, so that it seems to be the only one; the next segment is empty."""
    (folder / f"{80:020}.log").touch()
    path = folder / f"{60:020}.log"
    size = int.from_bytes(path.read_bytes()[8:12], "big") + 20
    data = builders.patched(path.read_bytes(), 0, (200).to_bytes(8, "big") + size.to_bytes(4, "big"))
    path.write_bytes(builders.patched(data, 70, b"x"))
    log = kafkarec.open(folder)
    assert log.read(errors="skip", start_offset=50, end_offset=75).column("offset") == [*range(50, 60), *range(70, 75)]


@pytest.mark.parametrize("suffixes", [(".log",), (".log", ".txnindex")])
@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_an_aborted_transaction_is_not_committed_by_the_next_marker(tmp_path, suffixes, errors):
    first, second, third = (batch(offset, count, transaction=7) for offset, count in ((0, 2), (3, 1), (4, 1)))
    abort, commit = (builders.end_marker(offset, 7, commit=offset == 5) for offset in (2, 5))
    folder = plain_logs.log(tmp_path / "orders-0", [first], [abort, second], [third, commit])
    for base, entries in ((0, []), (2, [AbortedTransaction(7, 0, 2, 3)])):
        (folder / f"{base:020}.txnindex").write_bytes(txn_index.write(entries))
    log = exchanged(folder, (0, 2), suffixes)
    records = log.read(isolation="read_committed", errors=errors)
    assert (sorted(records.column("offset")), records.last_stable_offset) == ([3, 4], 6)
    assert log.last_stable_offset == 6
    listing = log.transactions()
    assert [[txn.first_offset for txn in listing.of(state)] for state in ("aborted", "committed")] == [[0], [3]]
    assert not listing.notes


def test_by_names_nothing_is_followed_that_others_would_have(folder):
    log = exchanged(folder, (20, 40))
    for options in ({"start_offset": 30}, {"isolation": "read_committed"}, {"last": 3}):
        with pytest.raises(ValueError, match=r"names of segments contradict .*20\.log begins with 40"):
            log.followers(**options)
    (follower,) = log.followers()
    assert sorted(offset for _, piece in follower.poll() for offset in piece.column("offset")) == list(EVERY)


def test_a_damaged_offset_that_leads_into_the_segment_is_no_wrong_name(folder, tmp_path):
    """By one too low: the first batch then begins in the segment before and ends in its own."""
    path = folder / f"{20:020}.log"
    whole = path.read_bytes()
    path.write_bytes(builders.patched(whole, 0, (19).to_bytes(8, "big")))
    assert kafkarec.open(folder).read(errors="skip").column("offset") == list(EVERY)
    [report] = kafkarec.salvage(folder, tmp_path / "out").partitions
    assert not report.set_aside
    assert (tmp_path / "out" / "orders-0" / path.name).read_bytes() == whole
