"""The output of `study`: a table per partition or a line per partition as text, or JSON objects, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kafkarec.ops.study import ByteShares, Candidate, Outcome, Study
from kafkarec.ops.verify.report_text import byte_size
from kafkarec.storage.suggested_output import suggested_output
from kafkarec.support import text_table
from kafkarec.support.command_line import command

Named = tuple[str, Study]
_UNITS = ((30, "g"), (20, "m"), (10, "k"))


def as_text(found: Sequence[Named], other_sizes: Sequence[int], full: bool) -> Iterator[str]:
    """other_sizes: of the partitions that were not read; full: a table for each partition."""
    several = len(found) + len(other_sizes) > 1
    if several and not full:
        yield from _overview(found, other_sizes)
        return
    for number, (name, one) in enumerate(found):
        yield ("\n" if number else "") + text_table.safe(f"{name}: {_sample(one)}") + "\n"
        yield from _makeup(one.makeup)
        yield "\n" + _table(one) + "* no other candidate is both smaller and faster to write\n"
        yield from _advice(name, one)
    if several:
        yield "\n" + _read(found, other_sizes)


def as_json(found: Sequence[Named], other_sizes: Sequence[int], full: bool) -> Iterator[str]:
    """Yield one object per line. Kinds: log, outcome, and for several partitions, at the end, sample. `full` is
    ignored: JSON output always has all outcomes."""
    for name, one in found:
        log = {name: getattr(one, name) for name in ("size", "segments", "pieces", "sampled", "read_rate", "damage")}
        yield json.dumps({"kind": "log", "source": name, **log, "makeup": one.makeup.as_dict()}) + "\n"
        for outcome in one.outcomes:
            yield json.dumps({"kind": "outcome", "source": name, **outcome.as_dict()}) + "\n"
    if len(found) + len(other_sizes) > 1:
        yield json.dumps({"kind": "sample", **_counts(found, other_sizes)}) + "\n"


def size(value: int | None) -> str:
    """Return a batch size as in the options."""
    if value is None:
        return "keep"
    for bits, unit in _UNITS:
        if value and not value & ((1 << bits) - 1):
            return f"{value >> bits}{unit}"
    return str(value)


def codec(candidate: Candidate) -> str:
    """Return codec and level as in the options: `zstd:9`."""
    return candidate.compression if candidate.level is None else f"{candidate.compression}:{candidate.level}"


def _sample(one: Study) -> str:
    total = f"{byte_size(one.size)} in {one.segments} segment{'s' * (one.segments != 1)}"
    if one.is_whole:
        joins = (
            "; sizes may differ a little from those of convert, which joins batches across them"
            if one.pieces > 1
            else ""
        )
        return f"{total}, all read" + (f" in {one.pieces} pieces{joins}" if joins else "")
    share = 100 * one.sampled / one.size
    return f"{total}; {one.pieces} pieces read, {byte_size(one.sampled)} ({share:.2g} %)"


def _makeup(found: ByteShares) -> Iterator[str]:
    stored = found.by_codec.total()
    current = ", ".join(f"{codec} {_percent(part, stored)}" for codec, part in found.by_codec.most_common())
    each = f"{found.records / found.batches:.1f} records, {byte_size(found.plain // found.batches)} decompressed"
    yield f"  current       {current}; a batch has {each}\n"
    kinds = ("values", "keys", "headers", "framing", "batch_headers")
    parts = ", ".join(f"{kind.replace('_', ' ')} {_percent(getattr(found, kind), found.plain)}" for kind in kinds)
    yield f"  decompressed  {parts}\n"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _table(one: Study) -> str:
    rows = one.outcomes
    batches = ("unchanged" if row.candidate.batch_size is None else size(row.candidate.batch_size) for row in rows)
    levels = (text_table.NOTHING if row.candidate.level is None else str(row.candidate.level) for row in rows)
    return text_table.render(
        [
            ("batches", ["current", *batches]),
            ("codec", ["current", *(row.candidate.compression for row in rows)]),
            ("level", [text_table.NOTHING, *levels]),
            ("bytes", [str(one.size), *(str(row.size) for row in rows)]),
            ("of current", ["100.0 %", *(_share(row) for row in rows)]),
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
        yield "smallest      the current batches\n"
        return
    yield f"smallest      {byte_size(best.size)}, {byte_size(one.size - best.size)} less: {_command(name, best)}\n"


def _command(name: str, row: Outcome) -> str:
    path = "-" if name == "standard input" else name
    options: list[tuple[str, object]] = [("-o", suggested_output("new", [path]) + "/")]
    options.append(("--compression", row.candidate.compression))
    if row.candidate.level is not None:
        options.append(("--level", row.candidate.level))
    if row.candidate.batch_size is not None:
        options.append(("--batch-size", size(row.candidate.batch_size)))
    return command("convert", [path], *options)


def _overview(found: Sequence[Named], other_sizes: Sequence[int]) -> Iterator[str]:
    """Yield a table of the partitions that were read, the largest saving first, and the total of all."""
    rows = [(name, one, one.smallest) for name, one in found]
    rows.sort(key=lambda row: _saved(row[1], row[2]), reverse=True)
    of_rows = sum(one.size for _, one, _ in rows)
    total = of_rows + sum(other_sizes)
    saved = sum(_saved(one, best) for _, one, best in rows) * total // of_rows
    yield text_table.render(
        [
            ("partition", [name for name, _, _ in rows]),
            ("bytes", [str(one.size) for _, one, _ in rows]),
            ("codecs", [", ".join(codec for codec, _ in one.makeup.by_codec.most_common()) for _, one, _ in rows]),
            ("records per batch", [f"{one.makeup.records / one.makeup.batches:.1f}" for _, one, _ in rows]),
            ("smallest", [str(best.size if best else one.size) for _, one, best in rows]),
            ("of current", [_share(best) if best else "100.0 %" for _, _, best in rows]),
            ("with", [_batches_and_codec(best) if best else "unchanged" for _, _, best in rows]),
        ]
    )
    yield f"total {byte_size(total)}; {byte_size(saved)} less with these. All results: --full\n"
    yield _read(found, other_sizes)


def _counts(found: Sequence[Named], other_sizes: Sequence[int]) -> dict[str, int]:
    """How much was read."""
    return {
        "size": sum(one.size for _, one in found) + sum(other_sizes),
        "sampled": sum(one.sampled for _, one in found),
        "partitions": len(found) + len(other_sizes),
        "partitions_sampled": len(found),
    }


def _read(found: Sequence[Named], other_sizes: Sequence[int]) -> str:
    """Return a line about how much of several partitions was read."""
    size, sampled, partitions, partitions_sampled = _counts(found, other_sizes).values()
    if sampled == size:
        return "everything was read\n"
    share = f"read: {byte_size(sampled)} of {byte_size(size)} ({100 * sampled / size:.2g} %)"
    if not other_sizes:
        return f"{share}, of every partition; --all reads everything\n"
    those = f"{partitions_sampled} of {partitions} partitions"
    return f"{share}, in {those}; the total takes the others to be like them; --all reads everything\n"


def _saved(one: Study, best: Outcome | None) -> int:
    return one.size - best.size if best else 0


def _batches_and_codec(row: Outcome) -> str:
    limit = row.candidate.batch_size
    batches = "batches unchanged" if limit is None else f"batches of {size(limit)}"
    return f"{codec(row.candidate)}, {batches}"
