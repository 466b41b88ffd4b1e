"""verify: checks logs, and reports damage, lost offsets and the next commands

finding_kinds     the table of all kinds of findings
findings          Finding, and the collections of findings, also of those about side files
run               verify(): opens the input, checks logs in parallel
segment_check     checks one file, reading every byte once, by batch_checks
log_checks        checks along a log, by the same reading, by side_file_checks and SequenceCheck; files that are no logs
partition_report  what is between the files of a log, and what it means; where batches are not the log's
report_data       the report as data
report, advice    the report for people, and the next commands
"""

from .finding_kinds import KINDS
from .findings import Finding
from .report import Report
from .report_data import ByteRange, FileReport, PartitionReport
from .run import verify

__all__ = ["KINDS", "ByteRange", "FileReport", "Finding", "PartitionReport", "Report", "verify"]
