"""Random records, as `builders.records` and `builders.batch` take them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

BLOBS = st.none() | st.binary(max_size=10) | st.text(max_size=10).map(str.encode)


def records_of(blobs: st.SearchStrategy[bytes | None], most: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of at most `most` records, whose keys, values and header values are `blobs`."""
    fields = {
        "key": blobs,
        "value": blobs,
        "headers": st.lists(st.tuples(st.text(max_size=5).map(str.encode), blobs), max_size=3),
        "timestamp_delta": st.integers(-5, 5),
    }
    return st.lists(st.fixed_dictionaries(fields), max_size=most)
