"""For programs that plan how to read logs, read them in tasks on several machines, and follow them as they grow.

    distributed.LogFinder(paths).logs()                      kafkarec.find, step by step and again as logs grow
    distributed.is_log_folder("orders-7", "data")            names of Kafka's files and folders
    distributed.summarize(segment).next_offset               the end of a segment, from its last batches
    distributed.ended_and_open(segments, skip=True)          what read_committed leaves out, once for all tasks
    distributed.fingerprint(segment, position)               whether a growing file is still the same one
    distributed.demand_apart(paths, out, out)                refuses an output in a folder that is read

The bytes of a segment are divided by `Segment.splits` and `Segment.between`; its side files are read by
`kafkarec.sidecars`. A fingerprint is the first bytes of a batch, up to the checksum of magic 2: base offset, length,
leader epoch, magic and checksum. They differ between any two batches of a log, so they show that a log was truncated
and written again. In a file that the broker preallocated, zeros follow the last batch. A file that is cut, or whose
last batch is still being written, ends in an incomplete batch.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy_getattr

if TYPE_CHECKING:
    from .logs import LogFinder
    from .read.isolation import EndedAndOpen, ended_and_open
    from .recover.offset_order import is_misfit
    from .sources.remote import local_path
    from .sources.remote_errors import remote_error
    from .sources.remote_path import arrow_filesystem
    from .storage.finder import overlap
    from .storage.first_bytes import type_by_head
    from .storage.key_folders import ParameterError, UnknownKeyError, inferred_type, key_value
    from .storage.names import folder_owner, is_log_folder, is_segment
    from .storage.names_by_content import order_by_content, wrong_names
    from .storage.output_rules import demand_apart
    from .storage.ranges import segments_in_range
    from .storage.raw_batches import (
        fingerprint,
        first_offset,
        has_valid_checksum,
        has_zeros_at_end,
        incomplete_end,
        is_unchanged,
    )
    from .storage.recorded_ends import is_compacted
    from .storage.segment_summary import SegmentSummary, summarize
    from .support.durable import make_folder, sync_folder, write_file
    from .support.partitioned_files import PartitionedFiles, WrittenFile
    from .support.text_table import lost_offsets, other_unit_text, timestamp_text

__all__ = [
    "EndedAndOpen",
    "LogFinder",
    "ParameterError",
    "PartitionedFiles",
    "SegmentSummary",
    "UnknownKeyError",
    "WrittenFile",
    "arrow_filesystem",
    "demand_apart",
    "ended_and_open",
    "fingerprint",
    "first_offset",
    "folder_owner",
    "has_valid_checksum",
    "has_zeros_at_end",
    "incomplete_end",
    "inferred_type",
    "is_compacted",
    "is_log_folder",
    "is_misfit",
    "is_segment",
    "is_unchanged",
    "key_value",
    "local_path",
    "lost_offsets",
    "make_folder",
    "order_by_content",
    "other_unit_text",
    "overlap",
    "remote_error",
    "segments_in_range",
    "summarize",
    "sync_folder",
    "timestamp_text",
    "type_by_head",
    "write_file",
    "wrong_names",
]

__dir__ = __all__.copy

__getattr__ = lazy_getattr(
    __name__,
    {
        "logs": ("LogFinder",),
        "read.isolation": ("EndedAndOpen", "ended_and_open"),
        "recover.offset_order": ("is_misfit",),
        "sources.remote": ("local_path",),
        "sources.remote_errors": ("remote_error",),
        "sources.remote_path": ("arrow_filesystem",),
        "storage.raw_batches": (
            "fingerprint",
            "first_offset",
            "has_valid_checksum",
            "has_zeros_at_end",
            "incomplete_end",
            "is_unchanged",
        ),
        "storage.finder": ("overlap",),
        "storage.first_bytes": ("type_by_head",),
        "storage.key_folders": ("ParameterError", "UnknownKeyError", "inferred_type", "key_value"),
        "storage.names": ("folder_owner", "is_log_folder", "is_segment"),
        "storage.names_by_content": ("order_by_content", "wrong_names"),
        "storage.output_rules": ("demand_apart",),
        "storage.ranges": ("segments_in_range",),
        "storage.recorded_ends": ("is_compacted",),
        "storage.segment_summary": ("SegmentSummary", "summarize"),
        "support.durable": ("make_folder", "sync_folder", "write_file"),
        "support.partitioned_files": ("PartitionedFiles", "WrittenFile"),
        "support.text_table": ("lost_offsets", "other_unit_text", "timestamp_text"),
    },
    "kafkarec",
)
