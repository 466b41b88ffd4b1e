"""Logs in files and folders: segments, partition folders, data folders.

opening           kafkarec.open
segment           Segment (one file), Readable (methods of Segment, Log and LogDir)
log, log_dir      Log: a partition folder; LogDir: a broker's data folder
names             parses names of files and folders
log_files         opens the files of a log
tiered            objects of tiered storage (KIP-405)
ranges            ranges of offsets and timestamps, index lookups
batch_frames      fingerprints and checksums of single batches, preallocated zeros, for growing logs
follower          reads a log while a broker writes to it
raw_batches       bytes of whole batches, unchanged
segment_summary   first and last offsets, codecs of a segment (kafkarec ls)
rebuild_folder    all side files of a log, made again
unnamed_files     finds files with batches that do not have Kafka's names
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
