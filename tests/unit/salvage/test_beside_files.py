"""Files beside a log: exchanged names, .swap, .deleted, .cleaned. What fills a hole, and what does not."""

from pathlib import Path

import pytest
from builders import flipped
from plain_logs import batch, exchange, log
from salvage_runs import copied

from kafkarec import salvage, verify

BASES = (0, 20, 40, 60)
SEGMENTS = [[batch(base + at, 10) for at in (0, 10)] for base in BASES]
WHOLE = b"".join(b"".join(segment) for segment in SEGMENTS)


def name(base, state=""):
    return f"{base:020}.log{state}"


@pytest.fixture
def folder(tmp_path):
    """Four segments of two batches."""
    return log(tmp_path / "data" / "orders-0", *SEGMENTS)


def saved(folder, **options):
    """The bytes of the new log, and the report."""
    report = salvage(folder, folder.parent.parent / "out", **options)
    return copied(folder.parent.parent / "out"), report


def used(report):
    return {Path(one.path).name: one.used for one in report.partitions[0].other_files}


@pytest.mark.parametrize(
    "counts, at, now",
    [
        ([[5, 5], [6], [13], [7, 3]], 16, 100),  # one batch, behind all others
        ([[5, 5], [6], [13], [7, 3]], 16, 3),  # one batch, that of the segment before has its name
        ([[5], [6, 2], [13, 1]], 0, 100),  # the first one, of one batch: the next one begins where it ends
        ([[5, 5], [2, 2, 2, 9], [13]], 10, 14),  # its second batch begins at the wrong name
        ([[5, 5], [2, 2, 2, 9], [13]], 10, 15),  # its third batch has the offset
        ([[5, 5], [6, 3], [13]], 19, 7),
    ],
)
def test_a_wrong_name(tmp_path, counts, at, now):
    """verify counts what is missing by the offsets of the batches, and salvage keeps every batch."""
    segments, offset = [], 0
    for of_segment in counts:
        segments.append([batch(offset + sum(of_segment[:n]), count) for n, count in enumerate(of_segment)])
        offset += sum(of_segment)
    folder = log(tmp_path / "data" / "orders-0", *segments)
    (folder / name(at)).rename(folder / name(now))
    checked = verify(folder)
    [found] = [one for one in checked.findings if one.severity == "error"]
    is_above = now > at
    assert found.kind == ("offset_below_file_name" if is_above else "segment_misnamed")
    by_name = f"offset {at} in a file with base offset {now}"
    by_batches = f"the file is named {now}, but by its batches it is the segment of offset {at}"
    assert (found.detail, Path(found.file or "").name) == (by_name if is_above else by_batches, name(now))
    assert (checked.partitions[0].missing_offsets, checked.exit_status()) == (0, 1)
    data, report = saved(folder)
    assert data == b"".join(map(b"".join, segments)) and report.ok and used(report) == {name(now): True}


@pytest.mark.parametrize("rest", [b"", SEGMENTS[1][0][:-10]], ids=["empty", "half a batch"])
@pytest.mark.parametrize("gone, whole", [(60, 20), (0, 20), (20, 60)])
def test_exchanged_names_one_of_which_lost_its_content(folder, rest, gone, whole):
    """The whole segment is at the name of the other one, which has no batch that could say so."""
    (folder / name(gone)).write_bytes(rest)
    exchange(folder, gone, whole)
    data, report = saved(folder)
    assert data == b"".join(b"".join(SEGMENTS[BASES.index(base)]) for base in BASES if base != gone)
    assert used(report) == {name(gone): True} and not report.partitions[0].set_aside
    lost = [*report.partitions[0].lost, *report.partitions[0].missing]
    assert lost == ([] if gone == 60 and not rest else [(gone, None if gone == 60 else gone + 19)])


@pytest.mark.parametrize("at", [25, 35, 30, 21])
@pytest.mark.parametrize("content", [b"", bytes(200), b"".join(SEGMENTS[1])], ids=["empty", "zeros", "copy"])
def test_a_name_alone_ends_no_segment_before_it(folder, at, content):
    (folder / name(at)).write_bytes(content)
    data, report = saved(folder)
    assert data == WHOLE and not report.partitions[0].lost and not report.partitions[0].missing
    assert verify(folder.parent.parent / "out" / "orders-0").exit_status() == 0
    wanted = BASES if at != 30 else (0, 20, 30, 40, 60)
    assert [file.base_offset for file in report.partitions[0].files] == [*wanted]


