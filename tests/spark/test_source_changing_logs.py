"""Batch reads of a log that is appended to, cleaned and truncated while it is listed, planned and read: no record is
missing, or the job fails."""

import errno
import json
import os
import random
import re
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import builders
import log_cleaning
import pytest
from log_cleaning import RepeatingThread
from plain_logs import batch, log
from pyspark.sql.types import StructType
from source_rows import Read, offsets_of, read
from unreadable_files import refuse_listing

from kafkarec import distributed
from kafkarec.sidecars import offset_index
from kafkarec.sources import folders, remote
from spark_udfs.source import KafkarecDataSource, listing
from spark_udfs.source.listing import DataLoss
from spark_udfs.source.paths import finder

OFFSET = StructType().add("offset", "long")  # without options: folders are listed for the plan only


def change_next_listing(monkeypatch, change):
    """Let `change` edit the result of the next folder listing that has a .log file, while logs are looked for."""
    real, real_logs, waiting = folders.LocalFolder.entries, distributed.LogFinder.logs, [change]

    def entries(self):
        listed = real(self)
        return waiting.pop()(listed) if waiting and any(each.name.endswith(".log") for each in listed) else listed

    def logs(self):
        with monkeypatch.context() as during:
            during.setattr(folders.LocalFolder, "entries", entries)
            return real_logs(self)

    monkeypatch.setattr(distributed.LogFinder, "logs", logs)


# ---- changes during the listing -------------------------------------------------------------------------------------


def test_a_segment_that_grows_and_rolls_during_the_listing(broker, monkeypatch):
    broker.write(10)
    before = len(broker.log())

    def roll(listed):
        """A listing that returns older sizes for the first names and newer ones for the names that follow."""
        while len(broker.log()) == before:
            broker.write(10)
        old = {each.name: each for each in listed}
        entries = (remote.FolderEntry(path.name, path.stat().st_size, False) for path in broker.log())
        return sorted(old.get(entry.name, entry) for entry in entries)

    for look in (lambda: finder(options_of(broker)).logs()[0], lambda: read(broker.root)):
        change_next_listing(monkeypatch, roll)
        listed = look()
        if not isinstance(listed, list):  # the listing has the old size of a segment that another one follows
            first = listed.segments[0]
            assert first.later_segment and first.size < os.path.getsize(first.path)
            before = len(broker.log())
    offsets = offsets_of(listed)
    assert offsets == list(range(len(offsets))) and len(offsets) >= int(broker.log()[-2].stem)


def options_of(broker, **source_options):
    from spark_udfs.source import options

    return options.parse({"path": str(broker.root), **source_options}, "read")


@pytest.mark.parametrize("listed", [(), (0, 1), (1,)])
@pytest.mark.parametrize("deleted, is_named", [(0, False), (1, False), (1, True)])
def test_segments_that_are_begun_and_deleted_during_the_listing(
    broker, monkeypatch, tmp_path, listed, deleted, is_named
):
    """The first names are read at once, without a second listing, unless one of them is gone: of two new segments it
    may have the last one only. is_named: the deleted one was there still when the folder's names were read, but not for
    its `stat`."""
    if not deleted:
        monkeypatch.setattr(listing, "time", SimpleNamespace(sleep=lambda seconds: pytest.fail("listed again")))
    broker.fill(5)
    begun = broker.log()[3:]
    for path in begun:
        path.rename(tmp_path / path.name)

    def change(entries):
        for path in begun:
            (tmp_path / path.name).rename(path)
        gone = broker.log()[:deleted]
        for path in gone:
            path.rename(f"{path}.deleted")
        new = [remote.FolderEntry(begun[each].name, begun[each].stat().st_size, False) for each in listed]
        new += [remote.FolderEntry(path.name, 0, False) for path in gone if is_named]
        return sorted([each for each in entries if each.name not in {path.name for path in gone}] + new)

    change_next_listing(monkeypatch, change)
    start, end = int(broker.log()[deleted].stem), broker.offsets[-1] + 1
    assert offsets_of(read(broker.root)) == list(range(start, end if deleted else int(begun[0].stem)))
    assert offsets_of(read(broker.root)) == list(range(start, end))


def before_listing(monkeypatch, changes):
    """Let each of `changes` happen before one listing of a folder orders-0, by its number from 0 on. What it returns
    are names that this listing does not have."""
    real, numbers = os.scandir, iter(range(1000))

    def scandir(folder="."):
        if not str(folder).endswith("orders-0"):
            return real(folder)
        hidden = changes.get(next(numbers), lambda: None)() or ()
        return nullcontext(iter([each for each in real(folder) if each.name not in hidden]))

    monkeypatch.setattr(os, "scandir", scandir)


