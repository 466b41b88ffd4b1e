"""Converts batches to another magic, codec, level or size

source_batches     the batches of the input, validated
target             the magic, codec and size limit of each output batch
batch_joining      which adjacent batches may be joined
decoded_batches    the records of batches that are rewritten, and where they are split
rewrite            the new bytes of a batch
conversion_errors  errors for batches that cannot be converted
stats              counts, and what was lost
run                one pass over the input
convert_bytes      convert(), converted()
"""

from .convert_bytes import Converted, convert, converted
from .run import Conversion
from .stats import LOSSES, ConversionStats, LossError

__all__ = ["LOSSES", "Conversion", "ConversionStats", "Converted", "LossError", "convert", "converted"]
