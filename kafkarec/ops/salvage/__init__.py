"""Salvage: copies every good batch of damaged logs to a new log, and reports what is lost

output_folder      checks of the output folder and its free space
partition_sources  groups the source files by partition
source_witnesses   files that say how far the sources once reached
good_batches       the good batches of a source in offset order
merge              merges several sources into one log
copying            copies bytes from file to file, with fsync
partition_writer   writes the segments of one partition, and the batches that are set aside
journal            the finished steps, from which a later run continues
kraft_snapshots    KRaft snapshots of a metadata log
open_transactions  removes batches that a broker fails on
side_file_writer   indexes, producer snapshots, leader epochs, and a last check of the new log
salvage_report     SalvageReport
run                salvage()
"""

from kafkarec.storage.output_rules import Refused

from .output_folder import NotEnoughSpace
from .run import salvage
from .salvage_report import SalvageReport

__all__ = ["NotEnoughSpace", "Refused", "SalvageReport", "salvage"]
