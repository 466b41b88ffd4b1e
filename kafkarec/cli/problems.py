"""Damage and other problems of inputs, and their lines on standard error.

A line names the file, the byte, the reason, what is lost and where reading continues; where reading stopped,
it ends with the next command. No line holds a byte of a key, a value or a header.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkarec.errors import REASONS, LimitExceededError, MissingCodecError
from kafkarec.storage import Segment
from kafkarec.support.text_table import lost_offsets, safe

FINE, DAMAGED, WRONG_USE, COULD_NOT, INTERRUPTED = 0, 1, 2, 3, 130

_LINES_AT_MOST = 20


class DamageLike(Protocol):
    """The fields of kafkarec's Damage that the lines use."""

    @property
    def length(self) -> int: ...
    @property
    def lost_from(self) -> int | None: ...
    @property
    def lost_to(self) -> int | None: ...
    @property
    def next_position(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def detail(self) -> str: ...


def say(text: str) -> None:
    """Prints one line to standard error. A closed standard error is ignored."""
    if sys.stderr is None:
        return
    try:
        print(f"kafkarec: {safe(text)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return


def exit_status(reason: str) -> int:
    """The exit status of a reason: 3 for a limit, a missing library and objects that a plugin encoded, else 1."""
    if reason == "tiered_object":
        return COULD_NOT
    known = REASONS.get(reason)
    return COULD_NOT if known and issubclass(known.error, LimitExceededError | MissingCodecError) else DAMAGED


@dataclass
class Troubles:
    """Collects damage over all inputs of one run.

    argv         the command line, for the command to type next
    last_path    after damage in any other input there is always more to read
    limit        bytes that a batch may decompress to
    """

    argv: Sequence[str]
    stop_at_first: bool
    last_path: str
    limit: int = 0
    found: int = 0
    status: int = FINE

    @property
    def stopped(self) -> bool:
        """Whether reading stops at this damage."""
        return self.stop_at_first and self.found > 0

    def add(self, segment: Segment, damage: DamageLike) -> None:
        """Reports one damage."""
        self.found += 1
        self.status = max(self.status, exit_status(damage.reason) if self.stop_at_first else DAMAGED)
        if self.found > _LINES_AT_MOST:
            return
        more_follows = damage.next_position is not None and damage.next_position < segment.size
        line = f"{damage.detail}; lost: {damage.length} bytes, {lost_offsets(damage.lost_from, damage.lost_to)}; "
        line += f"next good batch at byte {damage.next_position}" if more_follows else "no good batch behind"
        if damage.length == segment.size:
            line += _looks_like(segment)
        self._report(line, damage.reason, more_follows or segment.path != self.last_path)

    def tail(self, segment: Segment, remaining: int) -> None:
        """Reports bytes at the end of a log that are no whole batch: a cut, unless they are preallocated zeros."""
        end = segment.size
        if remaining and any(segment.raw(end - remaining, 64)):
            name = "standard input" if segment.path == "-" else segment.path
            what = f"{name} ends at byte {end} inside the batch at byte {end - remaining}"
            say(f"note: {what}: cut off while it was written or copied, no damage")

    def finish(self) -> int:
        """The exit status, after a last line about what was not listed."""
        if self.found > _LINES_AT_MOST:
            say(f"and {self.found - _LINES_AT_MOST} more places like these, {self.found} in all")
        return self.status

    def _report(self, what: str, reason: str, more_follows: bool) -> None:
        """`more_follows`: there is more to read after it."""
        line = f"{what} [{reason}]"
        way = ("--errors", "skip") if more_follows else None
        if reason == "limit_exceeded":
            way = ("--max-decompressed-bytes", f"{max(8 * self.limit, 1 << 30) >> 20}m")
        if self.stop_at_first and way:
            line += f". Everything in front of it is written; go on with: {command(self.argv, *way)}"
        say(line)


# Inputs that are no log: their first bytes, and advice.
_OTHER_FILES = {
    b"\x1f\x8b": "a gzip file: zcat {0} | kafkarec cat -",
    b"\x28\xb5\x2f\xfd": "a zstd file: zstdcat {0} | kafkarec cat -",
    b"\x04\x22\x4d\x18": "an lz4 file: lz4cat {0} | kafkarec cat -",
    b"PK\x03\x04": "a zip archive: unzip -p {0} | kafkarec cat -",
    b"PAR1": "a Parquet file, not a Kafka log",
    b"ARROW1": "an Arrow file, not a Kafka log",
}


def _looks_like(segment: Segment) -> str:
    head = segment.raw(0, 8)
    for start, what in _OTHER_FILES.items():
        if head.startswith(start):
            return f"; it looks like {what.format(shlex.quote(segment.path))}"
    return ""


def command(argv: Sequence[str], option: str, value: str) -> str:
    """This command line again, with an option set."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word == option:
            next(words, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return shlex.join(["kafkarec", *kept[:1], option, value, *kept[1:]])
