"""Salvage: copies every good batch of damaged logs to a new log, and reports what is lost

output_folder      checks the free space of the output folder
partition_sources  groups the source files by partition
source_witnesses   files that say how far the sources once reached
merge              merges several sources into one log
plan               what is written for one partition, with
  planned_files      files as parts of the sources
  plan_builder       the segments, and the offsets that are missing
  beside_files       files of other names that have what is missing
  kraft_snapshots    KRaft snapshots of a metadata log
  lost_markers       markers of transactions that damage destroyed
  plain_batches  batches that a broker fails on
plan_writing       writes a plan, and reads it back
  copying            copies bytes from file to file
  side_file_writer   indexes, producer snapshots, leader epochs
unfinished_run     what a later run knows of one that did not finish
salvage_report     SalvageReport, with a SalvagedPartition of each
run                salvage()
"""

from kafkarec.storage.output_rules import Refused

from .output_folder import NotEnoughSpace
from .run import salvage
from .salvage_report import SalvageReport
from .salvaged_partition import SalvagedPartition

__all__ = ["NotEnoughSpace", "Refused", "SalvageReport", "SalvagedPartition", "salvage"]
