"""Converts batches to another magic, codec, level or size

source_batches     the batches of the input, validated
target             the magic, codec and size limit of each output batch
batch_joining      which adjacent batches may be joined
decoded_batches    the records of batches that are rewritten, and where they are split
rewrite            the new bytes of a batch
conversion_errors  errors for batches that cannot be converted
stats              counts, and what was lost
run                convert(), converted(): one pass over the input
"""

from .run import Conversion, Converted, convert, converted
from .stats import LOSSES, ConversionStats, LossError

__all__ = ["LOSSES", "Conversion", "ConversionStats", "Converted", "LossError", "convert", "converted"]
