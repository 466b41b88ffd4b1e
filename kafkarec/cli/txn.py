"""`kafkarec txn`: lists open, hanging and aborted transactions, and the commands that end them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import kafkarec
from kafkarec.errors import KafkaRecordError
from kafkarec.internal_topics import transactional_ids
from kafkarec.logs import Log, LogDir, Segment, logs_of
from kafkarec.sources.read_failures import of_one_file
from kafkarec.state import transactions
from kafkarec.state.transactions import STATES
from kafkarec.storage.names_by_content import in_order
from kafkarec.storage.opening import states_beside
from kafkarec.support.command_line import command
from kafkarec.support.text_table import counted

from . import COULD_NOT, DAMAGED, FINE, input_logs, output_files, progress, shared_options, txn_output
from .problems import say
from .shared_options import CouldNot, WrongUse
from .spool import demand_once
from .txn_output import PartitionTransactions

DESCRIPTION = """Lists transactions that are open, hanging (open for longer than a coordinator allows) or aborted, with
producer, first offset and duration. Reports how far a read_committed consumer can read and since when it waits, and
prints the command that ends a hanging transaction. Reads headers and markers only. Ages are told by
append times, which markers have, and records with log append time: where none tells, a transaction is open, its age
unknown."""
EXAMPLES = """examples:
  kafkarec txn /kafka-logs                                 every partition, the worst first
  kafkarec txn /kafka-logs/orders-0                        one partition in detail
  kafkarec txn /kafka-logs --fail-if-hanging               for cron: exit status 1 if a transaction hangs
  kafkarec txn orders-0 --state committed --format json    every committed transaction, with its size and duration

Exit status: 0 fine, 1 damage found (or, with --fail-if-hanging, a hanging transaction), 2 wrong usage, 3 failed."""

_DURATION = re.compile(rf"(\d{{1,12}})({'|'.join(shared_options.UNITS_MS)})")


def duration(text: str) -> timedelta:
    """Parse a number with a unit: ms, s, m, h, d, w."""
    match = _DURATION.fullmatch(text)
    try:
        if match:
            return timedelta(milliseconds=int(match[1]) * shared_options.UNITS_MS[match[2]])
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 15m, 900s, 2h or 1d")


def states(text: str) -> tuple[str, ...]:
    """Parse comma-separated states."""
    chosen = shared_options.known_words(text, "state", STATES)
    return tuple(state for state in STATES if state in chosen)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "segments, partition folders, a broker's data folder, URLs, or - for standard input"
    shared_options.add_inputs(parser, text)
    parser.add_argument("--fail-if-hanging", action="store_true", help="exit with status 1 if a transaction hangs")
    parser.add_argument(
        "--hanging-after",
        type=duration,
        default=transactions.HANGING_AFTER,
        metavar="TIME",
        help="when an open transaction counts as hanging: 900s, 15m, 2h (default 15m, as transaction.max.timeout.ms)",
    )
    parser.add_argument(
        "--state",
        type=states,
        default=("open", "hanging", "aborted"),
        metavar="A,B",
        help="the states to list, of open, hanging, aborted, committed (default: all but committed)",
    )
    parser.add_argument("--all", action="store_true", help="print all lines, not only one screen")
    shared_options.add_output(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    unread: list[str] = []
    output_files.demand_output_folders(args)
    partitions = sorted(_partitions(args, unread), key=lambda one: one.severity, reverse=True)
    report = txn_output.document(partitions, args.state, args.hanging_after, args.all)
    output_files.write_report(args, report, (_object(one, args.state) for one in partitions))
    for one in partitions:
        _report_damage(one)
    for line in unread:
        say(line)
    if unread:
        return COULD_NOT
    hanging = sum(len(one.listing.hanging) for one in partitions)
    if args.fail_if_hanging and hanging:
        say(f"{counted(hanging, 'transaction')} hanging, the worst in {partitions[0].name}")
        return DAMAGED
    return DAMAGED if any(one.listing.damage for one in partitions) else FINE


def _partitions(args: argparse.Namespace, unread: list[str]) -> Iterator[PartitionTransactions]:
    """Yield the transactions of each log; a log that cannot be read adds a line to `unread` if there are others."""
    demand_once(args.paths)
    named = [path for path in args.paths if path != "-"]
    if len(named) < len(args.paths):
        segment = input_logs.standard_input(args.topic, args.partition)
        segment = segment.copy(path=segment.name)
        listing = transactions.listing([segment], hanging_after=args.hanging_after)
        yield PartitionTransactions(segment.name, args.topic, args.partition, 1, False, listing, {})
    if not named:
        return
    try:
        opened = _opened(named, args)
        logs = list(logs_of(opened))
        unread += [] if isinstance(opened, Segment) else input_logs.unlisted(opened)
        ids = transactional_ids.by_producer(states_beside(named[0]))
        with progress.shown(input_logs.segments(logs)) as tick:
            for log in logs:
                try:
                    listing = transactions.listing(
                        _counted(in_order(log.segments), tick), hanging_after=args.hanging_after
                    )
                except OSError as error:
                    if len(logs) == 1 or not of_one_file(error):
                        raise
                    unread.append(f"{log.topic}-{log.partition} is left out: {input_logs.failure(error, log.path)}")
                    continue
                alone = isinstance(opened, Segment)
                yield PartitionTransactions(log.path, log.topic, log.partition, len(log.segments), alone, listing, ids)
    except OSError as error:
        raise CouldNot(input_logs.failure(error, named[0])) from error


def _counted(segments: Iterable[Segment], tick: progress.Tick) -> Iterator[Segment]:
    for segment in segments:
        yield segment
        tick(segment.path, progress.size_of(segment))


def _opened(named: list[str], args: argparse.Namespace) -> Segment | Log | LogDir:
    try:
        if len(named) == 1:
            found = input_logs.found_at(named[0], args.topic, args.partition)
        else:
            each = [input_logs.found_at(path, None, None) for path in named]
            found = kafkarec.open(each, topic=args.topic, partition=args.partition)
        input_logs.demand_log(found)
        return found
    except KafkaRecordError:
        raise
    except ValueError as error:  # a path that is no log
        raise WrongUse(str(error)) from error


def _report_damage(one: PartitionTransactions) -> None:
    damage = one.listing.damage
    if damage:
        more = f" (and {counted(len(damage) - 1, 'more damaged range')})" if len(damage) > 1 else ""
        verify = command("verify", [one.path])
        say(f"{damage[0].detail}{more} [{damage[0].reason}]; markers may be lost: {verify}")


def _object(one: PartitionTransactions, states: tuple[str, ...]) -> dict[str, Any]:
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
        "transactions": [
            {**txn._asdict(), "transactional_id": one.transactional_id(txn)}
            for state in states
            for txn in found.of(state)
        ],
        "next": [line for txn in found.hanging for _, line in txn_output.commands(one, txn)],
        "notes": found.notes,
        "damage": [damage._asdict() for damage in found.damage],
    }
