"""Kafka's LogValidator: how a broker checks a produce request and assigns offsets before it appends it to the log.

_verbs.pyx   batches are delimited and checked, records are scanned
rules        the rules of the topic and the sender, the checks of a batch, the result, the errors
run          validate(), and the batches of the log: modified in place, or rewritten

uncompressed, same magic and codec    offsets, leader epoch and time of every batch are set in place
compressed, same magic and codec      the same for the one batch, after its records were scanned: keys and values
                                      are skipped and the records' lengths not checked (KAFKA-8106)
otherwise                             all records are rewritten as one batch (magic 2), message set or wrapper
"""

from .rules import RecordError, RecordValidationStats, ValidatedRecords
from .run import validate

__all__ = ["RecordError", "RecordValidationStats", "ValidatedRecords", "validate"]
