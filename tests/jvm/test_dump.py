"""`dump` compared with Kafka's DumpLogSegments on random files: both outputs line by line, and the exit status."""

import struct

import broker_logs
import golden
import jvm_oracle
import pytest
from builders import NOW
from crc32c import crc32c
from dump_comparison import DumpResult, agree, ours, random_words, sidecars, theirs
from java_text import java_utf8
from random_logs import Maker

from kafkarec.format.messages import java_text
from kafkarec.internal_topics.dump_text import DECODERS

STEMS = ("00000000000000000000", "00000000000000000100", "5")


def test_good_unusual_and_damaged_logs(kafka, tmp_path):
    for seed in range(jvm_oracle.count(600)):
        maker = Maker(seed)
        data = maker.log()
        log = tmp_path / f"{maker.random.choice(STEMS)}.log"
        log.write_bytes(data)
        arguments, options = random_words(maker, len(data))
        kafkas = theirs(kafka, [log], arguments)
        assert agree(ours([log], **options), kafkas), f"seed {seed}, {arguments}"


def fill(maker, kafka, folder):
    """Empty `folder`, write a segment and its four side files, and return their stem. Kafka's recovery makes the
    indexes, which are then damaged."""
    random = maker.random
    for file in folder.iterdir():
        file.unlink()
    if random.randrange(5):
        [(base_offset, data)] = broker_logs.Log(random.getrandbits(32)).segments(1)
    else:
        base_offset, data = random.choice([0, 0, 0, 100]), maker.log()
    stem = f"{base_offset:020d}"
    log = folder / f"{stem}.log"
    log.write_bytes(data)
    kafka.ask("recover", folder, random.choice([1, 100, 256, 1024]))
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        index = folder / f"{stem}{suffix}"
        index.write_bytes(_spoiled(maker, index.read_bytes(), size, len(data)) if index.exists() else b"")
    if not random.randrange(3):
        log.write_bytes(maker.damaged(log.read_bytes()))
    if not random.randrange(8):
        log.write_bytes(log.read_bytes() + maker.odd(50) + maker.legacy(80) + maker.batch(90))
    (folder / f"{stem}.txnindex").write_bytes(_txn_index(maker))
    (folder / f"{stem}.snapshot").write_bytes(_snapshot(maker))
    return stem


def _spoiled(maker, data, size, log_size):
    """The entries of an index, of `size` bytes each; in half of the cases others, or damaged ones."""
    random = maker.random
    kind = random.randrange(10)
    if kind == 0:
        return b""
    if kind == 1:
        entries = [data[at : at + size] for at in range(0, len(data), size)]
        random.shuffle(entries)
        return b"".join(entries)
    if kind == 2:
        offsets = [random.randrange(80) for _ in range(random.randrange(6))]
        if size == 8:
            return b"".join(struct.pack(">ii", one, random.randrange(log_size + 20)) for one in offsets)
        return b"".join(struct.pack(">qi", NOW + random.randrange(2000), one) for one in offsets)
    return maker.damaged(data) if kind < 6 else data


def _txn_index(maker):
    data = b"".join(
        struct.pack(">hqqqq", 0, *(maker.some(5, 6, 9, bits=64) for _ in range(4)))
        for _ in range(maker.random.randrange(4))
    )
    return maker.damaged(data) if data and not maker.random.randrange(3) else data


def _snapshot(maker):
    random = maker.random
    entries = [
        struct.pack(
            ">qhiqiqiq",
            maker.some(5, 6, bits=64),
            maker.some(0, -1, bits=16),
            maker.some(0, -1, 7),
            maker.some(-1, 9, bits=64),
            maker.some(0, 3),
            maker.some(0, NOW, bits=64),
            maker.some(-1, 4),
            maker.some(-1, 4, bits=64),
        )
        for _ in range(random.randrange(4))
    ]
    count = len(entries) if random.randrange(8) else maker.some(0, 1, 2, 5, -1)
    body = struct.pack(">i", count) + b"".join(entries)
    if not random.randrange(8):
        body = body[: random.randrange(len(body) + 1)]
    data = struct.pack(">hI", maker.some(1, 1, 1, 1, 0, 2, bits=16), crc32c(body)) + body
    return maker.damaged(data) if not random.randrange(6) else data


def test_indexes_and_snapshots(kafka, tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    for seed in range(jvm_oracle.count(20)):
        maker = Maker(seed)
        files = sidecars(folder, fill(maker, kafka, folder))
        arguments, options = random_words(maker, 200, index=True)
        for group in [files] if not maker.random.randrange(4) else [[file] for file in files]:
            our_output = ours(group, **options)  # before Kafka's tool truncates an .index that ends within an entry
            assert agree(our_output, theirs(kafka, group, arguments), index=True), f"seed {seed}, {arguments}"


@pytest.mark.parametrize("case", golden.vectors() + golden.invalid(), ids=str)
def test_every_golden_buffer_is_dumped_as_a_log(case, kafka, tmp_path):
    log = tmp_path / f"{STEMS[0]}.log"
    log.write_bytes(case.bytes)
    kafkas = theirs(kafka, [log], ["--print-data-log"])
    assert agree(ours([log], print_data=True), kafkas)


@pytest.mark.parametrize("flag", DECODERS)
@pytest.mark.parametrize("case", golden.segment_files(), ids=str)
def test_real_segments_are_dumped_with_every_decoder(flag, case, kafka):
    assert agree(ours([case.bin_path], decode=DECODERS[flag]), theirs(kafka, [case.bin_path], [flag]))


def test_paths_are_shown_as_java_shows_them(kafka, tmp_path):
    log = tmp_path / f"{STEMS[0]}.log"
    log.write_bytes(golden.vector("v2-snappy-create").bytes)
    odd = [f"{tmp_path}//./{log.name}", f"{tmp_path}/../{tmp_path.name}/{log.name}", tmp_path / "plain", "a.b"]
    assert agree(ours(odd, deep_iteration=True), theirs(kafka, odd, ["--deep-iteration"]))
    missing = [tmp_path / "00000000000000000007.log"]
    assert ours(missing) == theirs(kafka, missing, []) == DumpResult(1, ours(missing).out, ())


def test_java_text_equals_that_of_the_jvm(kafka):
    """The JVM agrees with tests/support/java_text.py, and kafkarec.format.messages.java_text agrees with both."""
    random = Maker(1).random
    pool = bytes.fromhex("41c3a9eda080bfe09ff090f48ff5ffe282acc0f1")
    texts = [bytes(random.choice(pool) for _ in range(random.randrange(1, 8))) for _ in range(2000)]
    answer = kafka.ask("text", *(text.hex() for text in texts)).out.split("\n")[:-1]
    assert answer == [java_utf8(text) for text in texts] == [java_text(text) for text in texts]
