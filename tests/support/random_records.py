"""Random records, as `builders.records` and `builders.batch` take them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

BLOBS = st.none() | st.binary(max_size=10) | st.text(max_size=10).map(str.encode)
# Also what could forge a line, a cell or a row of the output, or move the cursor of a terminal.
# fmt: off
UNUSUAL = BLOBS | st.sampled_from([
    b"", b"\n", b"\r\n", b"\r", b"a,b", b'"', b'""', b"}\n{", b"\0", b"\xff", b"\x1b[2J", b"=1+1", b" x ", b"\\",
    b"\\N", b"%s%d", b"null", b"\xef\xbb\xbf", "\u2028\u2029\x85".encode(), b"#", b"'", b"\t", "é".encode(),
])
# fmt: on


def records_of(
    blobs: st.SearchStrategy[bytes | None], most: int, **more: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of at most `most` records, whose keys, values and header values are `blobs`; with more fields."""
    fields = {
        "key": blobs,
        "value": blobs,
        "headers": st.lists(st.tuples(st.text(max_size=5).map(str.encode), blobs), max_size=3),
        "timestamp_delta": st.integers(-5, 5),
    }
    return st.lists(st.fixed_dictionaries(fields | more), max_size=most)