@pytest.mark.parametrize("archived", [0, 1])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("listing_number", range(6))
def test_a_segment_that_is_moved_to_another_folder_of_its_partition(
    broker, monkeypatch, tmp_path, archived, is_reversed, listing_number
):
    """To the archive that holds what is before it, while both folders are listed."""
    broker.fill(4)
    archive = tmp_path / "archive" / "orders-0"
    archive.mkdir(parents=True)
    for path in broker.log()[:archived]:
        path.rename(archive / path.name)
    moved = broker.log()[0]
    paths = [str(archive.parent), str(broker.root)]
    given = {"paths": json.dumps(paths[::-1] if is_reversed else paths)}
    before_listing(monkeypatch, {listing_number: lambda: moved.rename(archive / moved.name) and None})
    assert offsets_of(Read(user_schema=OFFSET, **given).rows) == broker.offsets
    assert not moved.exists()


@pytest.mark.parametrize("number, is_shown", [(0, False), (0, True), (1, True)])
def test_a_segment_that_is_replaced_between_the_first_names_and_the_last(broker, monkeypatch, number, is_shown):
    """The listing between them has no name of it. is_shown: the last names are the first ones, and no .deleted is left;
    else they have neither the old name of the file nor the new one, as it is renamed meanwhile."""
    broker.fill(4)
    replaced, expected = broker.log()[number], broker.cleaned(number, number + 1)
    steps = log_cleaning.steps([replaced])

    def remove():
        for _ in range(3):
            next(steps)
        if is_shown:
            Path(f"{replaced}.deleted").unlink()

    def rename():
        if is_shown:
            Path(f"{replaced}.swap").rename(replaced)
            return []
        list(steps)
        return [replaced.name]

    before_listing(monkeypatch, {1: remove, 2: rename})
    assert offsets_of(read(broker.root, OFFSET)) == expected


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_every_step_of_a_segment_replacement(broker, monkeypatch, step, mode):
    """The cleaner goes on when the listing waits for it."""
    broker.fill(5)
    steps, least = log_cleaning.steps(broker.log()[1:3]), broker.cleaned(1, 3)
    for _ in range(step):
        next(steps, None)
    monkeypatch.setattr(listing, "time", SimpleNamespace(sleep=lambda seconds: list(steps)))
    offsets = offsets_of(read(broker.root, mode=mode))
    assert offsets == sorted(set(offsets)) and set(least) <= set(offsets) <= set(broker.offsets)


@pytest.mark.parametrize("below", ["", "orders-0", "orders-*", "orders-0/*.log", "orders-{0,1}/0*"])
def test_an_interrupted_segment_replacement(broker, monkeypatch, caplog, below):
    monkeypatch.setattr(listing, "time", SimpleNamespace(sleep=lambda seconds: None))
    broker.fill(4)
    name = broker.log()[1].name
    steps = log_cleaning.steps(broker.log()[1:2])
    for _ in range(3):
        next(steps)
    with pytest.raises(DataLoss, match=f"orders-0 has {name}.swap and no {name}: the replacement of that segment"):
        read(broker.root / below)
    offsets = offsets_of(read(broker.root / below, failOnDataLoss="false"))
    first, end = int(name[:20]), int(broker.log()[1].stem)
    assert offsets == [offset for offset in broker.offsets if not first <= offset < end]
    assert f"{name}.swap" in caplog.text


def test_partitions_beside_the_files_of_a_glob_do_not_matter(broker, monkeypatch):
    """Nothing of them is read: a replacement that was interrupted there is no loss."""
    monkeypatch.setattr(listing, "time", SimpleNamespace(sleep=lambda seconds: None))
    broker.fill(2)
    (first, _), count = broker.log(), int(broker.log()[1].stem)
    (broker.root / "a.log").write_bytes(first.read_bytes())
    first.rename(f"{first}.swap")
    assert len(read(broker.root / "*.log")) == count
    with pytest.raises(DataLoss, match="was interrupted"):
        read(broker.root)


def test_names_that_never_stay_the_same_are_refused(broker, monkeypatch, caplog):
    monkeypatch.setattr(listing, "time", SimpleNamespace(sleep=lambda seconds: None))
    broker.write(10)
    real, seen = os.scandir, iter(range(1000))

    def scandir(folder="."):
        if str(folder).endswith("orders-0"):
            (Path(folder) / f"{next(seen)}.log.deleted").touch()
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    message = f"data loss in {broker.root}.*: names have changed during each of 12 listings"
    with pytest.raises(DataLoss, match=message):
        read(broker.root)
    assert len(read(broker.root, failOnDataLoss="false")) == 10 and re.search(message, caplog.text)


