"""Which partitions, and which offsets of each, by the options of Spark's Kafka source.

| bound | first of these that is set |
|---|---|
| start | startingTimestamp, startingOffsetsByTimestamp, startingOffsets (earliest) |
| end, exclusive | endingTimestamp, endingOffsetsByTimestamp, endingOffsets (latest) |

A time stands for the offset of the first record at or after it, as in the Kafka source. JSON names every partition that
is read; -2 is earliest, -1 is latest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .options import SourceOptions
from .paths import PartitionPaths, TopicPartition, log_of

if TYPE_CHECKING:
    import kafkarec

OffsetRange = tuple[int | None, int | None]
"""Offsets from the first to the second, which is exclusive; None: no bound."""

EARLIEST, LATEST = -2, -1


def chosen(
    options: SourceOptions, partitions: dict[TopicPartition, PartitionPaths]
) -> dict[TopicPartition, PartitionPaths]:
    """The partitions that subscribe, subscribePattern or assign name; ValueError for one that does not exist."""
    if options["subscribe"] is not None:
        _check_names(options["subscribe"], {topic for topic, _ in partitions}, "subscribe")
        return {key: each for key, each in partitions.items() if key[0] in options["subscribe"]}
    if options["subscribePattern"] is not None:
        wanted = re.compile(options["subscribePattern"])
        return {key: each for key, each in partitions.items() if wanted.fullmatch(key[0])}
    if options["assign"] is not None:
        keys = [(topic, number) for topic, numbers in options["assign"].items() for number in numbers]
        _check_names(keys, partitions, "assign")
        return {key: each for key, each in partitions.items() if key in keys}
    return partitions


def ranges(
    options: SourceOptions, partitions: dict[TopicPartition, PartitionPaths]
) -> dict[TopicPartition, OffsetRange]:
    """The offsets to read of each partition. ValueError for offsets that do not exist, unless failOnDataLoss is false:
    then those that exist are read."""
    begins, ends = starts(options, partitions), _end_of_each(options, partitions)
    if ("offset", LATEST) in begins.values():
        raise ValueError("startingOffsets=latest is for streams: a batch would read nothing (-1 in JSON is latest)")
    found = {}
    for key, partition in partitions.items():
        ends_of = _LogEnds(partition, options)
        start = ends_of.offset(begins[key], key, options["startingOffsetsByTimestampStrategy"])
        end = ends_of.offset(ends[key], key, "no bound")
        found[key] = (
            _checked(start, "startingOffsets", key, ends_of, options),
            _checked(end, "endingOffsets", key, ends_of, options),
        )
    return found


# A bound as the options give it: an offset (-2, -1: earliest, latest), or a time.
_RequestedOffset = tuple[str, int]


def starts(options: SourceOptions, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, _RequestedOffset]:
    """Where reading each of these partitions begins: ("offset", n), n also EARLIEST or LATEST, or ("time", ms)."""
    if options["startingTimestamp"] is not None:
        return dict.fromkeys(partitions, ("time", options["startingTimestamp"]))
    if options["startingOffsetsByTimestamp"] is not None:
        return _by_partition(options["startingOffsetsByTimestamp"], partitions, "startingOffsetsByTimestamp", "time")
    given = options["startingOffsets"]
    return _offsets(given, partitions, "startingOffsets")


def _end_of_each(
    options: SourceOptions, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, _RequestedOffset]:
    if options["endingTimestamp"] is not None:
        return dict.fromkeys(partitions, ("time", options["endingTimestamp"]))
    if options["endingOffsetsByTimestamp"] is not None:
        return _by_partition(options["endingOffsetsByTimestamp"], partitions, "endingOffsetsByTimestamp", "time")
    given = options["endingOffsets"]
    if given == "earliest" or (given != "latest" and EARLIEST in [at for one in given.values() for at in one.values()]):
        raise ValueError("endingOffsets cannot be earliest (-2): nothing would be read")
    return _offsets(given, partitions, "endingOffsets")


def _offsets(given: Any, partitions: Iterable[TopicPartition], option: str) -> dict[TopicPartition, _RequestedOffset]:
    if isinstance(given, str):
        return dict.fromkeys(partitions, ("offset", EARLIEST if given == "earliest" else LATEST))
    return _by_partition(given, partitions, option, "offset")


def _by_partition(
    given: dict[str, dict[str, int]], partitions: Iterable[TopicPartition], option: str, kind: str
) -> dict[TopicPartition, _RequestedOffset]:
    requested = {(topic, int(number)): (kind, at) for topic, each in given.items() for number, at in each.items()}
    keys = list(partitions)
    _check_names(requested, keys, option)
    missing = [f"{topic}-{number}" for topic, number in keys if (topic, number) not in requested]
    if missing:
        raise ValueError(
            f"{option} must name every partition that is read; {_some(missing)} missing. -2 is earliest, -1 latest; "
            f"assign or subscribe choose partitions"
        )
    return requested


def _check_names(named: Iterable[Any], there: Iterable[Any], option: str) -> None:
    def shown(each: Any) -> str:
        return each if isinstance(each, str) else f"{each[0]}-{each[1]}"

    known = set(there)
    unknown = [shown(each) for each in named if each not in known]
    if unknown:
        raise ValueError(f"{option} names {_some(unknown)}, not there; there are: {_some(sorted(map(shown, known)))}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


class _LogEnds:
    """Start and end of a partition's log, looked up when needed."""

    def __init__(self, partition: PartitionPaths, options: SourceOptions) -> None:
        self._log: kafkarec.Log | None = None
        self._made_of = (partition, options)

    @property
    def log(self) -> kafkarec.Log:
        if self._log is None:
            self._log = log_of(*self._made_of)
        return self._log

    def offset(self, asked: _RequestedOffset, key: TopicPartition, otherwise: str) -> int | None:
        """The requested offset; None: no bound. otherwise: "error", "latest" or "no bound" where no record is that
        late."""
        kind, value = asked
        if kind == "offset":
            return None if value in (EARLIEST, LATEST) else value
        found = self.log.offset_for_timestamp(value)
        if found is None and otherwise == "error":
            raise ValueError(
                f"{key[0]}-{key[1]} has no record at or after {value} ms; "
                f"startingOffsetsByTimestampStrategy=latest takes its end then"
            )
        return self.log.next_offset if found is None and otherwise == "latest" else found


def _checked(
    offset: int | None, option: str, key: TopicPartition, ends: _LogEnds, options: SourceOptions
) -> int | None:
    """The offset itself. ValueError where the log does not have it, which Kafka's source calls data loss."""
    if offset is None or option not in options.given:
        return offset
    first, last = ends.log.start_offset, ends.log.next_offset
    if first is None or last is None or first <= offset <= last:
        return offset
    if options["failOnDataLoss"]:
        raise ValueError(
            f"{option} asks for offset {offset} of {key[0]}-{key[1]}, which has {first} to {last} (exclusive): the "
            f"others were deleted, or never existed. failOnDataLoss=false reads what there is"
        )
    return offset  # reads the offsets in the requested range that exist
