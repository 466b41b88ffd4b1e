"""Files and folders on a disk or in an object store: segments, partition folders, data folders.

opening           kafkarec.open
segment           Segment (one file), Readable (methods of Segment, Log and LogDir)
log, log_dir      Log: a partition folder; LogDir: a broker's data folder
names             parses names of files and folders
folders           lists folders, local and remote
sources           bytes of a file: pread, Python file object; gz_segment: content of a .gz or .zst
remote*, tiered   URLs and object stores; objects of tiered storage (KIP-405)
ranges            ranges of offsets and timestamps, index lookups
batch_frames      fingerprints and checksums of single batches, preallocated zeros, for growing logs
raw_batches       bytes of whole batches, unchanged
segment_summary   first and last offsets, codecs of a segment (kafkarec ls)
unnamed_files     finds files with batches that do not have Kafka's names
read_failures     why a file cannot be read, and what to do about it
output_rules      refuses outputs that would overwrite inputs
"""

from typing import TYPE_CHECKING

from kafkarec._lazy import names_of

if TYPE_CHECKING:
    from .log import LeftOut, Log
    from .log_dir import LogDir
    from .opening import logs, logs_beside, open
    from .segment import Segment

__all__ = ["LeftOut", "Log", "LogDir", "Segment", "logs", "logs_beside", "open"]

__getattr__ = names_of(
    __name__,
    {
        "log": ("LeftOut", "Log"),
        "log_dir": ("LogDir",),
        "opening": ("logs", "logs_beside", "open"),
        "segment": ("Segment",),
    },
)
