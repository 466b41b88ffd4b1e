"""What lies in a partition's folder in a bucket, and segments that are written behind it

    partition.metadata  leader-epoch-checkpoint          with a log that is new
    00000000000000000030.index  .timeindex  .snapshot    in front of their log
    00000000000000000030.log

Snapshots of producers come with a log that is new and not with what is appended: the one in front of the last segment
may know producers that the appending has not read, and a broker makes the others anew.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from . import folders
from .buckets import Bucket, Listed
from .publishing import Job, leader_epoch
from .staging import TEMPORARY, Staged

_SEGMENT = re.compile(r"[0-9]{20}\.(index|timeindex|txnindex|snapshot|log)")
_LAST = (1 << 62) - 1


class Log(NamedTuple):
    """A log that is there. end: its next offset. epoch: of its last leader."""

    name: str
    end: int
    epoch: int

    def fits(self, part: Staged) -> bool:
        """Whether a staged part can stand behind it as it is. ValueError: its offsets are taken."""
        if part.first_offset < self.end:
            raise ValueError(
                f"{self.name}: offsets {part.first_offset} to {part.next_offset - 1} do not follow: the log goes on "
                f"at offset {self.end}"
            )
        return self.epoch == 0


def log_of(bucket: Bucket, job: Job, name: str, there: Sequence[Listed]) -> Log | None:
    """None: there are no segments."""
    logs = [one for one in there if _SEGMENT.fullmatch(one.name) and one.name.endswith(".log")]
    packed = [one.name for one in there if one.name.endswith((".log.gz", ".log.zst"))]
    if packed:
        raise ValueError(f"{bucket.url}/{name}/{packed[0]}: a log with packed segments is not written to")
    if not logs:
        return None
    end = None
    for one in reversed(logs):
        end = _end(job, f"{bucket.url}/{name}/{one.name}") if one.size else None
        if end is not None:
            break
    epoch = leader_epoch(lambda file: bucket.read(f"{name}/{file}"))
    return Log(name, int(logs[-1].name[:20]) if end is None else end, epoch)


def _end(job: Job, url: str) -> int | None:
    """Behind the last batch, from the last entry of the index on. ValueError where the log does not end with one."""
    import kafkarec

    segment = kafkarec.open(url, storage_options=dict(job.storage))
    assert isinstance(segment, kafkarec.Segment)
    with segment:
        tables = list(segment.between(segment.position_of(_LAST), segment.size).scan_pieces(errors="skip"))
    if any(table.damage for table in tables) or (tables and tables[-1].remaining):
        raise ValueError(f"{url} does not end with a whole batch: salvage this log first (kafkarec salvage)")
    found = [table[-1]["next_offset"] for table in tables if len(table)]
    return int(found[-1]) if found else None


def append(
    bucket: Bucket, job: Job, folder: str, parts: Sequence[Staged], start: int, epoch: int
) -> int:
    """Writes staged parts one behind the other as a log of its own in a local folder; gives its next offset. Batches
    get their offsets and the log's leader epoch in their headers, outside of the checksum."""
    import kafkarec

    name, copy = parts[0].name, f"{folder}.copy"
    try:
        with kafkarec.SegmentWriter(
            folder, segment_bytes=job.settings.segment_bytes, assign_offsets=not parts[0].given, leader_epoch=epoch,
            start_offset=None if parts[0].given else start, check_all=False,
        ) as writer:  # fmt: skip
            for part in parts:
                staged = f"{TEMPORARY}/{job.job}/{part.folder}"
                for one in bucket.names(staged, below=False):
                    if one.name.endswith(".log"):
                        bucket.download(f"{staged}/{one.name}", copy)
                        for data in folders.pieces(copy):
                            writer.append(data)
                        os.unlink(copy)
            return int(writer.next_offset)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def files(folder: str) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_file() and not entry.name.startswith("."))


def is_wanted(name: str, new: bool) -> bool:
    """new: of a log that is not there yet."""
    return new or (_SEGMENT.fullmatch(name) is not None and not name.endswith(".snapshot"))


def order(name: str) -> tuple[str, bool, str]:
    """By which objects come: what belongs to no segment, then segment by segment, its .log at last."""
    return (name[:20] if _SEGMENT.fullmatch(name) else "", name.endswith(".log"), name)


def local_folder() -> str | None:
    """Where a task or the driver may write a job's bytes on its own disk: Spark's, else the system's."""
    found = (each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.access(each, os.W_OK))
    return next(found, tempfile.gettempdir())
