"""The report of `txn`: one line per partition, or one partition in detail; then the next commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from kafkarec.internal_topics.transactional_ids import TransactionalId
from kafkarec.report import Block, Commands, Document, ReportSection, ReportTable
from kafkarec.state.transactions import STATES, Transaction, TransactionListing
from kafkarec.support.command_line import command, quoted
from kafkarec.support.text_table import NOTHING, counted, duration_text, or_nothing, timestamp_text

_MOST_ROWS, _MOST_IN_DETAIL, _MOST_NOTES = 20, 3, 5
_WORST_FIRST = ("hanging", "open", "aborted", "committed")
_TOOL = "kafka-transactions.sh --bootstrap-server HOST:9092"


class PartitionTransactions(NamedTuple):
    """One log and its transactions.

    alone   the input is one segment, which may not be the whole log
    ids     {producer id: its transactional id}, from `__transaction_state` beside the log
    """

    path: str
    topic: str | None
    partition: int | None
    segments: int
    alone: bool
    listing: TransactionListing
    ids: Mapping[int, TransactionalId]

    def transactional_id(self, txn: Transaction) -> str | None:
        known = self.ids.get(txn.producer_id)
        return None if known is None else known.transactional_id

    @property
    def name(self) -> str:
        return self.path if self.topic is None else f"{self.topic}-{self.partition}"

    @property
    def stuck_ms(self) -> int | None:
        """How long read_committed consumers have been waiting at least, by append times; None: they are not waiting, or
        no append time tells."""
        ages = [txn.duration_ms for txn in self.listing.ongoing if txn.duration_ms is not None]
        return max(ages, default=None)

    @property
    def waiting(self) -> int:
        """The number of offsets from the last stable offset to the end."""
        stable, end = self.listing.last_stable_offset, self.listing.next_offset
        return 0 if stable is None or end is None else max(end - stable, 0)

    @property
    def severity(self) -> tuple[Any, ...]:
        found = self.listing
        stuck = -1 if self.stuck_ms is None else self.stuck_ms
        return (len(found.hanging) > 0, stuck, bool(found.damage or found.notes), found.count("aborted"))


def document(
    found: Sequence[PartitionTransactions], states: Sequence[str], hanging_after: timedelta, everything: bool
) -> Document:
    """Return the report of partitions, the worst first. everything: without limits of lines."""
    if len(found) == 1:
        return Document("txn", list(_detail(found[0], states, everything)))
    return Document("txn", list(_summary(found, hanging_after, everything)))


def _summary(found: Sequence[PartitionTransactions], hanging_after: timedelta, everything: bool) -> Iterator[Block]:
    counts = {state: sum(one.listing.count(state) for one in found) for state in STATES}
    yield f"{counted(len(found), 'partition')}: {_sum_text(counts)}"
    bad = [one for one in found if one.listing.hanging]
    if bad:
        after = duration_text(hanging_after // timedelta(milliseconds=1))
        where = counted(len(bad), "partition")
        yield f"hanging (open for {after} or more) in {where}, the worst is {found[0].name}"
    busy = [one for one in found if len(one.listing) or len(one.listing.without_data) or one.listing.notes]
    if busy:
        shown = busy if everything else busy[:_MOST_ROWS]
        yield ""
        yield ReportTable.of(shown, dict(_PARTITIONS))
        yield from _more(len(busy) - len(shown), "partition")
    if len(busy) < len(found):
        yield f"{counted(len(found) - len(busy), 'partition')} without transactions"
    in_detail = bad if everything else bad[:_MOST_IN_DETAIL]
    for one in in_detail:
        blocks = [*_table(one, "hanging", everything), *_advice(one)]
        yield ReportSection(f"{one.name}: {_consumers(one)}", blocks)
    if len(bad) > len(in_detail):
        yield ""
        yield from _more(len(bad) - len(in_detail), "partition")


def _sum_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in counts.items())


_PARTITIONS: tuple[tuple[str, Callable[[PartitionTransactions], str]], ...] = (
    ("partition", lambda one: one.name),
    *((state, (lambda one, state=state: str(one.listing.count(state)))) for state in STATES),
    ("last stable", lambda one: or_nothing(one.listing.last_stable_offset)),
    ("log end", lambda one: or_nothing(one.listing.next_offset)),
    ("waiting", lambda one: str(one.waiting)),
    ("stuck for", lambda one: NOTHING if one.stuck_ms is None else duration_text(one.stuck_ms)),
)

_COLUMNS: dict[str, Callable[[Transaction], str]] = {
    "state": lambda txn: txn.state,
    "producer": lambda txn: str(txn.producer_id),
    "epoch": lambda txn: str(txn.producer_epoch),
    "first offset": lambda txn: or_nothing(txn.first_offset),
    "marker": lambda txn: or_nothing(txn.marker_offset),
    "begun": lambda txn: timestamp_text(txn.first_timestamp),
    "duration": lambda txn: NOTHING if txn.duration_ms is None else duration_text(txn.duration_ms),
    "batches": lambda txn: str(txn.batches),
    "records": lambda txn: str(txn.records),
    "bytes": lambda txn: str(txn.bytes),
}


def _detail(one: PartitionTransactions, states: Sequence[str], everything: bool) -> Iterator[Block]:
    found = one.listing
    if found.next_offset is None and not found.ongoing:
        yield f"{one.name}: no batch, so no transaction"
        return
    newest = f", newest record of {timestamp_text(found.max_timestamp)}" if found.max_timestamp is not None else ""
    yield f"{one.name}: {counted(one.segments, 'segment')}, log end {or_nothing(found.next_offset)}{newest}"
    yield _consumers(one)
    for state in sorted(states, key=_WORST_FIRST.index):
        yield from _table(one, state, everything)
    yield ""
    sums = _sum_text({state: found.count(state) for state in STATES})
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


def _consumers(one: PartitionTransactions) -> str:
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
    return f"{text}; {counted(one.waiting, 'offset')} from there on cannot be read"


def _table(one: PartitionTransactions, state: str, everything: bool) -> Iterator[Block]:
    """Yield the transactions of a state; if there are many, the oldest open or the most recently ended ones."""
    chosen = one.listing.of(state)
    if not len(chosen):
        return
    skipped = 0 if everything else max(len(chosen) - _MOST_ROWS, 0)
    from_front = state in ("open", "hanging")
    rows = list(islice(chosen, _MOST_ROWS)) if skipped and from_front else list(chosen[skipped:])
    columns = dict(_COLUMNS)
    if one.ids:
        columns["transactional id"] = lambda txn: one.transactional_id(txn) or NOTHING
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
        return [(what, command("verify", [one.path]))]
    unnamed = one.topic is None or one.partition is None
    known = ("TOPIC", "PARTITION") if unnamed else (quoted(one.topic or ""), one.partition)
    partition = "--topic {} --partition {}".format(*known)
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
