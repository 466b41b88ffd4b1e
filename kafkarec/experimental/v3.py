"""Magic 3, a discarded proposal for Kafka's record batches. No broker reads it.

A batch of magic 2 with a shorter header (`framing` has the bytes), and, with attribute bit 7
(ignoreMessageAttributes), without the attributes byte in each record. docs/explanation/magic-3.md has the whole
format, where it deviates from the proposal, and why.
"""

from __future__ import annotations

from .framing import Format

__all__ = ["decode", "encode", "from_v2", "to_v2"]

_FORMAT = Format(header_first=False)
encode, from_v2, decode, to_v2 = _FORMAT.encode, _FORMAT.from_v2, _FORMAT.decode, _FORMAT.to_v2
