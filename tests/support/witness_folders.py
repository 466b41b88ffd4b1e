"""Folders for tests of the witnesses of a log's end: healthy ones, and ones that lost their end."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import builders
from command import own_process
from golden import copied
from paths import SEGMENTS
from plain_logs import batch, data_folder, log

import kafkarec
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.sidecars import offset_index, producer_snapshot, time_index, txn_index

Make = Callable[[Path], Path]
GOLDEN = sorted(path.name for path in SEGMENTS.iterdir() if list(path.glob("*.log")))
BORDERS = {
    path: [row["position"] for row in kafkarec.open(path).scan()]
    for name in GOLDEN
    for path in sorted((SEGMENTS / name).glob("*.log"))
}
"""Golden segment -> the start of each of its batches."""


def golden(root: Path, name: str) -> Path:
    """A copy of a golden partition folder, without the files that Kafka's tools wrote about it."""
    return copied(SEGMENTS / name, root / name)


def cut(log: Path, position: int, *, zeros: bool = False):
    """Truncate a file at `position`; zeros: replace what was there by zeros."""
    size = log.stat().st_size
    with open(log, "r+b") as file:
        file.truncate(position)
        if zeros:
            file.truncate(size)


def cut_golden(root: Path, *kept: str, offset: int = 345, name: str = "all-codecs-0") -> Path:
    """A golden log cut before the batch at `offset`, with only these of its side files."""
    folder = golden(root, name)
    log = sorted(folder.glob("*.log"))[-1]
    [position] = [row["position"] for row in kafkarec.open(log).scan() if row["base_offset"] == offset]
    cut(log, position)
    return only_with(folder, *kept)


def only_with(folder: Path, *kept: str) -> Path:
    """The folder without side files, but those whose names end like this."""
    for path in folder.iterdir():
        if path.suffix != ".log" and not path.name.endswith(kept):
            path.unlink()
    return folder


def name_of(offset: int, suffix: str) -> str:
    return f"{offset:020}{suffix}"


def put(folder: Path, offset: int, **files: bytes) -> Path:
    """The folder, with these files of one offset beside its segments: `index=b""`."""
    for suffix, content in files.items():
        (folder / name_of(offset, f".{suffix}")).write_bytes(content)
    return folder


NO_PRODUCERS = producer_snapshot.write(())


def small(root: Path, *epochs: tuple[int, int]) -> Path:
    """A log with the offsets 0 to 9."""
    return log(root / "orders-0", [batch(0), batch(5)], epochs=epochs or None)


def written(root: Path) -> Path:
    """A log of our own writer, with several segments, closed as by a broker's clean shutdown."""
    folder = root / "orders-0"
    with kafkarec.SegmentWriter(folder, segment_bytes=1000, index_interval_bytes=100) as writer:
        for number in range(40):
            writer.append(batch(number * 5))
    return folder


def without_first(root: Path) -> Path:
    """After retention: the first segment and its files are gone."""
    folder = golden(root, "txn-0")
    for path in folder.glob(f"{0:020}.*"):
        path.unlink()
    return folder


def tiered(root: Path) -> Path:
    """A local log that begins late: the epochs are those of the whole log, the log start offset is below."""
    folder = without_first(root)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    data_folder(root, log_start="txn 0 3", recovery_point="txn 0 293", replication="txn 0 293")
    return folder


def truncated(root: Path, stale: Sequence[tuple[int, int]]) -> Path:
    """A follower that truncated its log and wrote on: behind the new entries its indexes have old ones, then zeros."""
    batches = [batch(number * 5) for number in range(40)]
    size = len(batches[0])
    folder = log(root / "orders-0", batches)
    entries = [(number * 5 + 4, number * size) for number in range(1, 40)]
    index = offset_index.write(entries, 0) + offset_index.write(stale, 0)
    times = time_index.write([(builders.NOW + 4, 4), (builders.NOW, 900)], 0)
    return put(folder, 0, index=index + bytes(4096), timeindex=times + bytes(1200))


def preallocated(root: Path) -> Path:
    folder = log(root / "orders-0", [batch(0), batch(5), bytes(1 << 16)])
    put(folder, 10, snapshot=NO_PRODUCERS)
    return put(folder, 0, index=bytes(4096), timeindex=bytes(4092))


def compacted(root: Path) -> Path:
    out = root / "compacted-0"
    assert own_process("compact", SEGMENTS / "txn-0", "-o", out, "--segment-bytes", "2k").status == 0
    return out


