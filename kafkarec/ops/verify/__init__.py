"""verify: checks logs for damage, reports where it is, what is lost and what to do

finding_kinds    the table of all kinds of findings
findings         Finding, and the collection of findings
run, parallel    verify(): opens the input, checks segments in parallel
segment_check    one segment, every byte once
partition_check  checks between the files of a log
header_checks, record_checks, payload_checks, message_checks, marker_checks
                 anomalies that Kafka accepts without an error
offset_checks, epoch_checks, sequence_checks, offset_gaps
                 consistency along a log
side_file_checks, index_checks, epoch_file_checks, producer_file_checks, partition_files
                 indexes, snapshots and checkpoints against the batches
unnamed_files    batches in files without Kafka's names
report, report_data, report_text, report_html, advice
                 the report, as data, text and HTML
"""

from .finding_kinds import KINDS
from .findings import Finding
from .report import Report
from .report_data import ByteRange, FileReport, PartitionReport
from .run import verify

__all__ = ["KINDS", "ByteRange", "FileReport", "Finding", "PartitionReport", "Report", "verify"]
