"""Decodes the records of internal topics: `__consumer_offsets`, `__cluster_metadata` and others (Kafka 4.4).

    internal_topics.read("__consumer_offsets", record.key, record.value)      one record: .type .version .key .value
    log = kafkarec.open("__consumer_offsets-3")
    internal_topics.rows(log)                                  one dict per record
    internal_topics.columns(log, type="OffsetCommit")          a dict of lists, for pyarrow, polars and pandas
    internal_topics.TOPICS["__cluster_metadata"].types         the record types with their versions and fields

All functions, and the texts of `kafkarec dump`, use the same tables of schemas (`schemas.py`). A record type or
version that Kafka 4.4 does not have, and bytes that are not a message, stay bytes; with `errors="raise"` they raise an
exception.
"""

from .internal_records import InternalRecord, MessageColumn, columns, read, rows, schema
from .topics import TOPICS, Topic

__all__ = [
    "TOPICS",
    "InternalRecord",
    "MessageColumn",
    "Topic",
    "columns",
    "read",
    "rows",
    "schema",
]
