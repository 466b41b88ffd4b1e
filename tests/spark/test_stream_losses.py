"""Losses before a stream reads them: retention, truncation, damage."""

import gzip
import json
import random
import re
from pathlib import Path

import plain_logs
import pytest
from builders import NOW, flipped, patched
from plain_logs import log
from stream_broker import Broker
from stream_engine import Query, caught_up, strict_and_lenient

import kafkarec
from spark_udfs.source.listing import DataLoss

TELLS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}


def first_read(root, *segments, **options):
    """A query that tells of damage, and has read orders-0 when it has these segments."""
    log(root / "orders-0", *segments)
    return caught_up(root, **TELLS, **options)


def then_read(query, *segments, restarts=False):
    """What the query reads when orders-0 has these segments."""
    log(Path(query.options["path"]) / "orders-0", *segments)
    if restarts:
        query.restart()
    query.run()


# ---- lost offsets ---------------------------------------------------------------------------------------------------


def filled(broker):
    for _ in range(40):
        broker.write(10)
    return Query(broker.root, maxOffsetsPerTrigger="100")


def is_lost(strict, lenient, message, caplog):
    """The one query fails, also when it is started again; the other one logs it and goes on: return its batches."""
    for _ in range(2):
        with pytest.raises(DataLoss, match=re.escape(message)):
            strict.trigger()
        strict.restart()
    batches = lenient.run()
    assert message in caplog.text
    return batches


def test_retention_of_records_already_read_is_no_loss(broker):
    query = filled(broker)
    query.trigger()
    query.trigger()
    rows = list(broker.rows["orders", 0])
    start = broker.delete_first()
    assert start <= 200
    query.run()
    assert query.rows == {("orders", 0): rows}


def test_retention_of_unread_records_is_a_loss(broker, caplog):
    query, lenient = filled(broker), Query(broker.root, maxOffsetsPerTrigger="10", failOnDataLoss="false")
    strict = Query(broker.root, maxOffsetsPerTrigger="10")
    for each in (strict, lenient):
        each.trigger()
    start = broker.delete_first()
    is_lost(strict, lenient, f"orders-0: the next offset is 10, and the log begins at offset {start}", caplog)
    assert lenient.rows["orders", 0][10:] == broker.rows["orders", 0]
    assert query.run() and query.rows == broker.rows  # a query that has read nothing yet begins at the start of the log


