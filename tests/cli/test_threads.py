"""`--threads`: the same output, messages, status and files, however many there are; and how a run with threads ends."""

import random
import re
import shutil
from functools import lru_cache

import builders
import plain_logs
import pytest
from command import assert_quiet_at_a_closed_pipe, interrupted, interruptible
from plain_logs import batch

CODECS = ("none", "lz4", "snappy", "zstd", "gzip")
RECORDS = 60
TIMES = re.compile(
    rb'"seconds": [\d.e-]+|"(?:read|write)_rate": [\d.]+|"is_best": \w+|in [\d.]+ m?s\b(?: \(\d+ MB/s\))?|[\d.]+ MB/s'
)


@lru_cache
def _batch(codec):
    chance = random.Random(1)
    content = [
        builders.record(offset_delta=i, timestamp_delta=i, key=b"key %d" % i, value=chance.randbytes(30).hex().encode())
        for i in range(RECORDS)
    ]
    return builders.batch(content, codec=codec)


def plain(base, codec):
    """No checksum covers the base offset."""
    return builders.patched(_batch(codec), 0, base.to_bytes(8, "big"))


def transactions(count):
    """Of two producers, each with a batch and a marker; every third one is aborted, and the last one is open."""
    pieces, base = [], 0
    for number in range(count):
        producer = 7 + number % 2
        pieces.append(batch(base, RECORDS, transaction=producer, base_sequence=number // 2 * RECORDS))
        base += RECORDS
        if number < count - 1:
            pieces.append(builders.end_marker(base, producer, commit=number % 3 != 0))
            base += 1
    return b"".join(pieces)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Logs of which each has segments of more than one stretch."""
    folder = tmp_path_factory.mktemp("logs")

    def segment(base, batches, *codecs):
        return b"".join(plain(base + RECORDS * i, codecs[i % len(codecs)]) for i in range(batches))

    plain_logs.log(folder / "plain-0", [segment(0, 500, "none")], [segment(500 * RECORDS, 300, *CODECS)])
    plain_logs.log(folder / "packed-0", [segment(0, 4000, "lz4", "zstd")], [segment(4000 * RECORDS, 800, "gzip")])
    hurt = bytearray(segment(0, 500, "none", "lz4", "none"))
    for at in (len(hurt) // 2, len(hurt) * 3 // 4):
        hurt[at : at + 30] = bytes(30)
    plain_logs.log(folder / "hurt-0", [hurt], [segment(500 * RECORDS, 400, "none")[:-7]])
    plain_logs.log(folder / "many-0", *([plain(RECORDS * i, CODECS[i % 5])] for i in range(30)))
    plain_logs.log(folder / "txn-0", [transactions(1200)])
    return folder


COMMANDS = (
    "verify LOGS --all",
    "verify LOGS --sequences --strict --format json",
    "cat LOGS/packed-0 --format arrow",
    "cat LOGS/packed-0 LOGS/many-0 -o OUT.parquet",
    "cat LOGS/hurt-0",
    "cat LOGS/hurt-0 --errors skip --columns offset,key,batch_position",
    "cat LOGS/packed-0 --from-offset 100000 --to-offset 200000 --format csv",
    "cat LOGS/packed-0 -n 7",
    "cat LOGS/plain-0 --last 7",
    "cat LOGS/plain-0 --latest-per-key",
    "cat LOGS/txn-0 --isolation read_committed --columns offset,value",
    "salvage LOGS -o OUT",
    "salvage LOGS/packed-0 --dry-run --max-decompressed-bytes 2k --format json",
    "convert LOGS/packed-0 -o OUT/ --compression zstd",
    "convert LOGS/txn-0 -o OUT.log --compression lz4 --batch-size 64k",
    "convert LOGS/hurt-0 -o OUT.log --compression gzip --errors skip --batch-size 9k",
    "study LOGS/plain-0 --codecs none,lz4,zstd --batch-sizes keep,64k --sample 300k --format json",
)


def files(folder):
    """What a run wrote: a time is in salvage.json, a random id of the topic in partition.metadata."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "partition.metadata")
    return {str(path): TIMES.sub(b"", path.read_bytes()) for path in found}


@pytest.mark.parametrize("words", COMMANDS)
def test_any_number_of_threads_has_one_result(words, run, logs, tmp_path):
    out, seen = tmp_path / "made" / "out", []
    for threads in (1, 3):
        shutil.rmtree(out.parent, ignore_errors=True)
        out.parent.mkdir()
        ran = run(*words.replace("LOGS", str(logs)).replace("OUT", str(out)).split(), "--threads", threads)
        err = ran.err.replace(f" --threads {threads}", "")  # in the command for the rest
        seen.append((ran.status, TIMES.sub(b"", ran.out), err, files(out.parent)))
        assert ran.status != 2 and (ran.out or ran.err or seen[-1][3])
    assert seen[1] == seen[0]


@pytest.mark.parametrize("words", ["cat LOG", "cat LOG --format arrow", "convert LOG --compression zstd"])
def test_a_closed_pipe_is_quiet(words, logs):
    assert_quiet_at_a_closed_pipe(*words.replace("LOG", str(logs / "packed-0")).split(), "--threads", "3")


@pytest.mark.parametrize(
    "words",
    [
        "cat LOG",
        "convert LOG --compression zstd --level 19",
        "convert LOG -o OUT-0 --compression zstd --level 22",
        "study LOG --all --codecs zstd:22",
    ],
)
def test_ctrl_c_ends_all_threads(words, logs, tmp_path):
    """`cat` waits for the reader of its pipe."""
    words = words.replace("LOG", str(logs / "packed-0")).replace("OUT", str(tmp_path / "out"))
    _, err = interrupted(interruptible(*words.split(), "--threads", "3"), after=0.2)
    assert b"Traceback" not in err and list(tmp_path.iterdir()) == [], err
