"""The report of `study`: a table per partition or a line per partition, and its JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafkarec.ops.study import FORMATS, ByteShares, Candidate, Outcome, Study
from kafkarec.report import Bar, Block, Columns, Document, ReportSection, ReportTable
from kafkarec.storage.suggested_output import suggested_output
from kafkarec.support import text_table
from kafkarec.support.command_line import command
from kafkarec.support.text_table import byte_size

Named = tuple[str, Study]
_UNITS = ((30, "g"), (20, "m"), (10, "k"))
_SHARES = ("values", "keys", "headers", "framing", "batch_headers")


def document(found: Sequence[Named], other_sizes: Sequence[int], full: bool) -> Document:
    """other_sizes: of the partitions that were not read; full: a table for each partition."""
    if len(found) + len(other_sizes) == 1:
        ((name, one),) = found
        return Document("study", list(_details(name, one)), f"{name}: {sample_text(one)}")
    read = read_text(found, other_sizes)
    if full:
        sections = (ReportSection(f"{name}: {sample_text(one)}", list(_details(name, one))) for name, one in found)
        return Document("study", [*sections, "", read])
    size, saved = totals(found, other_sizes)
    total = f"total {byte_size(size)}; {byte_size(saved)} less with these. All results: --full"
    return Document("study", [ReportTable(overview(found)), total, read])


def _details(name: str, one: Study) -> Iterator[Block]:
    makeup = one.makeup
    shares = [(kind.replace("_", " "), getattr(makeup, kind)) for kind in _SHARES]
    shown = ", ".join(f"{kind} {_percent(part, makeup.plain)}" for kind, part in shares)
    yield f"  current       {current_text(makeup)}"
    yield Bar(f"  decompressed  {shown}", shares)
    yield ""
    yield ReportTable(results(one))
    yield f"* {starred(one)}"
    yield advice(name, one)


def values(found: Sequence[Named], other_sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the objects of the kinds log, outcome, not_tried and, for several partitions, at the end, sample."""
    for name, one in found:
        log = {name: getattr(one, name) for name in ("size", "segments", "pieces", "sampled", "read_rate", "damage")}
        yield {"kind": "log", "source": name, **log, "makeup": one.makeup}
        yield from ({"kind": "outcome", "source": name, **outcome.as_dict()} for outcome in one.outcomes)
        yield from ({"kind": "not_tried", "source": name, **left_out._asdict()} for left_out in one.not_tried)
    if len(found) + len(other_sizes) > 1:
        yield {"kind": "sample", **_counts(found, other_sizes)}


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


def sample_text(one: Study) -> str:
    """Return the size of a log, and how much of it was read."""
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


def current_text(found: ByteShares) -> str:
    """Return the codecs and the size of the current batches."""
    stored = found.by_codec.total()
    current = ", ".join(f"{codec} {_percent(part, stored)}" for codec, part in found.by_codec.most_common())
    each = f"{found.records / found.batches:.1f} records, {byte_size(found.plain // found.batches)} decompressed"
    return f"{current}; a batch has {each}"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def results(one: Study) -> Columns:
    """Return the table of all candidates. Format and notes are in it if there is any but format 2."""
    rows = one.outcomes
    none = text_table.NOTHING
    levels = (none if row.candidate.level is None else str(row.candidate.level) for row in rows)
    columns: list[tuple[str, list[str]]] = [
        ("batches", ["current", *(batches(row.candidate) for row in rows)]),
        ("codec", ["current", *(row.candidate.compression for row in rows)]),
        ("level", [none, *levels]),
        ("bytes", [str(one.size), *(str(row.size) for row in rows)]),
        ("of current", ["100.0 %", *(_share(row) for row in rows)]),
        ("write MB/s", [none, *(_rate(row.write_rate) for row in rows)]),
        ("read MB/s", [_rate(one.read_rate), *(_rate(row.read_rate) for row in rows)]),
        ("", ["", *("*" if row.is_best else "" for row in rows)]),
    ]
    if not _has_formats(one):
        return columns
    for title, cells in columns[2:]:
        cells += [none if title else ""] * len(one.not_tried)
    columns[0][1].extend("any" for _ in one.not_tried)
    columns[1][1].extend(row.compression for row in one.not_tried)
    formats = ["current", *(row.candidate.format for row in rows), *(row.format for row in one.not_tried)]
    notes = ["", *map(_note, rows), *(f"not tried: {row.reason}" for row in one.not_tried)]
    return [("format", formats), *columns, ("note", notes)]


def starred(one: Study) -> str:
    """Return what the star of a row means."""
    of_format = " of its format" if _has_formats(one) else ""
    return f"best trade-off: no other candidate{of_format} is both smaller and faster to write"


