"""Measures the effect of another codec, level, batch size or format on a log, by converting samples of it

formats      the formats: how a piece is written, encoded and decoded in each
candidates   the formats, codecs, levels and batch sizes to try
sampling     pieces spread over the log
trial        one candidate on one piece: bytes and seconds
outcomes     results, and estimates for the whole log
run          study()
"""

from .candidates import BATCH_SIZES, CODECS, NotTried, codec_and_level
from .formats import FORMATS, Candidate, format_name
from .outcomes import Makeup, Outcome, Study
from .run import NothingToTry, study

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