def test_an_unreadable_folder_is_reported(broker, monkeypatch, caplog):
    broker.write(10)
    broker.write(10, partition=1)
    unreadable = str(broker.root / "orders-1")
    refuse_listing(monkeypatch, unreadable, errno.EACCES)
    with pytest.raises(PermissionError, match=f"Permission denied: '{unreadable}'"):
        read(broker.root)
    assert {row["partition"] for row in read(broker.root, failOnDataLoss="false")} == {0}
    assert f"Permission denied: '{unreadable}': left out; failOnDataLoss is false" in caplog.text


# ---- changes between listing and planning, and between planning and reading -----------------------------------------


def change_after_next_listing(monkeypatch, change):
    """Let `change` happen between the next listing and the planning."""
    real, waiting = listing.Listing.current, [change]

    def current(self):
        listed = real(self)
        if waiting:
            waiting.pop()()
        return listed

    monkeypatch.setattr(listing.Listing, "current", current)


@pytest.mark.parametrize("size", ["1g", "500"])
def test_a_segment_replaced_by_one_of_its_name_between_listing_and_planning(broker, monkeypatch, size):
    broker.fill(4)
    expected = broker.cleaned(1, 2)
    change_after_next_listing(monkeypatch, lambda: log_cleaning.clean(broker.log()[1:2]))
    assert offsets_of(read(broker.root, maxPartitionBytes=size)) == expected


