"""Parses the names of partition folders, of segments and of their side files. No I/O.

    a broker's data folder (log.dirs)            what a broker renames a partition folder to
      orders-7/                                    orders-7.<32 hex digits>-delete   (-stray, -future)
        00000000000000000030.log                 what it renames a file to
        00000000000000000030.index                 00000000000000000030.log.deleted  (.cleaned, .swap)
        00000000000000000120-0000000003.checkpoint   a KRaft snapshot: next offset, epoch

    tiered storage (KIP-405), names of objects by plugin; a uuid is 22 characters of base64url
      <prefix>orders-<topic uuid>/7/00000000000000000030-<segment uuid>.log      Aiven's plugin
      orders-7-<topic uuid>/00000000000000000030-<segment uuid>.log              Kafka's LocalTieredStorage
    flat copies
      orders-7-00000000000000000030.log          (or _ or . before the offset)
    and each of these compressed as a whole: 00000000000000000030.log.gz, .zst

Rules of LocalLog.parseTopicPartitionName, LogFileUtils, Snapshots and LogLoader (Kafka 4.4), and of
ObjectKeyFactory of Aiven's plugin. Matching is stricter than in a broker: `backup-2024-01` is no partition, as brokers
never write a leading zero, and a topic must have only characters and a length that Kafka allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from kafkarec.format.java_integers import INT_MAX, LONG_MAX

# Kinds of what is left out: a name that is not one of Kafka's; a folder or file that could not be read; a folder that
# a broker removed or renamed after its parent was listed; a compressed copy of a segment that is read.
FOREIGN, UNREADABLE, REMOVED, COPY = "foreign", "unreadable", "removed", "copy"

ALWAYS_COMPACTED = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Topics that the log cleaner compacts in every cluster."""
_TOPIC_MAX = 249
# A file system's limit: a longer name with its suffix makes the broker cut the topic (not for -future).
_NAME_MAX = 255

_TOPIC = r"[a-zA-Z0-9._-]+"
_NUMBER = r"0|[1-9][0-9]{0,9}"
# 128 bits in 22 characters of 6 bits leave the last 4 bits zero, so no uuid ends with a digit.
_UUID = r"[a-zA-Z0-9_-]{21}[AQgw]"
_WIDE_UUID = rf"{_UUID}|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}"

_FOLDER = re.compile(rf"(?P<topic>{_TOPIC})-(?P<partition>{_NUMBER})(?:\.[^.\s]+-(?P<state>delete|future|stray))?")
_TIERED_TOPIC = re.compile(rf"(?P<topic>{_TOPIC})-(?P<topic_id>{_UUID})")
_TIERED_PARTITION = re.compile(rf"(?P<topic>{_TOPIC})-(?P<partition>{_NUMBER})-(?P<topic_id>{_UUID})")
_PARTITION = re.compile(_NUMBER)
_SEGMENT = re.compile(
    rf"(?:(?P<topic>{_TOPIC})-(?P<partition>{_NUMBER})[-_.])?"
    rf"(?P<offset>[0-9]{{20}})(?:-(?:(?P<epoch>[0-9]{{10}})|(?P<segment_id>{_WIDE_UUID})))?"
    r"(?:-[0-9]+)?"  # Files.createTempFile's number in a .checkpoint.part
    r"(?P<suffix>\.[a-z_-]+)(?P<packed_suffix>\.gz|\.zst)?(?P<state>\.deleted|\.cleaned|\.swap|\.part)?"
)


class SideFileKind(NamedTuple):
    """A kind of file beside a segment. kind: one word; what: its name in a sentence; content: what it contains;
    is_dumped: whether kafkarec dump, as Kafka's tool, prints it."""

    kind: str
    what: str
    content: str
    is_dumped: bool = False


