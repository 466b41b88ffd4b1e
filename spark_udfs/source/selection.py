"""Selects partitions, and the offsets of each, by the options of Spark's Kafka source.

| bound | first of these that is set |
|---|---|
| start | startingTimestamp, startingOffsetsByTimestamp, startingOffsets (earliest) |
| end, exclusive | endingTimestamp, endingOffsetsByTimestamp, endingOffsets (latest) |

A timestamp means the offset of the first record at or after it, as in the Kafka source. JSON must name every partition
that is read; -2 is earliest, -1 is latest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import logger

from .gaps import missing_offset_text
from .options import EARLIEST, LATEST, ReadOptions
from .paths import PartitionLog, Partitions, TopicPartition


def select_partitions(options: ReadOptions, partitions: Partitions, *, must_exist: bool = True) -> Partitions:
    """The partitions that subscribe, subscribePattern or assign name. must_exist: ValueError for one that does not;
    while a stream runs they may appear and disappear."""
    topics, pattern, assigned = options.subscribe, options.subscribePattern, options.assign
    names = {key: key[0] if each.topic is None else each.topic for key, each in partitions.items()}
    if must_exist:
        _check_names(topics or (), names.values(), "subscribe")
        keys = [(topic, number) for topic, numbers in (assigned or {}).items() for number in numbers]
        _check_names(keys, partitions, "assign")
    selected = {
        key: each
        for key, each in partitions.items()
        if (topics is None or names[key] in topics)
        and (pattern is None or re.fullmatch(pattern, names[key]))
        and (assigned is None or key[1] in assigned.get(key[0], ()))
    }
    if must_exist and partitions and not selected:
        there = some_names(sorted({*names.values()}))
        logger.warning("no rows: subscribePattern or assign selects none of the topics that there are: %s", there)
    return selected


def with_ranges(options: ReadOptions, partitions: Partitions) -> Partitions:
    """The partitions with the offsets to read of each. ValueError for offsets that do not exist, unless failOnDataLoss
    is false: then those that exist are read."""
    begins, ends = (requested_bounds(options, partitions, each) for each in ("starting", "ending"))
    if ("offset", LATEST) in begins.values():
        raise ValueError("startingOffsets=latest is for streams: a batch would read nothing (-1 in JSON is latest)")
    if ("offset", EARLIEST) in ends.values():
        raise ValueError("endingOffsets cannot be earliest (-2): nothing would be read")
    checked, are_empty = {}, []
    for key, partition in partitions.items():
        log = partition.log
        start = resolved_offset(options, log, begins[key], key, options.startingOffsetsByTimestampStrategy)
        end = resolved_offset(options, log, ends[key], key, "no bound")
        for option, offset in (("startingOffsets", start), ("endingOffsets", end)):
            if offset is not None and option in options.given and options.failOnDataLoss:
                _check_offset(offset, option, key, partition, log)
        checked[key] = partition._replace(wanted=(start, end))
        are_empty.append(end is not None and end <= max(start or 0, partition.segments[0].base_offset or 0))
    if are_empty and all(are_empty):
        logger.warning(
            "no rows: each partition's end, as the options set it, is not after its start. Ends are exclusive, and "
            "times milliseconds since 1970, or as 2026-11-01T12:30Z"
        )
    return checked


# A bound from the options: an offset (-2, -1: earliest, latest), or a time.
RequestedOffset = tuple[str, int]


def requested_bounds(
    options: ReadOptions, partitions: Iterable[TopicPartition], which: str
) -> dict[TopicPartition, RequestedOffset]:
    """Where reading each of these partitions begins or ends: ("offset", n), n also EARLIEST or LATEST, or ("time", ms).
    which: starting or ending, the first part of the options' names"""
    time, offsets = getattr(options, f"{which}Timestamp"), getattr(options, f"{which}Offsets")
    by_time = getattr(options, f"{which}OffsetsByTimestamp")
    if time is not None:
        return dict.fromkeys(partitions, ("time", time))
    if by_time is not None:
        return _by_partition(by_time, partitions, f"{which}OffsetsByTimestamp", "time")
    if isinstance(offsets, str):
        return dict.fromkeys(partitions, ("offset", EARLIEST if offsets == "earliest" else LATEST))
    return _by_partition(offsets, partitions, f"{which}Offsets", "offset")


def _by_partition(
    given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], option: str, kind: str
) -> dict[TopicPartition, RequestedOffset]:
    keys = list(partitions)
    _check_names(given, keys, option)
    missing = [f"{topic}-{number}" for topic, number in keys if (topic, number) not in given]
    if missing:
        raise ValueError(
            f"{option} must name every partition that is read; {some_names(missing)} missing. -2 is earliest, -1 "
            f"latest; assign or subscribe choose partitions"
        )
    return {key: (kind, at) for key, at in given.items()}


def _check_names(named: Iterable[Any], existing: Iterable[Any], option: str) -> None:
    def shown(each: Any) -> str:
        return each if isinstance(each, str) else f"{each[0]}-{each[1]}"

    known = set(existing)
    unknown = [shown(each) for each in named if each not in known]
    if unknown:
        raise ValueError(
            f"{option}: cannot find {some_names(unknown)}; there are: {some_names(sorted(map(shown, known)))}"
        )


def some_names(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def resolved_offset(
    options: ReadOptions, log: kafkarec.Log, requested: RequestedOffset, key: TopicPartition, fallback: str
) -> int | None:
    """The requested offset; None: no bound. Of a time that of the first record that the mode returns. ValueError if the
    log does not have it. fallback: "error", "latest" or "no bound" if no record is that late."""
    kind, value = requested
    if kind == "offset":
        return None if value in (EARLIEST, LATEST) else value
    time = f"{distributed.timestamp_text(value)} ({value} ms)"
    offset = log.offset_for_timestamp(value, errors=options.errors, restore=options.restore)
    end = None if offset is None else log.next_offset
    if offset is not None and end is not None and offset >= end:  # no checksum covers a batch's base offset
        raise ValueError(
            f"{key[0]}-{key[1]}: the first record at or after {time} has offset {offset}, and the log "
            f"ends at {end}: a base offset is damaged. Mode PERMISSIVE restores it if it can be proven"
        )
    if offset is None and fallback == "error":
        raise ValueError(
            f"{key[0]}-{key[1]} has no record at or after {time}; "
            f"startingOffsetsByTimestampStrategy=latest starts at its end then"
        )
    return log.next_offset if offset is None and fallback == "latest" else offset


def _check_offset(offset: int, option: str, key: TopicPartition, partition: PartitionLog, log: kafkarec.Log) -> None:
    """ValueError if the log does not have the offset, which Spark's Kafka source calls data loss."""
    first, last = log.start_offset, log.next_offset
    if first is None or last is None:
        return
    missing = missing_offset_text(partition, offset) if option == "startingOffsets" else None
    if not first <= offset <= last:
        missing = f"which has {first} to {last} (exclusive): the others were deleted, or never existed"
    if missing is not None:
        raise ValueError(
            f"{option} asks for offset {offset} of {key[0]}-{key[1]}, {missing}. failOnDataLoss=false reads those that "
            f"exist"
        )
