"""Gaps that the report of `kafkarec salvage` beside a log lists: what was lost is known, and no new finding."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from kafkarec.sources.folders import LocalFolder
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.support.text_table import counted

from .findings import Findings
from .offset_checks import Gaps

_REPORT = "salvage.json"


class SalvagedGaps:
    """The (first, last) offsets that salvage.json lists for one log as lost, missing or set aside; first may be None.
    Adjacent ranges are joined."""

    def __init__(self, ranges: Iterable[tuple[int | None, int | None]]) -> None:
        self._ranges: list[tuple[int, int]] = []
        for first, last in sorted((first or 0, last) for first, last in ranges if last is not None):
            if self._ranges and first <= self._ranges[-1][1] + 1:
                first, before = self._ranges.pop()
                last = max(last, before)
            self._ranges.append((first, last))

    @classmethod
    def of(cls, log: PartitionFiles) -> SalvagedGaps:
        """Those in the folder above a partition folder; none if there is no such file."""
        if not isinstance(log.folder, LocalFolder):
            return cls(())
        above, name = os.path.split(os.path.abspath(log.folder.path))
        try:
            report = json.loads(LocalFolder(above).read(_REPORT) or b"{}")
            [one] = [one for one in report["partitions"] if one["folder"] == name]
            aside = [(each["first_offset"], each["last_offset"]) for each in one["set_aside"]]
            return cls([*one["lost"], *one["missing"], *aside])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return cls(())

    def take(self, gaps: Gaps, findings: Findings) -> None:
        """Removes the gaps that are listed, and adds a note about them."""
        listed = [gap for gap in gaps.listed if any(low <= gap.first and gap.last <= top for low, top in self._ranges)]
        gaps.remove(listed)
        if listed:
            count = counted(sum(gap.length for gap in listed), "offset")
            gaps_text = counted(len(listed), "gap")
            findings.add("gaps_salvaged", f"{count} in {gaps_text}, which {_REPORT} lists as lost or set aside")