SIDECARS: dict[str, SideFileKind] = {
    ".index": SideFileKind("index", "an offset index", "where in its .log file an offset is", True),
    ".timeindex": SideFileKind("timeindex", "a time index", "from which offset on a time is reached", True),
    ".txnindex": SideFileKind(
        "txnindex", "a transaction index", "the aborted transactions that end in its .log file", True
    ),
    ".snapshot": SideFileKind(
        "snapshot", "a producer snapshot", "the producers' epochs and sequences before this offset", True
    ),
    ".leader_epoch_checkpoint": SideFileKind(
        "epochs", "the leader epochs of a tiered segment", "up to its end, as Kafka's LocalTieredStorage writes them"
    ),
    ".indexes": SideFileKind(
        "indexes", "the indexes of a tiered segment", "in one object, as Aiven's plugin writes them"
    ),
    ".rsm-manifest": SideFileKind(
        "manifest", "the manifest of a tiered segment", "how its .log object is chunked and encoded"
    ),
}
"""Suffix of a file beside a segment -> its kind."""

INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")

PACKED_SUFFIXES: dict[str, str] = {".gz": "gzip", ".zst": "zstd"}
"""Suffix of a file that holds a segment compressed as a whole -> codec."""

# Suffix of a file that is not in use -> (kind, what it is, why it is left out).
_STATES: dict[str, tuple[str, str, str]] = {
    ".deleted": (
        "deleted",
        "a segment's file that the broker has replaced or expired (retention, compaction, truncation) and removes a "
        "minute later",
        "left out, as its records that are still valid are in the .log files; if those are lost, it may be the last "
        "copy: name the file itself to read it",
    ),
    ".cleaned": (
        "cleaned",
        "a file that the log cleaner (or a split) was writing when it was interrupted",
        "left out, as it may end anywhere and its source, the .log files, is still complete; a broker deletes it when "
        "it starts",
    ),
    ".swap": (
        "swap",
        "a complete replacement whose renaming was interrupted",
        "left out, as the .log files that it replaces have the same offsets uncompacted; a broker that starts removes "
        "those and renames this to .log (unless the folder has a .cleaned file of the same or a lower offset: then it "
        "deletes the .swap); if those are gone, this is their content: name the file itself to read it",
    ),
    ".part": (
        "part",
        "a KRaft snapshot that was being written",
        "left out, as it may end anywhere; the controller deletes it when it starts",
    ),
}
_CHECKPOINT_DELETED = (
    "deleted",
    "a KRaft snapshot that a later one has replaced and that the controller is about to remove",
    "left out; name the file itself to read it",
)

FOLDER_STATES: dict[str, str] = {
    "delete": "a partition that was deleted (with its topic, or because it moved to another disk or broker); its files "
    "are removed a minute later, so copy them first; left out, name the folder itself to read it",
    "stray": "a partition that, by the cluster's metadata, this broker should not have; the broker has renamed it and "
    "keeps it until an operator deletes it; left out, name the folder itself to read it",
    "future": "a copy of a partition that is being moved from another disk of the same broker; until the copy is "
    "complete the other folder is the partition, so this one is left out; name the folder itself to read it",
}

# Files that brokers write beside segments, and in a data folder only.
OF_A_PARTITION = {
    "leader-epoch-checkpoint": "the first offset of each leader epoch (KIP-101)",
    "partition.metadata": "the topic's id",
}
OF_A_BROKER = {
    "meta.properties": "the ids of cluster, node and data folder",
    "recovery-point-offset-checkpoint": "the offset up to which each partition is known to be flushed to the disk",
    "log-start-offset-checkpoint": "the log start offset of each partition in which DeleteRecords has raised it",
    "replication-offset-checkpoint": "the high watermark of each partition",
    "cleaner-offset-checkpoint": "the offset up to which each compacted partition is cleaned",
    ".kafka_cleanshutdown": "a mark of a clean shutdown; if it is missing, the broker recovers the logs when it starts",
}
TEXT_FILES = {
    **OF_A_PARTITION,
    **OF_A_BROKER,
    "quorum-state": "the leader and epoch that this KRaft voter or observer knows, and its vote",
    "salvage.json": "the report of kafkarec salvage: what was copied from where, and what was lost",
}
FILES: dict[str, str] = {
    **TEXT_FILES,
    ".lock": "locked by the process that uses this data folder",
    ".kafkarec.lock": "locked by the kafkarec.SegmentWriter that writes in this folder, or left by a killed one",
    "bootstrap.checkpoint": "the first records of the cluster's metadata; kafkarec reads it like a segment",
    "remote-log-index-cache": "indexes of tiered segments that the broker fetched; a cache",
}
"""Name of a file in a partition folder or a data folder -> what it contains."""


