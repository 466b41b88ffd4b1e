"""Types of the compiled module of recycled pages and checksums. Private: see `memory` and `format.checksum`."""

from typing import Any

from kafkarec._checksum import Routines

ROUTINES: Routines

def release_memory() -> int: ...
def crc32c(data: Any, crc: int = 0) -> int: ...
def crc32(data: Any, crc: int = 0) -> int: ...
