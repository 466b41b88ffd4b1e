"""The options of `compact`, checked"""

from __future__ import annotations

from typing import NamedTuple

from kafkarec.read.decode_options import checked_record_limit

DAY_MS = 86_400_000
LAST_OFFSET = 2**63 - 1


class CleanerSettings(NamedTuple):
    """See `compact`. An offset that is not given is 0 or LAST_OFFSET."""

    now: int
    delete_retention_ms: int
    producer_expiration_ms: int
    min_compaction_lag_ms: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    check_crcs: bool | str
    max_decompressed_bytes: int
    max_decompressed_message_bytes: int | None

    def check(self) -> None:
        """ValueError for a number out of range."""
        for name, value in zip(self._fields[:6], self, strict=False):
            if not isinstance(value, int) or not 0 <= value <= LAST_OFFSET:
                raise ValueError(f"{name} {value!r}: 0 to 2^63-1")
        checked_record_limit(self.max_decompressed_message_bytes)
