"""What `kafkarec.verify` returns: the data of `report_data`, printable as `report_text` writes it."""

from __future__ import annotations

from .report_data import ReportData
from .report_text import render


class Report(ReportData):
    """What `kafkarec.verify` found. `print(report)` is what the command line shows; `.to_dict()` is for JSON.

    path: str                     what was verified
    partitions                    one PartitionReport per log, worst first
    own_findings                  what holds for a data folder as a whole
    seconds: float                how long it took
    """

    __slots__ = ()

    def __str__(self) -> str:
        return render(self)