def kraft(root: Path) -> Path:
    folder = golden(root, "__cluster_metadata-0")
    snapshot = next(folder.glob("*.checkpoint"))
    shutil.copy(snapshot, folder / f"{900:020}-{1:010}.checkpoint")
    return folder


def only_zeros(root: Path) -> Path:
    return log(root / "orders-0", [bytes(1 << 16)])


def empty(root: Path) -> Path:
    folder = log(root / "orders-0", (0, b""), epochs=[(0, 0)])
    return put(folder, 0, index=b"", timeindex=bytes(1200))


def emptied(root: Path) -> Path:
    """Retention deleted every record: one empty segment at the log's end."""
    folder = log(root / "orders-0", (700, b""), epochs=[(4, 700)])
    data_folder(root, log_start="orders 0 700", recovery_point="orders 0 700", replication="orders 0 700")
    return put(folder, 700, snapshot=NO_PRODUCERS)


def restarted(root: Path) -> Path:
    """The snapshot of an earlier shutdown, and a new leader that has written nothing yet."""
    folder = small(root, (0, 0), (1, 10))
    put(folder, 5, snapshot=NO_PRODUCERS)
    return put(folder, 99, **{"snapshot.deleted": NO_PRODUCERS})


def behind(root: Path) -> Path:
    """Checkpoint files are written every few seconds, and have partitions that were moved or deleted."""
    folder = small(root)
    entries = "orders 0 3\nmoved 7 99"
    data_folder(root, replication=entries, recovery_point=entries, log_start=entries, cleaner=entries)
    return folder


def truncated_by_a_broker(root: Path) -> Path:
    """A follower that has just truncated its log: in the indexes of its active segment are the old entries, and its
    epochs are not written yet. Its high watermark is not above the end."""
    folder = truncated(root, [(500, 6000), (505, 6200)])
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 450\n")
    data_folder(root, replication="orders 0 200", recovery_point="orders 0 0")
    return folder


def written_on_after_truncation(root: Path) -> Path:
    """The same later: the log has grown past the old entries, which point into its new batches."""
    folder = truncated(root, [])
    size = len(batch(0))
    entries = [*((number * 5 + 4, number * size) for number in range(1, 20)), (130, 25 * size + 7)]
    times = time_index.write([(builders.NOW + 4, 4), (builders.NOW + 5, 190)], 0)
    return put(folder, 0, index=offset_index.write(entries, 0) + bytes(4096), timeindex=times + bytes(1200))


def emptied_below_the_start(root: Path) -> Path:
    """The log start is behind the first segment's name, and the cleaner never worked here."""
    folder = log(root / "orders-0", (0, batch(20)))
    return data_folder(root, log_start="orders 0 20", cleaner="") and folder


def cleaned_marker(root: Path) -> Path:
    """Of a transaction that was open at the log's start all data is deleted or cleaned; its ABORT marker is not yet."""
    abort = builders.end_marker(50, 7, commit=False)
    folder = log(root / "orders-0", [batch(40), abort, batch(51)])
    open_before = SnapshotEntry(7, 0, 0, 35, 0, builders.NOW, 0, 31)
    return put(folder, 40, snapshot=producer_snapshot.write([open_before]), index=b"", timeindex=b"", txnindex=b"")


def no_data_folder(root: Path) -> Path:
    folder = small(root)
    data_folder(root, replication="orders 0 99", recovery_point="orders 0 99", log_start="orders 0 99")
    (root / "meta.properties").unlink()
    return folder


def flipped_index(root: Path) -> Path:
    """An entry of an .index with one wrong bit points at a batch: a wrong entry, which says nothing about the end."""
    return put(small(root), 0, index=struct.pack(">ii", 9 | 1 << 20, len(batch(0))), timeindex=b"")


def killed_while_it_truncated(root: Path) -> Path:
    """The last segment and its indexes are renamed; the snapshot of its end and a checkpoint were not reached."""
    folder = golden(root, "txn-0")
    data_folder(root, recovery_point="txn 0 293")
    for path in folder.glob(f"{30:020}.*"):
        if path.suffix != ".snapshot":
            path.rename(f"{path}.deleted")
    assert (folder / f"{293:020}.snapshot").exists()
    return folder


