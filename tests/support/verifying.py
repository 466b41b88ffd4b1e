"""What the tests of verify have in common: partition folders by hand, and reports whose ranges tile the files."""

from __future__ import annotations

from pathlib import Path

import builders

from kafkarec.ops import verify
from kafkarec.ops.verify import Report


def assert_tiles(report: Report) -> None:
    """The ranges of each file cover it once, and its numbers add up to its size."""
    for file in report.files:
        at = 0
        for one in file.ranges:
            assert one.position == at and one.length > 0, (file.name, one)
            at += one.length
        assert at == file.size
        assert file.good_bytes + file.damaged_bytes + file.unreadable_bytes + file.remaining == file.size
    assert "tiling_broken" not in {one.kind for one in report.findings}


def kinds(report: Report, *severities: str) -> set[str]:
    wanted = severities or ("error", "anomaly")
    return {one.kind for one in report.findings if one.severity in wanted}


def made(tmp_path: Path, segments: dict[int, list[bytes]], name: str = "orders-0", **small: str) -> Path:
    """A partition folder: base offset -> batches; `small`: other files, _ for - in their names."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    for base, batches in segments.items():
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    for file, text in small.items():
        (folder / file.replace("_", "-")).write_text(text)
    return folder


def good(base: int, count: int = 5, **fields: object) -> bytes:
    return builders.good_batch(count, base_offset=base, **fields)


def verified(path: object, **options: object) -> Report:
    report = verify.verify(path, **options)  # type: ignore[arg-type]
    assert_tiles(report)
    return report


def sequenced(base: int, sequence: int, epoch: int = 0, count: int = 5, producer: int = 1) -> bytes:
    return good(base, count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
