"""Files of a gigabyte and more: `python benchmarks/files.py [folder]` (needs 3.2 GB there; default: a temporary one).

    header scan of 1 GiB of 16 KiB batches   by pread, and of a memory map with its pages in place
    reading over gaps or skipping them       128 MiB by reads of 1 MiB, or of 64 bytes so far apart
    a 2 GiB segment of all codecs streamed   seconds, records, the peak of anonymous memory

The first and the last file are made of real batches with base offsets patched, and read once before they are timed:
warm page cache. Prints the best of five rounds. docs/explanation/design.md quotes figures.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafkarec

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT / "examples" / "data" / "all-codecs-0" / f"{0:020}.log"
GIB = 1 << 30
ROUNDS = 5


def write_repeated(path: Path, batches: list[bytes], records: int, size: int) -> None:
    """Writes the batches repeatedly with consecutive base offsets; `records`: offsets per repetition."""
    with open(path, "wb") as file:
        base = 0
        while file.tell() < size:
            for batch in batches:
                first = struct.unpack_from(">q", batch)[0]
                file.write(struct.pack(">q", base + first) + batch[8:])
            base += records


def large_batch() -> bytes:
    """A real header over one record of 16,200 bytes, with a valid checksum."""
    import crc32c

    body = bytes([0, 0, 0, 1]) + varint(16_200) + b"v" * 16_200 + b"\0"
    record = varint(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    head = struct.pack(">iBI", 0, 2, crc32c.crc32c(tail))
    return struct.pack(">qi", 0, len(head) + len(tail)) + head + tail


def varint(value: int) -> bytes:
    raw, out = value << 1, bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def best(run: Callable[[], Any]) -> float:
    """Milliseconds."""
    run()
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        found.append((time.perf_counter() - start) * 1e3)
    return min(found)


def anonymous_mib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("RssAnon"))


def scans(folder: Path) -> None:
    path = folder / f"{0:020}.log"
    write_repeated(path, [large_batch()], 1, GIB)
    segment, count = kafkarec.open(path), path.stat().st_size >> 14
    print(f"header scan, {path.stat().st_size / GIB:.2f} GiB, {count} batches, ms")
    print(f"  pread            {best(segment.scan):7.1f}")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        print(f"  scan(buffer)     {best(lambda: kafkarec.scan(memory)):7.1f}")
    path.unlink()


def gaps(folder: Path) -> None:
    """Where a header scan should read what is between two headers: see HEADER_WINDOW and FAR_APART of _c/input.pxd."""
    path = folder / "gaps"
    path.write_bytes(bytes(1 << 27))
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        for size, apart in ((1 << 20, 1 << 20), (64, 4 << 10), (64, 12 << 10), (64, 32 << 10), (64, 100 << 10)):
            found = []
            for in_cache in (False, True) * ROUNDS:
                if not in_cache:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                start = time.perf_counter()
                for position in range(0, 1 << 27, apart):
                    os.pread(file.fileno(), size, position)
                found.append((time.perf_counter() - start) * 1e3)
            print(
                f"  {size:7} of {apart:7} bytes: {min(found[::2]):7.1f} ms, in the page cache {min(found[1::2]):6.1f}"
            )
    path.unlink()


def streams(folder: Path) -> None:
    data = REAL.read_bytes()
    rows = list(kafkarec.scan(data))
    batches = [data[row["position"] : row["position"] + row["size_in_bytes"]] for row in rows]
    path = folder / f"{0:020}.log"
    write_repeated(path, batches, rows[-1]["next_offset"], 2 * GIB - len(data))
    records = peak = 0
    start = time.perf_counter()
    for number, piece in enumerate(kafkarec.open(path).stream()):
        records += len(piece)
        if number % 64 == 0:
            peak = max(peak, anonymous_mib())
    seconds = time.perf_counter() - start
    size = path.stat().st_size / GIB
    print(f"stream, {size:.2f} GiB: {records} records in {seconds:.1f} s, RssAnon at most {peak} MiB")
    path.unlink()


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        scans(Path(folder))
        gaps(Path(folder))
        streams(Path(folder))


if __name__ == "__main__":
    main()
