"""Files and folders as they lie on a disk or in a bucket: segments, partitions, data folders.

    names      what names tell              sources    bytes by pread, map, file object
    folders    what lies where              ranges     which records, and where to begin
    segment    one file                     partition  Log: a folder of segments
    datadir    LogDir: a folder of logs     opening    kafkarec.open
    readable   the verbs they share         outputs    where an output may go
"""

from .log import LeftOut, Log
from .log_dir import LogDir
from .opening import logs, open, open_folder
from .segment import Segment

__all__ = ["LeftOut", "Log", "LogDir", "Segment", "logs", "open", "open_folder"]
