"""`kafkarec txn`: open, hanging and aborted transactions, and the commands for them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from kafkarec import storage
from kafkarec._core import Source
from kafkarec.errors import KafkaRecordError
from kafkarec.read.marker_columns import MarkerInput
from kafkarec.state import transactions
from kafkarec.state.transactions import STATES

from . import inputs, output, shared_options, txn_text
from .problems import DAMAGED, FINE, say
from .shared_options import CouldNot, WrongUse
from .txn_text import PartitionTransactions

DESCRIPTION = """Lists transactions that are open, hanging (open for longer than a coordinator lets one live) or
aborted, with producer, first offset and duration; says where a read_committed consumer stands and since when, and
prints the command that ends a hanging one. Reads headers and markers only. Ages are counted by the records' own
timestamps, up to the newest one of the log."""
EXAMPLES = """examples:
  kafkarec txn /kafka-logs                                 every partition, worst first
  kafkarec txn /kafka-logs/orders-0                        one partition in detail
  kafkarec txn /kafka-logs --fail-if-hanging               for cron: exit 1 when a transaction hangs
  kafkarec txn orders-0 --state committed --format json    every committed transaction, with its size and duration

Exit status: 0 fine, 1 damage found (or, with --fail-if-hanging, a hanging transaction), 2 wrong use, 3 could not."""

_DURATION = re.compile(r"(\d{1,12})(ms|s|m|h|d|w)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def duration(text: str) -> timedelta:
    """A number and a unit: ms, s, m, h, d, w."""
    match = _DURATION.fullmatch(text)
    try:
        if match:
            return int(match[1]) * _UNITS[match[2]]
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 15m, 900s, 2h or 1d")


def states(text: str) -> tuple[str, ...]:
    """A comma-separated choice of states."""
    chosen = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in chosen if word not in STATES]
    if unknown or not chosen:
        what = f"no such state: {', '.join(unknown)}" if unknown else "no state named"
        raise argparse.ArgumentTypeError(f"{what}; there are {', '.join(STATES)}")
    return tuple(state for state in STATES if state in chosen)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="segments, partition folders, a broker's data folder, URLs, or - for standard input",
    )
    parser.add_argument("--topic", help="the topic, where the folder's name does not give it")
    parser.add_argument("--partition", type=int, help="the partition, likewise")
    parser.add_argument("--fail-if-hanging", action="store_true", help="exit 1 when a transaction hangs")
    parser.add_argument(
        "--hanging-after",
        type=duration,
        default=transactions.HANGING_AFTER,
        metavar="TIME",
        help="what is open for so long hangs: 900s, 15m, 2h (default 15m, as Kafka's transaction.max.timeout.ms)",
    )
    parser.add_argument(
        "--state",
        type=states,
        default=("open", "hanging", "aborted"),
        metavar="A,B",
        help="which to list: open, hanging, aborted, committed (default: all but committed)",
    )
    parser.add_argument("--all", action="store_true", help="print every line, not one screen of them")
    shared_options.add_output(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    with output.opened(args) as sink:
        found = list(_partitions(args))
        found.sort(key=lambda one: one.badness, reverse=True)
        if args.format == "json":
            for one in found:
                sink.write(json.dumps(_as_json(one, args.state)).encode() + b"\n")
        else:
            sink.write(txn_text.render(found, args.state, args.hanging_after, args.all).encode())
    for one in found:
        _tell_damage(one)
    hanging = sum(len(one.listing.hanging) for one in found)
    if args.fail_if_hanging and hanging:
        say(f"{txn_text.counted(hanging, 'transaction')} hanging, the worst in {found[0].name}")
        return DAMAGED
    return DAMAGED if any(one.listing.damage for one in found) else FINE


def _partitions(args: argparse.Namespace) -> Iterator[PartitionTransactions]:
    if args.paths.count("-") > 1:
        raise WrongUse("standard input (-) can be read once only")
    named = [path for path in args.paths if path != "-"]
    if len(named) < len(args.paths):
        if sys.stdin is None:
            raise CouldNot("standard input is closed")
        data = Source(sys.stdin.buffer.read())
        one = MarkerInput(lambda: nullcontext(data), "standard input")
        listing = transactions.listing([one], hanging_after=args.hanging_after)
        yield PartitionTransactions("standard input", args.topic, args.partition, 1, False, listing)
    if not named:
        return
    try:
        opened = _opened(named, args)
        for log in storage.logs(opened):
            listing = transactions.listing(log.segments, hanging_after=args.hanging_after)
            alone = isinstance(opened, storage.Segment)
            yield PartitionTransactions(log.path, log.topic, log.partition, len(log.segments), alone, listing)
    except OSError as error:
        raise CouldNot(inputs.reason(error, named[0])) from error


def _opened(named: list[str], args: argparse.Namespace) -> storage.Segment | storage.Log | storage.LogDir:
    try:
        return storage.open(named[0] if len(named) == 1 else named, topic=args.topic, partition=args.partition)
    except KafkaRecordError:
        raise
    except ValueError as error:  # a path that is no log
        raise WrongUse(str(error)) from error


def _tell_damage(one: PartitionTransactions) -> None:
    damage = one.listing.damage
    if damage:
        more = f" (and {len(damage) - 1} more places)" if len(damage) > 1 else ""
        path = txn_text.quoted(one.path)
        say(f"{damage[0].detail}{more} [{damage[0].reason}]; markers may be lost: kafkarec verify {path}")


def _as_json(one: PartitionTransactions, states: tuple[str, ...]) -> dict[str, Any]:
    found = one.listing
    return {
        "path": one.path,
        "topic": one.topic,
        "partition": one.partition,
        "segments": one.segments,
        "next_offset": found.next_offset,
        "last_stable_offset": found.last_stable_offset,
        "max_timestamp": found.max_timestamp,
        "stuck_ms": one.stuck_ms,
        "waiting_offsets": one.waiting,
        "counts": {state: found.count(state) for state in STATES} | {"without_data": len(found.without_data)},
        "spreads": {
            name: {"min": spread.least, "mean": round(spread.mean, 3), "max": spread.most}
            for name, spread in found.spreads().items()
        },
        "transactions": [txn._asdict() for state in states for txn in found.of(state)],
        "next": [line for txn in found.hanging for _, line in txn_text.commands(one.topic, one.partition, txn)],
        "notes": [note._asdict() for note in found.notes],
        "damage": [damage._asdict() for damage in found.damage],
    }
