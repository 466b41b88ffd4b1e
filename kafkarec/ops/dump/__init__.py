"""The text of kafka-dump-log, line for line as Kafka 4.3's DumpLogSegments prints it"""

from .run import DumpOptions, dump

__all__ = ["DumpOptions", "dump"]
