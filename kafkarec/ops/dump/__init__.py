"""The text of kafka-dump-log, line for line as Kafka 4.3's DumpLogSegments prints it"""

from .record_lines import DumpOptions
from .run import dump

__all__ = ["DumpOptions", "dump"]
