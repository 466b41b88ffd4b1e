"""Batches into another magic, codec, level or size

units      the batches of the input, validated      target      what each one is to become
neighbours which of them may become one             decoded     their records
cutting    where a batch of a given size ends       rewriting   a batch's new bytes
refusals   what cannot be converted                 stats       what was done, what is lost
run        one pass                                 converting  convert(), converted()
varints    how many bytes numbers take
"""

from .convert_bytes import Converted, convert, converted
from .run import Conversion
from .stats import LOSSES, ConversionStats, LossError

__all__ = ["LOSSES", "Conversion", "ConversionStats", "Converted", "LossError", "convert", "converted"]
