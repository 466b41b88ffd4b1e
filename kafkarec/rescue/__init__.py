"""Salvage: every good batch of a damaged log into a new one, and a map of what is lost

places     where output may go and where never     sources    which files are one partition
rows       a source's good batches, in order       merge      several sources into one log
copying    bytes from file to file, fsync          journal    what is done, for the next start
snapshots  KRaft snapshots beside a log            startable  what a broker would fail on
finishing  indexes, epochs, a last check           run        salvage()
report     SalvageReport
"""

from .places import NoRoom, Refused
from .report import SalvageReport
from .run import salvage

__all__ = ["NoRoom", "Refused", "SalvageReport", "salvage"]
