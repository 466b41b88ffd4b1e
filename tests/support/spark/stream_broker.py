"""A fake broker that changes partition folders while a stream reads them, and the expected rows."""

from __future__ import annotations

import os
from pathlib import Path

import log_cleaning
from stream_engine import Row

import kafkarec
from kafkarec import ControlRecordType, SegmentWriter
from kafkarec.format.control import EndTxnMarker

CODECS = ("none", "gzip", "lz4", "zstd", "snappy")


class Broker:
    """Writes partition folders below `root`; `rows` has their records."""

    def __init__(self, root: Path, segment_bytes: int = 2000):
        self.root, self.segment_bytes = root, segment_bytes
        self.writers = {}
        self.rows = {}
        root.mkdir(exist_ok=True)

    def writer(self, topic: str = "orders", partition: int = 0, **options) -> SegmentWriter:
        key = topic, partition
        if key not in self.writers:
            options = {"segment_bytes": self.segment_bytes, "start_offset": 0, **options}
            self.writers[key] = SegmentWriter(self.root / f"{topic}-{partition}", **options)
            self.rows.setdefault(key, [])
        return self.writers[key]

    def batch(self, count: int, topic: str = "orders", partition: int = 0, **options) -> tuple[bytes, list[Row]]:
        """Return the log's next batch, and its rows."""
        base = self.writer(topic, partition).next_offset
        rows = [(base + n, f"{topic}-{partition} {base + n}".encode()) for n in range(count)]
        records = [(offset, 1_700_000_000_000 + offset, None, value, []) for offset, value in rows]
        return bytes(kafkarec.encode(records, base_offset=None, **options)), rows

    def write(self, count: int, topic: str = "orders", partition: int = 0, **options):
        data, rows = self.batch(count, topic, partition, **options)
        self.writer(topic, partition).append(data)
        self.rows[topic, partition] += rows

    def fill(self, segments: int):
        """Write until the log of orders-0 has so many segments."""
        while len(self.log()) < segments:
            self.write(10)

    @property
    def offsets(self) -> list[int]:
        """Those of orders-0."""
        return [offset for offset, _ in self.rows["orders", 0]]

    def cleaned(self, begin: int, end: int) -> list[int]:
        """The offsets that orders-0 has when these segments are cleaned."""
        first, then = (int(self.log()[number].stem) for number in (begin, end))
        return [each for each in self.offsets if not first <= each < then - 1 or log_cleaning.third(each)]

    def begin_batch(self, cut: int, partition: int = 0, zeros: int = 0):
        """Write the first bytes of 20 records of orders, and zeros; return a function that writes the rest."""
        data, rows = self.batch(20, "orders", partition)
        writer = self.writer("orders", partition)
        with open(writer.segments[-1].path, "r+b") as file:
            file.seek(writer.position)
            file.write(data[:cut] + bytes(zeros))

        def finish():
            writer.append(data)
            self.rows["orders", partition] += rows

        return finish

    def log(self, topic: str = "orders", partition: int = 0) -> list[Path]:
        return sorted((self.root / f"{topic}-{partition}").glob("*.log"))

    def delete_first(self) -> int:
        """Delete the first segment of orders-0, as retention does; return the log's new start offset."""
        gone, then = self.log()[:2]
        gone.unlink()
        gone.with_suffix(".index").unlink()
        start = int(then.stem)
        self.rows["orders", 0] = [row for row in self.rows["orders", 0] if row[0] >= start]
        return start

    def truncate(self, to: int, topic: str = "orders"):
        """Truncate partition 0 at an offset, as a follower does; it must be a batch's base offset."""
        self.writers.pop((topic, 0)).close()
        for path in reversed(self.log(topic)):
            if int(path.stem) >= to and int(path.stem) > 0:
                path.unlink()
                continue
            with kafkarec.open(path) as segment:
                ends = [row["position"] for row in segment.scan() if row["base_offset"] >= to]
            if ends:
                os.truncate(path, ends[0])
            break
        self.rows[topic, 0] = [row for row in self.rows[topic, 0] if row[0] < to]

    def close(self):
        for writer in self.writers.values():
            writer.close()

    def write_in_transaction(self, producer_id: int, count: int):
        """Write records of a transaction to orders-0, which are not added to `rows`."""
        data, _ = self.batch(count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        self.writer().append(data)

    def end_transaction(self, producer_id: int, commit: bool):
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        base = self.writer().next_offset
        builder = kafkarec.RecordBatchBuilder(
            base_offset=base, producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
        )
        builder.append_control(1_700_000_000_000, EndTxnMarker(kind, int(kind), 0, 0))
        self.writer().append(builder.build())

    def visible(self) -> list[Row]:
        """Return the rows of orders-0 that a consumer with read_committed gets."""
        with kafkarec.open(self.root / "orders-0") as log:
            return [(record.offset, record.value) for record in log.read(isolation="read_committed", errors="skip")]
