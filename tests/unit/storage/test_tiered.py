"""Objects of tiered storage: plain objects are segments, others are refused with a sentence that says what they are."""

import json
import random

import pytest
import zstandard
from command import Here
from paths import SEGMENTS
from plain_logs import SEGMENT_ID, TOPIC_ID

import kafkarec
from kafkarec import UnsupportedCompressionError
from kafkarec.storage import tiered

PLAIN = (SEGMENTS / "txn-0" / "00000000000000000030.log").read_bytes()
STEM = f"00000000000000000030-{SEGMENT_ID}"
CHUNK = 4096
NOISE = random.Random(5).randbytes(len(PLAIN))


def compressed():
    """Return data as CompressionChunkEnumeration writes it: a zstd frame with content size for each chunk."""
    pack = zstandard.ZstdCompressor().compress
    return b"".join(pack(PLAIN[at : at + CHUNK]) for at in range(0, len(PLAIN), CHUNK))


def manifest(compression, encryption):
    """Return a manifest as SegmentManifestV1 is written."""
    fields = {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": CHUNK,
            "originalFileSize": len(PLAIN),
            "transformedChunkSize": CHUNK,
            "finalTransformedChunkSize": len(PLAIN) % CHUNK,
        },
        "segmentIndexes": {"offset": {"position": 0, "size": 8}, "transaction": None},
        "compression": compression,
    }
    if encryption is not None:
        fields["encryption"] = encryption
    return json.dumps(fields).encode()


def upload(bucket, content, manifest_bytes=None, topic="my-orders", partition=7):
    folder = bucket / f"{topic}-{TOPIC_ID}" / f"{partition}"
    folder.mkdir(parents=True)
    (folder / f"{STEM}.log").write_bytes(content)
    (folder / f"{STEM}.indexes").write_bytes(b"\0" * 8)
    if manifest_bytes is not None:
        (folder / f"{STEM}.rsm-manifest").write_bytes(manifest_bytes)
    return folder / f"{STEM}.log"


KEY = {"dataKey": "key-2024:c2VjcmV0", "aad": "CgsMDQ=="}


@pytest.mark.parametrize("manifest_bytes", [None, manifest(False, None), b"{", b'{"compression": 1}', b"[" * 100_000])
def test_a_plain_object_is_a_segment(tmp_path, manifest_bytes):
    path = upload(tmp_path, PLAIN, manifest_bytes)
    segment = kafkarec.open(path)
    assert (segment.topic, segment.partition, segment.base_offset) == ("my-orders", 7, 30)
    whole = list(kafkarec.decode(PLAIN))
    assert list(segment.read()) == whole
    for folder in (tmp_path, path.parent.parent, path.parent):
        with pytest.raises(UnsupportedCompressionError, match=r"/7 looks like a part of a store of Aiven's") as caught:
            kafkarec.open(folder)
        assert (caught.value.reason, caught.value.file) == ("tiered_object", str(path.parent))


@pytest.mark.parametrize(
    "content, manifest_bytes, words",
    [
        (compressed(), manifest(True, None), ("compressed in chunks with zstd", ".log.zst", "its .rsm-manifest")),
        (NOISE, manifest(True, KEY), ("compressed in chunks with zstd and encrypted", "AES-GCM under key key-2024")),
        (NOISE, manifest(False, KEY), ("encrypted in chunks with AES-GCM", "a broker that has the plugin and its key")),
        (NOISE, manifest(False, {}), ("encrypted in chunks with AES-GCM",)),
        (compressed(), None, ("begins with a zstd frame", "00000000000000000030.log.zst")),
        (NOISE, None, ("look random", "encrypted")),
    ],
)
def test_other_objects_are_refused_in_a_sentence(tmp_path, content, manifest_bytes, words, capfdbinary):
    path = upload(tmp_path, content, manifest_bytes)
    for errors in ("raise", "skip"):
        with pytest.raises(UnsupportedCompressionError) as caught:
            kafkarec.open(path).read(errors=errors)
        assert caught.value.reason == "tiered_object"
        assert caught.value.position == 0 and caught.value.file == str(path)
        for word in (str(path), "a tiered-storage object", *words):
            assert word in str(caught.value)
        assert "corrupt" not in str(caught.value) and "c2VjcmV0" not in str(caught.value)
    ran = Here(capfdbinary)("cat", path)
    assert ran.status == 3
    assert "tiered-storage object" in ran.complaint


