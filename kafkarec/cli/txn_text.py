"""The text of `kafkarec txn`: one line a partition, or one partition in detail; then the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from kafkarec.state.transactions import STATES, Spread, Transaction, TransactionListing
from kafkarec.support.text_table import NOTHING, lasting, moment, safe
from kafkarec.support.text_table import render as laid_out

_MOST_ROWS, _MOST_IN_DETAIL, _MOST_NOTES = 20, 3, 5
_WORST_FIRST = ("hanging", "open", "aborted", "committed")
_TOOL = "kafka-transactions.sh --bootstrap-server HOST:9092"


class PartitionTransactions(NamedTuple):
    """One log and its transactions."""

    path: str
    topic: str | None
    partition: int | None
    segments: int
    alone: bool
    listing: TransactionListing

    @property
    def name(self) -> str:
        return self.path if self.topic is None else f"{self.topic}-{self.partition}"

    @property
    def stuck_ms(self) -> int | None:
        """How long read_committed consumers have been waiting, by the log's timestamps; None: they are not."""
        ages = [txn.duration_ms or 0 for txn in self.listing.ongoing]
        return max(ages, default=None)

    @property
    def waiting(self) -> int:
        """Offsets from the last stable one to the end."""
        stable, end = self.listing.last_stable_offset, self.listing.next_offset
        return 0 if stable is None or end is None else max(end - stable, 0)

    @property
    def badness(self) -> tuple[Any, ...]:
        found = self.listing
        stuck = -1 if self.stuck_ms is None else self.stuck_ms
        return (len(found.hanging) > 0, stuck, bool(found.damage or found.notes), found.count("aborted"))


def render(
    found: Sequence[PartitionTransactions], states: Sequence[str], hanging_after: timedelta, everything: bool
) -> str:
    """The whole text, with a line end."""
    if len(found) == 1:
        return "".join(_detail(found[0], states, everything))
    busy = [one for one in found if len(one.listing) or len(one.listing.without_data) or one.listing.notes]
    text = _verdict(found, hanging_after)
    if busy:
        shown = busy if everything else busy[:_MOST_ROWS]
        text += "\n" + laid_out([(title, [show(one) for one in shown]) for title, show in _PARTITIONS])
        text += _more(len(busy) - len(shown), "partition")
    idle = len(found) - len(busy)
    if idle:
        text += f"{counted(idle, 'partition')} without transactions\n"
    bad = [one for one in busy if one.listing.hanging]
    for one in bad if everything else bad[:_MOST_IN_DETAIL]:
        text += f"\n{safe(one.name)}: {_consumers(one)}"
        text += "".join((*_table(one, "hanging", everything), *_advice(one)))
    if len(bad) > _MOST_IN_DETAIL and not everything:
        text += f"\n{_more(len(bad) - _MOST_IN_DETAIL, 'partition')}"
    return text


