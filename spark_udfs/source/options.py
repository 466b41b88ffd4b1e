"""Every option of the data source: one table for reading, streaming and writing.

    options.parse({"maxpartitionbytes": "64m"}, "read")["maxPartitionBytes"]      67108864

Spark passes names in lower case and values as text. An option that Spark's Kafka source has too means the same here. A
name that is not in the table, or not for this use, is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from spark_udfs import schema

MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VIEWS = ("records", "batches")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)(?:i?b)?")


class Option(NamedTuple):
    """One row of the table. read: parses the text, or raises ValueError. uses: some of "read stream write"."""

    name: str
    read: Callable[[str], Any]
    default: Any
    uses: str
    meaning: str


class SourceOptions(dict[str, Any]):
    """The values of all options by name, defaults included; `given`: the names that the user has set."""

    given: frozenset[str] = frozenset()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (dict(self), self.given)


def _restored(values: dict[str, Any], given: frozenset[str]) -> SourceOptions:
    options = SourceOptions(values)
    options.given = given
    return options


def parse(given: Mapping[str, str], use: str) -> SourceOptions:
    """All options for one use ("read", "stream" or "write"); ValueError names option, value and what there is.

    "read or stream": either of the two; Spark asks for a schema without saying for which.
    """
    options = _restored({each.name: each.default for each in TABLE if _is_for(use, each)}, frozenset())
    known = {each.name.lower(): each for each in TABLE}
    names = []
    for name, text in given.items():
        option = known.get(name.lower())
        if option is None or not _is_for(use, option):
            raise ValueError(_unknown(name, option, use))
        try:
            options[option.name] = option.read(text)
        except ValueError as error:
            shown = f"option {option.name}" if option.read is storage else f"option {option.name}={text!r}"
            raise ValueError(f"{shown}: {error}") from None
        names.append(option.name)
    options.given = frozenset(names)
    _demand_one_of(options, "subscribe", "subscribePattern", "assign")
    _demand_one_of(options, "isolationLevel", "kafka.isolation.level")
    _demand_one_of(options, "maxOffsetsPerTrigger", "maxBytesPerTrigger")
    return options


def _is_for(use: str, option: Option) -> bool:
    return any(each in option.uses.split() for each in use.split(" or "))


def _demand_one_of(options: SourceOptions, *names: str) -> None:
    found = [name for name in names if name in options.given]
    if len(found) > 1:
        raise ValueError(f"only one of the options {', '.join(names)} can be set, not {' and '.join(found)}")


def _unknown(name: str, option: Option | None, use: str) -> str:
    if option is not None:
        return f"option {option.name} is for {' and '.join(option.uses.split())}, not for {use}"
    if name.lower() == "owner":  # Spark's own property of a table; the path is not handed on
        return "kafkarec has no tables, but views: CREATE TEMPORARY VIEW v USING kafkarec OPTIONS (path '...')"
    names = {each.name.lower(): each.name for each in TABLE if _is_for(use, each) and each.name != "paths"}
    near = difflib.get_close_matches(name.lower(), names, 1)
    if near:
        return f"kafkarec has no option {name!r}; did you mean {names[near[0]]}?"
    return f"kafkarec has no option {name!r} for {use}; there are: {', '.join(names.values())}"


# ---- texts to values ----------------------------------------------------------------------------------------


def text(given: str) -> str:
    return given


def flag(given: str) -> bool:
    if given.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return given.lower() == "true"


def size(given: str) -> int:
    """Bytes, as Spark writes them: 1048576, 64m, 1g, 128MiB."""
    match = _SIZE.fullmatch(given.strip().lower())
    if match is None or int(match[1]) < 1:
        raise ValueError("bytes above 0, such as 1048576, 64m or 1g")
    return int(match[1]) * _UNITS[match[2]]


def count(given: str) -> int:
    if not given.strip().isdecimal() or int(given) < 1:
        raise ValueError("a whole number above 0")
    return int(given)


def whole(given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise ValueError("a whole number") from None


def milliseconds(given: str) -> int:
    if not given.strip().isdecimal():
        raise ValueError("milliseconds since 1970")
    return int(given)


def refused(why: str) -> Callable[[str], Any]:
    """An option of Spark's Kafka source that has no meaning here."""

    def read(given: str) -> Any:
        raise ValueError(f"{why}; set maxOffsetsPerTrigger or maxBytesPerTrigger, or neither")

    return read


def one_of(choices: Iterable[str]) -> Callable[[str], str]:
    by_lower = {each.lower(): each for each in choices}

    def read(given: str) -> str:
        if given.lower() not in by_lower:
            raise ValueError(f"one of {', '.join(by_lower.values())}")
        return by_lower[given.lower()]

    return read


def json_object(given: str) -> dict[str, Any]:
    try:
        parsed = json.loads(given)
    except ValueError:
        raise ValueError("a JSON object") from None
    if not isinstance(parsed, dict):
        raise ValueError("a JSON object")
    return parsed


class StorageOptions(dict[str, Any]):
    """Values may be secret keys, so its repr has the names only."""

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self))})"

    __str__ = __repr__


def storage(given: str) -> StorageOptions:
    return StorageOptions(json_object(given))


