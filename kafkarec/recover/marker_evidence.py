"""What proves how a transaction ended whose marker may be lost in damaged bytes (a hole)

    data of 7      hole      data of 7      COMMIT of 7
    T              ^         T'             the producer's next marker
                   the marker of T, or damage that has nothing to do with it?

If the marker of T is in the hole, readers take T and T' for one transaction, and the next COMMIT publishes what was
aborted. RULES is the table of what proves what: the first rule that holds decides. It is used where markers are
matched (`marker_matching`), so by read_committed, by `txn`, and by salvage, which writes the decided marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry

from .holes import EndMarker, Hole
from .steps import COMMIT, TransactionData

ABORTED, COMMITTED, CONTINUES, UNDECIDED = "abort", "commit", "continues", "undecided"
"""The outcomes. CONTINUES: the transaction was open after the hole, or it does not matter; nothing is written."""


class TransactionEvidence(NamedTuple):
    """What the files beside a segment say of its transactions. Each is read when it is called.

    aborted     the entries of its .txnindex, None: there is none; KafkaRecordError or OSError if it cannot be read
    snapshot    the same for the producer .snapshot at the segment's start
    snapshots   (offset, entries) of the intact producer snapshots of the log, in order
    prepared    {(producer id, epoch): whether it was aborted} from `__transaction_state`
    is_lost     whether the segment itself is missing
    """

    aborted: Callable[[], Sequence[AbortedTransaction] | None] = lambda: None
    snapshot: Callable[[], Sequence[SnapshotEntry] | None] = lambda: None
    snapshots: Callable[[], Sequence[tuple[int, Sequence[SnapshotEntry]]]] = tuple
    prepared: Callable[[], Mapping[tuple[int, int], bool]] = dict
    is_lost: bool = False

    def at_offset(self, base: int, aborted: Sequence[AbortedTransaction]) -> TransactionEvidence:
        """The same for a segment of this base offset, where files are beside segments of other offsets. aborted: the
        entries for its markers"""
        return self._replace(aborted=lambda: aborted or None, snapshot=lambda: dict(self.snapshots()).get(base))


NO_EVIDENCE = TransactionEvidence()


class SplitCase(NamedTuple):
    """What is known of a transaction T that was open before a hole. Offsets are absolute.

    data           of T before the hole
    holes          the hole, and further ones behind it without data of the producer between
    following      the first offset of the producer's next data behind the hole; None: there is none before `marker`
    marker         the producer's next marker, from the log or the .txnindex; None: there is none
    last_epoch     of the producer's last data before `marker`
    entry          the producer's .txnindex entry for `marker`, or for the marker in the hole
    begins         whether `entry` is that of T: it begins with T, or before it where offsets are lost
    snapshot       currentTxnFirstOffset of the producer in the first intact snapshot behind the hole and before
                   `marker`, -1 if none is open or the producer is absent; None: there is no such snapshot
    had_no_transaction  whether `marker` is an ABORT that an intact .txnindex does not list: the producer had no
                   transaction open there
    prepared       what `__transaction_state` has, as of TransactionEvidence
    unlisted       whether an intact .txnindex with an entry behind the hole has none for T: T was not aborted there
    """

    data: TransactionData
    holes: tuple[Hole, ...]
    following: int | None
    marker: EndMarker | None
    last_epoch: int
    entry: AbortedTransaction | None
    begins: bool
    snapshot: int | None
    had_no_transaction: bool
    prepared: Callable[[], Mapping[tuple[int, int], bool]]
    unlisted: bool

    @property
    def is_listed(self) -> bool:
        """Whether the .txnindex has the ABORT of T in the hole."""
        return self.begins and self.entry is not None and any(self.entry.last_offset in hole for hole in self.holes)

    @property
    def is_open_behind(self) -> bool:
        return self.snapshot is not None and 0 <= self.snapshot <= self.data.first_offset

    @property
    def ended_in_hole(self) -> bool:
        """Whether T ended in the hole: a snapshot, or the .txnindex entry of a later transaction, or that none is open
        behind."""
        if self.snapshot is not None:
            return not self.is_open_behind
        if self.had_no_transaction:
            return self.following is None
        if self.entry is None or self.begins:
            return False
        begun = self.entry.first_offset
        return begun > self.data.first_offset and (begun == self.following or any(begun in hole for hole in self.holes))

    @property
    def is_abort_prepared(self) -> bool | None:
        """Whether the coordinator was about to abort T; None: not known."""
        return self.prepared().get((self.data.producer_id, self.data.producer_epoch))

    @property
    def is_of_next_epoch(self) -> bool:
        """Whether the next marker has the epoch behind that of T, and there is no other data before it."""
        return self.marker is not None and self.data.producer_epoch == self.last_epoch == self.marker.producer_epoch - 1


class Rule(NamedTuple):
    """proof: a word for reports; outcome; holds: whether the rule applies; sentence: for reports."""

    proof: str
    outcome: str
    holds: Callable[[SplitCase], bool]
    sentence: str


LISTED = Rule("txnindex", ABORTED, lambda it: it.is_listed, "the .txnindex lists it")
END_UNKNOWN = Rule(
    "end_unknown", UNDECIDED, lambda it: it.ended_in_hole, "it ended in the damage, and no file shows how"
)
RULES = (
    LISTED,
    Rule("txnindex", CONTINUES, lambda it: it.begins, "the .txnindex lists its end after the damage"),
    Rule("snapshot", CONTINUES, lambda it: it.is_open_behind, "a producer snapshot from after the damage has it open"),
    Rule(
        "txnindex",
        COMMITTED,
        lambda it: it.ended_in_hole and it.unlisted,
        "it ended in the damage; the .txnindex is intact, covers this range and does not list it as aborted",
    ),
    Rule(
        "txnindex",
        CONTINUES,
        lambda it: it.unlisted and it.marker is not None and it.marker.code == COMMIT,
        "the intact .txnindex does not list it as aborted, and the producer's next marker is a COMMIT",
    ),
    Rule("log_end", CONTINUES, lambda it: it.holes[0].last is None and not it.ended_in_hole, "the log ends in damage"),
    # Only with transaction.version 2 a COMMIT has the epoch behind its data's, and there each transaction has its own.
    Rule(
        "epoch",
        CONTINUES,
        lambda it: it.is_of_next_epoch and it.marker is not None and it.marker.code == COMMIT and not it.ended_in_hole,
        "the producer's next COMMIT has its epoch (KIP-890)",
    ),
    Rule(
        "transaction_state",
        CONTINUES,
        lambda it: it.is_of_next_epoch and it.is_abort_prepared is not None,
        "the marker after the damage has the epoch that __transaction_state has for it",
    ),
    Rule(
        "transaction_state",
        ABORTED,
        lambda it: it.is_abort_prepared is True,
        "__transaction_state has a PrepareAbort",
    ),
    Rule(
        "transaction_state",
        COMMITTED,
        lambda it: it.is_abort_prepared is False,
        "__transaction_state has a PrepareCommit",
    ),
    END_UNKNOWN,
    Rule("nothing", UNDECIDED, lambda it: True, "no file shows whether it ended in the damage, or how"),
)


LEGIBLE = Rule("marker", ABORTED, lambda it: False, "its marker is legible in the damage")
"""The rule of a marker that is read although its batch is damaged."""
AHEAD = Rule("txnindex", ABORTED, lambda it: False, "the .txnindex lists it at an offset after the log's end")
"""The rule of an open transaction whose marker was lost with the log's end."""
MISPLACED = Rule(
    "order", UNDECIDED, lambda it: False, "the batch is not at the place of its offsets, and may be of any transaction"
)
"""The rule of a batch that read_committed leaves out, as its transaction is not known."""


