"""What verify reports: its kinds of findings, and a check that its ranges cover each file."""

from __future__ import annotations

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


def verified(path, **options) -> Report:
    report = verify.verify(path, **options)
    assert_tiles(report)
    return report
