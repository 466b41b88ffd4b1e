"""Selection of partitions, offsets, times and transactions: the options of Spark's Kafka source."""

import json
import random
from pathlib import Path

import builders
import pytest
from paths import SEGMENTS
from plain_logs import batch, log
from source_rows import offsets_of, read
from stream_engine import caught_up

import kafkarec

TXN = SEGMENTS / "txn-0"
SPLITS = {"maxPartitionBytes": "700"}


# ---- partitions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, expected",
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
def test_partitions_can_be_selected(options, expected):
    assert {row["topic"] for row in read(SEGMENTS, **options)} == expected


def test_a_file_of_any_name_in_a_folder_that_is_read_too(tmp_path):
    data = (TXN / f"{0:020}.log").read_bytes()
    folder = log(tmp_path / "txn-0", (0, data))
    (folder / "copy.bin").write_bytes(data)
    rows = read(None, paths=json.dumps([str(folder), str(folder / "copy.bin")]))
    assert len(rows) == 2 * len(read(folder)) > 0


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern"])
def test_the_option_topic_names_files_without_a_topic(tmp_path, option):
    path = log(tmp_path / "copies", (0, (TXN / f"{0:020}.log").read_bytes())) / f"{0:020}.log"
    rows = read(path, topic="txn", **{option: "txn"})
    assert len(rows) == 30 and {row["topic"] for row in rows} == {"txn"}
    if option == "subscribe":
        with pytest.raises(ValueError, match="subscribe: cannot find other; there are: txn"):
            read(path, topic="txn", subscribe="other")


@pytest.mark.parametrize("options", [{"subscribePattern": "none"}, {"assign": "{}"}, {"assign": '{"txn": []}'}])
def test_no_selected_partition_is_told(options, caplog):
    assert read(TXN, **options) == []
    assert "no rows: subscribePattern or assign selects none of the topics that there are: txn" in caplog.text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"subscribe": "txn,txm"}, "subscribe: cannot find txm; there are: .*txn"),
        ({"assign": '{"txn": [0, 1]}'}, "assign: cannot find txn-1; there are: .*txn-0"),
        ({"assign": "txn"}, "option assign='txn': must be a JSON object"),
        ({"assign": '{"txn": "0"}'}, r'must be JSON such as \{"topic": \[0, 1\]\}'),
        ({"subscribe": "txn", "assign": '{"txn": [0]}'}, "only one of .*, not subscribe and assign"),
        ({"subscribePattern": "("}, "is not a regular expression"),
    ],
)
def test_wrong_selections_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        read(SEGMENTS, **options)


# ---- offsets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("splits", [{}, SPLITS])
@pytest.mark.parametrize(
    "start, end", [(-2, -1), (0, 1), (29, 31), (30, -1), (100, 200), (-2, 30), (292, 293), (293, 293), (50, 50)]
)
def test_offsets_can_be_limited(start, end, splits):
    options = {
        "startingOffsets": json.dumps({"txn": {"0": start}}),
        "endingOffsets": json.dumps({"txn": {"0": end}}),
    }
    log = kafkarec.open(TXN)
    expected = [each.offset for each in log.read(start_offset=max(start, 0), end_offset=None if end < 0 else end)]
    assert offsets_of(read(TXN, **options, **splits)) == expected


@pytest.mark.parametrize(
    "options, message",
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest is for streams"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"txn": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"txn": {"0": -3}}'}, "must have offsets; -2 is earliest, -1 is latest"),
        ({"startingOffsets": '{"txn": {"0": -3}}'}, "must have offsets; -2 is earliest, -1 is latest"),
        ({"startingOffsets": '{"txn": {"0": "a"}}'}, "option startingOffsets=.*earliest, latest, or JSON"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "startingOffsets: cannot find other-0"),
        ({"startingOffsets": "{}"}, "startingOffsets must name every partition that is read; txn-0 missing"),
        ({"startingOffsets": '{"txn": {"0": 294}}'}, "offset 294 of txn-0, which has 0 to 293 .*failOnDataLoss=false"),
        ({"endingOffsets": '{"txn": {"0": 999}}'}, "endingOffsets asks for offset 999"),
    ],
)
def test_wrong_offsets_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        read(TXN, **options)


@pytest.mark.parametrize(
    "options, is_told",
    [
        ({"endingTimestamp": "1"}, True),
        ({"startingTimestamp": "2030-01-02", "endingTimestamp": "2030-01-01"}, False),  # no record is that late
        ({"startingOffsets": '{"txn": {"0": 9}}', "endingOffsets": '{"txn": {"0": 5}}'}, True),
        ({"startingOffsets": '{"txn": {"0": 5}}', "endingOffsets": '{"txn": {"0": 9}}'}, False),
    ],
    ids=str,
)
def test_an_end_that_is_not_after_the_start_is_told(options, is_told, caplog):
    rows = read(TXN, **options, startingOffsetsByTimestampStrategy="latest")
    told = [each.message for each in caplog.records if each.message.startswith("no rows: each partition's end")]
    assert len(told) == is_told and (not is_told or rows == [])


