"""verify: checks logs, and reports damage, lost offsets and the next commands

finding_kinds    the table of all kinds of findings
findings         Finding, and the collection of findings
run, parallel    verify(): opens the input, checks segments in parallel
segment_check    checks one segment, reading every byte once
partition_check  checks between the files of a log
header_checks, audit_findings, marker_checks
                 anomalies that Kafka accepts without an error: in headers, in payloads, in control records
offset_checks, epoch_checks, sequence_checks, offset_gaps
                 checks along a log
side_file_checks, index_checks, epoch_file_checks, producer_file_checks, partition_files
                 checks of indexes, snapshots and checkpoints against the batches
salvaged_gaps    gaps that salvage.json lists
report, report_data, report_text, report_html, advice
                 the report, as data, text and HTML
"""

from .finding_kinds import KINDS
from .findings import Finding
from .report import Report
from .report_data import ByteRange, FileReport, PartitionReport
from .run import verify

__all__ = ["KINDS", "ByteRange", "FileReport", "Finding", "PartitionReport", "Report", "verify"]
