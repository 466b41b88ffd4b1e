"""`write_log(df, path)`: records with offsets of their own to partition folders, each in the order of its offsets."""

from __future__ import annotations

from typing import Any

NEEDED = ("topic", "partition", "offset", "value")


def write_log(df: Any, path: str, *, mode: str = "append", **options: Any) -> None:
    """See `spark_udfs.write_log`."""
    missing = [name for name in NEEDED if name not in df.columns and not (name == "topic" and "topic" in options)]
    if missing:
        raise ValueError(
            f"write_log needs the column {', '.join(missing)}; records without offsets go through "
            f'df.write.format("kafkarec"), which assigns them'
        )
    order = [name for name in ("topic", "partition") if name in df.columns]
    ordered = df.repartition(*order).sortWithinPartitions(*order, "offset")
    writer = ordered.write.format("kafkarec").mode(mode)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(path)
