"""Segments in .gz and .zst files: decompressed as far as needed, damage where the compressed data ends early."""

import gzip
import io
import pickle
import random
import resource

import pytest
import zstandard
from builders import flipped
from fake_file import FakeFile
from paths import SEGMENTS

import kafkarec
from kafkarec.codecs import CodecError, Truncated, packed_stream
from kafkarec.errors import PackedFileError
from kafkarec.sources.files import FileObject
from kafkarec.sources.packed import unpacked

SEGMENT = SEGMENTS / "all-codecs-0" / "00000000000000000000.log"
PLAIN = SEGMENT.read_bytes()
NOISE = random.Random(7).randbytes(300_000)


def zst(data, **options):
    return zstandard.ZstdCompressor(**options).compress(data)


def unsized(data):
    """Return a frame without its content size, as zstd writes it from a pipe."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress(PLAIN),
    "two members": gzip.compress(PLAIN[:1000]) + gzip.compress(PLAIN[1000:]),
    "padded member": gzip.compress(PLAIN) + bytes(512),
    "zstd": zst(PLAIN),
    "zstd with checksum": unsized(PLAIN),
    "frames": zst(PLAIN[:1000]) + unsized(PLAIN[1000:5000]) + zst(PLAIN[5000:]),
    "skippable frames": b"\x5a\x2a\x4d\x18\x03\0\0\0abc" + zst(PLAIN) + b"\x50\x2a\x4d\x18\0\0\0\0",
    "raw blocks": zst(PLAIN, level=-100),
}


def source_of(data):
    return unpacked(FileObject(io.BytesIO(data), "x.log.gz"), 1 << 30, 17)


@pytest.mark.parametrize("form", PACKED)
def test_a_compressed_segment_reads_as_the_uncompressed_one(form, tmp_path):
    source = source_of(PACKED[form])
    assert source.read_at(61, 100) == PLAIN[61:161]
    assert source.size == len(PLAIN)
    assert source.read_at(len(PLAIN) - 5, 100) == PLAIN[-5:]
    assert source.read_at(0, 17) == PLAIN[:17]
    assert source.read_at(len(PLAIN), 1) == b""
    source.close()
    suffix = ".gz" if PACKED[form][:2] == packed_stream.GZIP_MAGIC else ".zst"
    path = tmp_path / "all-codecs-0" / f"{SEGMENT.name}{suffix}"
    path.parent.mkdir()
    path.write_bytes(PACKED[form])
    with kafkarec.open(path) as segment, kafkarec.open(SEGMENT) as plain:
        assert (segment.topic, segment.partition, segment.base_offset) == ("all-codecs", 0, 0)
        assert segment.size == plain.size
        assert list(segment.read()) == list(plain.read())
        assert list(segment.scan()) == list(plain.scan())


def test_bytes_behind_zeros_are_kept():
    data = bytes(64) + NOISE
    source = source_of(gzip.compress(data))
    assert source.read_at(0, len(data)) == data
    source.close()


def test_only_the_requested_bytes_are_decompressed():
    data = bytes(8 << 20) + NOISE
    packed = FakeFile(gzip.compress(NOISE + data, 1))
    source = unpacked(packed, 1 << 30, 17)
    assert source.read_at(0, 61) == NOISE[:61]
    assert packed.fetched < 100_000
    assert source.size == len(NOISE) + len(data)
    source.close()


@pytest.mark.parametrize("pack", [gzip.compress, zst, unsized])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.999])
def test_bytes_before_a_cut_are_read_and_the_rest_is_damage(pack, share, tmp_path):
    packed = pack(PLAIN)
    path = tmp_path / f"{SEGMENT.name}{'.gz' if pack is gzip.compress else '.zst'}"
    path.write_bytes(packed[: int(len(packed) * share)])
    with kafkarec.open(path) as segment:
        size = segment.size
        table = segment.scan(errors="skip")
        whole = kafkarec.open(SEGMENT).scan()
        assert list(table) == list(whole)[: len(table)]
        assert [one.reason for one in table.damage] == ["unreadable"]
        assert "cut off" in table.damage[0].detail
        assert sum(table.column("size_in_bytes")) + sum(one.length for one in table.damage) + table.remaining == size
        with pytest.raises(kafkarec.CorruptRecordError):
            segment.read()


@pytest.mark.parametrize("pack", [gzip.compress, unsized])
def test_a_flipped_bit_is_damage_too(pack):
    packed = pack(NOISE)
    source = source_of(flipped(packed, len(packed) // 2, 16))
    with pytest.raises(PackedFileError, match="ends or is corrupt here") as caught:
        source.read_at(source.size - 1, 1)
    assert caught.value.unreadable_cause == PackedFileError.CORRUPT and caught.value.errno is None
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.unreadable_cause, copy.filename) == (
        str(caught.value),
        PackedFileError.CORRUPT,
        source.name,
    )
    assert not isinstance(source.failure, Truncated)
    source.close()


@pytest.mark.slow
def test_memory_stays_flat():
    """64 MiB from 6 KiB, stored as holes instead of zeros."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for packed in (unsized(bytes(64 << 20)), gzip.compress(bytes(64 << 20), 1)):
        source = source_of(packed)
        assert source.size == 64 << 20
        source.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


@pytest.mark.parametrize(
    "packed, kind",
    [
        (gzip.compress(PLAIN)[:-8] + bytes(8), CodecError),
        (gzip.compress(PLAIN) + b"garbage", CodecError),
        (zst(PLAIN) + b"garbage", CodecError),
        (zst(PLAIN) + b"ga", CodecError),
        (unsized(PLAIN)[:-1] + b"\0", CodecError),
        (gzip.compress(PLAIN, mtime=0)[:5], Truncated),
        (zst(PLAIN)[:5], Truncated),
        (b"\x50\x2a\x4d\x18\xff\xff\xff\xff", Truncated),
        (b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(9), CodecError),
        (b"\x28\xb5\x2f\xfd\x00\x58\xff\xff\xff" + bytes(9), CodecError),
    ],
)
def test_errors(packed, kind):
    file = io.BytesIO(packed)
    codec = packed_stream.recognise(packed)
    with pytest.raises(CodecError) as caught:
        for _ in packed_stream.unpack(codec, file.read):
            pass
    assert type(caught.value) is kind


@pytest.mark.parametrize("at", [-6, -9, 30_000])
def test_what_precedes_a_wrong_bit_of_gzip_is_read(at):
    """zlib drops what the call has decompressed that finds it: up to a megabyte."""
    plain = source_of(flipped(gzip.compress(NOISE, 0), at, 4)).read_at(0, len(NOISE))
    assert plain[:29_000] == NOISE[:29_000] and (at > 0 or len(plain) == len(NOISE))
