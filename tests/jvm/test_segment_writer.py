"""SegmentWriter beside Kafka's own log: the same batches and settings give the same files, byte for byte; a folder that
it wrote is what Kafka's recovery makes of the segments alone; a broker's log is opened without a change."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import jvm_oracle
import pytest
from jvm_oracle import Oracle
from killed_writer import REFUSED, batch, content
from random_folders import partition
from random_logs import Maker

import kafkarec
from kafkarec.errors import CorruptRecordError
from kafkarec.ops.segment_writer import AppendRefused, SegmentWriter

INTERVALS, SIZES = [0, 1, 100, 256, 4096], [800, 1500, 5000, 1 << 20]
SPANS, INDEX_SIZES = [1000, 3000, 10**12], [24, 36, 40, 100, 10 << 20]


def _settings(dice: random.Random) -> dict[str, int]:
    return {
        "segment_bytes": dice.choice(SIZES),
        "segment_ms": dice.choice(SPANS),
        "index_interval_bytes": dice.choice(INTERVALS),
        "max_index_size": dice.choice(INDEX_SIZES),
    }


def _as_kafka(settings: dict[str, int]) -> list[str]:
    names = ("internal.segment.bytes", "segment.ms", "index.interval.bytes", "segment.index.bytes")
    return [f"{name}={value}" for name, value in zip(names, settings.values(), strict=True)]


def _files(folder: Path) -> dict[str, bytes]:
    """What both write: a broker's UnifiedLog gets its partition.metadata from its caller."""
    return {name: data for name, data in content(folder).items() if name != "partition.metadata"}


def _random_logs(kafka: Oracle, folder: Path, count: int) -> list[tuple[int, list[bytes]]]:
    """(first offset, batches) of random partitions: of Kafka's writer, with old messages, gaps, batches that the log
    cleaner emptied, producers whose sequences wrap; and of our own test builders."""
    found = []
    assert kafka.ask("logs", folder, 0, count, 60).status == 0
    for seed in range(count):
        logs = sorted((folder / "in" / f"log{seed}-0").glob("*.log"))
        good = [bytes(b.raw) for path in logs for b in kafkarec.batches(path.read_bytes(), errors="skip")]
        found.append((int(logs[0].stem), good))
        ours = folder / f"own{seed}"
        ours.mkdir()
        partition(Maker(seed), ours)
        data = b"".join(path.read_bytes() for path in sorted(ours.iterdir()))
        found.append((0, [bytes(batch.raw) for batch in kafkarec.batches(data)]))
    return found


def _append_by_lots(writer: SegmentWriter, batches: list[bytes], dice: random.Random) -> str:
    """One, five or fifty batches an append: the same must come of it. Gives what was refused at last."""
    left = list(batches)
    while left:
        count = dice.choice([1, 1, 5, 50])
        lot, left = left[:count], left[count:]
        try:
            writer.append(b"".join(lot))
        except AppendRefused:  # nothing of the lot was written
            for batch in lot:
                try:
                    writer.append(batch)
                except AppendRefused as refused:
                    return str(refused)
    return ""


def _old_behind_new(batches: list[bytes]) -> bool:
    """A difference: a broker that takes magic 0 or 1 behind magic 2 forgets the epochs; its recovery does not."""
    magics = [batch[16] for batch in batches]
    return any(one == 2 > other for one, other in pairwise(magics))


def test_the_same_files_as_kafkas_own_log(kafka: Oracle, tmp_path: Path) -> None:
    rolled = refusals = 0
    for number, (first, batches) in enumerate(_random_logs(kafka, tmp_path, jvm_oracle.count(25))):
        dice = random.Random(number)
        settings, start = _settings(dice), dice.choice([0, first])
        ours, theirs = tmp_path / f"ours{number}" / "t-0", tmp_path / f"theirs{number}" / "t-0"
        theirs.mkdir(parents=True)
        (tmp_path / "batches").write_bytes(b"".join(batches))
        answer = kafka.ask("follow", tmp_path / "batches", theirs, start, *_as_kafka(settings))
        assert answer.status == 0, answer.err
        where, refused = answer.out.splitlines()
        with SegmentWriter(ours, start_offset=start, **settings) as writer:  # type: ignore[arg-type]
            said = _append_by_lots(writer, batches, dice)
        assert bool(said) == bool(refused), (number, said, refused)
        assert where.split() == [str(writer.next_offset), *(str(one.base_offset) for one in writer.segments)], number
        found, wanted = _files(ours), _files(theirs)
        if _old_behind_new(batches) or refused:  # Kafka notes the epoch of a batch that is then refused
            found.pop("leader-epoch-checkpoint")
            wanted.pop("leader-epoch-checkpoint")
        assert found == wanted, f"{number}: {settings}"
        rolled += len(writer.segments) > 3
        refusals += bool(said)
    assert rolled > 10 and refusals > 2


def test_recovery_makes_the_same_of_the_segments(kafka: Oracle, tmp_path: Path) -> None:
    for number, (first, batches) in enumerate(_random_logs(kafka, tmp_path, jvm_oracle.count(15))):
        dice = random.Random(number)
        settings = _settings(dice) | {"segment_bytes": 1 << 20}
        ours, theirs = tmp_path / f"ours{number}" / "t-0", tmp_path / f"theirs{number}" / "t-0"
        with SegmentWriter(ours, start_offset=first, **settings) as writer:  # type: ignore[arg-type]
            _append_by_lots(writer, batches, dice)
        shutil.copytree(ours, theirs)
        answer = kafka.ask("recover", theirs, settings["index_interval_bytes"])
        assert (answer.status, answer.err) == (0, ""), answer.err
        assert all(line.endswith(" 0") for line in answer.out.splitlines())  # nothing was cut off
        assert _but_names_of_snapshots(ours) == _but_names_of_snapshots(theirs), f"{number}: {settings}"