class FolderName(NamedTuple):
    """A partition folder. state: "" or a key of FOLDER_STATES. cut: the broker cut off the end of the topic's name."""

    topic: str
    partition: int
    state: str = ""
    topic_id: str | None = None
    cut: bool = False


class SegmentName(NamedTuple):
    """The name of a segment or of one of its side files.

    base_offset   the number in the name: the base offset; of a .checkpoint and .snapshot the next offset
    suffix        ".log", ".checkpoint", or a key of SIDECARS
    state         "" or ".deleted", ".cleaned", ".swap", ".part"
    packed_suffix "" or a key of PACKED_SUFFIXES
    stem          the part of the name that all files of one segment share
    epoch         of a .checkpoint, else None
    segment_id    uuid of a tiered segment, else None
    topic, partition   of a flat copy, else None
    """

    base_offset: int
    suffix: str
    state: str
    packed_suffix: str
    stem: str
    epoch: int | None
    segment_id: str | None
    topic: str | None
    partition: int | None

    @property
    def is_of_log(self) -> bool:
        """Whether it holds record batches and is part of its log."""
        return self.suffix in (".log", ".checkpoint") and not self.state


class NameMeaning(NamedTuple):
    """The meaning of a file's or folder's name. kind: one word, for programs; sentence: for people."""

    kind: str
    sentence: str


def folder(name: str) -> FolderName | None:
    """Parses a partition folder's name, such as `orders-7`, `orders-7.<id>-delete` or `orders-7-<uuid>`; None for any
    other name."""
    tiered = _TIERED_PARTITION.fullmatch(name)
    if tiered and _is_plausible(tiered):
        return FolderName(tiered["topic"], int(tiered["partition"]), topic_id=tiered["topic_id"])
    match = _FOLDER.fullmatch(name)
    if match is None or not _is_plausible(match):
        return None
    state = match["state"] or ""
    return FolderName(match["topic"], int(match["partition"]), state, cut=bool(state) and len(name) == _NAME_MAX)


def tiered_topic(name: str) -> tuple[str, str] | None:
    """(topic, topic uuid) of `orders-<topic uuid>`, the folder over the partitions in tiered storage."""
    match = _TIERED_TOPIC.fullmatch(name)
    return (match["topic"], match["topic_id"]) if match and _is_plausible(match) else None


def tiered_partition(name: str) -> int | None:
    """The partition of a folder whose name is the partition number alone, as below a tiered topic's folder."""
    return int(name) if _PARTITION.fullmatch(name) and int(name) <= INT_MAX else None


@lru_cache(1 << 16)  # a program that follows a folder lists it again and again
def is_log_folder(name: str, above: str) -> bool:
    """Whether a folder's name is that of a partition, or of a tiered topic, in a folder named `above`: the partitions
    of a tiered topic are named by their numbers. Not that of a folder that a broker has renamed."""
    if tiered_topic(above) and tiered_partition(name) is not None:
        return True
    named = folder(name)
    return tiered_topic(name) is not None or (named is not None and not named.state)


@lru_cache(1 << 12)
def segment(name: str) -> SegmentName | None:
    """Parses the file name of a segment or of one of its side files; None for any other name."""
    match = _SEGMENT.fullmatch(name)
    if match is None or int(match["offset"]) > LONG_MAX or not _is_plausible(match):
        return None
    suffix, epoch = match["suffix"], match["epoch"]
    if suffix not in (".log", ".checkpoint", *SIDECARS) or (suffix == ".checkpoint") != (epoch is not None):
        return None
    return SegmentName(
        int(match["offset"]),
        suffix,
        match["state"] or "",
        match["packed_suffix"] or "",
        name[: match.start("suffix")],
        int(epoch) if epoch else None,
        match["segment_id"],
        match["topic"],
        int(match["partition"]) if match["partition"] else None,
    )