def pattern(given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return given


def names(given: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in given.split(",") if each.strip())
    if not found:
        raise ValueError("names with commas between them")
    return found


def path_list(given: str) -> tuple[str, ...]:
    """The JSON list that Spark makes of `load([a, b])`."""
    return tuple(str(each) for each in json.loads(given))


def offsets(given: str) -> str | dict[str, dict[str, int]]:
    """earliest, latest, or {"topic": {"0": 23, "1": -2}}; -2 is earliest, -1 is latest."""
    if given.strip().lower() in ("earliest", "latest"):
        return given.strip().lower()
    return per_partition(given, 'earliest, latest, or JSON such as {"topic": {"0": 23, "1": -2}}')


def timestamps(given: str) -> dict[str, dict[str, int]]:
    return per_partition(given, 'JSON such as {"topic": {"0": 1700000000000}}, milliseconds since 1970')


def per_partition(given: str, example: str) -> dict[str, dict[str, int]]:
    try:
        parsed = json.loads(given)
        found = {topic: {str(int(number)): value for number, value in each.items()} for topic, each in parsed.items()}
    except (ValueError, AttributeError):
        raise ValueError(example) from None
    if not all(type(value) is int for each in found.values() for value in each.values()):
        raise ValueError(example)
    return found


def assigned(given: str) -> dict[str, list[int]]:
    topics = json_object(given)
    if not all(isinstance(each, list) and all(type(one) is int for one in each) for each in topics.values()):
        raise ValueError('JSON such as {"topic": [0, 1]}')
    return topics


# ---- the table ----------------------------------------------------------------------------------------------

TABLE = (
    # where
    Option("path", text, None, "read stream write", "a file, folder, glob or URL"),
    Option("paths", path_list, (), "read stream", "the paths of load([a, b])"),
    Option("storageOptions", storage, StorageOptions(), "read stream write", "JSON: key, secret, endpoint_url, ..."),
    # which partitions and offsets
    Option("subscribe", names, None, "read stream", "topics, with commas between them; default: all"),
    Option("subscribePattern", pattern, None, "read stream", "a regular expression for the whole topic name"),
    Option("assign", assigned, None, "read stream", 'partitions: {"topic": [0, 1]}'),
    Option("startingOffsets", offsets, "earliest", "read stream", "earliest, latest (streams), or JSON by partition"),
    Option("endingOffsets", offsets, "latest", "read", "latest, or JSON by partition; exclusive"),
    Option("startingOffsetsByTimestamp", timestamps, None, "read stream", "JSON of milliseconds by partition"),
    Option("endingOffsetsByTimestamp", timestamps, None, "read", "JSON of milliseconds by partition"),
    Option("startingTimestamp", milliseconds, None, "read stream", "one for all partitions"),
    Option("endingTimestamp", milliseconds, None, "read", "one for all partitions"),
    Option(
        "startingOffsetsByTimestampStrategy",
        one_of(("error", "latest")),
        "error",
        "read stream",
        "where no record is that late",
    ),
    Option("failOnDataLoss", flag, True, "read stream", "fail where requested offsets do not exist (any more)"),
    Option("isolationLevel", one_of(ISOLATION_LEVELS), ISOLATION_LEVELS[0], "read stream", "as a consumer's"),
    Option("kafka.isolation.level", one_of(ISOLATION_LEVELS), ISOLATION_LEVELS[0], "read stream", "the same"),
    # which columns
    Option("includeHeaders", flag, False, "read stream", "the column headers"),
    Option("includeMetadata", flag, False, "read stream", "columns of file and batch: _file_path, _base_offset, ..."),
    Option("columns", names, None, "read stream", "only these, in this order"),
    Option("view", one_of(VIEWS), VIEWS[0], "read", "records; batches: one row per batch, headers only"),
    Option("includeControl", flag, False, "read stream", "also the records of control batches"),
    # damage
    Option("mode", one_of(MODES), MODES[0], "read stream", "FAILFAST, PERMISSIVE, DROPMALFORMED"),
    Option("columnNameOfCorruptRecord", text, schema.CORRUPT, "read stream", "adds this column, for damaged ranges"),
    Option("checkCrcs", flag, True, "read stream", "verify the checksum of every batch"),
    # tasks
    Option("maxPartitionBytes", size, 128 << 20, "read stream", "bytes of one task, about"),
    Option("minPartitions", count, 1, "read stream", "at least so many tasks, where there is enough to read"),
    Option("splitScan", flag, False, "read stream", "split remote segments without an index too, by their headers"),
    Option("maxRecordsPerBatch", count, 1 << 20, "read stream", "rows of one Arrow batch"),
    Option("maxDecompressedBytes", size, 128 << 20, "read stream", "of one compressed payload; beyond it: damage"),
    Option("pushDownFilters", flag, False, "read", "prune by filters; one load() for each use of the frame"),
    # how much at once
    Option("maxOffsetsPerTrigger", count, None, "stream", "offsets of one micro-batch, of all partitions together"),
    Option("maxBytesPerTrigger", size, None, "stream", "the same in bytes of the segments; whole batches"),
    Option("minOffsetsPerTrigger", refused("there is no lower limit here"), None, "stream", "an error"),
    # what is written
    Option("topic", text, None, "write", "of all records, instead of the column"),
    Option("numPartitions", count, None, "write", "for the partitioner; default: as many as the topic has, or 1"),
    Option("compression", one_of(CODECS), CODECS[0], "write", "none, gzip, snappy, lz4, zstd"),
    Option("level", whole, None, "write", "of the codec; default: Kafka's"),
    Option("batchSize", size, 16384, "write", "bytes of a batch before it is compressed, as batch.size"),
    Option("segmentBytes", size, 1 << 30, "write", "of a segment, as segment.bytes"),
)
