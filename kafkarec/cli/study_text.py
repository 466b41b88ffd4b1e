"""The output of `study`: a table a partition, or a line a partition; one object a line for programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from kafkarec.ops.study import ByteShares, Candidate, Outcome, Study
from kafkarec.ops.verify.report_text import amount
from kafkarec.support import text_table

Named = tuple[str, Study]
_UNITS = ((30, "g"), (20, "m"), (10, "k"))


def as_text(found: Sequence[Named], full: bool) -> Iterator[str]:
    if not full:
        yield from _overview(found)
        return
    for number, (name, one) in enumerate(found):
        yield ("\n" if number else "") + text_table.safe(f"{name}: {_sample(one)}") + "\n"
        yield from _makeup(one.makeup)
        yield "\n" + _table(one) + "* nothing else tried is both smaller and faster to write\n"
        yield from _advice(name, one)


def as_json(found: Sequence[Named], full: bool) -> Iterator[str]:
    """Kinds: log, outcome. `full` is ignored: JSON output always has all outcomes."""
    for name, one in found:
        log = {name: getattr(one, name) for name in ("size", "segments", "pieces", "sampled", "read_rate", "damage")}
        yield json.dumps({"kind": "log", "source": name, **log, "makeup": one.makeup.as_dict()}) + "\n"
        for outcome in one.outcomes:
            yield json.dumps({"kind": "outcome", "source": name, **outcome.as_dict()}) + "\n"


def size(value: int | None) -> str:
    """A batch size as the options take it."""
    if value is None:
        return "keep"
    for bits, unit in _UNITS:
        if value and not value & ((1 << bits) - 1):
            return f"{value >> bits}{unit}"
    return str(value)


def codec(candidate: Candidate) -> str:
    """`zstd:9`, as the options take it."""
    return candidate.compression if candidate.level is None else f"{candidate.compression}:{candidate.level}"


def _sample(one: Study) -> str:
    total = f"{amount(one.size)} in {one.segments} segment{'s' * (one.segments != 1)}"
    if one.is_whole:
        return f"{total}, all of it read"
    share = 100 * one.sampled / one.size
    return f"{total}; {one.pieces} pieces of it read, {amount(one.sampled)} ({share:.2g} %)"


def _makeup(found: ByteShares) -> Iterator[str]:
    now = ", ".join(f"{codec} {_percent(part, found.by_codec.total())}" for codec, part in found.by_codec.most_common())
    each = f"{found.records / found.batches:.1f} records, {amount(found.plain // found.batches)} decompressed"
    yield f"  now           {now}; a batch has {each}\n"
    kinds = ("values", "keys", "headers", "framing", "batch_headers")
    parts = ", ".join(f"{kind.replace('_', ' ')} {_percent(getattr(found, kind), found.plain)}" for kind in kinds)
    yield f"  decompressed  {parts}\n"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _table(one: Study) -> str:
    rows = one.outcomes
    cuts = ("as cut" if row.candidate.batch_size is None else size(row.candidate.batch_size) for row in rows)
    levels = (text_table.NOTHING if row.candidate.level is None else str(row.candidate.level) for row in rows)
    return text_table.render(
        [
            ("batches", ["as is", *cuts]),
            ("codec", ["as is", *(row.candidate.compression for row in rows)]),
            ("level", [text_table.NOTHING, *levels]),
            ("bytes", [str(one.size), *(str(row.size) for row in rows)]),
            ("of now", ["100.0 %", *(_share(row) for row in rows)]),
            ("write MB/s", [text_table.NOTHING, *(_rate(row.write_rate) for row in rows)]),
            ("read MB/s", [_rate(one.read_rate), *(_rate(row.read_rate) for row in rows)]),
            ("", ["", *("*" if row.is_best else "" for row in rows)]),
        ]
    )


def _share(row: Outcome) -> str:
    margin = "" if row.margin is None else f" ±{100 * row.margin:.1f}"
    return f"{100 * row.share:.1f} %{margin}"


def _rate(value: float | None) -> str:
    return text_table.NOTHING if value is None else f"{value:.0f}"


def _advice(name: str, one: Study) -> Iterator[str]:
    best = one.smallest
    if best is None:
        yield "smallest      as it is\n"
        return
    yield f"smallest      {amount(best.size)}, {amount(one.size - best.size)} less: {_command(name, best)}\n"


def _command(name: str, row: Outcome) -> str:
    words = ["kafkarec", "convert", "-" if name == "standard input" else name, "-o", "new/"]
    words += ["--compression", row.candidate.compression]
    if row.candidate.level is not None:
        words += ["--level", str(row.candidate.level)]
    if row.candidate.batch_size is not None:
        words += ["--batch-size", size(row.candidate.batch_size)]
    return shlex.join(words)


def _overview(found: Sequence[Named]) -> Iterator[str]:
    """A line a partition, the largest saving first, and the total."""
    rows = [(name, one, one.smallest) for name, one in found]
    rows.sort(key=lambda row: _saved(row[1], row[2]), reverse=True)
    saved = sum(_saved(one, best) for _, one, best in rows)
    total = sum(one.size for _, one, _ in rows)
    yield text_table.render(
        [
            ("partition", [name for name, _, _ in rows]),
            ("bytes", [str(one.size) for _, one, _ in rows]),
            ("codecs", [", ".join(codec for codec, _ in one.makeup.by_codec.most_common()) for _, one, _ in rows]),
            ("records a batch", [f"{one.makeup.records / one.makeup.batches:.1f}" for _, one, _ in rows]),
            ("smallest", [str(best.size if best else one.size) for _, one, best in rows]),
            ("of now", [_share(best) if best else "100.0 %" for _, _, best in rows]),
            ("with", [_wish(best) if best else "as it is" for _, _, best in rows]),
        ]
    )
    yield f"in all {amount(total)}; {amount(saved)} less with these. Everything tried: --full\n"


def _saved(one: Study, best: Outcome | None) -> int:
    return one.size - best.size if best else 0


def _wish(row: Outcome) -> str:
    cut = "as cut" if row.candidate.batch_size is None else f"batches of {size(row.candidate.batch_size)}"
    return f"{codec(row.candidate)}, {cut}"