def _has_formats(one: Study) -> bool:
    return one.formats != ["2"] or bool(one.not_tried)


_COUNTED_TWICE = ("records_with_headers", "control_records")


def _note(row: Outcome) -> str:
    """Return what the format loses of the records that were read, and whether a broker reads it."""
    lost = [word.replace("_", " ") for word in row.losses if word not in _COUNTED_TWICE]
    notes = [f"loses {', '.join(lost)}"] if lost else []
    if row.refused:
        notes.append(f"without {text_table.counted(row.refused, 'batch')} that it cannot hold")
    if FORMATS[row.candidate.format].no_broker:
        notes.append("no broker reads it")
    return "; ".join(notes)


def batches(candidate: Candidate) -> str:
    """Return the batch size of a candidate, or that batches stay as they are."""
    return "unchanged" if candidate.batch_size is None else size(candidate.batch_size)


def _share(row: Outcome) -> str:
    margin = "" if row.margin is None else f" ±{100 * row.margin:.1f}"
    return f"{100 * row.share:.1f} %{margin}"


def _rate(value: float | None) -> str:
    return text_table.NOTHING if value is None else f"{value:.0f}"


def advice(name: str, one: Study) -> str:
    """Return the smallest result that every broker reads without loss, and its command."""
    best = one.smallest
    if "2" not in one.formats:
        return "smallest      not looked for: only format 2 loses nothing and is read by every broker"
    if best is None:
        return "smallest      the current batches"
    return (
        f"smallest      {byte_size(best.size)}, {byte_size(one.size - best.size)} less: {convert_command(name, best)}"
    )


def convert_command(name: str, row: Outcome) -> str:
    """Return the command that makes an outcome."""
    path = "-" if name == "standard input" else name
    options: list[tuple[str, object]] = [("-o", suggested_output("new", [path]) + "/")]
    options.append(("--compression", row.candidate.compression))
    if row.candidate.level is not None:
        options.append(("--level", row.candidate.level))
    if row.candidate.batch_size is not None:
        options.append(("--batch-size", size(row.candidate.batch_size)))
    return command("convert", [path], *options)


def by_saving(found: Sequence[Named]) -> list[Named]:
    """Return the studies, the largest saving first."""
    return sorted(found, key=lambda named: _saved(named[1]), reverse=True)


def overview(found: Sequence[Named]) -> Columns:
    """Return a table of the partitions that were read, the largest saving first."""
    rows = [(name, one, one.smallest) for name, one in by_saving(found)]
    return [
        ("partition", [name for name, _, _ in rows]),
        ("bytes", [str(one.size) for _, one, _ in rows]),
        ("codecs", [", ".join(codec for codec, _ in one.makeup.by_codec.most_common()) for _, one, _ in rows]),
        ("records per batch", [f"{one.makeup.records / one.makeup.batches:.1f}" for _, one, _ in rows]),
        ("smallest", [str(best.size if best else one.size) for _, one, best in rows]),
        ("of current", [_share(best) if best else "100.0 %" for _, _, best in rows]),
        ("with", [batches_and_codec(best) if best else "unchanged" for _, _, best in rows]),
    ]


def totals(found: Sequence[Named], other_sizes: Sequence[int]) -> tuple[int, int]:
    """Return the bytes of all partitions, and how many the smallest results would save; those that were not read are
    taken to be like the others."""
    of_read = sum(one.size for _, one in found)
    size = of_read + sum(other_sizes)
    return size, sum(_saved(one) for _, one in found) * size // of_read


def _counts(found: Sequence[Named], other_sizes: Sequence[int]) -> dict[str, int]:
    """How much was read."""
    return {
        "size": sum(one.size for _, one in found) + sum(other_sizes),
        "sampled": sum(one.sampled for _, one in found),
        "partitions": len(found) + len(other_sizes),
        "partitions_sampled": len(found),
    }


def read_text(found: Sequence[Named], other_sizes: Sequence[int]) -> str:
    """Return how much of several partitions was read."""
    size, sampled, partitions, partitions_sampled = _counts(found, other_sizes).values()
    if sampled == size:
        return "everything was read"
    share = f"read: {byte_size(sampled)} of {byte_size(size)} ({100 * sampled / size:.2g} %)"
    if not other_sizes:
        return f"{share}, of every partition; --all reads everything"
    those = f"{partitions_sampled} of {partitions} partitions"
    return f"{share}, in {those}; the total takes the others to be like them; --all reads everything"


def _saved(one: Study) -> int:
    best = one.smallest
    return one.size - best.size if best else 0


def batches_and_codec(row: Outcome) -> str:
    """Return codec and batch size in words."""
    limit = row.candidate.batch_size
    joined = "batches unchanged" if limit is None else f"batches of {size(limit)}"
    return f"{codec(row.candidate)}, {joined}"
