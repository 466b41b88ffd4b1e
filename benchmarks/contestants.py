"""The contestants of `make bench`: name -> a function of one whole file of record batches.

Every decoder checks the CRC, reads offset, timestamp, key, value and headers of every record and returns the number of
records, which must be the same for all. The lower bounds (memcpy, crc, codec) read no records and return 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

Contestant = Callable[[bytes], int]

LENGTH_AT, ATTRIBUTES_AT, HEADER = 8, 21, 61


def frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields each batch as (position, end, codec id); the file must have whole batches only."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + LENGTH_AT)
        (attributes,) = struct.unpack_from(">h", data, position + ATTRIBUTES_AT)
        yield position, position + 12 + length, attributes & 7
        position += 12 + length


# ---- bounds ----------------------------------------------------------------------------------------------


def memcpy(data: bytes) -> int:
    bytearray(data)
    return 0


def crc(data: bytes) -> int:
    """The checksum of each batch, by one call of the library that kafkarec uses."""
    import crc32c

    view = memoryview(data)
    for position, end, _ in frames(data):
        crc32c.crc32c(view[position + ATTRIBUTES_AT : end])
    return 0


def codec(data: bytes) -> int:
    """Decompresses every payload with the libraries that kafkarec uses, one call each, and discards it."""
    import cramjam
    import lz4.frame
    import zstandard
    from isal import isal_zlib

    zstd = zstandard.ZstdDecompressor()

    def snappy(payload: memoryview) -> None:
        at = 16
        while at < len(payload):
            (size,) = struct.unpack_from(">i", payload, at)
            cramjam.snappy.decompress_raw(payload[at + 4 : at + 4 + size])
            at += 4 + size

    by_id: dict[int, Callable[[memoryview], object]] = {
        0: len,
        1: lambda payload: isal_zlib.decompress(payload, 31),
        2: snappy,
        3: lz4.frame.decompress,
        4: lambda payload: zstd.decompressobj().decompress(payload),
    }
    view = memoryview(data)
    for position, end, codec_id in frames(data):
        by_id[codec_id](view[position + HEADER : end])
    return 0


# ---- decoders --------------------------------------------------------------------------------------------


def kafkarec(data: bytes) -> int:
    """Decodes, exports to Arrow, reads one byte of every page of every column."""
    return _kafkarec(data, 1)


def kafkarec_2_threads(data: bytes) -> int:
    return _kafkarec(data, 2)


def _kafkarec(data: bytes, threads: int) -> int:
    import pyarrow as pa

    import kafkarec

    table = pa.table(kafkarec.decode(data, threads=threads))
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    bytes(memoryview(buffer)[::4096])
    return table.num_rows


def kafkarec_scan(data: bytes) -> int:
    """Headers only."""
    import kafkarec

    kafkarec.scan(data)
    return 0


def _visit(memory_records: type, data: bytes) -> int:
    batches, count = memory_records(data), 0
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("CRC")
        for record in batch:
            count += 1
            record.offset, record.timestamp, record.key, record.value, record.headers  # noqa: B018
    return count


def aiokafka(data: bytes) -> int:
    from aiokafka.record.memory_records import MemoryRecords

    return _visit(MemoryRecords, data)


def kafka_python(data: bytes) -> int:
    from kafka.record.memory_records import MemoryRecords

    return _visit(MemoryRecords, data)


BOUNDS: dict[str, Contestant] = {"memcpy": memcpy, "crc": crc, "codec": codec}
OURS: dict[str, Contestant] = {
    "kafkarec": kafkarec,
    "kafkarec, 2 threads": kafkarec_2_threads,
    "kafkarec scan": kafkarec_scan,
}
PEERS: dict[str, Contestant] = {"aiokafka": aiokafka}
SLOW_PEERS: dict[str, Contestant] = {"kafka-python": kafka_python}
