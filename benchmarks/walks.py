"""What each operation takes of a whole log: `python benchmarks/walks.py [--rounds N]`.

    small      200,000 batches of one record of 40 bytes, in transactions of five batches and a marker
    ordinary   5,000 batches of 100 records of 100 bytes that do not compress (12 KB)

Microseconds of processor time a batch, the least of all rounds; the files are in the page cache.
"""

from __future__ import annotations

import random
import tempfile
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from shared import least, machine, rounds_asked

import kafkarec
from kafkarec.ops.compact import cleaned
from kafkarec.ops.convert import converted_batches
from kafkarec.ops.diff import compare
from kafkarec.read.isolation import excluded
from kafkarec.storage.rebuild_folder import rebuild_side_files

NOW = 1_700_000_000_000


def small() -> bytes:
    log, offset = bytearray(), 0
    for number in range(200_000 // 6):
        producer: dict[str, Any] = {"producer_id": number % 50, "producer_epoch": 0, "is_transactional": True}
        for batch in range(5):
            row = (offset, NOW + offset, b"k%d" % (offset % 1000), b"v" * 40, ())
            log += kafkarec.encode([row], base_offset=offset, base_sequence=number // 50 * 5 + batch, **producer)
            offset += 1
        with kafkarec.RecordBatchBuilder(base_offset=offset, is_control=True, **producer) as marker:
            marker.append_end_txn_marker(NOW + offset, "commit" if number % 4 else "abort", 0)
            log += marker.build()
        offset += 1
    return bytes(log)


def ordinary() -> bytes:
    data = random.Random(1).randbytes(1 << 16)
    log = bytearray()
    for base in range(0, 500_000, 100):
        offsets = range(base, base + 100)
        rows = [(n, NOW + n, b"key%d" % (n % 5000), data[n * 37 % 60_000 :][:100], ()) for n in offsets]
        log += kafkarec.encode(rows, base_offset=base)
    return bytes(log)


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "scan": lambda log: log.scan(),
    "transactions": lambda log: log.transactions(),
    "what read_committed leaves out": lambda log: excluded(log.segments),
    "read": lambda log: log.read(),
    "read, read_committed": lambda log: log.read(isolation="read_committed"),
    "stream": lambda log: deque(log.stream(), 0),
    "reindex": lambda log: deque(rebuild_side_files(log), 0),
    "diff": lambda log: compare(log, kafkarec.open(log.path)),
    "compact": lambda log: deque(cleaned(log), 0),
    "convert to lz4": lambda log: deque(converted_batches(log, compression="lz4"), 0),
    "convert to zstd, 1 MiB": lambda log: deque(converted_batches(log, compression="zstd", batch_size=1 << 20), 0),
    "verify": lambda log: log.verify(),
}


def main() -> None:
    rounds = rounds_asked(__doc__, 5)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        logs = {}
        for name, made in (("small", small()), ("ordinary", ordinary())):
            path = Path(folder) / f"{name}-0"
            path.mkdir()
            (path / f"{0:020}.log").write_bytes(made)
            logs[name] = kafkarec.open(path), len(kafkarec.scan(made))
        print(f"{'':32}" + "".join(f"{name:>10}" for name in logs))
        for title, operation in OPERATIONS.items():
            seconds = least({name: partial(operation, log) for name, (log, _) in logs.items()}, rounds)
            print(f"{title:32}" + "".join(f"{seconds[name] * 1e6 / count:10.3f}" for name, (_, count) in logs.items()))


if __name__ == "__main__":
    main()