UNPROVEN = frozenset(rule.proof for rule in (*RULES, MISPLACED) if rule.outcome == UNDECIDED)


class Decision(NamedTuple):
    """How a transaction ended whose marker is lost.

    producer_id, producer_epoch   of its last data (of the marker, if that is legible)
    coordinator_epoch   the last known one of the producer; -1: none
    first_offset, last_offset     of its data; -1: the log has none
    outcome             ABORTED, COMMITTED or UNDECIDED; in a salvage's report what is done: see salvage_report.OUTCOMES
    proof, sentence     of its rule
    lost_from, lost_to  the offsets in which the marker is lost; lost_to None: to the log's end
    marker_offset       the marker's; None: not known, or none is written
    timestamp           of a legible marker, ms; -1: not known
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_offset: int
    outcome: str
    proof: str
    sentence: str
    lost_from: int
    lost_to: int | None
    marker_offset: int | None = None
    timestamp: int = -1

    @property
    def proven(self) -> bool:
        """Whether the outcome is proven."""
        return self.proof not in UNPROVEN

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict() | {"proven": self.proven}


def decision_by_rule(data: TransactionData, rule: Rule, hole: Hole, marker_offset: int | None = None) -> Decision:
    """The Decision about a transaction with this data, whose marker is lost in the hole."""
    return Decision(
        data.producer_id,
        data.producer_epoch,
        data.coordinator_epoch,
        data.first_offset,
        data.last_offset,
        rule.outcome,
        rule.proof,
        rule.sentence,
        hole.first,
        hole.last,
        marker_offset,
    )
