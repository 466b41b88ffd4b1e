"""SegmentWriter compared with Kafka's own log: the same batches and settings make equal files, byte for byte; a spoiled
end is truncated where Kafka truncates it; what it refuses Kafka refuses."""

import random
import shutil
from itertools import pairwise
from pathlib import Path

import broker_logs
import jvm_oracle
import pytest
from damage import damage_file
from killed_writer import REFUSED, batch, content

from kafkarec import CorruptRecordError, SegmentWriter
from kafkarec.ops.segment_writer import AppendRefused

INTERVALS, SIZES = [0, 1, 100, 256, 4096], [800, 1500, 5000, 1 << 20]
SPANS, INDEX_SIZES = [1000, 3000, 10**12], [24, 36, 40, 100, 10 << 20]


def _settings(rng):
    return {
        "segment_bytes": rng.choice(SIZES),
        "segment_ms": rng.choice(SPANS),
        "index_interval_bytes": rng.choice(INTERVALS),
        "max_index_size": rng.choice(INDEX_SIZES),
    }


def _as_kafka(settings):
    names = ("internal.segment.bytes", "segment.ms", "index.interval.bytes", "segment.index.bytes")
    return [f"{name}={value}" for name, value in zip(names, settings.values(), strict=True)]


def _files(folder):
    """The files that both write; a broker's UnifiedLog gets its partition.metadata from its caller."""
    return {name: data for name, data in content(folder).items() if name != "partition.metadata"}


def _random_logs(count):
    """(first offset, batches) of random partitions; every other one has old messages, batches that the log cleaner
    emptied and many producers."""
    for seed in range(2 * count):
        log = broker_logs.Log(seed, aged=seed % 2 == 0)
        [(first, _)] = log.segments(1)
        yield first, log.batches


def _append_in_groups(writer, batches, rng):
    """Append one, five or fifty batches at a time, with the same result. Return the message of the last refusal."""
    remaining = list(batches)
    while remaining:
        count = rng.choice([1, 1, 5, 50])
        group, remaining = remaining[:count], remaining[count:]
        try:
            writer.append(b"".join(group))
        except AppendRefused:  # no batch of the append was written
            for batch in group:
                try:
                    writer.append(batch)
                except AppendRefused as refused:
                    return str(refused)
    return ""


def _old_magic_after_new(batches):
    """A difference: a broker that appends magic 0 or 1 after magic 2 clears the leader epochs; its recovery does
    not."""
    magics = [batch[16] for batch in batches]
    return any(one == 2 > other for one, other in pairwise(magics))


def test_the_files_equal_those_of_kafkas_log(kafka, tmp_path):
    rolled = refusals = 0
    for number, (first, batches) in enumerate(_random_logs(jvm_oracle.count(25))):
        rng = random.Random(number)
        settings, start = _settings(rng), rng.choice([0, first])
        ours, theirs = tmp_path / f"ours{number}" / "t-0", tmp_path / f"theirs{number}" / "t-0"
        theirs.mkdir(parents=True)
        (tmp_path / "batches").write_bytes(b"".join(batches))
        where, refused = kafka.lines("follow", tmp_path / "batches", theirs, start, *_as_kafka(settings))
        with SegmentWriter(ours, start_offset=start, **settings) as writer:
            refusal = _append_in_groups(writer, batches, rng)
        assert bool(refusal) == bool(refused), (number, refusal, refused)
        assert where.split() == [str(writer.next_offset), *(str(one.base_offset) for one in writer.segments)], number
        actual, expected = _files(ours), _files(theirs)
        if _old_magic_after_new(batches) or refused:  # Kafka notes the epoch of a batch before it refuses it
            actual.pop("leader-epoch-checkpoint")
            expected.pop("leader-epoch-checkpoint")
        assert actual == expected, f"{number}: {settings}"
        rolled += len(writer.segments) > 3
        refusals += bool(refusal)
    assert rolled > 10 and refusals > 2


def test_a_spoiled_end_is_truncated_where_kafka_truncates_it(kafka, tmp_path):
    """The last segment is cut, spoiled or followed by junk. Kafka also truncates good batches after the damage;
    SegmentWriter refuses such a folder."""
    cuts = refusals = 0
    for number, (first, batches) in enumerate(_random_logs(jvm_oracle.count(25))):
        chance = random.Random(number)
        ours, theirs = tmp_path / f"ours{number}" / "t-0", tmp_path / f"theirs{number}" / "t-0"
        with SegmentWriter(ours, start_offset=first, segment_bytes=5000) as writer:
            _append_in_groups(writer, batches, chance)
        damage_file(chance, Path(writer.segments[-1].path))
        shutil.copytree(ours, theirs)
        answer = kafka.ask("load", theirs, 4096)
        if answer.status:  # a wrong base offset, which no checksum covers, does not fit an index entry: Kafka fails
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
    "cut": "a follower drops the cut batch at the end of a fetch; the caller of append() passes whole batches",
    "cut in the size": "the same",
    "negative delta": "the log's end offset would not advance although the batch was appended",
    "epoch": "a follower removes the later epochs' entries, as a new leader may require; a writer has no leader",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_batches_are_refused_by_kafka(name, kafka, tmp_path):
    data, _, _, position = REFUSED[name]
    folder = tmp_path / "t-0"
    folder.mkdir()
    (tmp_path / "batches").write_bytes(batch(0) + data)
    answer = kafka.ask("follow", tmp_path / "batches", folder, 0)
    refused = answer.status or answer.out.splitlines()[1:] != [""]
    assert bool(refused) == (name not in _REFUSED_HERE_ALONE), answer
    if not answer.status and refused and name != "no next offset":  # Kafka writes that batch before it fails
        assert (folder / "00000000000000000000.log").read_bytes() == batch(0) + data[:position]
