"""Support for tests of verify: hand-made partition folders, and a check that a report's ranges cover each file."""

from __future__ import annotations

from pathlib import Path

import builders

from kafkarec import Report
from kafkarec.ops import verify


def assert_tiles(report: Report):
    """Assert that the ranges of each file cover it once, and that its numbers add up to its size."""
    for file in report.files:
        at = 0
        for one in file.ranges:
            assert one.position == at and one.length > 0, (file.name, one)
            at += one.length
        assert at == file.size
        assert file.good_bytes + file.damaged_bytes + file.unreadable_bytes + file.remaining == file.size
    assert "bytes_unaccounted" not in {one.kind for one in report.findings}


def kinds(report: Report, *severities: str) -> set[str]:
    wanted = severities or ("error", "anomaly")
    return {one.kind for one in report.findings if one.severity in wanted}


def made(tmp_path: Path, segments: dict[int, list[bytes]], name: str = "orders-0", **small: str) -> Path:
    """Write a partition folder: base offset -> batches; `small`: text files, _ for - in their names."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    for base, batches in segments.items():
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    for file, text in small.items():
        (folder / file.replace("_", "-")).write_text(text)
    return folder


def data_folder(folder: Path, **checkpoints: str) -> Path:
    """Make the folder that of a broker: meta.properties, and checkpoint files by the first word of their names, such as
    `cleaner="orders 0 40"`; "" is a file without entries."""
    folder.mkdir(exist_ok=True)
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name, text in checkpoints.items():
        add_checkpoint(folder, *text.splitlines(), name=name.replace("_", "-"))
    return folder


def add_checkpoint(folder: Path, *lines: str, name: str = "replication"):
    (folder / f"{name}-offset-checkpoint").write_text("".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)))


def good(base: int, count: int = 5, **fields) -> bytes:
    return builders.good_batch(count, base_offset=base, **fields)


def verified(path, **options) -> Report:
    report = verify.verify(path, **options)
    assert_tiles(report)
    return report


def sequenced(base: int, sequence: int, epoch: int = 0, producer: int = 1) -> bytes:
    return good(base, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
