"""Every option of the data source, as fields of two frozen dataclasses, for reading (and streaming) and for writing.

    parse({"maxpartitionbytes": "64m"}, "read").maxPartitionBytes      67108864

Spark passes names in lower case and values as text, which are parsed here alone; a field has the name of its option. An
option that Spark's Kafka source also has means the same here. A name that is no option, or not for this use, is an
error with the most similar name.
"""

# ruff: noqa: RUF009 (the fields of a dataclass are made by a function of this module)
from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from spark_udfs import capabilities, function_options, schema
from spark_udfs.bootstrap import BootstrapError, distributed, kafkarec

MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
# An incomplete batch at a log's end: where a broker is or was writing, or damage.
ENDS = function_options.ENDS
# What an overwrite replaces: each topic that the option or the rows name, in all its partitions; or the partitions that
# have rows. The words are those of spark.sql.sources.partitionOverwriteMode.
OVERWRITES = ("static", "dynamic")
# In Spark's Kafka source, in lower case -> here.
_ALIASES = {"kafka.isolation.level": "isolationlevel"}
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)(?:i?b)?")


Given = Mapping[str, str]
"""Options as Spark passes them."""


class Option(NamedTuple):
    """One row of the table. read: parses the text, or raises ValueError. uses: "read", "stream", "write", and the
    functions that take it."""

    name: str
    read: Callable[[str], Any]
    default: Any
    uses: str


def parse(given: Given, use: str, cores: int | None = None) -> ReadOptions:
    """The options for "read", "stream" or a function that reads; ValueError names the option, its value and what is
    valid. NeedsNewerSpark for one that this Spark cannot do.

    "read or stream": options of either use, since Spark asks for a schema without saying for which of them.

    cores: the default of minPartitions; None: not known
    """
    texts, values = _parsed(given, use)
    chosen = ReadOptions(**{"minPartitions": cores or 1, **values}, given=texts)
    for several in (
        ("subscribe", "subscribePattern", "assign"),
        ("maxOffsetsPerTrigger", "maxBytesPerTrigger"),
    ):
        both = [name for name in several if name in chosen.given]
        if len(both) > 1:
            raise ValueError(f"only one of the options {', '.join(several)} can be set, not {' and '.join(both)}")
    if use == "stream" and chosen.endOfLog == "strict":
        raise ValueError(_NO_STRICT_STREAM)
    capabilities.check_options(chosen.given)
    return chosen


def parse_for_write(given: Given) -> WriteOptions:
    """The options for writing; errors as `parse`."""
    return WriteOptions(**_parsed(given, "write")[1])


def _parsed(given: Given, use: str) -> tuple[Given, schema.NamedValues]:
    """Name -> text, and name -> value, of the options that the user has set; the texts in the order of the table."""
    known = {each.name.lower(): each for each in TABLE}
    texts: dict[str, str] = {}
    values: schema.NamedValues = {}
    for name, text in given.items():
        option = known.get(_ALIASES.get(name.lower(), name.lower()))
        if option is None or not _is_for(use, option):
            raise ValueError(_unknown(name, option, use))
        if option.name in values:
            raise ValueError(f"option {option.name} is set twice, also as {name}")
        try:
            values[option.name] = value = option.read(text)
            texts[option.name] = str(value) if isinstance(value, StorageOptions) else text
        except ValueError as error:
            shown = f"option {option.name}" if option.read is storage_options else f"option {option.name}={text!r}"
            raise ValueError(f"{shown}: {error}") from None
    return {each.name: texts[each.name] for each in TABLE if each.name in texts}, values


def _is_for(use: str, option: Option) -> bool:
    return any(each in option.uses.split() for each in use.split(" or "))


def _unknown(name: str, option: Option | None, use: str) -> str:
    if option is not None:
        return f"option {option.name} is for {', '.join(option.uses.split())}, not for {use}"
    if name.lower() in ("owner", "location"):  # properties that Spark sets for tables; their path is not passed on
        return "kafkarec supports views, not tables: CREATE TEMPORARY VIEW v USING kafkarec OPTIONS (path '...')"
    for option_of_files, instead in _OF_FILE_SOURCES.items():
        if name.lower() == option_of_files.lower():
            return f"kafkarec has no option {option_of_files}: {instead}"
    names = [each.name for each in TABLE if _is_for(use, each) and each.name != "paths"]
    is_lowered = name.islower() and use in ("read", "stream", "read or stream", "write")  # not of a function
    told = f"{name!r}, as Spark passes it, in lower case" if is_lowered else repr(name)
    return f"kafkarec has no option {told}; {function_options.did_you_mean(name, names)}"


