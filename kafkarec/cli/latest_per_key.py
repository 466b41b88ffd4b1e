"""`cat --latest-per-key`: of the selected records only the last one of each key, as compaction would leave them.

A log is read twice: first for the last offset of each key, then for the records. Memory grows with the number of
different keys in one partition (some 50 bytes for a key of 16), not with records or values. Records without a key are
left out; a tombstone (value null) is a record.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from kafkarec._verbs import LastOffsets
from kafkarec.logs import Log
from kafkarec.read.decode_options import request
from kafkarec.tables.records import buffers

from .problems import DamageReporter
from .record_pieces import PieceReader, SomeRecords


def pieces(reader: PieceReader, logs: Sequence[Log]) -> Generator[SomeRecords]:
    """Yield the records that have the last offset of their key in the selection of their log."""
    silent = DamageReporter((), reader.damage_reporter.stop_at_first, "", lines=0)
    layout = request(columns=("key", "offset", "batch_position")).layout
    for_keys = replace(reader, wanted=reader.wanted._replace(layout=layout), damage_reporter=silent)
    for log in logs:
        last = LastOffsets()
        for _, records in for_keys.pieces([log]):
            for chunk, start, stop in records._pieces:
                last.put(buffers(chunk, 0, "z"), buffers(chunk, 1, "l")[1], stop, [(start, stop)])
        options = reader.wanted.options._replace(keys=last)
        yield from replace(reader, wanted=reader.wanted._replace(options=options)).pieces([log])
        if reader.damage_reporter.stopped:
            return
