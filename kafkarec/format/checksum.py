"""The checksum of a batch: CRC-32C over attributes to the end (magic 2), CRC-32 over magic to the end (magic 0 and 1).

The positions are in `layout`. The engine computes checksums without the GIL (`_core.pxd`); these functions serve
single batches in Python, by the same routines.
"""

from __future__ import annotations

from typing import Any

from kafkarec._core import crc32 as crc32
from kafkarec._core import crc32c as crc32c

from .layout import BATCH_MAGIC, CHECKED_FROM, CRC_AT


def batch_checksums(batch: Any, magic: int) -> tuple[int, int]:
    """(stored, computed) of a whole batch or message of magic 0, 1 or 2."""
    stored = int.from_bytes(batch[CRC_AT[magic] : CRC_AT[magic] + 4], "big")
    return stored, checksum(batch[CHECKED_FROM[magic] :], magic)


def checksum(checked: Any, magic: int, crc: int = 0) -> int:
    """The checksum of the bytes that a batch of this magic covers with it; crc: of those before them."""
    return crc32c(checked, crc) if magic >= BATCH_MAGIC else crc32(checked, crc)
