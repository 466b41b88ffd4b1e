"""Salvage: copies every good batch of damaged logs to a new log, and reports what is lost

partition_sources  groups the source files by partition
beside_files       files beside the sources: those of other names that have what is missing, and those that say how far
                   the sources once reached
plan               what is written for one partition, with the KRaft snapshots of a metadata log
  planned_files      files as parts of the sources, and how their bytes are copied
  plan_builder       merges the sources into one log: its segments, and the offsets that are missing
  planned_changes    markers of transactions that damage destroyed, batches that a broker fails on, another cluster
plan_writing       writes a plan, and reads it back, with indexes, producer snapshots, leader epochs
unfinished_run     what a later run knows of one that did not finish
salvage_report     SalvageReport, with a SalvagedPartition of each; serve_plan: how a broker gets them
run                salvage()
"""

from kafkarec.storage.output_rules import Refused

from .run import NotEnoughSpace, salvage
from .salvage_report import SalvageReport
from .salvaged_partition import SalvagedPartition

__all__ = ["NotEnoughSpace", "Refused", "SalvageReport", "SalvagedPartition", "salvage"]
