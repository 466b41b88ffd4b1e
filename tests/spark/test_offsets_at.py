"""offsets_at has the offset at which startingTimestamp begins, for every partition."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from paths import SEGMENTS
from plain_logs import batch, log
from source_rows import offsets_of, read, spoil

import kafkarec
import spark_udfs

CODECS = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MS = 1_000 * int(NOON.timestamp())


def offsets_at(path, time, **options):
    return spark_udfs.offsets_at(SimpleNamespace(sparkContext=None), path, time, **options)


def oracle(path, since):
    """The first offset at or after a time, also of a transaction marker; the end of the log if there is none."""
    log = kafkarec.open(path)
    stamped = ((each.offset, each.timestamp) for each in log.read(control=True, columns=["offset", "timestamp"]))
    found = next((offset for offset, time in stamped if time is not None and time >= since), None)
    return log.next_offset if found is None else found


def times():
    stamps = {each.timestamp for name in ("txn-0", "all-codecs-0", "logappend-0") for each in records(name)}
    yield from sorted(stamps)[::40]
    yield from (0, max(stamps) + 1)


def records(name):
    return kafkarec.open(SEGMENTS / name).read(columns=["offset", "timestamp"])


@pytest.mark.parametrize("since", list(times()))
def test_real_logs(since):
    found = offsets_at(SEGMENTS, since, subscribe=["txn", "all-codecs", "logappend"])
    expected = {name: {0: oracle(SEGMENTS / f"{name}-0", since)} for name in ("all-codecs", "logappend", "txn")}
    assert found == expected


def test_reading_from_these_offsets_is_reading_from_that_time(tmp_path):
    for number, first in enumerate((0, 500, 5000)):
        rows = [(n, MS + n, None, b"%d" % n, []) for n in range(first, first + 1000)]
        log(tmp_path / f"orders-{number}", (first, kafkarec.encode(rows, batch_size=4096)))
    found = offsets_at(tmp_path, MS + 800)
    assert found == {"orders": {0: 800, 1: 800, 2: 5000}}
    both = [
        sorted(offsets_of(read(tmp_path, **options)))
        for options in ({"startingOffsets": json.dumps(found)}, {"startingTimestamp": str(MS + 800)})
    ]
    assert both[0] == both[1] and len(both[0]) == 200 + 700 + 1000
    before = read(tmp_path, endingOffsets=json.dumps(found))
    assert len(before) + len(both[0]) == 3000


def test_a_partition_without_a_record_that_late_has_its_end(tmp_path):
    rows = [(7 + n, MS + n, None, b"", []) for n in range(10)]
    log(tmp_path / "t-0", (7, kafkarec.encode(rows)))
    log(tmp_path / "t-1", (40, b""))
    log(tmp_path / "t-2", (0, batch(0, 3, base_timestamp=-1)))
    found = offsets_at(tmp_path, MS + 10)
    assert found == {"t": {0: 17, 1: 40, 2: 3}}
    assert read(tmp_path, startingOffsets=json.dumps(found)) == []


@pytest.mark.parametrize(
    "time",
    [
        MS,
        str(MS),
        NOON,
        NOON.astimezone(timezone(timedelta(hours=-5))),
        "2026-11-01T12:00",
        "2026-11-01T12:00:00Z",
        "2026-11-01 14:00:00+02:00",
        NOON - timedelta(microseconds=1),
    ],
)
def test_ways_to_write_a_time(tmp_path, time):
    rows = [(n, MS - 2 + n, None, b"", []) for n in range(5)]
    log(tmp_path / "t-0", (0, kafkarec.encode(rows)))
    assert offsets_at(tmp_path, time) == {"t": {0: 2}}


@pytest.mark.parametrize(
    "time, message",
    [
        ("yesterday", "^time 'yesterday': must be milliseconds since 1970, or a time such as"),
        (-1, "^time -1: must be"),
        (1.5, "^time 1.5: must be"),
        (datetime(2026, 11, 1), r"^time datetime\.datetime\(2026, 11, 1, 0, 0\): has no time zone; set one"),
        (date(1969, 1, 1), "must not be before 1970"),
        (MS // 1000, f"looks like seconds, and a bare number is milliseconds; write {MS // 1000}000 or 20"),
    ],
)
def test_what_is_no_time(time, message):
    with pytest.raises(ValueError, match=message):
        offsets_at(SEGMENTS, time)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"startingOffsets": "earliest"}, "startingOffsets is for read, .*, not for offsets_at"),
        ({"subscribe": "nothing"}, "subscribe: cannot find nothing; there are: "),
        ({"basePath": datetime(2026, 11, 1)}, r"^option basePath=datetime\..*: has no time zone; set one"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        offsets_at(SEGMENTS, 0, **options)


def test_damage_before_the_time_is_an_error(tmp_path):
    """As for startingTimestamp: the header of a damaged batch cannot tell whether an earlier record is late enough."""
    log(tmp_path / "t-0", (0, spoil(CODECS, 4, 20)))
    late = records("all-codecs-0").column("timestamp")[-1]
    with pytest.raises(kafkarec.KafkaRecordError):
        offsets_at(tmp_path, late)