def packed(path):
    """Compress a segment as a whole."""
    path.with_suffix(".log.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return path.with_suffix(".log.gz")


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("most", ["1000000", "7", "100"])
def test_a_missing_segment_is_told_once_by_driver_and_task(broker, caplog, most, is_packed):
    """Behind a compressed one, whose last offset the driver does not know, by the task alone."""
    filled(broker)
    before, missing, after, *_ = broker.log()
    missing.unlink()
    if is_packed:
        before = packed(before)
    first, last = int(missing.stem), int(after.stem) - 1
    for offset in (first, last):
        strict = Query(broker.root, startingOffsets=json.dumps({"orders": {"0": offset}}))
        with pytest.raises(DataLoss, match=f"asks for {offset}, which no segment has: {first} to {last} are missing"):
            strict.trigger()
    query = caught_up(broker.root, maxOffsetsPerTrigger=most)
    *by_driver, by_task = (each.message for each in caplog.records if "are missing" in each.message)
    assert len(by_driver) == (not is_packed)
    for told in by_driver:
        assert f"{before}: offsets {first} to {last} are missing before the next segment" in told
        assert told.endswith(f"spark_udfs.damage_report(spark, {str(broker.root)!r})")
    assert f"offsets {first} to {last} are missing" in by_task and str(before) in by_task
    assert len(query.rows["orders", 0]) == 400 - (last + 1 - first)


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_segment_that_is_not_there_yet_is_a_loss(broker, caplog, is_packed):
    """A stream that has read to the end of a segment, and finds a later one than the next."""
    filled(broker)
    later = broker.root / "later"
    later.mkdir()
    segments = broker.log()
    for path in segments[1:]:
        path.rename(later / path.name)
    if is_packed:
        packed(segments[0])
    strict, lenient = strict_and_lenient(broker.root)
    (later / segments[2].name).rename(segments[2])
    first, last = int(segments[1].stem), int(segments[2].stem) - 1
    message = f"orders-0: the next offset is {first}, which no segment has: {first} to {last} are missing between two"
    is_lost(strict, lenient, message, caplog)
    assert lenient.rows["orders", 0][first] == broker.rows["orders", 0][last + 1]
    (later / segments[1].name).rename(segments[1])
    strict.restart()
    strict.run()
    end = len(strict.rows["orders", 0])
    assert end > last + 1 and strict.rows["orders", 0] == broker.rows["orders", 0][:end]


@pytest.mark.parametrize("most", ["1", "5", "9", "13", "59"])
def test_a_limit_ends_no_batch_between_damage_and_missing_offsets(broker, most):
    filled(broker)
    first, second, third, *_ = broker.log()
    second.unlink()
    first.write_bytes(flipped(first.read_bytes()))  # the last batch
    query = caught_up(broker.root, maxOffsetsPerTrigger=most, mode="PERMISSIVE")
    good = kafkarec.open(first).read(errors="skip")
    assert len(good) < int(second.stem) and len(query.rows["orders", 0]) == len(good) + 400 - int(third.stem)


@pytest.mark.parametrize("base", [27, 30, 33])
def test_an_end_that_was_truncated_and_has_rolled_is_a_loss(tmp_path, caplog, base):
    """Between two listings, in the last segment, at its start, or before it; then a new segment has the next offset."""
    batches = log_of([3] * 20)
    folder = log(tmp_path / "orders-0", batches[:10], batches[10:12])
    strict, lenient = strict_and_lenient(tmp_path)
    before = lenient.rows["orders", 0][:]
    for path in folder.glob("*.log"):
        path.unlink()
    kept = [(0, b"".join(batches[: min(base // 3, 10)]))] + [(30, batches[10])] * (base == 33)
    again = kafkarec.encode([(at, NOW, None, b"new", []) for at in range(base, 60)], batch_size=200)
    log(folder, *kept, (base, bytes(again)))
    message = "orders-0: the next offset is 36, and the log was truncated before it and written again"
    with pytest.raises(DataLoss, match=message):
        strict.trigger()
    lenient.run()
    assert caplog.text.count(message) == 1
    assert lenient.rows["orders", 0] == before + [(at, b"new") for at in range(36, 60)]


@pytest.mark.parametrize("segment_bytes", [2000, 1 << 20])
def test_a_truncated_end_is_a_loss(broker, caplog, segment_bytes):
    broker.segment_bytes = segment_bytes
    filled(broker)
    strict, lenient = strict_and_lenient(broker.root)
    before = list(broker.rows["orders", 0])
    broker.truncate(330)
    assert is_lost(strict, lenient, "orders-0: the next offset is 400, and the log ends at offset 330", caplog) == 1
    assert caplog.text.count("data loss") == 1 and lenient.texts()[-1] == {"orders": {"0": 330}}
    for _ in range(3):
        broker.write(10)
        lenient.run()
    assert lenient.rows["orders", 0] == before + broker.rows["orders", 0][330:]


def test_records_that_were_not_read_and_are_truncated_are_logged(broker, caplog):
    filled(broker)
    query = Query(broker.root, maxOffsetsPerTrigger="100")
    query.trigger()
    broker.truncate(330)
    query.run()
    assert query.rows["orders", 0] == broker.rows["orders", 0][:330]
    assert caplog.text.count("the log ended at offset 400, and ends at 330 now: it was truncated") == 1


def test_the_deleted_batch_of_a_restart_is_a_loss(broker, caplog):
    queries = [filled(broker), Query(broker.root, maxOffsetsPerTrigger="100", failOnDataLoss="false")]
    for each in queries:
        each.trigger()
        each.trigger()
        each.committed, each.rows = 1, {}  # offsets 100 to 200 are logged, and the batch has not run
    broker.delete_first()
    start = broker.delete_first()
    assert 100 < start < 200
    message = f"orders-0: the batch begins at 100, and the log begins at offset {start}"
    with pytest.raises(DataLoss, match=rf"{message}: it was truncated\."):
        queries[0].restart()
    queries[1].restart()
    assert message in caplog.text
    queries[1].run()
    assert queries[1].rows == broker.rows


def test_a_deleted_partition_is_a_loss(broker, caplog):
    filled(broker)
    broker.write(5, partition=1)
    queries = strict_and_lenient(broker.root)
    broker.writers.pop(("orders", 1)).close()
    (broker.root / "orders-1").rename(broker.root / f"orders-1.{'a' * 32}-delete")
    broker.write(10)
    is_lost(*queries, "orders-1 (next offset 5): no segments are left", caplog)
    assert queries[1].texts()[-1] == {"orders": {"0": 410}}
    assert queries[1].rows["orders", 0] == broker.rows["orders", 0]


# ---- damage ---------------------------------------------------------------------------------------------------------


def damage(path, position):
    """Write over some bytes of the records of the batch there."""
    with open(path, "r+b") as file:
        file.seek(position + 70)
        file.write(b"\xff\xfe\xfd\xfc")


def test_damage_is_reported_once_and_all_else_is_read(broker):
    broker.write(10)
    query, limited = Query(broker.root, **TELLS), Query(broker.root, maxOffsetsPerTrigger="10", **TELLS)
    query.run()
    limited.run()
    lost = []
    for number in range(30):
        writer = broker.writer()
        path, position, base = writer.segments[-1].path, writer.position, writer.next_offset
        broker.write(10)
        if number % 7 == 3 and writer.segments[-1].path == path:
            damage(path, position)
            lost.append(range(base, base + 10))
            assert query.run() == 0  # the last batch of a live log: it may be half written
            assert limited.run() == 0
            continue
        assert query.run() == 1
        if number % 5 == 0:
            query.restart()
            limited.restart()
        limited.run()
    query.run()
    limited.run()
    good = [row for row in broker.rows["orders", 0] if not any(row[0] in each for each in lost)]
    for each in (query, limited):
        assert each.rows["orders", 0] == good
        assert len(lost) > 2 and len(places(each)) == len({*places(each)}) == len(lost)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("segment_bytes", [3000, 1 << 20])
def test_micro_batches_have_the_damage_of_one_read(tmp_path, seed, segment_bytes):
    rng = random.Random(seed)
    broker = Broker(tmp_path / "data", segment_bytes)
    for _ in range(70):
        broker.write(rng.choice([1, 1, 5, 30]))
    broker.close()
    for path in broker.log():
        data = bytearray(path.read_bytes())
        for batch in list(kafkarec.batches(bytes(data)))[rng.randrange(4) : -1 : 5]:
            at, size = rng.choice([(8, 4), (16, 1), (17, 4), (65, 3)])  # its length, magic, checksum, records
            data[batch.position + at : batch.position + at + size] = rng.randbytes(size)
        path.write_bytes(data)
    whole, *limited = (
        Query(broker.root, **TELLS, **limit)
        for limit in ({}, {"maxOffsetsPerTrigger": "7"}, {"maxBytesPerTrigger": "1k"}, {"maxOffsetsPerTrigger": "90"})
    )
    whole.run()
    for query in limited:
        while query.trigger():
            if rng.random() < 0.3:
                query.restart()
        assert query.rows == whole.rows
        assert places(query) == places(whole)


def places(query):
    """Where the damage is that a query has reported."""
    return [(each["path"], each["position"]) for each in map(json.loads, query.damage)]


def test_damage_at_the_end_of_a_segment_is_reported_after_a_restart(broker):
    broker.write(10)
    query = Query(broker.root, **TELLS)
    while len(broker.log()) == 1:
        query.run()
        broker.write(10)
    assert json.loads(query.log[-1]) == {"orders": {"0": int(broker.log()[1].stem)}}
    with open(broker.log()[0], "ab") as file:
        file.write(b"half a batch, and then a new segment")
    query.restart()
    query.run()
    assert len(query.damage) == 1 and query.rows == broker.rows


# ---- header fields that no checksum covers ---------------------------------------------------------------------------


def batches_of(count, **fields):
    """Return batches of three records, a millisecond each second."""
    return [plain_logs.batch(3 * n, 3, base_timestamp=NOW + 1000 * n, **fields) for n in range(count)]


LIMITS = [{}, *({"maxOffsetsPerTrigger": each} for each in ("1", "4", "10"))]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("place, bits", [(3, 1), (7, 8), (7, 16), (9, 1), (11, 2)])
def test_a_damaged_header_field_costs_no_offset_with_any_limit(tmp_path, place, bits, limit):
    """Bytes 0 to 7 are the base offset, 8 to 11 the length."""
    batches = batches_of(10)
    batches[4] = flipped(batches[4], place, bits)
    query = first_read(tmp_path, batches, **limit)
    assert query.offsets == [*range(30)] and query.damage == []
    with pytest.raises(kafkarec.CorruptRecordError, match=r"orders-0/0{20}\.log at byte (424|530) "):
        caught_up(tmp_path, **limit)


@pytest.mark.parametrize("place, bits", [(3, 1), (7, 8)])
def test_failfast_compares_offsets_with_the_next_segment(tmp_path, place, bits):
    batches = batches_of(6)
    batches[2] = flipped(batches[2], place, bits)
    log(tmp_path / "orders-0", batches[:3], batches[3:])
    for limit in LIMITS:
        with pytest.raises(kafkarec.CorruptRecordError, match="does not fit those of the batches around it"):
            caught_up(tmp_path, **limit)


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_first_batch_behind_what_was_read_is_restored(tmp_path, restarts, rolls):
    """What proves its offset was read by the micro-batch before."""
    batches = batches_of(8)
    batches[4] = flipped(batches[4], 7, 8)
    query = first_read(tmp_path, batches[:4])
    then_read(query, *([batches[:6], batches[6:]] if rolls else [batches]), restarts=restarts)
    assert query.offsets == [*range(24)]


def test_a_last_batch_whose_offsets_fall_waits_for_the_one_behind_it(tmp_path, caplog):
    batches = batches_of(6)
    batches[4] = flipped(batches[4], 7, 8)
    query = first_read(tmp_path, batches[:5])
    assert query.offsets == [*range(12)]
    assert caplog.text.count("it is not read before one behind it proves its offset") == 1
    with pytest.raises(kafkarec.CorruptRecordError, match="at byte 424 "):
        caught_up(tmp_path)
    then_read(query, batches)
    assert query.offsets == [*range(18)]


@pytest.mark.parametrize("base", [None, 12, 15])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("bits, first", [(16, 28), (1, 13)])
def test_a_last_batch_behind_a_gap_waits_for_the_one_behind_it(tmp_path, caplog, bits, first, restarts, base):
    """The right offsets that follow it would be below an offset that the stream has passed. base: of a later segment,
    which begins with this batch, or is empty behind it and so proves its offset."""
    batches = batches_of(24)
    batches[4] = flipped(batches[4], 7, bits)
    begin = 4 if base == 12 else 0
    query = first_read(tmp_path, *([batches[:4], (base, batches[4])] if begin else [batches[:5]]))
    if base == 15:
        then_read(query, (base, b""))
    assert query.offsets == [*range(15 if base == 15 else 12)]
    position = 0 if begin else 424
    assert f"the batch at byte {position} begins at offset {first}, and not 12; it is not read" in caplog.text
    if restarts:
        query.restart(available_now=True)
        query.run()
        assert "stops in mid-batch" not in caplog.text
        query.restart()
    then_read(query, (base or 0, b"".join(batches[5 if base == 15 else begin :])))
    assert len({*query.rows["orders", 0]}) == len(query.rows["orders", 0]) == 72 and query.damage == []


def test_a_batch_beyond_the_next_segments_offsets_hides_none_of_them(tmp_path):
    """The next segment has no batch yet, and a gap before the batch leaves no proof of its offset."""
    batch, *later = (plain_logs.batch(offset, 1) for offset in range(13, 23))
    query = first_read(tmp_path, (10, flipped(batch, 7, 3)), (14, b""))  # 13 -> 14
    then_read(query, later, restarts=True)
    assert query.offsets == [14, *range(14, 23)]


def test_a_last_batch_behind_a_true_gap_is_read_with_the_one_behind_it(tmp_path):
    """Offsets are missing before it, as in compacted logs."""
    batches = batches_of(6)
    log(tmp_path / "orders-0", [*batches[:2], batches[4]])
    query = caught_up(tmp_path)
    assert query.offsets == [*range(6)]
    then_read(query, [*batches[:2], *batches[4:]])
    assert query.offsets == [*range(6), *range(12, 18)]


@pytest.mark.parametrize("wrong", [11, 13, 20, 500])
@pytest.mark.parametrize("restarts", [False, True])
def test_of_two_last_batches_whose_offsets_fall_neither_is_passed(tmp_path, wrong, restarts):
    """A gap between the two leaves no proof of which one is damaged, before others are behind them."""
    batches = [plain_logs.batch(offset, 1) for offset in (0, 1, 6, 10, 11, 12, 13)]
    batches[2] = patched(batches[2], 0, wrong.to_bytes(8, "big"))
    query = first_read(tmp_path, batches[:4])
    assert query.texts()[-1] == {"orders": {"0": 2}}
    for number in range(5, 8):
        then_read(query, batches[:number], restarts=restarts and number == 5)
    assert query.offsets == [0, 1, wrong, *range(10, 14)]


def test_damage_before_a_batch_whose_offset_is_one_that_was_read_is_not_passed(tmp_path):
    """Of the batches before and behind the damage, either may have the wrong offset: a restart begins at the first."""
    batches = [plain_logs.batch(offset, 1) for offset in range(20)]
    bad = [flipped(batches[10]), patched(batches[11], 0, (9).to_bytes(8, "big"))]
    folder = log(tmp_path / "orders-0", batches[:10])
    for options in ({}, TELLS):
        log(folder, batches[:10])
        query = caught_up(tmp_path, **options)
        log(folder, [*batches[:10], *bad, *batches[12:]])
        query.restart()
        if not options:
            with pytest.raises(kafkarec.CorruptRecordError, match="crc mismatch"):
                query.run()
    query.run()
    assert len(query.damage) == 1
    assert query.offsets == [*range(10), 9, *range(12, 20)]


@pytest.mark.parametrize("start", [30, 50, 51, 53])
def test_a_start_up_to_a_waiting_batch_is_no_loss(tmp_path, start):
    """An offset that the log has, which a checkpoint of an earlier version may have passed."""
    batches = [plain_logs.batch(offset, 3) for offset in (0, 50, 53)]
    log(tmp_path / "orders-0", batches[:2])
    query = caught_up(tmp_path, startingOffsets=json.dumps({"orders": {"0": start}}))
    assert query.rows == {}
    then_read(query, batches, restarts=True)
    assert query.offsets == [*range(max(start, 50), 56)]


def test_a_start_behind_a_waiting_batch_is_a_loss(tmp_path, caplog):
    log(tmp_path / "orders-0", (0, plain_logs.batch(0, 3) + plain_logs.batch(50, 3)))
    starts = json.dumps({"orders": {"0": 54}})
    with pytest.raises(DataLoss, match="asks for 54, and the log ends at offset 3"):
        caught_up(tmp_path, startingOffsets=starts)
    assert caught_up(tmp_path, startingOffsets=starts, failOnDataLoss="false").texts()[-1] == {"orders": {"0": 3}}


def test_the_first_batch_of_a_file_without_an_offset_in_its_name_is_read(tmp_path):
    (tmp_path / "dump.log").write_bytes(plain_logs.batch(500, 3))
    query = caught_up(tmp_path / "dump.log", topic="orders")
    assert [offset for rows in query.rows.values() for offset, _ in rows] == [500, 501, 502]


@pytest.mark.parametrize("offsets", [(500, 1000), (1000, 500), (20, 21)])
@pytest.mark.parametrize("limit", [*LIMITS, {"isolationLevel": "read_committed", "maxOffsetsPerTrigger": "4"}])
def test_two_batches_in_a_row_with_wrong_offsets_cost_no_record(tmp_path, limit, offsets):
    """A limit ends no micro-batch before them again and again, and none of their records is above its end."""
    batches = batches_of(40)
    for number, offset in enumerate(offsets, 10):
        batches[number] = patched(batches[number], 0, offset.to_bytes(8, "big"))
    query = first_read(tmp_path, batches, **limit)
    assert len({*query.rows["orders", 0]}) == len(query.rows["orders", 0]) == 120 and query.damage == []


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_an_offset_that_nothing_proves_costs_no_record(tmp_path, isolation, limit):
    """Offsets are missing before it, as in compacted logs."""
    batches = batches_of(12)
    batches[5] = flipped(batches[5], 3)
    del batches[4]
    query = first_read(tmp_path, batches, **limit, isolationLevel=isolation)
    expected = [record.offset for record in kafkarec.open(tmp_path / "orders-0").read(errors="skip")]
    assert query.offsets == expected and len(expected) == 33


def test_a_restored_batch_ends_a_segment_behind_which_there_is_no_batch_yet(tmp_path):
    batches = batches_of(3)
    batches[2] = flipped(batches[2], 9)
    query = first_read(tmp_path, batches, (9, b""))
    assert query.offsets == [*range(9)]


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_file_that_is_compressed_as_a_whole_is_told_once(tmp_path, caplog, mode):
    log(tmp_path / "orders-0", (0, gzip.compress(b"".join(batches_of(3)))))
    query = caught_up(tmp_path, mode=mode)
    query.trigger()
    assert query.rows == {} and caplog.text.count("compressed by gzip, and is read if its name ends in .log.gz") == 1


# ---- several damaged batches beside each other ----------------------------------------------------------------------


def log_of(counts, stored=()):
    """Return batches of so many records each, whose values are their right offsets; stored: number of a batch -> the
    base offset that it has."""
    batches, offset = [], 0
    for number, count in enumerate(counts):
        records = [(at, NOW + at, None, b"%d" % at, []) for at in range(offset, offset + count)]
        batches.append(bytes(kafkarec.encode(records, base_offset=offset)))
        if number in stored:
            batches[-1] = patched(batches[-1], 0, stored[number].to_bytes(8, "big"))
        offset += count
    return batches


def read_of(query):
    """The right offsets of the records that a query has returned, sorted."""
    return sorted(int(value) for _, value in query.rows["orders", 0])


PLACE = "unless the topic is compacted, an offset is damaged there, and records may be read twice, or not at all"


@pytest.mark.parametrize("limit", LIMITS)
def test_a_stream_continues_at_its_byte_when_the_log_has_rolled(tmp_path, caplog, limit):
    """It has passed offset 15 with a batch whose offset is damaged, and 11 to 14 are behind it."""
    batches = log_of([5, 1, 2, 3, 1, 2, 3, 1, *[1] * 12], {2: 0xFBE0, 3: 12, 4: 27})
    query = first_read(tmp_path, batches[:6], **limit)
    then_read(query, batches[6:8])
    then_read(query, batches[8:])
    assert read_of(query) == [*range(30)]


@pytest.mark.parametrize("limit", LIMITS)
def test_an_offset_that_the_log_has_twice_is_passed_once(tmp_path, limit):
    """The end of the log comes to the offset that a damaged batch had."""
    batches = log_of([3] * 20, {3: 24, 4: 40, 5: 50})
    query = first_read(tmp_path, batches[:6], **limit)
    assert query.texts()[-1] == {"orders": {"0": 27}}
    for number in (9, 20):
        then_read(query, batches[:number])
    assert read_of(query) == [*range(60)]


def test_two_last_batches_behind_gaps_wait(tmp_path):
    """Both offsets are damaged: the right ones that follow would be below those that the stream has passed."""
    batches = log_of([3] * 12, {3: 43, 4: 269})
    query = first_read(tmp_path, batches[:5])
    assert query.texts()[-1] == {"orders": {"0": 9}}
    then_read(query, batches, restarts=True)
    assert read_of(query) == [*range(36)]


@pytest.mark.parametrize("stored", [{3: 60000, 4: 11}, {3: 60000, 4: 30000}, {2: 60000, 3: 13, 4: 500}])
def test_a_restart_beside_damage_of_what_was_read_is_told(tmp_path, caplog, stored):
    """What ends at offset 12, up to which the stream has read, was damaged since."""
    query = first_read(tmp_path, log_of([3] * 4))
    then_read(query, log_of([3] * 12, stored), restarts=True)
    assert caplog.text.count(PLACE) == (read_of(query) != [*range(36)])


@pytest.mark.parametrize("stored, told", [({}, 0), ({10: 11}, 1)])
def test_a_restart_where_two_batches_end_is_told(tmp_path, caplog, stored, told):
    """The offset of one of them is damaged, and behind a gap it is not known which: the second is read again."""
    batches = log_of([1] * 30, stored)
    del batches[12:15]
    query = first_read(tmp_path, batches[:12])
    then_read(query, batches, restarts=True)
    assert len(read_of(query)) == 27 + told and caplog.text.count(PLACE) == told


def test_a_restart_before_an_empty_segment_is_told(tmp_path, caplog):
    """Whether offsets are missing before it is not known: the last batch has those that it begins with."""
    query = first_read(tmp_path, (0, log_of([1])[0]))
    batches = log_of([1, 5, 2, 2], {0: 4096, 1: 2})
    then_read(query, (0, b"".join(batches[:2])), (6, b""), restarts=True)
    then_read(query, batches[2:])
    assert caplog.text.count(PLACE) == 1


def test_a_restart_in_a_compacted_log_is_told_nothing_where_a_batch_begins(tmp_path, caplog):
    """The batch that ended at the next offset was removed."""
    batches = log_of([3] * 12)
    query = first_read(tmp_path, batches[:6], maxOffsetsPerTrigger="4")
    del batches[5]
    then_read(query, batches, restarts=True)
    assert read_of(query) == [*range(36)] and PLACE not in caplog.text


def test_a_limit_cuts_at_no_length_that_leads_into_damage(tmp_path):
    """It leads beyond batches that are read, to where none begins."""
    batches = log_of([1] * 40)
    lengths = [*map(len, batches)]
    claimed = sum(lengths[5:-1]) + 15
    batches[5] = patched(batches[5], 8, (claimed - 12).to_bytes(4, "big"))
    query = first_read(tmp_path, batches, maxOffsetsPerTrigger="1")
    assert read_of(query) == [*range(40)] and query.damage == []
