"""The transactions of logs that are read in steps of any size."""

import random

import builders
import pytest
from plain_logs import batch
from random_logs import Maker
from reading import FileInMemory

import kafkarec
from kafkarec import InvalidRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.read import isolation
from kafkarec.read.isolation import match_markers
from kafkarec.read.walk import walk_request
from kafkarec.recover.marker_evidence import TransactionEvidence
from kafkarec.recover.steps import ABORT, ROW, WIDTH

pytestmark = pytest.mark.core


def inputs_of(parts):
    """Segments with their .txnindex."""
    return [FileInMemory(data, "0.log", TransactionEvidence(lambda index=index: index)) for data, index in parts]


def one_by_one(*want, **options):
    found = walk_request(*want, **options)
    return found._replace(options=found.options._replace(chunk_bytes=1))


def outcome(parts, *, raises):
    try:
        found = match_markers(inputs_of(parts), raises=raises)
    except InvalidRecordError as error:
        return {"error": str(error), "position": error.position, "base_offset": error.base_offset}
    names = ("notes", "decisions", "ahead", "damage", "first_offset", "next_offset", "max_timestamp", "open")
    seen = {name: getattr(found, name) for name in names}
    batch = ROW.index("last_stable_offset")  # what follows differs with the size of the steps
    return seen | {name: [row[:batch] for row in rows(getattr(found, name))] for name in ("ended", "without_data")}


def rows(flat):
    return list(zip(*[iter(flat)] * WIDTH, strict=True))


def in_small_steps(parts, *, raises=False):
    """The outcome, equal where each batch is a step."""
    found = outcome(parts, raises=raises)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation, "walk_request", one_by_one)
        assert outcome(parts, raises=raises) == found
    return found


def odd_log(seed):
    """Segments of some producers, with the .txnindex that their markers have, or one that contradicts them."""
    maker = Maker(seed)
    chosen = maker.random
    producers = range(chosen.randrange(1, 6))
    base = chosen.choice([0, 5, 2**40, -3])
    first = {}
    parts = []
    for _ in range(chosen.randrange(1, 4)):
        batches, index = [], []
        for _ in range(chosen.randrange(0, 25)):
            producer = chosen.choice([*producers, -1])
            who = {"producer_id": producer, "producer_epoch": min(producer, 0)}
            kind = chosen.randrange(12)
            if kind == 0:  # its first offset is not in its header
                inner = [builders.message(offset=delta) for delta in range(2)]
                raw, last = builders.wrapper(inner, offset=base + 1), base + 1
            elif kind < 4:
                raw = maker.control_batch(base, **who)
                last = base + int.from_bytes(raw[23:27], "big")
                if producer in first and chosen.randrange(8):
                    start = first.pop(producer) - (chosen.randrange(12) == 0)
                    index.append(AbortedTransaction(producer, start, last, last + 1))
                first.pop(producer, None)
            else:
                raw = maker.batch(
                    base, attributes=chosen.choice([0, 8, *[builders.TRANSACTIONAL] * 6, 0x18, 0x50]), **who
                )
                last = base + int.from_bytes(raw[23:27], "big")
                if producer >= 0 and raw[22] & builders.TRANSACTIONAL:
                    first.setdefault(producer, base)
            batches.append(raw)
            base = last + 1 + (0 if chosen.randrange(9) else 3)
        if chosen.randrange(6) == 0:
            index.append(AbortedTransaction(chosen.randrange(4), base - 2, chosen.randrange(base, base + 9), base))
        parts.append((b"".join(batches), chosen.choice([None, [], index, index, index])))
    return parts


def test_random_logs():
    notes, errors, ended = set(), 0, 0
    for seed in range(300):
        found = in_small_steps(odd_log(seed), raises=seed % 2 == 0)
        errors += "error" in found
        notes |= {note.reason for note in found.get("notes", ())}
        ended += len(found.get("ended", ())) > 0
    assert {"txnindex_differs", "txnindex_ahead", "marker_missing", "marker_unreadable"} <= notes, notes
    assert errors > 10 and ended > 150, (errors, ended)


def sound_log(chosen, producers, count):
    """Transactions without contradiction, some still open at the end, and the .txnindex."""
    batches, index, first = [], [], {}
    for base in range(count):
        producer = chosen.choice(producers)
        time = builders.NOW + chosen.randrange(99)
        if producer in first and chosen.randrange(3) == 0:
            commit = bool(chosen.randrange(2))
            batches.append(builders.end_marker(base, producer, commit=commit, base_timestamp=time))
            start = first.pop(producer)
            if not commit:
                index.append(AbortedTransaction(producer, start, base, base + 1))
        else:
            first.setdefault(producer, base)
            batches.append(batch(base, 1, transaction=producer, base_timestamp=time))
    return b"".join(batches), index


@pytest.mark.parametrize("producers", [1, 7, 3000])
def test_a_sound_log(producers):
    chosen = random.Random(producers)
    ids = [*range(producers - 1), 2**63 - 1]
    data, index = sound_log(chosen, ids, 2000 + producers)
    found = in_small_steps([(data, index)], raises=True)
    assert not found["notes"] and in_small_steps([(data, None)])["ended"] == found["ended"]
    assert len(found["open"]) >= producers // 4 and len(found["ended"]) > 120
    aborted = [(one[0], one[ROW.index("first_offset")], one[2]) for one in found["ended"] if one[1] == ABORT]
    assert aborted == [(one.producer_id, one.first_offset, one.last_offset) for one in index]


@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_without_checks_a_last_batch_with_a_wrong_checksum_is_read(errors):
    """The markers' reading, which checks them to skip damage, did not see it."""
    one, other = (batch(base, 2) for base in (0, 2))
    data = one + other[:-3] + b"x" + other[-2:]
    records = kafkarec.decode(data, isolation="read_committed", errors=errors, check_crcs=False)
    assert records.column("offset") == [0, 1, 2, 3]
