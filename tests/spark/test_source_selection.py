"""Which partitions, offsets, times and transactions are read: the options of Spark's Kafka source, and filters."""

from __future__ import annotations

import json
import operator
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import builders
import pytest
from paths import SEGMENTS
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual
from source_rows import Read, log_folder, read, repeated

import kafkarec

pytestmark = pytest.mark.spark

TXN = SEGMENTS / "txn-0"
SPLITS = {"maxPartitionBytes": "700"}
ALL_CODECS = SEGMENTS / "all-codecs-0"


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


# ---- partitions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {},
            {
                "__cluster_metadata",
                "__consumer_offsets",
                "all-codecs",
                "compacted",
                "logappend",
                "logappend-live",
                "txn",
            },
        ),
        ({"subscribe": "txn, compacted"}, {"txn", "compacted"}),
        ({"subscribePattern": "__.*"}, {"__cluster_metadata", "__consumer_offsets"}),
        ({"subscribePattern": "none"}, set()),
        ({"assign": '{"txn": [0]}'}, {"txn"}),
    ],
)
def test_partitions_are_chosen(given: dict[str, str], wanted: set[str]) -> None:
    assert {row["topic"] for row in read(SEGMENTS, **given)} == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "txn,txm"}, "subscribe names txm, not there; there are: .*txn"),
        ({"assign": '{"txn": [0, 1]}'}, "assign names txn-1, not there; there are: .*txn-0"),
        ({"assign": "txn"}, 'option assign=.*JSON such as {"topic": \\[0, 1\\]}|a JSON object'),
        ({"subscribe": "txn", "assign": '{"txn": [0]}'}, "only one of .*, not subscribe and assign"),
        ({"subscribePattern": "("}, "no regular expression"),
    ],
)
def test_partitions_that_are_not_there(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(SEGMENTS, **given)


# ---- offsets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("splits", [{}, SPLITS])
@pytest.mark.parametrize(
    ("start", "end"), [(-2, -1), (0, 1), (29, 31), (30, -1), (100, 200), (-2, 30), (292, 293), (293, 293), (50, 50)]
)
def test_offsets_from_and_to(start: int, end: int, splits: dict[str, str]) -> None:
    given = {
        "startingOffsets": json.dumps({"txn": {"0": start}}),
        "endingOffsets": json.dumps({"txn": {"0": end}}),
    }
    log = kafkarec.open(TXN)
    wanted = [each.offset for each in log.read(start_offset=max(start, 0), end_offset=None if end < 0 else end)]
    assert offsets(read(TXN, **given, **splits)) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest is for streams"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"txn": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": '{"txn": {"0": "a"}}'}, "option startingOffsets=.*earliest, latest, or JSON"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "startingOffsets names other-0, not there"),
        ({"startingOffsets": "{}"}, "startingOffsets must name every partition that is read; txn-0 missing"),
        ({"startingOffsets": '{"txn": {"0": 294}}'}, "offset 294 of txn-0, which has 0 to 293 .*failOnDataLoss=false"),
        ({"endingOffsets": '{"txn": {"0": 999}}'}, "endingOffsets asks for offset 999"),
    ],
)
def test_offsets_that_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(TXN, **given)


def test_offsets_that_retention_has_deleted(tmp_path: Path) -> None:
    data = (TXN / f"{30:020}.log").read_bytes()
    folder = log_folder(tmp_path / "txn-0", (30, data))
    given = {"startingOffsets": '{"txn": {"0": 7}}', "endingOffsets": '{"txn": {"0": 1000}}'}
    with pytest.raises(ValueError, match="offset 7 of txn-0, which has 30 to 293"):
        read(folder, **given)
    assert len(read(folder, **given, failOnDataLoss="false")) == 237
    outside = [{"startingOffsets": '{"txn": {"0": 5000}}'}, {"endingOffsets": '{"txn": {"0": 3}}'}]
    assert [len(read(folder, **each, failOnDataLoss="false")) for each in outside] == [0, 0]


# ---- times ------------------------------------------------------------------------------------------------


def timed(folder: Path) -> list[int]:
    """Times that do not rise with the offsets; ms by offset."""
    chance = random.Random(7)
    times = [1_700_000_000_000 + chance.randrange(10_000) for _ in range(400)]
    data = b"".join(
        kafkarec.encode([(at, times[at], None, b"v", []) for at in range(start, start + 10)], base_offset=start)
        for start in range(0, 400, 10)
    )
    log_folder(folder, (0, data))
    return times


@pytest.mark.parametrize("splits", [{}, SPLITS])
def test_a_time_means_the_first_offset_that_is_as_late(splits: dict[str, str], tmp_path: Path) -> None:
    times = timed(tmp_path / "t-0")
    first, last = sorted(times)[250], sorted(times)[-1]
    start = next(at for at, time in enumerate(times) if time >= first)
    end = next(at for at, time in enumerate(times) if time >= last)
    by_partition = {
        "startingOffsetsByTimestamp": json.dumps({"t": {"0": first}}),
        "endingOffsetsByTimestamp": json.dumps({"t": {"0": last}}),
    }
    wanted = list(range(start, end))
    assert offsets(read(tmp_path, **by_partition, **splits)) == wanted
    both = {"startingTimestamp": str(first), "endingTimestamp": str(last), "startingOffsets": '{"t": {"0": 5}}'}
    assert offsets(read(tmp_path, **both, **splits)) == wanted
    to_the_end = read(tmp_path, startingTimestamp=str(first), endingTimestamp=str(last + 1))
    assert offsets(to_the_end) == list(range(start, 400))
    with pytest.raises(ValueError, match=r"t-0 has no record at or after .*startingOffsetsByTimestampStrategy=latest"):
        read(tmp_path, startingTimestamp=str(last + 1))
    late = {"startingTimestamp": str(last + 1), "startingOffsetsByTimestampStrategy": "latest"}
    assert read(tmp_path, **late) == []


