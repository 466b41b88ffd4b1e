"""convert: accepted sources, memory, wrong arguments."""

import io
import struct
from functools import partial
from pathlib import Path

import builders
import golden
import plain_logs
import pytest
from measured_calls import peak_of

import kafkarec
from kafkarec import LossError, codecs, convert
from kafkarec.ops.convert import converted_batches


def test_sources_of_every_kind_give_the_same_result(tmp_path):
    folder = tmp_path / "topic-0"
    folder.mkdir()
    for path in sorted((golden.VECTORS / "segments" / "txn-0").glob("*.log")):
        (folder / path.name).write_bytes(path.read_bytes())
    data = golden.partition_bytes("txn-0")
    wanted = convert(data, compression="lz4", batch_size=700)
    log = kafkarec.open(folder)
    for source in (log, bytearray(data), memoryview(data)):
        result = convert(source, compression="lz4", batch_size=700)
        assert bytes(result) == bytes(wanted) and result.stats.as_dict() == wanted.stats.as_dict()
    segment = next(iter(log.segments))
    assert bytes(convert(segment)) == Path(segment.path).read_bytes()
    assert convert(b"") == b""


@pytest.mark.parametrize("rewrite", [convert, kafkarec.compact])
def test_several_partitions_and_paths_are_refused(rewrite, tmp_path):
    for name in ("a-0", "a-1"):
        plain_logs.log(tmp_path / name, [plain_logs.batch(0, 1)])
    with pytest.raises(ValueError, match="2 partitions; rewrite them one by one"):
        rewrite(kafkarec.open(tmp_path))
    with pytest.raises(TypeError, match=r"a Log from kafkarec\.open, not str"):
        rewrite("a-0")


def test_an_error_names_the_file(tmp_path):
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(golden.vector("v2-zstd-create").bytes)
    with pytest.raises(kafkarec.UnsupportedCompressionError, match=r"00000\.log at byte 0"):
        convert(kafkarec.open(path), magic=0)
    with pytest.raises(LossError, match="would lose"):
        convert(kafkarec.open(path), magic=0, compression="none", on_loss="raise")


def long_log(size, count=100, *, codec="none"):
    """Return batches of `count` records, `size` bytes in all."""
    batch = plain_logs.batch(0, count, codec=codec, value=b"some text, " * 11)
    return b"".join(struct.pack(">q", i * count) + batch[8:] for i in range(size // len(batch)))


@pytest.mark.parametrize("batch_size", [200, 5000, 16384, 100_000, 3 << 20])
@pytest.mark.parametrize("count, codec", [(1, "none"), (37, "none"), (100, "gzip"), (5000, "none")])
def test_runs_longer_than_the_bytes_held_at_once(count, codec, batch_size):
    """An unfinished batch is continued with the next piece; no record is lost."""
    data = long_log(100_000 if codec == "gzip" else 2 << 20, count, codec=codec)
    result = convert(data, compression="none", batch_size=batch_size)
    before, after = kafkarec.decode(data), kafkarec.decode(result)
    assert after.column("offset") == before.column("offset") == list(range(len(before)))
    assert after.column("value") == before.column("value")
    sizes = [row["size_in_bytes"] for row in kafkarec.scan(result)]
    record = 150
    assert max(sizes) <= batch_size and min(sizes[:-1], default=batch_size) > batch_size - record


def test_payloads_that_grow_a_lot_are_decompressed_one_at_a_time():
    value = b"v" * 1_000_000
    batch = convert(plain_logs.batch(0, 1, value=value), compression="zstd")
    data = b"".join(struct.pack(">q", i) + batch[8:] for i in range(60))
    result, peak = peak_of(lambda: convert(data, magic=1, compression="gzip"))
    assert len(kafkarec.decode(result)) == 60 and peak < 20 << 20


def test_memory_stays_flat():
    """Measured by Python's allocations; the columns are in recycled pages."""
    data = long_log(10 << 20)
    for options in ({"compression": "lz4"}, {"batch_size": 1 << 16}, {"magic": 1}):
        written, peak = peak_of(lambda options=options: sum(map(len, converted_batches(data, **options))))
        assert written > 100_000 and peak < 8 << 20


@pytest.mark.parametrize(
    "options, words",
    [
        ({"magic": 3}, "magic 3"),
        ({"magic": True}, "magic True"),
        ({"magic": 1.0}, "magic 1.0"),
        ({"magic": 1, "compression": "zstd"}, "zstd is not supported in magic 1"),
        ({"compression": "brotli"}, "one of none, gzip"),
        ({"compression": "gzip", "level": 10}, "levels 1 to 9"),
        ({"compression": "snappy", "level": 1}, "no compression levels"),
        ({"level": 1}, "needs compression="),
        ({"batch_size": 0}, "1 or more"),
        ({"batch_size": "1k"}, "batch_size is an int"),
        ({"on_loss": "ignore"}, "one of count, raise"),
        ({"errors": "ignore"}, "one of raise, skip"),
    ],
)
def test_wrong_arguments_are_refused(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        convert(plain_logs.batch(0, 1), **options)


@pytest.mark.parametrize("codec, head", [("gzip", 10), ("snappy", 16), ("lz4", 7), ("zstd", 0)])
def test_the_payload_of_an_empty_batch_is_not_read(codec, head):
    """Readers only open the stream. The output has no codec: an empty stream would be refused."""
    stream = codecs.compress(codecs.BY_NAME[codec].id, b"")
    data = builders.batch([], last_offset_delta=3, codec=codec, payload=stream[:head] + b"and no stream")
    assert len(kafkarec.decode(data)) == 0
    for result in (convert(data, compression="none"), kafkarec.encode(kafkarec.decode(data), compression="keep")):
        (row,) = kafkarec.scan(result)
        assert (row["size_in_bytes"], row["compression"], row["last_offset"]) == (61, "none", 3)
        assert len(kafkarec.decode(result)) == 0


class Shrinking(io.BytesIO):
    """Is cut after so many reads."""

    reads = 1

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.reads -= 1
        if not self.reads:
            self.truncate(200)
        return data


@pytest.mark.parametrize(
    "rewrite",
    [convert, partial(convert, compression="lz4"), partial(convert, batch_size=10), kafkarec.compact],
)
def test_a_file_that_becomes_shorter_meanwhile_is_never_cut_output(rewrite):
    data = b"".join(plain_logs.batch(3 * number, 3, codec=codec) for number, codec in enumerate(builders.CODECS))
    refused = 0
    for reads in range(1, 12):
        file = Shrinking(data)
        file.reads = reads
        try:
            assert rewrite(kafkarec.open(file)) == rewrite(data)
        except kafkarec.CorruptRecordError as error:
            assert "shorter now" in str(error)
            refused += 1
    assert refused
