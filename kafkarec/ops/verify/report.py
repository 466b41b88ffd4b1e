"""The result of `kafkarec.verify`: ReportData with a text form."""

from __future__ import annotations

from typing import Any

from kafkarec._version import __version__
from kafkarec.report import text

from .advice import next_steps
from .report_data import ReportData
from .report_document import document


class Report(ReportData):
    """The result of `kafkarec.verify`. `print(report)` prints the text of the command line; `.to_dict()` is for JSON.

    path: str                     the verified path
    partitions                    one PartitionReport per log, worst first
    own_findings                  findings about a data folder as a whole
    seconds: float                duration
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """All data as dicts, lists, strings and numbers. next: the commands that the text ends with."""
        return {"kafkarec": __version__, **super().to_dict(), "next": next_steps(self)}

    def __str__(self) -> str:
        return "".join(text(document(self)))
