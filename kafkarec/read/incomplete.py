"""The incomplete batch at an input's end as Damage, for readers who know that nothing is written there any more.

0 to 11 bytes of it     its base offset and its length are not known
12 bytes and more       they are in the message
"""

from __future__ import annotations

from kafkarec.damage import Damage, damaged
from kafkarec.format.layout import LOG_OVERHEAD, V2_AT, batch_length

_REASON = "length_beyond_end"


def incomplete_batch(head: bytes, position: int, left: int, lost_from: int | None, file: str | None = None) -> Damage:
    """The Damage for the last `left` bytes of an input, which begin at `position` and are the start of a batch.

    head: the first 12 of these bytes, or all of them
    lost_from: the next offset of the last good batch; None: there is none
    file: the name of the file; None: the input is a value
    """
    what = "value" if file is None else "file"
    fault = {"file": file, "position": position, "found": left, "detail": f"the {what} ends in mid-batch"}
    if len(head) >= LOG_OVERHEAD:
        fault["base_offset"] = int.from_bytes(head[: V2_AT.batch_length], "big", signed=True)
        fault["expected"] = LOG_OVERHEAD + batch_length(head)
    return damaged(file, position, left, lost_from, None, _REASON, fault)
