"""What a broker does to a produce request before it is in the log: Kafka's LogValidator, without a broker.

    request   batches framed and checked, records weighed        (the desk `kafkarec/_validator.pyx`)
    rules     what the topic and the sender demand
    batch     what is refused of a batch                 refusals   what is refused of its records
    taking    stamped in place, or written anew          result     ValidatedRecords
    run       validate()

    uncompressed, as it stays    every batch's offsets, leader epoch and time are stamped in place
    compressed, as it stays      the same to the one batch there is, once its records were seen: keys and values are
                                 stepped over and the records' lengths not looked at (KAFKA-8106)
    anything else                one new batch (magic 2), message set or wrapper of all records
"""

from .result import RecordError, RecordValidationStats, ValidatedRecords
from .run import validate

__all__ = ["RecordError", "RecordValidationStats", "ValidatedRecords", "validate"]