# Options of Spark's file sources, and what takes their place.
_OF_FILE_SOURCES = {
    "pathGlobFilter": "a glob in the path chooses files, such as /backup/orders-0/*.log; subscribe chooses topics",
    "recursiveFileLookup": "a glob in the path finds folders further below, such as /backup/**/orders-*",
    "modifiedBefore": "endingTimestamp is for the times of records",
    "modifiedAfter": "startingTimestamp is for the times of records",
    "ignoreMissingFiles": "set failOnDataLoss=false",
    "ignoreCorruptFiles": "set mode=PERMISSIVE",
}


# ---- texts to values ----------------------------------------------------------------------------------------


def flag(given: str) -> bool:
    if given.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return given.lower() == "true"


def size(given: str) -> int:
    """Bytes, as Spark writes them: 1048576, 64m, 1g, 128MiB."""
    match = _SIZE.fullmatch(given.strip().lower())
    if match is None or int(match[1]) < 1:
        raise ValueError("must be a number of bytes above 0, such as 1048576, 64m or 1g")
    return int(match[1]) * _UNITS[match[2]]


def positive_number(given: str) -> int:
    if not given.strip().isdecimal() or int(given) < 1:
        raise ValueError("must be a whole number above 0")
    return int(given)


def whole_number(given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise ValueError("must be a whole number") from None


def instant(given: str) -> int:
    """Milliseconds since 1970 from that number, a date or an ISO 8601 time; UTC if the text has no time zone."""
    if given.strip().isdecimal():
        return _milliseconds(int(given))
    try:
        time = datetime.fromisoformat(given.strip())
    except ValueError:
        raise ValueError(
            "must be milliseconds since 1970, or a time such as 2026-11-01, 2026-11-01T12:30Z or 2026-11-01T12:30+02:00"
        ) from None
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    if since < timedelta(0):
        raise ValueError("must not be before 1970")
    return -(-since // timedelta(milliseconds=1))


def _milliseconds(number: int) -> int:
    """The number itself; ValueError for one that looks like a time in another unit."""
    problem = None
    with suppress(BootstrapError):  # a client of Spark Connect may not have kafkarec
        problem = distributed.other_unit_text(number)
    if problem is not None:
        raise ValueError(problem)
    return number


def one_of(choices: Iterable[str]) -> Callable[[str], str]:
    by_lower = {each.lower(): each for each in choices}

    def read(given: str) -> str:
        if given.lower() not in by_lower:
            raise ValueError(f"must be one of {', '.join(by_lower.values())}")
        return by_lower[given.lower()]

    return read


def codec(given: str) -> str:
    return one_of(codec.name.lower() for codec in kafkarec.Compression)(given)


def json_object(given: str) -> schema.NamedValues:
    parsed = None
    with suppress(ValueError):
        parsed = json.loads(given)
    if not isinstance(parsed, dict):
        raise ValueError("must be a JSON object")
    return parsed


class StorageOptions(schema.NamedValues):
    """Values may be secret keys, so its repr has the names only."""

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self))})"

    __str__ = __repr__


def storage_options(given: str) -> StorageOptions:
    return StorageOptions(json_object(given))


