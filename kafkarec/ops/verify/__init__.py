"""verify: checks logs, and reports damage, lost offsets and the next commands

finding_kinds     the table of all kinds of findings
findings          Finding, and the collection of findings
run, parallel     verify(): opens the input, checks logs in parallel
segment_check     checks one file, reading every byte once, by
                  header_checks, audit_findings, control_record_checks, offset_checks, epoch_checks
log_checks        checks along a log, by the same reading, by
                  index_checks, epoch_checkpoint_checks, producer_file_checks, sequence_checks
partition_report  what is between the files of a log, and what it means; log_order: where batches are not the log's
left_out_files, salvaged_gaps
                  files that are no logs; gaps that salvage.json lists
report, report_data, headline, report_document, advice
                  the report, as data and for people
"""

from .finding_kinds import KINDS
from .findings import Finding
from .report import Report
from .report_data import ByteRange, FileReport, PartitionReport
from .run import verify

__all__ = ["KINDS", "ByteRange", "FileReport", "Finding", "PartitionReport", "Report", "verify"]