def files_of_log(listed: Iterable[str], one: SegmentName | None, states: Collection[str] = ("",)) -> list[SegmentName]:
    """The segments and side files in a folder's names that are of the same log as `one` and of these states; None: of
    the log whose files have no topic in their names."""
    owner = (None, None) if one is None else (one.topic, one.partition)
    found = filter(None, map(segment, listed))
    return [each for each in found if (each.topic, each.partition) == owner and each.state in states]


def indexes_without_segment(files: Sequence[SegmentName]) -> dict[int, str]:
    """Base offset -> name of an index whose segment is not among the files of a log."""
    segments = {one.base_offset for one in files if one.suffix == ".log"}
    orphans = (one for one in files if one.suffix in INDEX_SUFFIXES and one.base_offset not in segments)
    return {one.base_offset: one.stem + one.suffix for one in orphans}


def offset_in_name(name: str) -> int | None:
    """The base offset in the name of a .log; of a .checkpoint its next offset; else None."""
    parsed = segment(name)
    return parsed.base_offset if parsed and parsed.suffix in (".log", ".checkpoint") else None


def unpacked_name(name: str) -> str:
    """The name without the .gz or .zst of a compressed file."""
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def is_packed(name: str) -> bool:
    """Whether the file is compressed, so that its size is known only after opening it."""
    return name.endswith(tuple(PACKED_SUFFIXES))


def is_segment(name: str) -> bool:
    """Whether a file of this name holds batches of the log in its folder (.gz and .zst files included)."""
    parsed = segment(name)
    return parsed is not None and parsed.is_of_log and not (parsed.suffix == ".checkpoint" and parsed.packed_suffix)


def packed_copies(file_names: Iterable[str]) -> dict[str, str]:
    """Compressed copy of a segment -> the segment: N.log.gz -> N.log, N.log.zst -> N.log.gz if there is no N.log.

    `gzip -k` and `zstd` leave both in the folder; the records of one are read.
    """
    present = set(file_names)
    copies = {}
    for name in filter(is_segment, filter(is_packed, present)):
        plain = unpacked_name(name)
        read = next(each for each in (plain, *(plain + suffix for suffix in PACKED_SUFFIXES)) if each in present)
        if read != name:
            copies[name] = read
    return copies


def side_file_name(name: str, suffix: str) -> str:
    """The name of a side file of the segment `name`: side_file_name("0030.log.gz", ".index") is "0030.index"."""
    parsed = segment(name)
    if parsed:
        return parsed.stem + suffix
    name = unpacked_name(name)
    return name.rpartition(".")[0] + suffix if "." in name else name + suffix


def side_file_kind(name: str) -> SideFileKind | None:
    """The kind of a side file, from the suffix alone; of one that is not in use or is packed, too. None for any other
    name."""
    bare = unpacked_name(next((name.removesuffix(state) for state in _STATES if name.endswith(state)), name))
    return next((kind for suffix, kind in SIDECARS.items() if bare.endswith(suffix)), None)


def topic_partition_of_path(path: str) -> tuple[str | None, int | None]:
    """(topic, partition) of a segment, from its path or URL; None: unknown.

    The folder's name is used only if the file has a name of Kafka's: backup-2024/x.bin is not in partition 2024.
    """
    parts = [part for part in re.split(r"[/\\]+", path.split("?", 1)[0]) if part]
    parsed = segment(parts[-1]) if parts else None
    if parsed is None or parsed.topic is not None:
        return (parsed.topic, parsed.partition) if parsed else (None, None)
    return folder_owner(parts[:-1])


