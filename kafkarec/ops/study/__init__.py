"""Measures the effect of another codec, level, batch size or format on a log, by converting samples of it

candidates   the formats, codecs, levels and batch sizes to try, and how a piece is written, encoded and decoded in each
sampling     pieces spread over the log
run          study(): each candidate on each piece, results, and estimates for the whole log
"""

from .candidates import BATCH_SIZES, CODECS, FORMATS, Candidate, NotTried, codec_and_level, format_name
from .run import Makeup, NothingToTry, Outcome, Study, study

__all__ = [
    "BATCH_SIZES",
    "CODECS",
    "FORMATS",
    "Candidate",
    "Makeup",
    "NotTried",
    "NothingToTry",
    "Outcome",
    "Study",
    "codec_and_level",
    "format_name",
    "study",
]