def _verdict(found: Sequence[PartitionTransactions], hanging_after: timedelta) -> str:
    """One line: whether a transaction hangs, and which log waits longest."""
    counts = {state: sum(one.listing.count(state) for one in found) for state in STATES}
    sums = ", ".join(f"{number} {state}" for state, number in counts.items())
    text = f"{counted(len(found), 'partition')}: {sums}\n"
    if counts["hanging"]:
        after = lasting(hanging_after // timedelta(milliseconds=1))
        where = sum(1 for one in found if one.listing.hanging)
        text += f"hanging (open for {after} or more) in {counted(where, 'partition')}, the worst is {found[0].name}\n"
    return safe_lines(text)


def _stuck(one: PartitionTransactions) -> str:
    return NOTHING if one.stuck_ms is None else lasting(one.stuck_ms)


_PARTITIONS: tuple[tuple[str, Callable[[PartitionTransactions], str]], ...] = (
    ("partition", lambda one: one.name),
    *((state, (lambda one, state=state: str(one.listing.count(state)))) for state in STATES),
    ("last stable", lambda one: _number(one.listing.last_stable_offset)),
    ("log end", lambda one: _number(one.listing.next_offset)),
    ("waiting", lambda one: str(one.waiting)),
    ("stuck for", _stuck),
)

_COLUMNS: tuple[tuple[str, Callable[[Transaction], str]], ...] = (
    ("state", lambda txn: txn.state),
    ("producer", lambda txn: str(txn.producer_id)),
    ("epoch", lambda txn: str(txn.producer_epoch)),
    ("first offset", lambda txn: _number(txn.first_offset)),
    ("marker", lambda txn: _number(txn.marker_offset)),
    ("begun", lambda txn: moment(txn.first_timestamp)),
    ("duration", lambda txn: NOTHING if txn.duration_ms is None else lasting(txn.duration_ms)),
    ("batches", lambda txn: str(txn.batches)),
    ("records", lambda txn: str(txn.records)),
    ("bytes", lambda txn: str(txn.bytes)),
)


def _detail(one: PartitionTransactions, states: Sequence[str], everything: bool) -> Iterator[str]:
    found = one.listing
    if found.next_offset is None and not found.ongoing:
        yield f"{safe(one.name)}: no batch, so no transaction\n"
        return
    newest = f", newest record of {moment(found.max_timestamp)}" if found.max_timestamp is not None else ""
    yield f"{safe(one.name)}: {counted(one.segments, 'segment')}, log end {_number(found.next_offset)}{newest}\n"
    yield _consumers(one)
    for state in sorted(states, key=_WORST_FIRST.index):
        yield from _table(one, state, everything)
    yield _sums(one)
    notes = found.notes if everything else found.notes[:_MOST_NOTES]
    for note in notes:
        yield f"note: {safe(note.detail)} [{note.reason}]\n"
    yield _more(len(found.notes) - len(notes), "note")
    if one.alone and (found.ongoing or len(found.without_data)):
        yield "note: this is one file of a log; name the folder, for a transaction may begin or end in another one\n"
    yield from _advice(one)


def _consumers(one: PartitionTransactions) -> str:
    stable = one.listing.last_stable_offset
    if not one.listing.ongoing:
        return f"last stable offset {stable}: a read_committed consumer can read to the end\n"
    text = f"last stable offset {stable}: a read_committed consumer stands there"
    first = one.listing.ongoing[0]
    if stable is None or (first.first_offset or 0) < stable:
        return (
            f"a read_committed consumer stands at the log's start: the transaction of offset {first.first_offset} was "
            f"begun in front of it, in segments that are gone\n"
        )
    if first.duration_ms is not None:
        text += f" since {moment(first.first_timestamp)} ({lasting(first.duration_ms)} before the newest record)"
    return f"{text}; {counted(one.waiting, 'offset')} behind it {'wait' if one.waiting != 1 else 'waits'}\n"


def _table(one: PartitionTransactions, state: str, everything: bool) -> Iterator[str]:
    """The transactions of a state; of many, the oldest open ones and the most recently ended ones."""
    chosen = one.listing.of(state)
    if not len(chosen):
        return
    skipped = 0 if everything else max(len(chosen) - _MOST_ROWS, 0)
    from_front = state in ("open", "hanging")
    rows = list(islice(chosen, _MOST_ROWS)) if skipped and from_front else list(chosen[skipped:])
    yield "\n" + laid_out([(title, [show(txn) for txn in rows]) for title, show in _COLUMNS])
    if skipped:
        yield f"and {skipped} {'younger' if from_front else 'earlier'} ones: --all shows them\n"


def _sums(one: PartitionTransactions) -> str:
    found = one.listing
    counts = ", ".join(f"{found.count(state)} {state}" for state in STATES)
    text = f"\n{counts}"
    if len(found.without_data):
        text += f"; {counted(len(found.without_data), 'marker')} without data here (empty, or begun before this log)"
    spreads = found.spreads()
    for name in ("batches", "records"):
        if name in spreads:
            text += f"\n{name} of an ended transaction: {_spread(spreads[name], str, '{:.1f}'.format)}"
    if "duration_ms" in spreads:
        text += f"\nduration: {_spread(spreads['duration_ms'], lasting, lambda mean: lasting(round(mean)))}"
    return text + "\n"


def _spread(spread: Spread, show: Callable[[int], str], show_mean: Callable[[float], str]) -> str:
    if spread.least == spread.most:
        return show(spread.least)
    return f"{show(spread.least)} to {show(spread.most)}, mean {show_mean(spread.mean)}"


def _advice(one: PartitionTransactions) -> Iterator[str]:
    hanging = one.listing.hanging
    if not hanging:
        return
    yield "\nnext\n"
    steps = [step for txn in hanging[:_MOST_IN_DETAIL] for step in commands(one.topic, one.partition, txn)]
    yield from dict.fromkeys(f"  {what}:\n    {safe(command)}\n" for what, command in steps)
    yield _more(len(hanging) - _MOST_IN_DETAIL, "hanging transaction")


def commands(topic: str | None, partition: int | None, txn: Transaction) -> list[tuple[str, str]]:
    """What it is for and the command, in words that Kafka's TransactionsCommand takes: to look, and to abort by start
    offset (brokers from 3.0 on) or by the producer. Coordinator epoch 0 is what that tool takes where no marker of the
    producer is known (KIP-664)."""
    known = ("TOPIC", "PARTITION") if topic is None or partition is None else (shlex.quote(topic), partition)
    place = "--topic {} --partition {}".format(*known)
    coordinator = 0 if txn.coordinator_epoch is None else txn.coordinator_epoch
    producer = f"--producer-id {txn.producer_id} --producer-epoch {txn.producer_epoch}"
    by_producer = f"{producer} --coordinator-epoch {coordinator}"
    return [
        ("does it still hang? This is what the files say", f"{_TOOL} find-hanging {place}"),
        (f"end the one of offset {txn.first_offset}", f"{_TOOL} abort {place} --start-offset {txn.first_offset}"),
        (f"the same for brokers before 3.0 ({txn.first_offset})", f"{_TOOL} abort {place} {by_producer}"),
    ]


def counted(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"


def quoted(path: str) -> str:
    return shlex.quote(path)


def safe_lines(text: str) -> str:
    return "".join(f"{safe(line)}\n" for line in text.splitlines())


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _more(number: int, what: str) -> str:
    return f"and {counted(number, f'more {what}')}: --all shows them\n" if number > 0 else ""
