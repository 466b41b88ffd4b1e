"""What another codec, level or batch size would make of a log, found by trying it on parts of it

candidates   the codecs, levels and batch sizes to try
sampling     pieces of a log, spread over all of it
trying       one candidate on one piece: bytes and seconds
outcomes     what was found, and what it means for the whole log
running      study()
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
]  # fmt: skip