def test_offsets_deleted_by_retention(tmp_path):
    data = (TXN / f"{30:020}.log").read_bytes()
    folder = log(tmp_path / "txn-0", (30, data))
    options = {"startingOffsets": '{"txn": {"0": 7}}', "endingOffsets": '{"txn": {"0": 1000}}'}
    with pytest.raises(ValueError, match="offset 7 of txn-0, which has 30 to 293"):
        read(folder, **options)
    assert len(read(folder, **options, failOnDataLoss="false")) == 237
    outside = [{"startingOffsets": '{"txn": {"0": 5000}}'}, {"endingOffsets": '{"txn": {"0": 3}}'}]
    assert [len(read(folder, **each, failOnDataLoss="false")) for each in outside] == [0, 0]


# ---- times ------------------------------------------------------------------------------------------------


def timed(folder):
    """Write timestamps that do not rise with the offsets; return the ms by offset."""
    rng = random.Random(7)
    times = [1_700_000_000_000 + rng.randrange(10_000) for _ in range(400)]
    data = b"".join(
        kafkarec.encode([(at, times[at], None, b"v", []) for at in range(start, start + 10)], base_offset=start)
        for start in range(0, 400, 10)
    )
    log(folder, (0, data))
    return times


@pytest.mark.parametrize("splits", [{}, SPLITS])
def test_a_time_selects_the_first_offset_at_or_after_it(splits, tmp_path):
    times = timed(tmp_path / "t-0")
    first, last = sorted(times)[250], sorted(times)[-1]
    start = next(at for at, time in enumerate(times) if time >= first)
    end = next(at for at, time in enumerate(times) if time >= last)
    by_partition = {
        "startingOffsetsByTimestamp": json.dumps({"t": {"0": first}}),
        "endingOffsetsByTimestamp": json.dumps({"t": {"0": last}}),
    }
    expected = list(range(start, end))
    assert offsets_of(read(tmp_path, **by_partition, **splits)) == expected
    both = {"startingTimestamp": str(first), "endingTimestamp": str(last), "startingOffsets": '{"t": {"0": 5}}'}
    assert offsets_of(read(tmp_path, **both, **splits)) == expected
    to_the_end = read(tmp_path, startingTimestamp=str(first), endingTimestamp=str(last + 1))
    assert offsets_of(to_the_end) == list(range(start, 400))
    message = r"t-0 has no record at or after \S+Z \(\d+ ms\); startingOffsetsByTimestampStrategy=latest"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, startingTimestamp=str(last + 1))
    late = {"startingTimestamp": str(last + 1), "startingOffsetsByTimestampStrategy": "latest"}
    assert read(tmp_path, **late) == []


# ---- transactions -----------------------------------------------------------------------------------------


def test_ranges_of_segments_with_exchanged_names_are_refused(tmp_path):
    """Names say which segments have a range, and in which order transactions end."""
    datas = [batch(base, 10) for base in (0, 10, 20)]
    folder = log(tmp_path / "orders-0", *zip((0, 20, 10), datas, strict=True))
    assert sorted(offsets_of(read(folder))) == list(range(30))
    for options in (
        {"startingOffsets": '{"orders": {"0": 12}}'},
        {"endingOffsets": '{"orders": {"0": 12}}'},
        {"isolationLevel": "read_committed"},
    ):
        with pytest.raises(ValueError, match=r"orders-0: names of segments .*10\.log begins with 20.*salvage"):
            read(folder, **options)


@pytest.mark.parametrize("option", ["isolationLevel", "kafka.isolation.level"])
@pytest.mark.parametrize("size", ["1g", "2000", "1"])
@pytest.mark.parametrize("topic", ["txn-0", "all-codecs-0", "compacted-0", "logappend-0"])
def test_read_committed_returns_the_records_of_a_consumer(topic, size, option):
    consumed = json.loads((SEGMENTS / topic / "read_committed.json").read_text())
    rows = read(SEGMENTS / topic, **{option: "read_committed", "maxPartitionBytes": size})
    assert offsets_of(rows) == [record["offset"] for record in consumed["records"]]


# ---- times in a damaged log ------------------------------------------------------------------------------

CRC, LENGTH, BASE_OFFSET = 70, 9, 3


def damaged_log(folder: Path, place: int) -> Path:
    """Ten batches of three records, a second after one another; the third one, offsets 6 to 8, has a wrong bit."""
    batches = [batch(3 * n, 3, base_timestamp=builders.NOW + 1000 * n) for n in range(10)]
    batches[2] = builders.flipped(batches[2], place)
    return log(folder / "orders-0", batches)


@pytest.mark.parametrize(("place", "first"), [(CRC, 9), (LENGTH, 7), (BASE_OFFSET, 7)])
def test_the_mode_holds_for_the_search_of_a_time(tmp_path, place, first):
    """With a wrong base offset all records after the time, or those before it, were missing without a word."""
    log, time = damaged_log(tmp_path, place), builders.NOW + 2001
    kept = [each for each in range(30) if place != CRC or not 6 <= each < 9]
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        after, before = (
            offsets_of(read(log, mode=mode, **{f"{which}Timestamp": str(time)})) for which in ("starting", "ending")
        )
        assert after == [each for each in kept if each >= first] and before == [each for each in kept if each < first]
        assert caught_up(log, mode=mode, startingTimestamp=str(time)).offsets == after
    for which in ("starting", "ending"):
        message = (
            r"has offset \d+, and the log ends at 30: a base offset is damaged" if place == BASE_OFFSET else "byte 212"
        )
        with pytest.raises(ValueError, match=message):
            read(log, **{f"{which}Timestamp": str(time)})