def test_what_a_later_segment_has_ends_a_segment_before_it(folder):
    """Batches that go on into it, as those that a broker truncated."""
    with (folder / name(20)).open("ab") as file:
        file.write(batch(40, 5, epoch=7) + batch(45, 20, epoch=7))
    data, report = saved(folder)
    assert data == WHOLE
    assert [(one.first_offset, one.reason) for one in report.partitions[0].set_aside] == [(40, "outside_of_segment")]


def test_a_swap_replaces_what_it_covers(folder):
    """As LogLoader: two segments cleaned into one, whose batches lack some records."""
    cleaned = batch(0, 10) + batch(39, 1)
    (folder / name(0, ".swap")).write_bytes(cleaned)
    data, report = saved(folder)
    assert data == cleaned + b"".join(SEGMENTS[2] + SEGMENTS[3])
    assert "in place of 2 segments, as when a broker starts" in str(report) and report.ok


def test_what_is_damaged_in_a_swap_comes_from_the_original(folder):
    (folder / name(20, ".swap")).write_bytes(flipped(b"".join(SEGMENTS[1]), 90))
    data, report = saved(folder)
    assert data == WHOLE and report.partitions[0].lost == []
    assert used(report) == {name(20, ".swap"): True, name(20): True}


def test_segments_between_two_swaps_are_kept(folder):
    """A broker that starts deletes them."""
    for base, number in ((0, 0), (60, 3)):
        (folder / name(base, ".swap")).write_bytes(b"".join(SEGMENTS[number]))
    data, report = saved(folder)
    assert data == WHOLE and report.ok
    assert used(report) == dict.fromkeys((name(0, ".swap"), name(60, ".swap"), name(20), name(40)), True)
    assert "between .swap files" in str(report)


@pytest.mark.parametrize("cleaned", [0, 20, 40])
def test_a_swap_is_ignored_from_the_lowest_cleaned_file_on(folder, cleaned):
    (folder / name(20, ".swap")).write_bytes(batch(39, 1))
    (folder / name(cleaned, ".cleaned")).write_bytes(b"")
    data, report = saved(folder)
    assert used(report)[name(20, ".swap")] is (cleaned == 40)
    assert (data == WHOLE) is (cleaned != 40)


def test_one_that_has_only_a_part_of_the_hole(folder):
    (folder / name(20)).unlink()
    (folder / name(30, ".deleted")).write_bytes(SEGMENTS[1][1])
    data, report = saved(folder)
    assert data == WHOLE.replace(SEGMENTS[1][0], b"") and used(report) == {name(30, ".deleted"): True}
    assert report.partitions[0].lost == [(20, 29)]


def deleted(folder, base, checkpoint=""):
    """Mark a segment as deleted, in a data folder if this checkpoint of it says 40."""
    (folder / name(base)).rename(folder / name(base, ".deleted"))
    if checkpoint:
        (folder.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
        (folder.parent / checkpoint).write_text("0\n1\norders 0 40\n")


def with_gaps_of_the_cleaner(folder):
    deleted(folder, 20)
    for base in (40, 60):
        (folder / name(base)).write_bytes(batch(base, 1) + batch(base + 19, 1))


NOT_USED = {
    "in a compacted log": (20, lambda folder: deleted(folder, 20, "cleaner-offset-checkpoint"), "the log is compacted"),
    "in a log with gaps of the cleaner": (20, with_gaps_of_the_cleaner, "the log is compacted"),
    "after the end": (60, lambda folder: deleted(folder, 60), "are after the log's end"),
    "before the start": (0, lambda folder: deleted(folder, 0), "are before the log's start"),
    "below the log start offset": (
        20,
        lambda folder: deleted(folder, 20, "log-start-offset-checkpoint"),
        "are before the log's start",
    ),
    "where nothing is missing": (
        20,
        lambda folder: (folder / name(20, ".deleted")).write_bytes(b"".join(SEGMENTS[1])),
        "offsets 20 to 39 are in the log already",
    ),
}


@pytest.mark.parametrize("case", NOT_USED)
def test_a_deleted_segment_is_not_used(case, folder):
    base, change, why = NOT_USED[case]
    change(folder)
    _, report = saved(folder)
    assert used(report) == {name(base, ".deleted"): False}
    assert f"not used: {folder / name(base, '.deleted')}: " in str(report) and why in str(report)
    assert "--use FILE" in str(report)


def test_a_list_that_does_not_fit_ends_with_how_many_more_there_are(tmp_path):
    folders = [log(tmp_path / str(number) / "orders-0", [batch(0, 10), batch(10, 10)[:40]]) for number in range(8)]
    report = salvage(folders, tmp_path / "out")
    assert len(report.partitions[0].tails) == 8
    assert str(report).count("  not copied: 40 bytes from byte ") == 6
    assert "    and 2 more files, listed in salvage.json" in str(report)
