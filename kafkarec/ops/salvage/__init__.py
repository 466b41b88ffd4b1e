"""Salvage: every good batch of a damaged log into a new one, and a map of what is lost

places     is there space, is a folder empty        sources    which files are one partition
rows       a source's good batches, in order       merge      several sources into one log
copying    bytes from file to file, fsync          journal    what is done, for the next start
snapshots  KRaft snapshots beside a log            startable  what a broker would fail on
finishing  indexes, epochs, a last check           run        salvage()
report     SalvageReport
"""

from kafkarec.storage.output_rules import Refused

from .output_folder import NoRoom
from .report import SalvageReport
from .run import salvage

__all__ = ["NoRoom", "Refused", "SalvageReport", "salvage"]