# ---- transactions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["isolationLevel", "kafka.isolation.level"])
@pytest.mark.parametrize("size", ["1g", "2000", "1"])
@pytest.mark.parametrize("topic", ["txn-0", "all-codecs-0", "compacted-0", "logappend-0"])
def test_read_committed_gives_what_a_consumer_got(topic: str, size: str, option: str) -> None:
    told = json.loads((SEGMENTS / topic / "read_committed.json").read_text())
    rows = read(SEGMENTS / topic, **{option: "read_committed", "maxPartitionBytes": size})
    assert offsets(rows) == [record["offset"] for record in told["records"]]


def transactions(seed: int) -> bytes:
    """Three producers, each aborting and committing in turn, more than one transaction at a time; one stays open."""
    chance, data, at = random.Random(seed), b"", 0
    running: set[int] = set()
    for _ in range(120):
        producer = chance.randrange(3)
        if producer in running and chance.random() < 0.4:
            kind = chance.choice(["commit", "abort"])
            data += builders.end_marker(commit=kind == "commit", producer_id=producer, base_offset=at)
            running.discard(producer)
            at += 1
            continue
        count = chance.randrange(1, 4)
        data += builders.batch(
            builders.records(count),
            base_offset=at,
            attributes=builders.TRANSACTIONAL,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=at,
        )
        running.add(producer)
        at += count
    return data


@pytest.mark.parametrize("seed", range(8))
def test_transactions_across_splits_and_segments(seed: int, tmp_path: Path) -> None:
    data = transactions(seed)
    cuts = [batch for batch in kafkarec.batches(data) if batch.position > len(data) // 2][:1]
    middle = cuts[0].position
    folder = log_folder(tmp_path / "t-0", (0, data[:middle]), (cuts[0].base_offset or 0, data[middle:]))
    wanted = [each.offset for each in kafkarec.open(folder).read(isolation="read_committed")]
    assert 0 < len(wanted) < len(kafkarec.open(folder).read())
    for size in ("1g", "1000", "1"):
        assert offsets(read(folder, isolationLevel="read_committed", maxPartitionBytes=size)) == wanted
    some = read(
        folder,
        isolationLevel="read_committed",
        maxPartitionBytes="500",
        startingOffsets='{"t": {"0": 50}}',
        endingOffsets='{"t": {"0": 100}}',
    )
    assert offsets(some) == [each for each in wanted if 50 <= each < 100]


# ---- filters ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    data = repeated((ALL_CODECS / f"{0:020}.log").read_bytes(), 2, 865)
    for topic in ("a", "b"):
        for number in range(3):
            log_folder(folder / f"{topic}-{number}", (0, data))
    return folder


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


COMPARISONS: dict[type, Any] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, some: value in some,
}


def passes(pushed: list[Any], row: dict[str, Any]) -> bool:
    known = [each for each in pushed if type(each) in COMPARISONS and len(each.attribute) == 1]
    return all(COMPARISONS[type(each)](row[each.attribute[0]], each.value) for each in known)


@pytest.mark.parametrize(
    "pushed",
    [
        [EqualTo(("topic",), "a")],
        [In(("topic",), ("a", "c")), EqualTo(("partition",), 1)],
        [EqualTo(("topic",), "a"), EqualTo(("topic",), "b")],
        [GreaterThan(("partition",), 1)],
        [In(("partition",), (0, 1)), LessThan(("partition",), 1)],
        [GreaterThanOrEqual(("offset",), 900), LessThanOrEqual(("offset",), 903)],
        [EqualTo(("offset",), 5)],
        [GreaterThan(("offset",), 9), LessThan(("offset",), 8)],
        [GreaterThan(("offset",), 2**63 - 1)],
        [EqualTo(("offset",), -1)],
        [LessThan(("timestamp",), at(1700000000100))],
        [GreaterThan(("timestamp",), at(1700000000100))],
        [GreaterThanOrEqual(("timestamp",), at(1700000000100)), LessThanOrEqual(("timestamp",), at(1700000000100))],
    ],
    ids=str,
)
def test_pushed_filters_prune_and_lose_nothing(pushed: list[Any], wide: Path) -> None:
    given = {"path": str(wide), "pushDownFilters": "true", "maxPartitionBytes": "20000"}
    everything, pruned = Read(given).rows, Read(given, pushed=pushed).rows
    assert [row for row in pruned if passes(pushed, row)] == [row for row in everything if passes(pushed, row)]
    assert len(pruned) < len(everything)


def test_filters_that_say_nothing_of_these_columns_prune_nothing(wide: Path) -> None:
    given = {"path": str(wide), "pushDownFilters": "true"}
    pushed = [IsNotNull(("offset",)), EqualTo(("a", "offset"), 5), EqualTo(("value",), b"v"), EqualTo(("offset",), 1.5)]
    assert Read(given, pushed=pushed).rows == Read(given).rows
