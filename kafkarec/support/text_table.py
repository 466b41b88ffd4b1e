"""Plain text tables: columns as wide as their widest cell, numbers right-aligned, two spaces between columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
NOTHING = "-"
_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def render(columns: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The table as text: a header line, then one line per row."""
    aligned = []
    for title, cells in columns:
        width = max([len(title), *map(len, cells)])
        numeric = all(cell == NOTHING or cell[:1].isdigit() or cell[:1] == "-" for cell in cells)
        align = str.rjust if numeric else str.ljust
        aligned.append([align(cell, width) for cell in (title, *cells)])
    return "".join(safe("  ".join(line).rstrip()) + "\n" for line in zip(*aligned, strict=True))


def or_nothing(value: object) -> str:
    """The cell of a value; - for None."""
    return NOTHING if value is None else str(value)


def safe(text: str) -> str:
    """The text as one line: U+FFFD replaces control characters and lone surrogates, which file names may contain."""
    return _CONTROL.sub("\ufffd", text)


_PLURALS = {
    "anomaly": "anomalies",
    "batch": "batches",
    "file or folder": "files or folders",
    "good batch": "good batches",
    "it": "them",
    "more batch": "more batches",
    "transaction is": "transactions are",
}


def counted(count: int, what: str) -> str:
    """A number with a noun in singular or plural: `1 file`, `2 files`."""
    return f"{count} {noun(count, what)}"


def noun(count: int, what: str) -> str:
    """A noun or pronoun in the singular or plural that the number needs."""
    return what if count == 1 else _PLURALS.get(what, f"{what}s")


def byte_size(count: int) -> str:
    """A number of bytes as text with a unit."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(ms: int) -> str:
    """A duration in its two largest units."""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    for at, (unit, size) in enumerate(_DURATIONS):
        if ms < size:
            continue
        if unit == "s":
            return f"{ms / 1000:.3g} s" if ms < 10_000 else f"{ms // 1000} s"
        smaller, smaller_size = _DURATIONS[at + 1]
        rest = ms % size // smaller_size
        return f"{ms // size} {unit} {rest} {smaller}" if rest else f"{ms // size} {unit}"
    return f"{ms} ms"


def lost_offsets(first: int | None, last: int | None) -> str:
    """The offsets that may be lost by a damage, as in damage.Damage."""
    if first is None:
        return "offsets not known" if last is None else f"offsets up to {last}"
    if last is None or last < first - 1:  # what follows has lower offsets
        return f"offsets from {first} on"
    if last < first:
        return "no offset"
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def timestamp_text(ms: int | None) -> str:
    """A timestamp (ms) as ISO 8601 in UTC; the number itself outside of the years 1 to 9999."""
    if ms is None:
        return NOTHING
    try:
        return utc_text(ms)
    except OverflowError:
        return str(ms)


# Units in which a bare number is no time in ms if it is a time of the years 2000 to 2099 in that unit: per second.
_OTHER_UNITS = {"seconds": 1, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_YEARS_2000_TO_2099 = (946_684_800, 4_102_444_800)


def other_unit_text(number: int) -> str | None:
    """Of a bare number, which should be a time in ms: that it is one in another unit, and how to write it. None: it may
    be ms."""
    begin, end = _YEARS_2000_TO_2099
    for unit, per_second in _OTHER_UNITS.items():
        if begin * per_second <= number < end * per_second:
            ms = number * 1000 // per_second
            return f"{number} looks like {unit}, and a bare number is milliseconds; write {ms} or {timestamp_text(ms)}"
    return None


def utc_text(ms: int) -> str:
    """A timestamp (ms) as ISO 8601 in UTC. OverflowError outside of the years 1 to 9999."""
    from datetime import UTC, datetime, timedelta  # not at the top: a twentieth of `kafkarec --help`

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def system_reason(error: OSError) -> str:
    """Why the system refused something, within a sentence: "input/output error". A path in it is as it is."""
    text = re.sub(r".*Detail: \[errno \d+\] ", "", error.strerror or str(error))  # of pyarrow: what it did is before
    return text[:1].lower() + text[1:]
