"""The text of kafka-dump-log, line for line as Kafka 4.3's DumpLogSegments prints it"""

from .run import Options, dump

__all__ = ["Options", "dump"]
