"""How often each operation reads the bytes of a log: counted at the files, for a log of two segments with ordinary
batches (100 records of 100 bytes). Headers alone are read in windows behind the first MB, which is a third of the bytes
here."""

import os
import random
import shutil

import builders
import counted_files
import pytest
from plain_logs import batch

import kafkarec
from kafkarec.cli import main
from kafkarec.ops.compact import cleaned
from kafkarec.ops.convert import converted_batches
from kafkarec.ops.diff import compare

_BATCHES = 300  # a segment


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes") / "orders-0"
    records = 100
    with kafkarec.SegmentWriter(folder, segment_bytes=_BATCHES * 12_000) as writer:
        offset = 0
        for number in range(2 * _BATCHES):
            rows = [(None, 1000 + number, f"{n % 50}".encode(), bytes(100), ()) for n in range(records)]
            writer.append(kafkarec.encode([(offset + n, *row[1:]) for n, row in enumerate(rows)], base_offset=offset))
            offset += records
    return folder


READINGS = {
    "read": (1.02, lambda log, to: log.read()),
    "stream": (1.02, lambda log, to: list(log.stream())),
    "read_committed": (1.35, lambda log, to: log.read(isolation="read_committed")),
    "scan": (0.35, lambda log, to: log.scan()),
    "transactions": (0.35, lambda log, to: log.transactions()),
    "reindex": (1.02, lambda log, to: main(["reindex", log.path, "-o", str(to / "new")])),
    "diff": (1.02, lambda log, to: compare(log, kafkarec.open(shutil.copytree(log.path, to / "copy")))),
    "convert": (2.02, lambda log, to: list(converted_batches(log, compression="zstd"))),
    "compact": (2.35, lambda log, to: list(cleaned(log))),
    "verify": (1.02, lambda log, to: log.verify()),
    "salvage": (2.2, lambda log, to: log.salvage(to / "out")),
}


@pytest.mark.parametrize("name", READINGS)
def test_how_often_the_bytes_are_read(name, made, tmp_path, monkeypatch):
    most, reading = READINGS[name]
    readings = counted_files.counted(monkeypatch)
    log = kafkarec.open(made)
    reading(log, tmp_path)
    size = sum(path.stat().st_size for path in made.glob("*.log"))
    found = counted_files.of_segments([one for one in readings if one.path.startswith(str(made))])
    assert found <= most * size


@pytest.mark.parametrize("isolation, most", [("read_uncommitted", 1.03), ("read_committed", 2.6)])
@pytest.mark.parametrize("cut", [False, True])
def test_what_is_followed(isolation, most, cut, tmp_path, monkeypatch):
    """A poll for each batch of 12 KB, three of which are a transaction; with `cut` the last batch is incomplete at most
    polls. For read_committed the markers are read first, and all checksums checked, and a piece that an open
    transaction ends is read again up to there."""
    chance, left, path = random.Random(1), b"", tmp_path / f"{0:020}.log"
    path.write_bytes(batch(0, 1))
    os.utime(path, (0, 0))
    readings = counted_files.counted(monkeypatch)
    (one,) = kafkarec.open(tmp_path).followers(isolation=isolation, errors="skip")
    found = sum(len(records) for _, records in one.poll())
    who, base = {"producer_id": 7, "producer_epoch": 0}, 1
    for number in range(1, 301):
        if number % 4:
            records = [builders.record(offset_delta=i, value=chance.randbytes(3000)) for i in range(4)]
            raw = left + builders.batch(records, base_offset=base, attributes=builders.TRANSACTIONAL, **who)
        else:
            raw = left + builders.end_marker(base, commit=True, **who)
        base += 4 if number % 4 else 1
        stop = chance.randrange(len(raw)) if cut and number < 300 else len(raw)
        with path.open("ab") as file:
            file.write(raw[:stop])
        left = raw[stop:]
        found += sum(len(records) for _, records in one.poll())
    assert found == 1 + 225 * 4
    assert counted_files.of_segments(readings) < most * path.stat().st_size
