"""Types of the compiled module that rewrites records between magic 2 and magic 3. Private."""

from typing import Any, final

def rewrite_records(
    fields: Any,
    data: Any,
    count: int,
    has_attributes: bool,
    to_apart: bool,
    to_attributes: bool,
    batch: dict[str, Any],
) -> Any: ...

@final
class FieldReader:
    at: int
    data_size: int
    last_delta: int
    unordered: tuple[int, int, int] | None
    def __init__(self, count: int, has_attributes: bool, batch: dict[str, Any]) -> None: ...
    def read(self, content: Any, is_all: bool) -> bool: ...