@pytest.mark.parametrize("options", [{}, {"startingTimestamp": "1"}, {"isolationLevel": "read_committed"}])
def test_retention_between_listing_and_planning(broker, monkeypatch, options):
    broker.fill(4)
    change_after_next_listing(monkeypatch, broker.delete_first)
    offsets = offsets_of(read(broker.root, maxPartitionBytes="500", **options))
    assert offsets == broker.offsets and offsets[0] > 0


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("cut", [0, 30])
@pytest.mark.parametrize("written", [4, 6])
@pytest.mark.parametrize("call", range(17))
def test_read_committed_of_a_preallocated_file_that_is_written_to(tmp_path, monkeypatch, call, written, cut, indexed):
    """Of a transaction that is aborted after the planning. written: the batches in the file from one of the planning's
    calls on that open or read a file; cut: the bytes of the last one when the planning began."""
    plain = [batch(base, 1) for base in range(4)]
    begun = batch(4, 1, transaction=7)
    marker = builders.end_marker(6, 7, commit=False)
    data = [*plain, begun, batch(5, 1), marker]
    folder = log(tmp_path / "t-0", (0, b"".join(plain[:3]) + plain[3][:cut] + bytes(2000)))
    if indexed:
        entry = offset_index.write([(1, len(plain[0]))], 0)
        (folder / f"{0:020}.index").write_bytes(entry + bytes(80))

    def write(count):
        with (folder / f"{0:020}.log").open("r+b") as file:
            file.write(b"".join(data[:count]))

    calls = iter(range(1000))

    def after_writing(real, *args, **options):
        if next(calls) == call:
            write(written)
        return real(*args, **options)

    with monkeypatch.context() as during:
        for name in ("open", "pread"):
            during.setattr(os, name, partial(after_writing, getattr(os, name)))
        source = KafkarecDataSource({"path": str(folder), "isolationlevel": "read_committed"})
        reader = source.reader(OFFSET)
        tasks = reader.partitions()
    write(7)
    found = [row["offset"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert found in ([0, 1, 2], [0, 1, 2, 3])


@pytest.mark.parametrize("number", [1, 5])
def test_read_committed_of_a_preallocated_file_with_damage_that_is_written_to(tmp_path, number):
    """Damage decides about transactions, and no offset tells what was written after the planning."""
    batches = [batch(5 * at, 1, transaction=7 if at == 2 else None) for at in range(6)]
    batches[3] = builders.end_marker(15, 7, commit=False)
    batches[number] = builders.patched(batches[number], 0, (60_000).to_bytes(8, "big"))
    later = [batch(30, 1, transaction=7), builders.end_marker(31, 7, commit=False)]
    before, after = b"".join(batches), b"".join(batches + later)
    folder = log(tmp_path / "t-0", (0, before.ljust(4096, b"\0")))
    options = {"isolationLevel": "read_committed", "mode": "DROPMALFORMED"}
    planned = Read(folder, **options)
    log(folder, (0, after.ljust(4096, b"\0")))
    expected = [0, 5, 20, 25]
    expected[expected.index(5 * number)] = 60_000
    assert offsets_of(planned.again()) == expected == offsets_of(read(folder, **options))


def test_read_committed_of_a_preallocated_file_whose_last_base_offset_is_damaged(tmp_path):
    """It is too low, and no checksum covers it: the log does not end there."""
    plain = [batch(base, 1) for base in (10, 11, 12, 2)]
    folder = log(tmp_path / "t-0", (10, b"".join(plain) + bytes(2000)))
    assert offsets_of(read(folder, isolationLevel="read_committed"))[:3] == [10, 11, 12]


def test_read_committed_of_a_preallocated_file_with_a_length_up_to_its_end(tmp_path):
    """The batch that claims it is not the log's last one."""
    plain = [batch(base, 1) for base in range(20)]
    length = sum(map(len, plain[3:])) + 2000 - 12
    plain[3] = builders.patched(plain[3], 8, length.to_bytes(4, "big"))
    folder = log(tmp_path / "t-0", (0, b"".join(plain) + bytes(2000)))
    rows = read(folder, isolationLevel="read_committed", mode="DROPMALFORMED")
    assert offsets_of(rows) == [*range(20)]


def test_retention_between_planning_and_reading(broker, caplog):
    broker.fill(4)
    strict, lenient = (Read(broker.root, failOnDataLoss=flag) for flag in ("true", "false"))
    late_start = Read(broker.root, startingOffsets=f'{{"orders": {{"0": {int(broker.log()[1].stem)}}}}}')
    path = broker.log()[0]
    start = broker.delete_first()
    with pytest.raises(DataLoss, match=f"data loss in orders-0: {path} no longer exists"):
        strict.again()
    kept = broker.offsets
    assert offsets_of(lenient.again()) == kept == offsets_of(late_start.again()) and kept[0] == start
    assert f"{path} no longer exists; failOnDataLoss is false" in caplog.text


@pytest.mark.parametrize("size", ["1g", "700"])
@pytest.mark.parametrize("begin, end", [(0, 1), (1, 2), (0, 3), (1, 4)])
def test_a_log_that_is_cleaned_between_planning_and_reading(broker, caplog, size, begin, end):
    broker.fill(6)
    planned, lenient = (Read(broker.root, maxPartitionBytes=size, failOnDataLoss=flag) for flag in ("true", "false"))
    chosen, expected = broker.log()[begin:end], broker.cleaned(begin, end)
    first, next_base = int(chosen[0].stem), int(broker.log()[end].stem)
    log_cleaning.clean(chosen)
    told = f"data loss in orders-0: {chosen[0]} is another file than when the query was planned: load again"
    with pytest.raises(DataLoss, match=told):
        planned.again()
    assert offsets_of(lenient.again()) == [offset for offset in broker.offsets if not first <= offset < next_base]
    assert all(f"data loss in orders-0: {path}" in caplog.text for path in chosen)
    assert offsets_of(read(broker.root, maxPartitionBytes=size)) == expected


def test_a_log_truncated_and_rewritten_between_planning_and_reading(broker):
    broker.fill(4)
    planned, lenient = (Read(broker.root, failOnDataLoss=flag) for flag in ("true", "false"))
    path = broker.log()[-1]
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataLoss, match=r"data loss in orders-0: .* when the query was planned"):
        planned.again()
    offsets = offsets_of(lenient.again())
    assert offsets == list(range(len(offsets))) and int(path.stem) <= len(offsets) < len(broker.rows["orders", 0])


# ---- concurrent changes ---------------------------------------------------------------------------------------------


def test_every_load_of_a_growing_log_is_a_prefix_of_it(broker):
    rng = random.Random(7)
    broker.write(3)

    def write():
        broker.write(rng.randint(1, 9))
        time.sleep(0.0005)

    lengths = []
    with RepeatingThread(write):
        while len(lengths) < 12 or len(broker.log()) <= 20:
            last = broker.offsets[-1]
            offsets = offsets_of(read(broker.root, maxPartitionBytes=rng.choice(["600", "1g"])))
            assert offsets == list(range(len(offsets))), "missing offsets"
            assert len(offsets) > last, "records written before the load are missing"
            lengths.append(len(offsets))
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


def test_every_load_of_a_log_being_cleaned_has_all_kept_records_or_fails(broker):
    rng = random.Random(11)
    for _ in range(100):
        broker.write(5)

    def step():
        broker.write(rng.randint(1, 9))
        log_cleaning.clean_sometimes(broker.log(), rng)
        time.sleep(0.02)

    loads = 0
    with RepeatingThread(step):
        while loads < 50:
            last = broker.offsets[-1]
            try:
                offsets = offsets_of(read(broker.root, maxPartitionBytes=rng.choice(["600", "1g"])))
            except DataLoss as error:
                assert re.search("is another file than|no longer exists", str(error))
                continue
            assert offsets == sorted(set(offsets)), "doubled or out of order"
            kept = list(filter(log_cleaning.third, range(max(last, offsets[-1]) + 1)))
            assert list(filter(log_cleaning.third, offsets)) == kept, "missing offsets"
            loads += 1
