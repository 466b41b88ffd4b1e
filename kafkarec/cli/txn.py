"""`kafkarec txn`: lists open, hanging and aborted transactions, and the commands that end them.

The report has one line per partition, or one partition in detail; then the next commands.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

import kafkarec
from kafkarec.internal_topics import transactional_ids
from kafkarec.internal_topics.transactional_ids import TransactionalIdState
from kafkarec.logs import Log, Segment, logs_of
from kafkarec.report import Block, ColumnOf, Commands, Document, ReportSection, ReportTable
from kafkarec.sources.read_failures import is_of_one_file
from kafkarec.state import transactions
from kafkarec.state.transactions import STATES, Transaction, TransactionListing
from kafkarec.storage.names_by_content import order_by_content
from kafkarec.storage.opening import transaction_state_beside
from kafkarec.storage.output_rules import STANDARD_INPUT
from kafkarec.storage.segment_file import size_or_zero
from kafkarec.support.command_line import command, quoted
from kafkarec.support.text_table import counted, duration_text, or_nothing, timestamp_text

from . import COULD_NOT, DAMAGED, FINE, input_logs, output_files, progress, shared_options
from .problems import say
from .shared_options import CouldNot, add_option

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

_MOST_ROWS, _MOST_IN_DETAIL, _MOST_NOTES = 20, 3, 5
_WORST_FIRST = ("hanging", "open", "aborted", "committed")
_TOOL = "kafka-transactions.sh --bootstrap-server HOST:9092"
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
    add_option(parser, "--fail-if-hanging", "exit with status 1 if a transaction hangs")
    add_option(
        parser,
        "--hanging-after TIME",
        "when an open transaction counts as hanging: 900s, 15m, 2h (default 15m, as transaction.max.timeout.ms)",
        duration,
        default=transactions.HANGING_AFTER,
    )
    add_option(
        parser,
        "--state A,B",
        "the states to list, of open, hanging, aborted, committed (default: all but committed)",
        states,
        default=("open", "hanging", "aborted"),
    )
    add_option(parser, "--all", "print all lines, not only one screen")
    shared_options.add_format_and_output(parser)


def run(args: argparse.Namespace) -> int:
    unread: list[str] = []
    partitions = sorted(_partitions(args, unread), key=lambda one: one.severity, reverse=True)
    if len(partitions) == 1:
        blocks = list(_detail(partitions[0], args.state, args.all))
    else:
        blocks = list(_summary(partitions, args.hanging_after, args.all))
    output_files.write_report(args, Document("txn", blocks), (_json_object(one, args.state) for one in partitions))
    for one in partitions:
        if damage := one.listing.damage:
            more = f" (and {counted(len(damage) - 1, 'more damaged range')})" if len(damage) > 1 else ""
            verify = command("verify", [input_logs.input_path(one.log)])
            say(f"{damage[0].detail}{more} [{damage[0].reason}]; markers may be lost: {verify}")
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
    first, is_one = args.paths[0], len(args.paths) == 1
    named = (args.topic, args.partition) if is_one else (None, None)
    each = [input_logs.open_input(path, *named) for path in args.paths]
    each = [one.copy(path=one.name) if isinstance(one, Segment) and one.path == STANDARD_INPUT else one for one in each]
    with shared_options.value_errors_refused():  # of several clusters
        opened = each[0] if is_one else kafkarec.open(each, topic=args.topic, partition=args.partition)
    logs = list(logs_of(opened))
    unread += [] if isinstance(opened, Segment) else input_logs.unlisted_lines(opened)
    alone = isinstance(opened, Segment) and first != STANDARD_INPUT
    try:
        beside = [] if first == STANDARD_INPUT else transaction_state_beside(first)
        ids = transactional_ids.by_producer(beside)
        with progress.show_segments_read(input_logs.segments(logs)) as tick:
            for log in logs:
                try:
                    listing = transactions.listing(_ticked(log, tick), hanging_after=args.hanging_after)
                except OSError as error:
                    if len(logs) == 1 or not is_of_one_file(error):
                        raise
                    line = input_logs.failure_line(error, log.path)
                    unread.append(f"{input_logs.name_of(log)} is left out: {line}")
                    continue
                yield PartitionTransactions(log, alone, listing, ids)
    except OSError as error:
        raise CouldNot(input_logs.failure_line(error, first)) from error


def _ticked(log: Log, tick: progress.Tick) -> Iterator[Segment]:
    """Yield the segments of a log, and call `tick` after each."""
    for segment in order_by_content(log.segments):
        yield segment
        tick(segment.path, size_or_zero(segment))


def _json_object(one: PartitionTransactions, states: tuple[str, ...]) -> dict[str, Any]:
    found = one.listing
    return {
        "path": one.log.path,
        "topic": one.log.topic,
        "partition": one.log.partition,
        "segments": len(one.log.segments),
        "next_offset": found.next_offset,
        "last_stable_offset": found.last_stable_offset,
        "max_timestamp": found.max_timestamp,
        "stuck_ms": one.stuck_ms,
        "waiting_offsets": one.waiting_offsets,
        "counts": {state: found.count(state) for state in STATES} | {"without_data": len(found.without_data)},
        "transactions": [
            {**txn._asdict(), "transactional_id": one.transactional_id(txn)}
            for state in states
            for txn in found.of(state)
        ],
        "next": [line for txn in found.hanging for _, line in commands(one, txn)],
        "notes": found.notes,
        "damage": [damage._asdict() for damage in found.damage],
    }


class PartitionTransactions(NamedTuple):
    """One log and its transactions.

    alone   the input is one segment, which may not be the whole log
    ids     {producer id: its transactional id}, from `__transaction_state` beside the log
    """

    log: Log
    alone: bool
    listing: TransactionListing
    ids: Mapping[int, TransactionalIdState]

    def transactional_id(self, txn: Transaction) -> str | None:
        known = self.ids.get(txn.producer_id)
        return None if known is None else known.transactional_id

    @property
    def name(self) -> str:
        return input_logs.name_of(self.log)

    @property
    def stuck_ms(self) -> int | None:
        """How long read_committed consumers have been waiting at least, by append times; None: they are not waiting, or
        no append time tells."""
        ages = [txn.duration_ms for txn in self.listing.ongoing if txn.duration_ms is not None]
        return max(ages, default=None)

    @property
    def waiting_offsets(self) -> int:
        """The number of offsets from the last stable offset to the end."""
        stable, end = self.listing.last_stable_offset, self.listing.next_offset
        return 0 if stable is None or end is None else max(end - stable, 0)

    @property
    def severity(self) -> tuple[Any, ...]:
        found = self.listing
        stuck = -1 if self.stuck_ms is None else self.stuck_ms
        return (len(found.hanging) > 0, stuck, bool(found.damage or found.notes), found.count("aborted"))


def _summary(found: Sequence[PartitionTransactions], hanging_after: timedelta, everything: bool) -> Iterator[Block]:
    sums = ", ".join(f"{sum(one.listing.count(state) for one in found)} {state}" for state in STATES)
    yield f"{counted(len(found), 'partition')}: {sums}"
    bad = [one for one in found if one.listing.hanging]
    if bad:
        after = duration_text(hanging_after // timedelta(milliseconds=1))
        where = counted(len(bad), "partition")
        yield f"hanging (open for {after} or more) in {where}, the worst is {found[0].name}"
    busy = [one for one in found if len(one.listing) or len(one.listing.without_data) or one.listing.notes]
    if busy:
        shown = busy if everything else busy[:_MOST_ROWS]
        yield ""
        yield ReportTable.of(shown, _PARTITIONS)
        yield from _more(len(busy) - len(shown), "partition")
    if len(busy) < len(found):
        yield f"{counted(len(found) - len(busy), 'partition')} without transactions"
    in_detail = bad if everything else bad[:_MOST_IN_DETAIL]
    for one in in_detail:
        blocks = [*_blocks_of_state(one, "hanging", everything), *_advice(one)]
        yield ReportSection(f"{one.name}: {_consumers_text(one)}", blocks)
    if len(bad) > len(in_detail):
        yield ""
        yield from _more(len(bad) - len(in_detail), "partition")


_PARTITIONS: dict[str, ColumnOf[PartitionTransactions]] = {
    "partition": "name",
    **{state: lambda one, state=state: one.listing.count(state) for state in STATES},  # type: ignore[misc]
    "last stable": lambda one: one.listing.last_stable_offset,
    "log end": lambda one: one.listing.next_offset,
    "waiting": "waiting_offsets",
    "stuck for": "stuck_ms",
}

_COLUMNS: dict[str, ColumnOf[Transaction]] = {
    "state": "state",
    "producer": "producer_id",
    "epoch": "producer_epoch",
    "first offset": "first_offset",
    "marker": "marker_offset",
    "begun": "first_timestamp",
    "duration": "duration_ms",
    "batches": "batches",
    "records": "records",
    "bytes": "bytes",
}


def _detail(one: PartitionTransactions, states: Sequence[str], everything: bool) -> Iterator[Block]:
    found = one.listing
    if found.next_offset is None and not found.ongoing:
        yield f"{one.name}: no batch, so no transaction"
        return
    newest = "" if found.max_timestamp is None else f", newest record of {timestamp_text(found.max_timestamp)}"
    yield f"{one.name}: {counted(len(one.log.segments), 'segment')}, log end {or_nothing(found.next_offset)}{newest}"
    yield _consumers_text(one)
    for state in sorted(states, key=_WORST_FIRST.index):
        yield from _blocks_of_state(one, state, everything)
    yield ""
    sums = ", ".join(f"{found.count(state)} {state}" for state in STATES)
    if len(found.without_data):
        sums += f"; {counted(len(found.without_data), 'marker')} without data here (empty, or begun before this log)"
    yield sums
    notes = found.notes if everything else found.notes[:_MOST_NOTES]
    for note in notes:
        yield f"note: {note.detail} [{note.reason}]"
    yield from _more(len(found.notes) - len(notes), "note")
    if one.alone and (found.ongoing or len(found.without_data)):
        yield "note: this is one file of a log; pass the folder, as a transaction may begin or end in another file"
    yield from _advice(one)


def _consumers_text(one: PartitionTransactions) -> str:
    stable = one.listing.last_stable_offset
    if not one.listing.ongoing:
        return f"last stable offset {stable}: a read_committed consumer can read to the end"
    text = f"last stable offset {stable}: a read_committed consumer waits there"
    first = one.listing.ongoing[0]
    if stable is None or (first.first_offset or 0) < stable:
        return (
            f"a read_committed consumer waits at the log's start: the transaction of offset {first.first_offset} "
            f"began before it, in deleted segments"
        )
    if first.duration_ms is None:
        text += " (for how long is not known: no append time tells)"
    else:
        text += f" for {duration_text(first.duration_ms)} or more"
    return f"{text}; {counted(one.waiting_offsets, 'offset')} from there on cannot be read"


def _blocks_of_state(one: PartitionTransactions, state: str, everything: bool) -> Iterator[Block]:
    """Yield the transactions of a state; if there are many, the oldest open or the most recently ended ones."""
    count = one.listing.count(state)
    if not count:
        return
    skipped = 0 if everything else max(count - _MOST_ROWS, 0)
    from_front = state in ("open", "hanging")
    first = 0 if from_front else skipped
    rows = list(islice(one.listing.of(state), first, first + count - skipped))
    columns = dict(_COLUMNS)
    if one.ids:
        columns["transactional id"] = one.transactional_id
    yield ""
    yield ReportTable.of(rows, columns)
    if skipped:
        yield f"and {skipped} {'younger' if from_front else 'earlier'} transactions: --all shows them"


def _advice(one: PartitionTransactions) -> Iterator[Block]:
    hanging = one.listing.hanging
    if hanging:
        yield ""
        yield Commands("next", [step for txn in hanging[:_MOST_IN_DETAIL] for step in commands(one, txn)])
        yield from _more(len(hanging) - _MOST_IN_DETAIL, "hanging transaction")
        return
    unknown = next((txn for txn in one.listing.ongoing if txn.duration_ms is None), None)
    if unknown is not None:
        (purpose, line), *others = commands(one, unknown)
        yield ""
        yield Commands("next", [("whether it hangs is not known here; ask the broker" if others else purpose, line)])


def commands(one: PartitionTransactions, txn: Transaction) -> list[tuple[str, str]]:
    """Return (purpose, command) of Kafka's TransactionsCommand (KIP-664): find-hanging, and abort by start offset. A
    transaction whose ABORT the .txnindex has must not be aborted again: the log lost its end."""
    ended = one.listing.listed_ahead.get((txn.producer_id, txn.first_offset or 0))
    if ended is not None:
        what = (
            f"the transaction of offset {txn.first_offset} was aborted at offset {ended}, as .txnindex has it: the log "
            "lost its end; see what is missing"
        )
        return [(what, command("verify", [input_logs.input_path(one.log)]))]
    partition = "--topic TOPIC --partition PARTITION"
    if one.log.topic is not None and one.log.partition is not None:
        partition = f"--topic {quoted(one.log.topic)} --partition {one.log.partition}"
    return [
        ("check with the broker that it still hangs", f"{_TOOL} find-hanging {partition}"),
        (
            f"end the transaction of offset {txn.first_offset}",
            f"{_TOOL} abort {partition} --start-offset {txn.first_offset}",
        ),
    ]


def _more(number: int, what: str) -> Iterator[str]:
    if number > 0:
        yield f"and {counted(number, f'more {what}')}: --all shows them"
