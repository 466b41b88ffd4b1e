"""The objects of a partition's folder in a bucket, and segments that are appended to it

    partition.metadata  leader-epoch-checkpoint          for a new log only
    00000000000000000030.index  .timeindex  .snapshot    copied before their .log
    00000000000000000030.log

Producer snapshots are written for a new log only. Appending does not read the existing log, so it does not know all of
its producers; a broker rebuilds missing snapshots.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from . import folders
from .buckets import Bucket, ListedObject
from .publishing import WriteJob, leader_epoch
from .staging import TEMPORARY, StagedPartition

_SEGMENT = re.compile(r"[0-9]{20}\.(index|timeindex|txnindex|snapshot|log)")
_LAST = (1 << 62) - 1


class ExistingLog(NamedTuple):
    """A log to append to. end: its next offset. epoch: the leader epoch of its last batches."""

    name: str
    end: int
    epoch: int

    def accepts_unchanged(self, part: StagedPartition) -> bool:
        """Whether staged segments can follow it unchanged. ValueError where its offsets overlap theirs."""
        if part.first_offset < self.end:
            raise ValueError(
                f"{self.name}: offsets {part.first_offset} to {part.next_offset - 1} do not follow: the log goes on "
                f"at offset {self.end}"
            )
        return self.epoch == 0


def log_of(bucket: Bucket, job: WriteJob, name: str, listed: Sequence[ListedObject]) -> ExistingLog | None:
    """The log of a partition's folder, of which these objects are listed; None: it has no segments."""
    logs = [one for one in listed if _SEGMENT.fullmatch(one.name) and one.name.endswith(".log")]
    compressed = [one.name for one in listed if one.name.endswith((".log.gz", ".log.zst"))]
    if compressed:
        raise ValueError(f"{bucket.url}/{name}/{compressed[0]}: a log with compressed segment files is not appended to")
    if not logs:
        return None
    end = None
    for one in reversed(logs):
        end = _end(job, f"{bucket.url}/{name}/{one.name}") if one.size else None
        if end is not None:
            break
    epoch = leader_epoch(lambda file: bucket.read(f"{name}/{file}"))
    return ExistingLog(name, int(logs[-1].name[:20]) if end is None else end, epoch)


def _end(job: WriteJob, url: str) -> int | None:
    """The next offset after the last batch, read from the last index entry on; None: no batch. ValueError where the
    segment does not end with a whole batch."""
    import kafkarec

    segment = kafkarec.open(url, storage_options=dict(job.storage))
    assert isinstance(segment, kafkarec.Segment)
    with segment:
        tables = list(segment.between(segment.position_of(_LAST), segment.size).scan_pieces(errors="skip"))
    if any(table.damage for table in tables) or (tables and tables[-1].remaining):
        raise ValueError(f"{url} does not end with a whole batch: salvage this log first (kafkarec salvage)")
    found = [table[-1]["next_offset"] for table in tables if len(table)]
    return int(found[-1]) if found else None


def append(bucket: Bucket, job: WriteJob, folder: str, parts: Sequence[StagedPartition], start: int, epoch: int) -> int:
    """Writes staged segments as one log in a local folder; returns its next offset. Batches get their offsets and the
    log's leader epoch by a change of their headers outside of the checksum."""
    import kafkarec

    name, copy = parts[0].name, f"{folder}.copy"
    try:
        with kafkarec.SegmentWriter(
            folder,
            segment_bytes=job.settings.segment_bytes,
            assign_offsets=not parts[0].given,
            leader_epoch=epoch,
            start_offset=None if parts[0].given else start,
            check_all=False,
        ) as writer:
            for part in parts:
                staged = f"{TEMPORARY}/{job.job}/{part.folder}"
                for one in bucket.names(staged, below=False):
                    if one.name.endswith(".log"):
                        bucket.download(f"{staged}/{one.name}", copy)
                        for data in folders.batch_pieces(copy):
                            writer.append(data)
                        os.unlink(copy)
            return int(writer.next_offset)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def files(folder: str) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_file() and not entry.name.startswith("."))


def is_wanted(name: str, new: bool) -> bool:
    """Whether a file of a staged log is published. new: the log does not exist yet."""
    return new or (_SEGMENT.fullmatch(name) is not None and not name.endswith(".snapshot"))


def order(name: str) -> tuple[str, bool, str]:
    """Sort key of the order in which objects are copied: files of no segment, then each segment with its .log last."""
    return (name[:20] if _SEGMENT.fullmatch(name) else "", name.endswith(".log"), name)


def local_folder() -> str | None:
    """The folder for temporary files of this machine: the first writable one of SPARK_LOCAL_DIRS, else the system's."""
    found = (each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.access(each, os.W_OK))
    return next(found, tempfile.gettempdir())
