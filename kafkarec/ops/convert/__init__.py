"""Converts batches to another magic, codec, level or size

target        the batches of the input; magic, codec and size limit of the output; which are joined; counts and losses
new_batches   the new bytes of a batch, and the errors for batches that cannot be converted
run           convert(), converted_batches(): one pass over the input
"""

from .run import Conversion, Converted, convert, converted_batches
from .target import LOSSES, ConversionStats, LossError

__all__ = ["LOSSES", "Conversion", "ConversionStats", "Converted", "LossError", "convert", "converted_batches"]
