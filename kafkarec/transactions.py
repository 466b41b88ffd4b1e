"""What read_committed hides: aborted transactions, and everything from the first open one on (KIP-98).

    data of producer 7   ...   data of 7   ...   marker of 7: ABORT or COMMIT
    ^ first offset                               matched by producer id alone: with transaction.version 2 the marker
                                                 carries the epoch after that of its data (KIP-890)

Only the first record of a control batch decides (Kafka: ConsumerRecords' CompletedFetch.containsAbortMarker); a control
batch may be empty after cleaning and then decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from . import control
from ._core import Layout, Source
from .errors import InvalidRecordError
from .faults import error
from .records import BatchTable, RecordColumns
from .request import CONTROL_PAYLOADS, Request
from .schema import record_schema

_NEVER = 2**63 - 1
_MARKER_COLUMNS = Layout(record_schema(("batch_position", "key"), "ms"))


class Transaction(NamedTuple):
    """One transaction of the input: its producer, first offset, and how its marker ended it (None: open)."""

    producer_id: int
    first_offset: int
    last_offset: int | None
    aborted: bool


class Hidden(NamedTuple):
    """aborted: (producer id, first offset, marker's offset); stable_offset: where reading stops, None: nowhere."""

    aborted: tuple[tuple[int, int, int], ...]
    stable_offset: int | None
    last_stable_offset: int | None


_Headers = tuple[dict[int, bytes | None], list[dict[str, Any]], int | None]


def _read_headers(asked: Request, source: Source) -> _Headers:
    """(position of a control batch -> its first record's key, the rows of transactional and control batches, the offset
    behind the last batch of all)."""
    options = replace(asked.options, payloads=CONTROL_PAYLOADS, control=True, chunk_bytes=None)
    decoder = asked._replace(skip=True).decoder(options, _MARKER_COLUMNS)
    decoder.feed(source)
    decoder.run()
    decoder.pop_damage()
    chunk, rows = decoder.take()
    keys: dict[int, bytes | None] = {}
    if chunk is not None:
        markers = RecordColumns(_MARKER_COLUMNS, [(chunk, 0, len(chunk))])
        for position, key in zip(markers.column("batch_position"), markers.column("key"), strict=True):
            keys.setdefault(position, key)
    table = BatchTable.of([rows])
    names = (
        "is_transactional", "is_control", "position", "size_in_bytes", "producer_id", "base_offset", "last_offset",
    )  # fmt: skip
    columns = [table.column(name) for name in names]
    matter = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True) if row[0] or row[1]]
    return keys, matter, table[-1]["next_offset"] if len(table) else None


def _ended_by(key: bytes | None, row: dict[str, Any], file: object) -> control.ControlRecordType | None:
    """ABORT or COMMIT, None for any other control record. InvalidRecordError when the key cannot be read."""
    try:
        type_id = control.type_id(key)
    except InvalidRecordError as found:
        fault = {
            "position": row["position"], "base_offset": row["base_offset"], "file": file, "detail": str(found),
            "next_position": row["position"] + row["size_in_bytes"],
        }  # fmt: skip
        raise error("control_record_invalid", fault) from None
    known = (control.ControlRecordType.ABORT, control.ControlRecordType.COMMIT)
    return control.ControlRecordType(type_id) if type_id in known else None


class Findings(NamedTuple):
    """All transactions in the order they ended, open ones last; every ABORT marker's offset by producer, also of
    transactions that began before the input; the offset behind the last batch."""

    transactions: list[Transaction]
    abort_markers: dict[int, list[int]]
    end: int | None


def find(inputs: Iterable[tuple[Request, Source]]) -> Findings:
    """Matches markers to what they end, by producer id. The inputs are a log's, in order: a transaction may begin in
    one segment and end in a later one."""
    open_since: dict[int, int] = {}
    found: list[Transaction] = []
    markers: dict[int, list[int]] = {}
    end = None
    for asked, source in inputs:
        keys, rows, behind = _read_headers(asked, source)
        end = end if behind is None else behind
        for row in rows:
            producer = row["producer_id"]
            if row["is_control"]:
                if row["position"] not in keys:
                    continue
                ended = _ended_by(keys[row["position"]], row, asked.named["file"])
                aborted = ended is control.ControlRecordType.ABORT
                if aborted:
                    markers.setdefault(producer, []).append(row["last_offset"])
                if ended is not None and producer in open_since:
                    found.append(Transaction(producer, open_since.pop(producer), row["last_offset"], aborted))
            elif row["is_transactional"] and producer is not None:
                open_since.setdefault(producer, row["base_offset"])
    found += [Transaction(producer, first, None, False) for producer, first in open_since.items()]
    return Findings(found, markers, end)


def hidden(
    inputs: Iterable[tuple[Request, Source]],
    aborted: Iterable[tuple[int, int]] | None,
    last_stable_offset: int | None,
) -> Hidden:
    """What a read_committed reader must not see; `aborted` and `last_stable_offset` replace what the markers say."""
    found = find(inputs)
    if aborted is None:
        spans = [(t.producer_id, t.first_offset, t.last_offset) for t in found.transactions if t.aborted]
    else:
        spans = [
            (producer, first, min((at for at in found.abort_markers.get(producer, ()) if at >= first), default=_NEVER))
            for producer, first in aborted
        ]
    stable = last_stable_offset
    if stable is None:
        stable = min((t.first_offset for t in found.transactions if t.last_offset is None), default=None)
    ended = tuple((producer, first, _NEVER if last is None else last) for producer, first, last in spans)
    return Hidden(ended, stable, found.end if stable is None else stable)