def _but_names_of_snapshots(folder: Path) -> dict[str, bytes]:
    """Recovery alone, without a log around it, names a snapshot by the last batch of a producer; only the content of
    the last one counts, and one without producers is not missed."""
    files = _files(folder)
    snapshots = [data for name, data in sorted(files.items()) if name.endswith(".snapshot")]
    rest = {name: data for name, data in files.items() if not name.endswith(".snapshot")}
    return rest | ({"last snapshot": snapshots[-1]} if snapshots and len(snapshots[-1]) > 10 else {})


def test_in_several_sittings_the_same_comes_of_it(kafka: Oracle, tmp_path: Path) -> None:
    """Closed and opened again in between: Kafka counts the index interval anew there, recovery and this do not."""
    for number, (first, batches) in enumerate(_random_logs(kafka, tmp_path, jvm_oracle.count(10))):
        dice = random.Random(number)
        settings: dict[str, Any] = _settings(dice) | {"topic_id": "pmqbwj8JRCSCfzvNTqatEw", "segment_bytes": 5000}
        with SegmentWriter(tmp_path / f"one{number}-0", start_offset=first, **settings) as writer:
            _append_by_lots(writer, batches, dice)
        folder, left = tmp_path / f"more{number}-0", list(batches)
        while True:
            with SegmentWriter(folder, start_offset=first, check_all=bool(dice.randrange(2)), **settings) as writer:
                if not left:
                    break
                _append_by_lots(writer, left[:7], dice)
                left = left[7:]
        assert content(folder) == content(tmp_path / f"one{number}-0"), number


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_opens_what_was_written_and_cuts_nothing(clean: bool, kafka: Oracle, tmp_path: Path) -> None:
    """Sealed, and as a killed writer leaves it: without the last segment's indexes."""
    for number, (first, batches) in enumerate(_random_logs(kafka, tmp_path, jvm_oracle.count(5))):
        folder = tmp_path / f"ours{number}" / "t-0"
        with SegmentWriter(folder, start_offset=first, segment_bytes=5000) as writer:
            _append_by_lots(writer, batches, random.Random(number))
        before = {name: data for name, data in content(folder).items() if name.endswith((".log", "index"))}
        if not clean:
            for suffix in (".index", ".timeindex", ".txnindex"):
                Path(writer.segments[-1].path).with_suffix(suffix).unlink(missing_ok=True)
            (folder / f"{writer.next_offset:020d}.snapshot").unlink(missing_ok=True)
        answer = kafka.ask("load", folder, 4096)
        assert answer.status == 0, answer.err
        bases = [str(one.base_offset) for one in writer.segments]
        assert answer.out.split() == [str(first), str(writer.next_offset), *bases]
        after = content(folder)
        assert {name: after[name] for name in before} == before


def test_what_is_cut_off_is_what_kafka_cuts_off(kafka: Oracle, tmp_path: Path) -> None:
    """Of a last segment that is torn, spoiled or has junk at its end. Where good batches follow the damage Kafka cuts
    them off too, and here the folder is refused."""
    cuts = refusals = 0
    for number, (first, batches) in enumerate(_random_logs(kafka, tmp_path, jvm_oracle.count(25))):
        maker = Maker(number)
        ours, theirs = tmp_path / f"ours{number}" / "t-0", tmp_path / f"theirs{number}" / "t-0"
        with SegmentWriter(ours, start_offset=first, segment_bytes=5000) as writer:
            _append_by_lots(writer, batches, maker.random)
        path = Path(writer.segments[-1].path)
        path.write_bytes(maker.damaged(path.read_bytes()))
        shutil.copytree(ours, theirs)
        answer = kafka.ask("load", theirs, 4096)
        if answer.status:  # a base offset, which has no checksum, is out of an index entry's reach: Kafka gives up
            with pytest.raises(CorruptRecordError):
                SegmentWriter(ours)
            continue
        try:
            with SegmentWriter(ours, segment_bytes=5000) as again:
                cuts += bool(again.cut)
        except CorruptRecordError:
            assert int(answer.out.split()[1]) < writer.next_offset
            refusals += 1
            continue
        assert answer.out.split()[1:] == [str(again.next_offset), *(str(one.base_offset) for one in again.segments)]
        kept = {name: data for name, data in content(ours).items() if name.endswith(".log")}
        assert kept == {name: data for name, data in content(theirs).items() if name.endswith(".log")}, number
    assert cuts > 10 and refusals > 3


_REFUSED_HERE_ALONE = {
    "cut": "a follower drops the half batch at the end of a fetch; who appends means all of it",
    "cut in the size": "the same",
    "negative delta": "the log's end would stay where it is, and the batch be there",
    "epoch": "a follower takes the later epochs' entries back, as another leader may have said so; a log has no such",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_kafka_refuses(name: str, kafka: Oracle, tmp_path: Path) -> None:
    data, _, _, position = REFUSED[name]
    folder = tmp_path / "t-0"
    folder.mkdir()
    (tmp_path / "batches").write_bytes(batch(0) + data)
    answer = kafka.ask("follow", tmp_path / "batches", folder, 0)
    refused = answer.status or answer.out.splitlines()[1:] != [""]
    assert bool(refused) == (name not in _REFUSED_HERE_ALONE), answer
    if not answer.status and refused and name != "no next offset":  # which it writes before it fails
        assert (folder / "00000000000000000000.log").read_bytes() == batch(0) + data[:position]
