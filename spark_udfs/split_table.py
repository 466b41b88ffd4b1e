"""`splits(spark, path)`: what each task of a read would read, as a table; Spark's explain() cannot show it.

The plan of a Python data source has the source's name and its columns only (PythonScan.description).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .read_functions import plan, planned, texts
from .source import description, options

_SHOWN = 20


@dataclass(frozen=True)
class SplitTable:
    """The splits of a read. Printable.

    rows: one dict per split: task, topic, partition, file, begin, end (positions of bytes; None: to the file's end)
    summary: path, options, and how much there is
    """

    rows: tuple[dict[str, Any], ...]
    summary: str

    def __str__(self) -> str:
        lines = [self.summary]
        for row in self.rows[:_SHOWN]:
            name = "" if row["topic"] is None else f"{row['topic']}-{row['partition']}  "
            end = "the end" if row["end"] is None else row["end"]
            lines.append(f"  task {row['task']}  {name}bytes {row['begin']} to {end} of {row['file']}")
        if len(self.rows) > _SHOWN:
            lines.append(f"  and {len(self.rows) - _SHOWN} splits more")
        return "\n".join(lines)

    __repr__ = __str__


def splits(spark: Any, path: str | Iterable[str], **given: Any) -> SplitTable:
    """See `spark_udfs.splits`."""
    chosen = options.parse(texts(path, given), "read")
    tasks = planned(spark, plan, chosen)
    rows = tuple(
        {
            "task": number,
            "topic": split.topic,
            "partition": split.partition,
            "file": description.location(split.path),
            "begin": split.begin,
            "end": split.end,
        }
        for number, task in enumerate(tasks)
        for split in task
    )
    return SplitTable(rows, description.of_tasks(chosen, tasks))
