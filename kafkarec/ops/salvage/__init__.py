"""Salvage: copies every good batch of damaged logs to a new log, and reports what is lost

output_folder      checks of the output folder and its free space
partition_sources  which source files belong to one partition
good_batches       the good batches of a source in offset order
merge              merges several sources into one log
copying            copies bytes from file to file, fsync
output             the segments of one partition, and the batches set aside
journal            the finished steps, for a later run
kraft_snapshots    KRaft snapshots of a metadata log
open_transactions  batches that a broker fails on
side_files         indexes, epochs, a last check
report             SalvageReport
run                salvage()
"""

from kafkarec.storage.output_rules import Refused

from .output_folder import NotEnoughSpace
from .report import SalvageReport
from .run import salvage

__all__ = ["NotEnoughSpace", "Refused", "SalvageReport", "salvage"]