def folder_owner(parts: list[str]) -> tuple[str | None, int | None]:
    """(topic, partition) from the last one or two folder names, as of ["data", "orders-7"], those of folders key=value
    left out; None: unknown."""
    parts = [part for part in parts if "=" not in part]
    last = parts[-1] if parts else ""
    number = tiered_partition(last)
    above = tiered_topic(parts[-2]) if number is not None and len(parts) > 1 else None
    if above:
        return above[0], number
    named = folder(last)
    return (named.topic, named.partition) if named else (None, None)


def meaning(name: str, is_dir: bool = False) -> NameMeaning:
    """The meaning of a file's or folder's name: a word, and a sentence with the reason why it is read or left out."""
    if name.removesuffix(".tmp") in FILES:
        if name.endswith(".tmp"):
            return NameMeaning(
                "temporary", f"a new {name[:-4]} that was being written when the broker stopped; left out"
            )
        return NameMeaning("file", FILES[name])
    if is_dir:
        named, tiered = folder(name), tiered_topic(name)
        if named is not None and named.state:
            cut = " (the topic's name is cut: it was too long with the suffix)" if named.cut else ""
            return NameMeaning(named.state, FOLDER_STATES[named.state] + cut)
        if named is not None:
            return NameMeaning("partition", f"partition {named.partition} of topic {named.topic}")
        if tiered is not None:
            return NameMeaning("tiered_topic", f"the partitions of topic {tiered[0]} in tiered storage")
        return NameMeaning(FOREIGN, "no partition folder: it is not named topic-partition; left out")
    parsed = segment(name)
    if parsed is None and (other := side_file_kind(name)) is not None:
        return NameMeaning(FOREIGN, f"{other.what}, by its suffix, but not a name that Kafka gives; left out")
    if parsed is None:
        return NameMeaning(FOREIGN, "not a name that Kafka gives; left out, name the file itself to read it")
    if parsed.state:
        checkpoint = parsed.suffix == ".checkpoint" and parsed.state == ".deleted"
        kind, what, why = _CHECKPOINT_DELETED if checkpoint else _STATES[parsed.state]
        if parsed.suffix in SIDECARS:
            what, why = f"{SIDECARS[parsed.suffix].what} of {what}", "left out"
        return NameMeaning(kind, f"{what}; {why}")
    if parsed.packed_suffix:
        codec = PACKED_SUFFIXES[parsed.packed_suffix]
        return NameMeaning("packed", f"{_explain_unpacked(parsed).sentence}, packed as a whole with {codec}")
    return _explain_unpacked(parsed)


def swaps_to_rename(names: Iterable[str]) -> list[str]:
    """The .log.swap files in a folder with these names that a broker renames to .log when it starts.

    It deletes the others: a .cleaned file with the same or a lower offset means that the split of a segment was not
    completed (LogLoader.removeTempFilesAndCollectSwapFiles, KAFKA-6264).
    """
    parsed = [(name, one) for name in names if (one := segment(name))]
    first_cleaned = min((one.base_offset for _, one in parsed if one.state == ".cleaned"), default=LONG_MAX)
    swaps = [(one.base_offset, name) for name, one in parsed if one.state == ".swap" and one.suffix == ".log"]
    return [name for offset, name in sorted(swaps) if offset < first_cleaned]


def _explain_unpacked(name: SegmentName) -> NameMeaning:
    if name.suffix in SIDECARS:
        side_file = SIDECARS[name.suffix]
        return NameMeaning(side_file.kind, f"{side_file.what}: {side_file.content}")
    if name.suffix == ".checkpoint":
        return NameMeaning("checkpoint", f"a KRaft snapshot of everything before offset {name.base_offset}")
    tiered = " in tiered storage" if name.segment_id else ""
    return NameMeaning("segment", f"a log segment{tiered} from offset {name.base_offset} on")


def _is_plausible(match: re.Match[str]) -> bool:
    """Whether Kafka allows the topic and the partition (Topic.validate, Integer.parseInt)."""
    groups = match.groupdict()
    topic, partition = groups.get("topic"), groups.get("partition")
    if topic is not None and (len(topic) > _TOPIC_MAX or topic in (".", "..")):
        return False
    return partition is None or int(partition) <= INT_MAX