@pytest.mark.parametrize("name", [f"{STEM}.log", "00000000000000000030.log"])
def test_a_damaged_segment_is_damaged_and_not_encrypted(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(NOISE[:1000] + PLAIN[1000:])
    with pytest.raises(kafkarec.CorruptRecordError):
        kafkarec.open(path).read()


def test_random_bytes_are_distinguished_from_batches():
    assert all(tiered.looks_encrypted(random.Random(seed).randbytes(64 << 10)) for seed in range(20))
    assert not tiered.looks_encrypted(PLAIN)
    assert not tiered.looks_encrypted(b"text, repeated. " * 4096)
    assert not tiered.looks_encrypted(NOISE[:100])


@pytest.mark.parametrize("topic", ["my-orders", "my-orders-1"])
def test_copies_of_a_stores_segments_alone_are_read(tmp_path, topic):
    """The folder `my-orders-1-<uuid>` may be a topic's, or a partition's of LocalTieredStorage: its content decides."""
    folder = tmp_path / f"{topic}-{TOPIC_ID}"
    for partition in (7, 8):
        (folder / str(partition)).mkdir(parents=True)
    (folder / "7" / f"{STEM}.log").write_bytes(PLAIN)
    for path in (folder, tmp_path):
        log_dir = kafkarec.open(path)
        assert [(log.topic, log.partition) for log in log_dir] == [(topic, 7), (topic, 8)]
        assert len(log_dir[topic, 7].segments) == 1


@pytest.fixture
def store(tmp_path):
    """Three partitions of two topics as Aiven's plugin writes them, one of them without a complete segment."""
    for partition in (0, 1):
        upload(tmp_path / "store", PLAIN, manifest(False, None), "a-b.c-1", partition)
    upload(tmp_path / "store", PLAIN, None, "orders", 0)
    return tmp_path / "store"


STORE_LINES = (
    *("ls", "ls --full", "verify", "cat", "cat --follow -n 1", "scan", "txn", "dump", "explain", "study", "diff STORE"),
    *("salvage --dry-run", "salvage -o OUT", "reindex --dry-run", "compact -o OUT/", "convert -o OUT/"),
    *("verify LOG", "salvage -o OUT LOG", "cat LOG", "txn LOG"),
)


@pytest.mark.parametrize("line", STORE_LINES)
def test_no_verb_reads_a_part_of_a_store(store, tmp_path, line, capfdbinary):
    for folder in (store, *sorted(store.glob("*")), *sorted(store.glob("*/*"))):
        places = {"STORE": folder, "LOG": SEGMENTS / "txn-0", "OUT": tmp_path / "out", "OUT/": f"{tmp_path}/out/"}
        ran = Here(capfdbinary)(*(places.get(word, word) for word in line.split()), folder)
        assert (ran.status, ran.out) == (3, b"")
        assert str(folder) in ran.complaint and "looks like a part of a store of Aiven's" in ran.complaint
        assert not (tmp_path / "out").exists()


def test_a_store_of_kafkas_local_tiered_storage(tmp_path):
    """Beside each segment the producers at its end, as RemoteLogManager.copyLogSegment uploads them, and its epochs."""
    folder = tmp_path / f"txn-0-{TOPIC_ID}"
    folder.mkdir()
    logs = sorted((SEGMENTS / "txn-0").glob("*.log"))
    ends = [*(log.stem for log in logs[1:]), f"{293:020d}"]
    for number, (log, end) in enumerate(zip(logs, ends, strict=True)):
        stem = f"{log.stem}-{'AB'[number]}{SEGMENT_ID[1:]}"
        for path in log.parent.glob(f"{log.stem}.*"):
            if path.suffix in (".log", ".index", ".timeindex", ".txnindex"):
                (folder / f"{stem}{path.suffix}").write_bytes(path.read_bytes())
        (folder / f"{stem}.snapshot").write_bytes((log.parent / f"{end}.snapshot").read_bytes())
        (folder / f"{stem}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")
    opened = kafkarec.open(folder)
    assert isinstance(opened, kafkarec.Log) and (opened.topic, opened.partition) == ("txn", 0)
    assert len(opened.segments) == len(logs) == 2 and not opened.left_out
    report = kafkarec.verify(opened)
    assert report.ok and not [one for one in report.findings if one.severity != "note"]
    whole = kafkarec.open(SEGMENTS / "txn-0").transactions()
    found = opened.transactions()
    assert len(found.aborted) > 5 and found.notes == whole.notes == ()
    assert [one.first_offset for one in found] == [one.first_offset for one in whole]
