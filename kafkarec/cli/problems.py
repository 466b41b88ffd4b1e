"""Reports of damage and other problems of inputs: one line each on standard error.

A line has the file, the byte, the reason, what is lost and where reading continues; if reading stopped,
it ends with the next command. No line contains bytes of keys, values or headers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkarec.errors import REASONS, LimitExceededError, MissingCodecError
from kafkarec.storage import first_bytes
from kafkarec.storage.output_rules import is_stream
from kafkarec.support.command_line import PROGRAM, quoted
from kafkarec.support.text_table import lost_offsets, safe

from . import COULD_NOT, DAMAGED, FINE, progress

if TYPE_CHECKING:
    from kafkarec.damage import Damage, Restored, UndecidedTransaction
    from kafkarec.storage.segment_file import SegmentFile

_MAX_LINES = 20


def say(text: str) -> None:
    """Print one line to standard error; do nothing if it is closed."""
    if sys.stderr is None:
        return
    progress.erase()
    with suppress(OSError, ValueError):
        print(f"kafkarec: {safe(text)}", file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """Print a line about what is no problem."""
    say(f"note: {text}")


def exit_status(reason: str | None) -> int:
    """Return the exit status of a reason: 3 for a limit, a missing library or objects that a plugin encoded, else 1."""
    if reason == "tiered_object":
        return COULD_NOT
    known = REASONS.get(reason or "")
    return COULD_NOT if known and issubclass(known.error, LimitExceededError | MissingCodecError) else DAMAGED


class FirstLines:
    """Prints the first lines about problems of a kind, and at the end how many more there are. what: they are, in the
    plural"""

    def __init__(self, what: str, most: int = _MAX_LINES) -> None:
        self._what, self._most, self.count = what, most, 0

    def add(self, line: str) -> None:
        self.count += 1
        if self.count <= self._most:
            say(line)

    def finish(self) -> None:
        if self.count > self._most:
            say(f"and {self.count - self._most} more {self._what}, {self.count} in total")


class DamageReporter:
    """Reports damage in all inputs of one run on standard error.

    args         of the command line, for the command to type next
    last_path    path of the last input; after damage in any other one there is always more to read
    lines        at most so many damaged ranges, and undecided transactions, are listed
    """

    def __init__(self, args: argparse.Namespace, last_path: str, lines: int = _MAX_LINES) -> None:
        self.args, self.last_path, self._lists_tails = args, last_path, lines > 0
        self.stop_at_first, self.status = args.errors == "raise", FINE
        self._ranges = FirstLines("damaged ranges", lines)
        self._undecided = FirstLines("undecided transactions", lines)

    @property
    def stopped(self) -> bool:
        """Whether reading stops at the damage found so far."""
        return self.stop_at_first and self._ranges.count > 0

    def add(self, segment: SegmentFile, damage: Damage) -> None:
        """Report one damaged range; if reading stops there, with the command that prints all that is good."""
        self.status = max(self.status, exit_status(damage.reason) if self.stop_at_first else DAMAGED)
        more_follows = damage.next_position is not None and damage.next_position < segment.size
        line = f"{damage.detail}; lost: {damage.length} bytes, {lost_offsets(damage.lost_from, damage.lost_to)}; "
        line += f"next good batch at byte {damage.next_position}" if more_follows else "no good batch after it"
        other = first_bytes.of_segment(segment) if damage.length == segment.size else None
        if other is not None:
            line += f"; it {other.sentence(segment.path, self.args.argv[0])}"
        line += f" [{damage.reason}]"
        is_last = not more_follows and segment.path == self.last_path
        if self.stop_at_first and (not is_last or damage.reason == "limit_exceeded"):
            options: dict[str, str | None] = {"--errors": "skip"}
            if damage.reason == "limit_exceeded":
                options = higher_limit_option(self.args.max_decompressed_bytes)
            output = self.args.output
            if not is_stream(output) and getattr(self.args, "partition_by", None) is not None:
                options["-o"] = f"{output.rstrip('/')}-2"  # a folder is never replaced
            elif not is_stream(output):
                options["--force"] = None
            line += f". Everything before it is written; all that is good: {rerun_command(self.args.argv, options)}"
        self._ranges.add(line)

    def report_undecided(self, path: str, transactions: Sequence[UndecidedTransaction]) -> None:
        """Report the transactions of a log that read_committed leaves out because their marker may be lost."""
        for one in transactions:
            self._undecided.add(f"{path}: {one}")

    def report_restored(self, segment: SegmentFile, one: Restored) -> None:
        """Report a batch that was read with restored header fields: on disk it is damaged."""
        self.status = max(self.status, DAMAGED)
        self._ranges.add(f"{segment.path}, batch at byte {one.position}: {one} [header_restored]")

    def report_tail(self, segment: SegmentFile, remaining: int) -> None:
        """Report an incomplete batch at the end of a segment, which only its last piece has."""
        if self._lists_tails:
            self.status = max(self.status, report_tail(segment, remaining, self.args.argv[0]))

    def finish(self) -> int:
        """Print how many damaged ranges were not listed, and return the exit status."""
        self._ranges.finish()
        self._undecided.finish()
        return self.status


def report_tail(segment: SegmentFile, remaining: int, verb: str) -> int:
    """Report the `remaining` bytes at the end of a segment, an incomplete batch or a file of another type; preallocated
    zeros are not reported. Return the exit status."""
    if not remaining:
        return FINE
    end = segment.size
    name = "standard input" if segment.path == "-" else segment.path
    other = first_bytes.of_segment(segment) if remaining == end else None
    if other is not None:
        say(f"{name} has no batch; it {other.sentence(segment.path, verb)}")
        return DAMAGED
    if any(segment.raw(end - remaining, 64)):
        what = f"{name} ends at byte {end} inside the batch at byte {end - remaining}"
        remark(f"{what}: cut off while it was written or copied; this is not damage")
    return FINE


def higher_limit_option(limit: int) -> dict[str, str | None]:
    """Return the option with which a batch above the limit is most likely read."""
    return {"--max-decompressed-bytes": f"{max(8 * limit, 1 << 30) >> 20}m"}


def rerun_command(argv: Sequence[str], options: Mapping[str, str | None]) -> str:
    """Return this command line with options set; None: an option without a value."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word in options:
            if options[word] is not None:
                next(words, None)
        elif word.partition("=")[0] not in options:
            kept.append(word)
    given = [part for option in options.items() for part in option if part is not None]
    return " ".join(map(quoted, [PROGRAM, *kept[:1], *given, *kept[1:]]))
