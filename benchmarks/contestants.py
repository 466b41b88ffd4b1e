"""The contestants of `make bench`.

Every decoder checks the CRC, reads offset, timestamp, key, value and headers of every record and returns the number of
records, which must be the same for all. `libraries` and `scan` read no records and return 0.
"""

from __future__ import annotations

import math
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jvm_oracle

LENGTH_AT, ATTRIBUTES_AT, HEADER = 8, 21, 61
# In a row: while others ran, the system may have taken the memory of the run before.
LEAST_RUNS = 3


class Input(NamedTuple):
    path: Path
    data: bytes


class Contestant(NamedTuple):
    """run: decodes all of the data, returns the number of records. before: called before each run, untimed. clock:
    processor time, which other work on the machine changes least."""

    run: Callable[[bytes], int]
    before: Callable[[], object] | None = None
    clock: Callable[[], float] = time.process_time

    def best(self, given: Input, least: float) -> tuple[float, int]:
        """(seconds of the fastest run, records); runs until `least` seconds have passed, at least LEAST_RUNS times."""
        fastest, records, runs, end = math.inf, 0, 0, time.perf_counter() + least
        while runs < LEAST_RUNS or time.perf_counter() < end:
            runs += 1
            if self.before:
                self.before()
            began = self.clock()
            records = self.run(given.data)
            fastest = min(fastest, self.clock() - began)
        return fastest, records


class Java(jvm_oracle.Jvm):
    """Kafka's own classes: `best` asks Decode.java."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("Decode.java")
        command = [str(jvm_oracle.tool("java")), "-Xmx2g", "-cp", f"{jvm_oracle.JARS}/*", str(program)]
        self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def best(self, given: Input, least: float) -> tuple[float, int]:
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        self._jvm.stdin.write(f"{least} {given.path}\n".encode())
        self._jvm.stdin.flush()
        seconds, records = self._jvm.stdout.readline().split()
        return float(seconds), int(records)


def frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields each batch as (position, end, codec id); the file must have whole batches only."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + LENGTH_AT)
        (attributes,) = struct.unpack_from(">h", data, position + ATTRIBUTES_AT)
        yield position, position + 12 + length, attributes & 7
        position += 12 + length


def libraries(data: bytes) -> int:
    """Checksum and decompression by one call each of the libraries that kafkarec uses, in a loop of Python over the
    batches; of an uncompressed payload a copy."""
    import cramjam
    import crc32c
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
        0: bytes,
        1: lambda payload: isal_zlib.decompress(payload, 31),
        2: snappy,
        3: lz4.frame.decompress,
        4: lambda payload: zstd.decompressobj().decompress(payload),
    }
    view = memoryview(data)
    for position, end, codec_id in frames(data):
        crc32c.crc32c(view[position + ATTRIBUTES_AT : end])
        by_id[codec_id](view[position + HEADER : end])
    return 0


# ---- decoders --------------------------------------------------------------------------------------------


def kafkarec(data: bytes, **options: Any) -> int:
    """Decodes, exports to Arrow, reads one byte of every page of every column that was made: a view's value stays in
    the input, where Kafka's classes do not read it either."""
    import pyarrow as pa

    import kafkarec

    table = pa.table(kafkarec.decode(data, **options))
    given = pa.py_buffer(data)
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None and not 0 <= buffer.address - given.address < given.size:
                    bytes(memoryview(buffer)[::4096])
    return table.num_rows  # type: ignore[no-any-return]


def read(records: Iterable[Any]) -> int:
    """Reads the fields of each."""
    count = 0
    for record in records:
        count += 1
        record.offset, record.timestamp, record.key, record.value, record.headers  # noqa: B018
    return count


def records(data: bytes) -> int:
    import kafkarec

    return read(kafkarec.decode(data))


def tuples(data: bytes) -> int:
    import kafkarec

    return len(kafkarec.decode(data).tuples())


def scan(data: bytes) -> int:
    import kafkarec

    kafkarec.scan(data)
    return 0


def checksums(data: bytes) -> int:
    """Header and checksum of each batch, in one call: what each decoder does that checks them."""
    from kafkarec._core import Source
    from kafkarec.read.decode_options import ALL_CHECKS, scan_request

    headers = scan_request("raise")
    headers._replace(options=headers.options._replace(check_crc=ALL_CHECKS)).decoders.read(Source(data))
    return 0


_copied = bytearray()


def copies(data: bytes) -> int:
    """As `checksums`, then each payload copied to memory that is used again: what each decoder does that returns copies
    of values of which the checksum is right."""
    view = memoryview(data)
    if len(_copied) < len(data):
        _copied.extend(bytes(len(data) - len(_copied)))
    checksums(data)
    _copied[: len(data)] = view
    return 0


def release_memory() -> None:
    import kafkarec

    kafkarec.release_memory()


def _visit(memory_records: type, data: bytes) -> int:
    batches, count = memory_records(data), 0
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("CRC")
        count += read(batch)
    return count


def aiokafka(data: bytes) -> int:
    from aiokafka.record.memory_records import MemoryRecords

    return _visit(MemoryRecords, data)


def kafka_python(data: bytes) -> int:
    from kafka.record.memory_records import MemoryRecords

    return _visit(MemoryRecords, data)


OURS, BOUND, JAVA, SLOW = "kafkarec", "libraries alone", "Kafka's classes", "kafka-python"
FIELD: dict[str, Contestant] = {
    BOUND: Contestant(libraries),
    OURS: Contestant(kafkarec),
    "aiokafka": Contestant(aiokafka),
    SLOW: Contestant(kafka_python),
}
PEERS = (JAVA, "aiokafka", SLOW)
# how `decode` is called -> the contestant
CALLS: dict[str, Contestant] = {
    '`columns=["offset", "timestamp"]`': Contestant(partial(kafkarec, columns=["offset", "timestamp"])),
    '`columns=["value"]`': Contestant(partial(kafkarec, columns=["value"])),
    '`layout="view"`': Contestant(partial(kafkarec, layout="view")),
    "`check_crcs=False`": Contestant(partial(kafkarec, check_crcs=False)),
    "into new memory, as when results are kept": Contestant(kafkarec, release_memory),
    "rows: `tuples()`": Contestant(tuples),
    "rows: each field of each `Record`": Contestant(records),
    "`scan`: headers of batches only": Contestant(scan),
    "floor: headers and checksums of batches": Contestant(checksums),
    "floor: these, and one copy of all bytes": Contestant(copies),
    "elapsed time": Contestant(kafkarec, clock=time.perf_counter),
    "elapsed time, `threads=2`": Contestant(partial(kafkarec, threads=2), clock=time.perf_counter),
}
