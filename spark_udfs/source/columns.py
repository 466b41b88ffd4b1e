"""The columns that are read: those of Spark's Kafka source, a user's schema or list, metadata, or the batches view.

| option | columns |
|---|---|
| none | key, value, topic, partition, offset, timestamp, timestampType: the Kafka source's, in its order |
| includeHeaders | and headers |
| includeMetadata | and METADATA: file, batch, producer |
| columnNameOfCorruptRecord | and the column of that name |
| view=batches | topic, partition, file and the columns of kafka_scan |
| key=value folders | and a column of each key, at the end, as Spark's file sources have them |
| columns=offset,_magic or a user's schema | any of these, in that order; only they are decoded |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_udfs import schema
from spark_udfs.bootstrap import distributed
from spark_udfs.function_options import question_of_similar
from spark_udfs.schema import Columns, NamedValues, SparkColumn, column_table

from .options import ReadOptions
from .paths import Keys, KeyTypes
from .planning import Split

_ORDER = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_BY_NAME = {column.name: column for column in schema.RECORD_COLUMNS}
RECORDS = tuple(_BY_NAME[name] for name in _ORDER)
METADATA = column_table("""
    _file_path              string
    _file_position          bigint      batch_position
    _base_offset            bigint      base_offset
    _batch_crc              bigint
    _partition_leader_epoch int         partition_leader_epoch
    _magic                  tinyint     magic
    _compression            string      compression
    _is_transactional       boolean     is_transactional
    _is_control             boolean     is_control
    _control_type           smallint    control_type
    _producer_id            bigint      producer_id
    _producer_epoch         smallint    producer_epoch
    _sequence               int         sequence
""")
BATCHES = (
    *(SparkColumn("topic", "string"), SparkColumn("partition", "int"), SparkColumn("file", "string")),
    *schema.BATCH_COLUMNS[:-1],  # not _corrupt_record, whose name an option sets
)

# Keys that name the log, which has these columns anyway.
NAMING = ("topic", "partition")
_OF_KEYS = ("int", "bigint", "date", "string")


def spark_schema(columns: Columns) -> StructType:
    """The columns as Spark's schema, made without a JVM."""
    import pyarrow as pa  # type: ignore[import-untyped]

    return from_arrow_schema(pa.schema(list(schema.arrow_struct(columns))))


def select_columns(options: ReadOptions, keys: KeyTypes = ()) -> Columns:
    """The columns that the options select, in order. keys: of the key=value folders."""
    if options.columns is not None:
        return _columns_named(options.columns, options, keys)
    corrupt = (corrupt_column(options),) if "columnNameOfCorruptRecord" in options.given else ()
    if options.view == "batches":
        return BATCHES + corrupt + key_columns(keys, options)
    headers = RECORDS if options.includeHeaders else RECORDS[:-1]
    return headers + (METADATA if options.includeMetadata else ()) + corrupt + key_columns(keys, options)


def from_schema(given: Any, options: ReadOptions, keys: KeyTypes = ()) -> Columns:
    """The columns of a StructType that a user (or `select_columns`) gave; ValueError names the valid ones."""
    selected = []
    key_names = {name for name, _ in keys if name not in NAMING}
    for column, field in zip(_columns_named(given.fieldNames(), options, keys), given.fields, strict=True):
        name, sql_type = column.name, field.dataType.simpleString()
        if name in key_names and sql_type in _OF_KEYS:
            column = SparkColumn(name, sql_type)
        if sql_type != column.type:
            raise ValueError(f"column {name} is {column.type}, not {sql_type}; cast it after reading")
        if not field.nullable:
            raise ValueError(f"column {name} may be null: leave NOT NULL out of the schema")
        selected.append(column)
    return tuple(selected)


def key_columns(keys: KeyTypes, options: ReadOptions) -> Columns:
    """The columns of the keys; `topic` and `partition` name the log. ValueError for the name of another column."""
    names = {name.lower() for name in fixed_columns(options)}
    for name, _ in keys:
        if name not in NAMING and name.lower() in names:
            raise ValueError(
                f"the folders {name}=... have the name of a column of the source. Rename them, or load what is below "
                f'them by a glob, such as .load("archive/{name}=*"): then they are no column'
            )
    return tuple(SparkColumn(name, kind) for name, kind in keys if name not in NAMING)


def key_values(keys: Keys, columns: Iterable[SparkColumn], path: str) -> NamedValues:
    """The values of those keys that are among the columns, by name, as Python objects. ValueError for a value that its
    column's type cannot hold."""
    types = {column.name: column.type for column in columns if column.source is None}
    found: NamedValues = {}
    for name, text in keys:
        if name not in types or name in NAMING:
            continue
        try:
            found[name] = None if text is None else distributed.key_value(text, types[name])
        except ValueError as error:
            raise ValueError(
                f"the column {name} is {types[name]}, as in the first folder, and {error}: {path}. "
                f'.schema("offset long, {name} string, ...") reads all values as texts'
            ) from None
    return found


def check_key_values(splits: Iterable[Split], columns: Columns) -> None:
    """ValueError for a folder whose value does not fit its column, before a task finds it."""
    checked: set[Keys] = set()
    for split in splits:
        if split.keys not in checked:
            checked.add(split.keys)
            key_values(split.keys, columns, split.path)


def corrupt_column(options: ReadOptions) -> SparkColumn:
    name = options.columnNameOfCorruptRecord
    if any(column.name == name for column in (*RECORDS, *METADATA, *BATCHES)):
        raise ValueError(f"columnNameOfCorruptRecord={name!r} is the name of another column")
    return SparkColumn(name, "string")


def fixed_columns(options: ReadOptions) -> dict[str, SparkColumn]:
    """The columns that do not need key=value folders, by name."""
    found = {column.name: column for column in (BATCHES if options.view == "batches" else RECORDS + METADATA)}
    return found | {options.columnNameOfCorruptRecord: corrupt_column(options)}


def _columns_named(names: Sequence[str], options: ReadOptions, keys: KeyTypes) -> Columns:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named twice: {', '.join(twice)}")
    valid = fixed_columns(options)
    if not valid.keys() >= {*names}:
        valid |= {column.name: column for column in key_columns(keys, options)}
    for name in (name for name in names if name not in valid):
        question = question_of_similar(name, valid)
        listed = ", ".join(f"{column.name} {column.type}" for column in valid.values())
        raise ValueError(f"kafkarec has no column {name!r}; {question + '; ' if question else ''}there are: {listed}")
    return tuple(valid[name] for name in names)