HEALTHY: dict[str, Make] = {
    **{name: lambda root, name=name: golden(root, name) for name in GOLDEN},
    "written": written,
    "retention": without_first,
    "tiered": tiered,
    "truncated, stale entries that do not rise": lambda root: truncated(root, [(500, 10), (505, 200)]),
    "preallocated": preallocated,
    "truncated by a broker": truncated_by_a_broker,
    "written on after a truncation": written_on_after_truncation,
    "killed while it truncated": killed_while_it_truncated,
    "gap below the log start": emptied_below_the_start,
    "marker of a cleaned transaction": cleaned_marker,
    "only zeros": only_zeros,
    "compacted": compacted,
    "KRaft snapshot above the end": kraft,
    "empty": empty,
    "emptied by retention": emptied,
    "restarted": restarted,
    "checkpoints behind": behind,
    "checkpoints without meta.properties": no_data_folder,
}


def checkpoint(name: str, end: int) -> Make:
    def make(root):
        folder = small(root)
        data_folder(root, **{name: f"orders 0 {end}"})
        return folder

    return make


def aborted_above(root: Path) -> Path:
    folder = cut_golden(root, ".txnindex", name="txn-0", offset=31)
    assert txn_index.read((folder / f"{30:020}.txnindex").read_bytes())
    return folder


def last_segment_gone(root: Path, *kept: str) -> Path:
    folder = golden(root, "txn-0")
    (folder / f"{30:020}.log").unlink()
    return only_with(folder, *kept)


def all_gone(root: Path) -> Path:
    folder = golden(root, "all-codecs-0")
    (folder / f"{0:020}.log").unlink()
    return folder


LOST_865 = f"at least 520 offsets after 344 are missing, according to {name_of(865, '.snapshot')}"
LOSSES: dict[str, tuple[Make, str, str]] = {
    "snapshot": (lambda root: cut_golden(root, ".snapshot", ".index", ".timeindex"), "end_lost", LOST_865),
    "unreadable snapshot": (
        lambda root: put(small(root), 17, snapshot=b"garbage"),
        "end_lost",
        f"at least 7 offsets after 9 are missing, according to {name_of(17, '.snapshot')}",
    ),
    "recovery point": (
        checkpoint("recovery_point", 17),
        "end_lost",
        "at least 7 offsets after 9 are missing, according to recovery-point-offset-checkpoint",
    ),
    "high watermark": (
        checkpoint("replication", 11),
        "end_lost",
        "at least 1 offset after 9 is missing, according to replication-offset-checkpoint",
    ),
    "cleaner": (
        checkpoint("cleaner", 17),
        "end_was_longer",
        "the log was longer: at least 7 offsets after 9 are missing, according to cleaner-offset-checkpoint",
    ),
    "index": (
        lambda root: cut_golden(root, ".index"),
        "end_was_longer",
        f"the log was longer: at least 520 offsets after 344 are missing, according to {name_of(0, '.index')}",
    ),
    "live index, rising stale entries": (
        lambda root: truncated(root, [(500, 6000), (505, 6200)]),
        "end_was_longer",
        f"the log was longer: at least 306 offsets after 199 are missing, according to {name_of(0, '.index')}",
    ),
    "time index": (
        lambda root: cut_golden(root, ".timeindex", name="txn-0", offset=31),
        "end_was_longer",
        f"the log was longer: at least 262 offsets after 30 are missing, according to {name_of(30, '.timeindex')}",
    ),
    "transaction index": (
        aborted_above,
        "end_was_longer",
        f"the log was longer: at least 260 offsets after 30 are missing, according to {name_of(30, '.txnindex')}",
    ),
    "epochs": (
        lambda root: small(root, (0, 0), (4, 15)),
        "end_was_longer",
        "the log was longer: at least 5 offsets after 9 are missing, according to leader-epoch-checkpoint",
    ),
    "last segment gone, its snapshot left": (
        lambda root: last_segment_gone(root, ".snapshot"),
        "end_lost",
        f"at least 263 offsets after 29 are missing, according to {name_of(293, '.snapshot')}",
    ),
    "last segment gone, its index left": (
        lambda root: last_segment_gone(root, f"{30:020}.index"),
        "end_was_longer",
        f"the log was longer: at least 261 offsets after 29 are missing, according to {name_of(30, '.index')}",
    ),
    "all segments gone": (
        all_gone,
        "end_lost",
        f"at least 865 offsets up to 864 are missing, according to {name_of(865, '.snapshot')}",
    ),
    "log start offset": (
        checkpoint("log_start", 17),
        "start_above_end",
        "the log ends before its start offset 17 (log-start-offset-checkpoint)",
    ),
}