def pattern(given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return given


def names(given: str) -> tuple[str, ...]:
    parts = tuple(each.strip() for each in given.split(",") if each.strip())
    if not parts:
        raise ValueError("must be names with commas between them")
    return parts


def per_partition(example: str, *words: str) -> Callable[[str], Any]:
    """Reads one of some words, or a number for each partition, such as {"topic": {"0": 23, "1": -2}}."""

    def read(given: str) -> str | Offsets:
        word = given.strip().lower()
        if word in words:
            return word
        try:
            return numbers_by_partition(json.loads(given))
        except ValueError:
            raise ValueError(f"must be {example}") from None

    return read


_SOME = 'earliest, latest, or JSON such as {"topic": {"0": 23, "1": -2}}', "earliest", "latest"
EARLIEST, LATEST = -2, -1


def offset_bounds(given: str) -> str | Offsets:
    """Where to begin or to end: a word, or for each partition an offset, EARLIEST or LATEST."""
    found: str | Offsets = per_partition(*_SOME)(given)
    if not isinstance(found, str) and min(found.values(), default=0) < EARLIEST:
        raise ValueError("must have offsets; -2 is earliest, -1 is latest")
    return found


def times(given: str) -> Offsets:
    """Milliseconds since 1970 for each partition."""
    found = per_partition('JSON such as {"topic": {"0": 1700000000000}}, milliseconds since 1970')(given)
    return {key: _milliseconds(number) for key, number in found.items()}


def assigned(given: str) -> dict[str, list[int]]:
    topics = json_object(given)
    if not all(isinstance(each, list) and all(type(one) is int for one in each) for each in topics.values()):
        raise ValueError('must be JSON such as {"topic": [0, 1]}')
    return topics


_NO_STRICT_STREAM = (
    "option endOfLog=strict is for read, not for stream: a stream reads whole batches, and waits for the rest of an "
    "incomplete one at a log's end. spark_udfs.damage_report(spark, path) lists such ends; spark.read with "
    "endOfLog=strict fails on them"
)

# ---- the options -------------------------------------------------------------------------------------------


_ROWS = "read count write_table"  # of a batch
_ALL_ROWS = "read stream count write_table"
_FILES = f"{_ALL_ROWS} damage_report"
_PARTITIONS = f"{_FILES} offsets_at"


def _option(read: Callable[[str], Any], default: Any, uses: str = _ALL_ROWS) -> Any:
    return field(default_factory=lambda: default, metadata={"read": read, "default": default, "uses": uses})


@dataclass(frozen=True, kw_only=True)
class _Options:
    path: str | None = _option(str, None, f"{_PARTITIONS} write")  # a file, folder, glob or URL
    # JSON: key, secret, endpoint_url, ...
    storageOptions: StorageOptions = _option(storage_options, StorageOptions(), f"{_PARTITIONS} write")
    # read: of folders without one; write: instead of the column
    topic: str | None = _option(str, None, f"{_ALL_ROWS} write")


@dataclass(frozen=True, kw_only=True)
class ReadOptions(_Options):
    """The options for spark.read, spark.readStream and the functions that read. given: name and text of each option
    that the user has set; of storageOptions the names only."""

    given: Given = field(default_factory=dict)
    # the paths of load([a, b])
    paths: tuple[str, ...] = _option(lambda given: tuple(map(str, json.loads(given))), (), _PARTITIONS)
    basePath: str | None = _option(str, None, _PARTITIONS)  # the folder below which key=value folders become columns
    where: str | None = _option(str, None, _PARTITIONS)  # which key=value folders are read

    # ---- which partitions and offsets

    # topics, with commas between them; default: all
    subscribe: tuple[str, ...] | None = _option(names, None, _PARTITIONS)
    subscribePattern: str | None = _option(pattern, None, _PARTITIONS)  # a regular expression for the whole topic name
    assign: dict[str, list[int]] | None = _option(assigned, None, _PARTITIONS)  # partitions: {"topic": [0, 1]}
    # earliest, latest (streams), or JSON by partition
    startingOffsets: str | Offsets = _option(offset_bounds, "earliest")
    # latest, or JSON by partition; exclusive
    endingOffsets: str | Offsets = _option(offset_bounds, "latest", _ROWS)
    startingOffsetsByTimestamp: Offsets | None = _option(times, None)  # JSON of milliseconds by partition
    endingOffsetsByTimestamp: Offsets | None = _option(times, None, _ROWS)  # JSON of milliseconds by partition
    startingTimestamp: int | None = _option(instant, None)  # one time for all partitions: milliseconds or ISO 8601
    endingTimestamp: int | None = _option(instant, None, _ROWS)  # one time for all partitions; exclusive
    # if no record is that late: error or latest
    startingOffsetsByTimestampStrategy: str = _option(one_of(("error", "latest")), "error")
    # fail if requested offsets do not exist (any more)
    failOnDataLoss: bool = _option(flag, True, f"{_ALL_ROWS} offsets_at")
    # as a consumer's; also as kafka.isolation.level
    isolationLevel: str = _option(one_of(("read_uncommitted", "read_committed")), "read_uncommitted")

    # ---- which columns

    includeHeaders: bool = _option(flag, False)  # the column headers
    includeMetadata: bool = _option(flag, False)  # columns of file and batch: _file_path, _base_offset, ...
    columns: tuple[str, ...] | None = _option(names, None)  # only these, in this order
    # records; batches: one row per batch, headers only
    view: str = _option(one_of(("records", "batches")), "records", "read")
    includeControl: bool = _option(flag, False)  # also the records of control batches

    # ---- damage

    mode: str = _option(one_of(MODES), MODES[0])  # FAILFAST, PERMISSIVE, DROPMALFORMED
    columnNameOfCorruptRecord: str = _option(str, schema.CORRUPT, "read stream")  # adds this column, for damaged ranges
    checkCrcs: bool = _option(flag, True, _FILES)  # verify the checksum of every batch
    restore: bool = _option(flag, True, _FILES)  # not in FAILFAST: return batches with proven header fields
    # an incomplete batch at a log's end: tail, or strict: damage
    endOfLog: str = _option(one_of(ENDS), ENDS[0], "read stream count damage_report")

    # ---- tasks

    maxPartitionBytes: int = _option(size, 128 << 20, _FILES)  # approximate bytes per task
    # at least this many tasks; default: a task for each core
    minPartitions: int = _option(positive_number, None, _FILES)
    splitScan: bool = _option(flag, False, _FILES)  # split also remote segments without an index, by their headers
    maxRecordsPerBatch: int = _option(positive_number, 1 << 20)  # rows of one Arrow batch
    maxDecompressedBytes: int = _option(size, 128 << 20, _FILES)  # limit of one compressed payload; above it: damage

    # ---- how much at once

    # offsets per micro-batch, all partitions together
    maxOffsetsPerTrigger: int | None = _option(positive_number, None, "stream")
    maxBytesPerTrigger: int | None = _option(size, None, "stream")  # about as many bytes, by the mean size of an offset

    @property
    def errors(self) -> str:
        """What kafkarec does at damage."""
        return "raise" if self.mode == "FAILFAST" else "skip"

    @property
    def is_read_committed(self) -> bool:
        return self.isolationLevel == "read_committed"


@dataclass(frozen=True, kw_only=True)
class WriteOptions(_Options):
    """The options for df.write and df.writeStream."""

    # what overwrite replaces: static, each topic written; dynamic, the partitions that have rows
    partitionOverwriteMode: str | None = _option(one_of(OVERWRITES), None, "write")
    # for the partitioner; default: as many as the topic has, or 1
    numPartitions: int | None = _option(positive_number, None, "write")
    compression: str = _option(codec, "none", "write")  # the name of a codec, such as zstd
    level: int | None = _option(whole_number, None, "write")  # level of the codec; default: Kafka's
    batchSize: int = _option(size, 16384, "write")  # bytes of a batch before it is compressed, as batch.size
    segmentBytes: int = _option(size, 1 << 30, "write")  # bytes of a segment, as segment.bytes


TABLE = tuple(
    {
        each.name: Option(each.name, **each.metadata)
        for kind in (ReadOptions, WriteOptions)
        for each in fields(kind)
        if each.metadata
    }.values()
)


# ---- offsets of a stream ---------------------------------------------------------------------------------
#
# As Spark writes them to its checkpoint and returns them: {"orders": {"0": 123, "1": 7}}. The offset of a partition is
# the next one to be read. Options give other numbers for each partition (times) in the same form. Spark compares two of
# these as JSON *text*: with the same numbers in another order it would endlessly start empty batches. So only
# `offsets_to_json` writes them, always in the same order.


Offsets = dict[tuple[str, int], int]
OffsetsJson = dict[str, dict[str, int]]


def offsets_from_json(content: Mapping[str, Any]) -> Offsets:
    """Offsets from a checkpoint's JSON; ValueError if another source has written it."""
    try:
        return numbers_by_partition(content)
    except ValueError:
        ours = '{"topic": {"0": 123}}'
        raise ValueError(
            f"the checkpoint has {content!r}, which is not {ours}: it was written by another source"
        ) from None


def numbers_by_partition(content: Any) -> Offsets:
    """A number for each partition, from JSON of this form; ValueError for another one."""
    try:
        rows = [((topic, int(number)), each) for topic, some in content.items() for number, each in some.items()]
    except (AttributeError, TypeError):
        raise ValueError("no object of objects") from None
    found = dict(rows)
    if len(found) < len(rows):
        raise ValueError("a partition is named twice, as 0 and 00")
    if not all(type(each) is int for each in found.values()):
        raise ValueError("no whole numbers")
    return found


def offsets_to_json(offsets: Mapping[tuple[str, int], int]) -> OffsetsJson:
    """Offsets for a checkpoint, sorted: topics by name, partitions by number."""
    sorted_offsets: OffsetsJson = {}
    for (topic, number), offset in sorted(offsets.items()):
        sorted_offsets.setdefault(topic, {})[str(number)] = offset
    return sorted_offsets
