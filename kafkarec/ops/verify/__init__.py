"""verify: is it damaged, where exactly, what is lost, what to do now

    kinds      the closed table of findings                report      Report, PartitionReport, FileReport, Finding
    run        opens, examines side by side, reports       text, html  the report for eyes
    files      one segment, every byte once                partition   what holds between the files of a log
    headers, records, payloads, messages, markers          what Kafka passes over in silence, by where it stands
    offsets, epochs, sequences, gaps, sidefiles            what must fit together along a log
    strays                                                 batches in files that are not Kafka's by their names
"""

from .finding_kinds import KINDS
from .findings import Finding
from .report import Report
from .report_data import ByteRange, FileReport, PartitionReport
from .run import verify

__all__ = ["KINDS", "ByteRange", "FileReport", "Finding", "PartitionReport", "Report", "verify"]
