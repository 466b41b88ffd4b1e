"""`threads`: the same as one thread, whatever the bytes are. Here inputs of any size are read in short stretches."""

import random
from functools import cache, partial

import builders
import fake_file
import golden
import hurt_logs
import pyarrow as pa
import pytest
import random_logs
import reading
from core_reading import error_fields, what_was_left_out
from long_run import LONG, fewer
from plain_logs import batches

import kafkarec
from kafkarec._core import Source
from kafkarec.read import decode_options, passes

pytestmark = pytest.mark.core

SEEDS = range(1000 if LONG else fewer(20, 8))
COLUMNS = [*reading.RECORD_FIELDS, "batch_position", "base_offset", "compression", "control_type", "producer_id"]
OPTIONS = (
    {},
    {"errors": "skip"},
    {"errors": "skip", "restore": False, "control": True},
    {"errors": "skip", "isolation": "read_committed"},
    {"errors": "skip", "layout": "view"},
    {"check_crcs": False, "max_decompressed_bytes": 2000, "columns": COLUMNS},
)


@pytest.fixture(autouse=True, params=[1, 300, 4000])
def _short_stretches(request, monkeypatch):
    """A stretch has so many bytes at least; what has 2 threads or more is read in stretches, however small it is.
    Pieces are as small. What is read ahead may have 20 times as many bytes."""
    monkeypatch.setattr(passes, "worth_sharing", lambda asked, size: True)
    for name in ("_LEAST_BYTES", "CHUNK_BYTES"):
        monkeypatch.setattr(passes, name, request.param)
    monkeypatch.setattr(decode_options, "CHUNK_BYTES", request.param)
    monkeypatch.setattr(decode_options, "MOST_OF_STRETCH", 20 * request.param)
    decode_options.forget_requests()  # they keep the sizes
    yield request.param
    decode_options.forget_requests()


def outcome(read, **options):
    """Everything that a caller can see but for where chunks end."""
    try:
        got = read(**options)
    except kafkarec.KafkaRecordError as error:
        return error_fields(error), str(error)
    return (
        pa.table(got).combine_chunks(),
        pa.table(got.batches).combine_chunks(),
        *what_was_left_out(got),
    )


def assert_same(read, what):
    alone = outcome(read)
    for threads in (2, 4):
        assert outcome(read, threads=threads) == alone, f"{what}, {threads} threads"


def pieces(read, asked, **options):
    """Everything of each piece, and the error at the end."""
    found = []
    try:
        for part in read(**options):
            columns = passes.as_columns(asked, part)
            tables = (
                pa.table(columns),
                pa.table(columns.batches),
                [table.audit_notes().tobytes() for table in part.tables],
            )
            found.append((*tables, part.damage, part.remaining, list(part.restored)))
    except kafkarec.KafkaRecordError as error:
        found.append((error_fields(error), str(error)))
    return found


def assert_same_pieces(make_source, asked, size, what):
    """As read_chunks yields them, whose borders are the same, too."""
    for chunk_bytes in (1, 5 * size):
        chosen = asked._replace(options=asked.options._replace(chunk_bytes=chunk_bytes))
        alone = pieces(partial(passes.read_chunks, chosen, make_source()), chosen)
        read = partial(passes.read_chunks, chosen, make_source(), threads=3)
        assert pieces(read, chosen) == alone, f"{what}, chunks of {chunk_bytes}"


def decode_file(data, *, threads=1, **options):
    asked = reading.file_request("a.log", **options)
    return passes.as_columns(asked, passes.read_at_once(asked, Source(data), threads=threads))


@cache
def inputs():
    made = [(case, case.bytes) for case in [*golden.vectors(), *golden.invalid()][:: fewer(2, 5)]]
    for seed in SEEDS:
        maker = random_logs.Maker(seed)
        data = b"".join(maker.log() for _ in range(maker.random.choice([1, 2, 5])))
        made += [(seed, data), (seed, maker.damaged(data))]
    return made


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_golden_files_and_odd_batches(options, _short_stretches):
    asked = decode_options.request(**{name: value for name, value in options.items() if name != "isolation"})
    for what, data in inputs():
        assert_same(partial(kafkarec.decode, data, **options), what)
        assert_same_pieces(partial(Source, data), asked, _short_stretches, what)
    whole = b"".join(case.bytes for case in golden.vectors() if case.json.get("exception") is None)
    assert_same(partial(kafkarec.decode, whole, **options), "all golden files")


@pytest.mark.parametrize("restore", [True, False])
def test_damaged_files(restore, _short_stretches):
    for seed in SEEDS:
        chance = random.Random(seed)
        log = hurt_logs.written_log(chance)
        [part] = hurt_logs.damaged(chance, log, chance.choice([0, 1, 3]))
        low, high = sorted(chance.choices([batch.next for batch in log.segments[0].batches], k=2))
        for errors in ("raise", "skip"):
            assert_same(partial(decode_file, part.data, errors=errors, restore=restore), seed)
            asked = reading.file_request("a.log", errors=errors)
            for chosen in ({"audit": True}, {"within": (low, high, None, None)}):
                options = asked.options._replace(restore=restore, **chosen)
                assert_same_pieces(partial(Source, part.data), asked._replace(options=options), _short_stretches, seed)


def test_offsets_and_epochs_that_the_neighbours_disprove():
    """Whole batches: only who compares them with the one before sees that they are wrong."""
    restored = 0
    for at in range(1, 12):
        pieces = batches(12, epoch=7)
        for start, wrong in ((0, (3 * at + 1000).to_bytes(8, "big")), (0, bytes(8)), (12, bytes([0, 0, 0, 3]))):
            data = b"".join([*pieces[:at], builders.patched(pieces[at], start, wrong), *pieces[at + 1 :]])
            for errors in ("raise", "skip"):
                assert_same(partial(decode_file, data, errors=errors), (at, start, wrong))
            restored += len(decode_file(data, errors="skip").restored)
    assert restored >= 20


def test_damaged_folders_and_ranges(tmp_path):
    """With indexes, leader epochs and names of segments as witnesses, and in ranges of offsets and times."""
    for seed in SEEDS:
        chance = random.Random(seed)
        log = hurt_logs.written_log(chance, segments=chance.choice([1, 3]))
        hurt_logs.write_folder(tmp_path / str(seed), log, hurt_logs.damaged(chance, log, chance.choice([0, 1, 4])))
        opened = kafkarec.open(tmp_path / str(seed))
        offsets = [written.start for segment in log.segments for written in segment.batches]
        low, high = chance.choice([None, *offsets]), chance.choice([None, *offsets])
        for errors in ("raise", "skip"):
            assert_same(partial(opened.read, errors=errors), seed)
            assert_same(partial(opened.read, errors=errors, start_offset=low, end_offset=high), seed)
            assert_same(partial(opened.read, errors=errors, start_timestamp=chance.randrange(2**41)), seed)


def test_files_with_unreadable_ranges():
    for seed in SEEDS:
        chance = random.Random(seed)
        data = hurt_logs.stored(hurt_logs.written_log(chance).segments[0]).data
        bad = [
            range(at, at + chance.choice([1, 70])) for at in chance.sample(range(len(data)), chance.choice([0, 1, 3]))
        ]

        def read(*, threads=1, errors="skip", data=data, bad=bad):
            file = fake_file.FakeFile(data, unreadable=bad)
            asked = reading.file_request(file.name, errors=errors)
            return passes.as_columns(asked, passes.read_at_once(asked, Source(file=file), threads=threads))

        for errors in ("raise", "skip"):
            assert_same(partial(read, errors=errors), seed)
