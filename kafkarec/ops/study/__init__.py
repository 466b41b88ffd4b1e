"""Measures the effect of another codec, level or batch size on a log, by converting samples of it

candidates   the codecs, levels and batch sizes to try
sampling     pieces spread over the log
trial        one candidate on one piece: bytes and seconds
outcomes     results, and estimates for the whole log
run          study()
"""

from .candidates import BATCH_SIZES, CODECS, Candidate, codec_and_level
from .outcomes import ByteShares, Outcome, Study
from .run import NothingToTry, study

__all__ = [
    "BATCH_SIZES",
    "CODECS",
    "ByteShares",
    "Candidate",
    "NothingToTry",
    "Outcome",
    "Study",
    "codec_and_level",
    "study",
]
