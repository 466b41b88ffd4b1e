"""The objects of a partition's folder in a bucket, and segments that are appended to it

    partition.metadata  leader-epoch-checkpoint          for a new log only
    00000000000000000030.index  .timeindex  .snapshot    copied before their .log
    00000000000000000030.log

Producer snapshots are written for a new log only. Appending does not read the existing log, and without it the
producers are not known; a broker rebuilds missing snapshots.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from . import folders
from .buckets import Bucket, ListedObject
from .staging import EMPTY_LOG, TEMPORARY, StagedPartition, WriteJob

_SEGMENT = re.compile(r"[0-9]{20}\.(index|timeindex|txnindex|snapshot|log)")
_LAST = (1 << 62) - 1


class ExistingLog(NamedTuple):
    """A log to append to. end: its next offset. epoch: the leader epoch of its last batches."""

    name: str
    end: int
    epoch: int

    def accepts_unchanged(self, part: StagedPartition) -> bool:
        """Whether staged segments can be appended unchanged. ValueError if their offsets overlap those of this log."""
        if part.first_offset < self.end:
            raise ValueError(
                f"{self.name}: offsets {part.first_offset} to {part.next_offset - 1} do not follow: the next offset "
                f"of the log is {self.end}"
            )
        return self.epoch == 0


def log_of(bucket: Bucket, job: WriteJob, name: str, listed: Sequence[ListedObject]) -> ExistingLog | None:
    """The log of a partition's folder, from the objects listed in it; None: it has no segments, or only the
    empty one that an overwrite has left, which a new log replaces."""
    logs = [one for one in listed if _SEGMENT.fullmatch(one.name) and one.name.endswith(".log")]
    compressed = [one.name for one in listed if one.name.endswith((".log.gz", ".log.zst"))]
    if compressed:
        raise ValueError(f"{bucket.url}/{name}/{compressed[0]}: cannot append to a log with compressed segment files")
    if not logs or (logs[-1].name == EMPTY_LOG and not logs[-1].size):
        return None
    end = None
    for one in reversed(logs):
        end = _end(job, f"{bucket.url}/{name}/{one.name}") if one.size else None
        if end is not None:
            break
    epoch = folders.leader_epoch(lambda file: bucket.read(f"{name}/{file}"))
    return ExistingLog(name, int(logs[-1].name[:20]) if end is None else end, epoch)


def _end(job: WriteJob, url: str) -> int | None:
    """The next offset after the last batch, read from the last index entry on; None: there is no batch. ValueError if
    the segment does not end with a whole batch."""
    import kafkarec

    segment = kafkarec.open(url, storage_options=dict(job.storage))
    assert isinstance(segment, kafkarec.Segment)
    with segment:
        tables = list(segment.between(segment.position_of(_LAST), segment.size).scan_pieces(errors="skip"))
    if any(table.damage for table in tables) or (tables and tables[-1].remaining):
        raise ValueError(f"{url} does not end with a whole batch: salvage this log first (kafkarec salvage)")
    ends = [table[-1]["next_offset"] for table in tables if len(table)]
    return int(ends[-1]) if ends else None


def append(bucket: Bucket, job: WriteJob, folder: str, parts: Sequence[StagedPartition], start: int, epoch: int) -> int:
    """Writes staged segments as one log in a local folder; returns its next offset. Batches get their offsets and the
    log's leader epoch in header fields that the checksum does not cover."""
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


def temporary_folder() -> str | None:
    """The folder for temporary files of this machine: the first writable one of SPARK_LOCAL_DIRS, else the system's."""
    writable = (each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.access(each, os.W_OK))
    return next(writable, tempfile.gettempdir())
