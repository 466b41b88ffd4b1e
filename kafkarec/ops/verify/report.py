"""The result of `kafkarec.verify`: ReportData with a text form."""

from __future__ import annotations

from .report_data import ReportData
from .report_text import render


class Report(ReportData):
    """The result of `kafkarec.verify`. `print(report)` prints the text of the command line; `.to_dict()` is for JSON.

    path: str                     the verified path
    partitions                    one PartitionReport per log, worst first
    own_findings                  findings about a data folder as a whole
    seconds: float                duration
    """

    __slots__ = ()

    def __str__(self) -> str:
        return render(self)
