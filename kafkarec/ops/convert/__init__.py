"""Converts batches to another magic, codec, level or size

source_batches   the batches of the input, validated; the records of those that are rewritten, and where they are split
target           the magic, codec and size limit of each output batch, which batches are joined, counts and losses
new_batches      the new bytes of a batch, and the errors for batches that cannot be converted
run              convert(), converted(): one pass over the input
"""

from .run import Conversion, Converted, convert, converted
from .target import LOSSES, ConversionStats, LossError

__all__ = ["LOSSES", "Conversion", "ConversionStats", "Converted", "LossError", "convert", "converted"]
