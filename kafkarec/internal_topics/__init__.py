"""Decodes the records of internal topics: `__consumer_offsets`, `__cluster_metadata` and others (Kafka 4.3).

    internal_topics.read("__consumer_offsets", record.key, record.value)      one record: .type .version .key .value
    log = kafkarec.open("__consumer_offsets-3")
    internal_topics.rows(log)                                  a dict a record
    internal_topics.columns(log, type="OffsetCommit")          lists by name: a dict that polars and pandas take
    internal_topics.to_arrow(log, type="OffsetCommit")         a pyarrow.Table with the types of Kafka's fields
    internal_topics.TOPICS["__cluster_metadata"].types         what there is: record types, versions, fields

One table of schemas (`schemas_*.py`) feeds all of it, the texts of `kafkarec dump` included. What Kafka 4.3 does not
know (a record type, a version of Kafka's future) stays bytes, and so do bytes that are no message, unless
`errors="raise"` asks for the exception.
"""

from .internal_records import InternalRecord, MessageColumn, columns, read, rows, schema, to_arrow
from .topics import TOPICS, Topic

KAFKA_VERSION = "4.3"

__all__ = [
    "KAFKA_VERSION",
    "TOPICS",
    "InternalRecord",
    "MessageColumn",
    "Topic",
    "columns",
    "read",
    "rows",
    "schema",
    "to_arrow",
]
