"""The report of `study`: a table per partition or a line per partition, and its JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafkarec.ops.study import FORMATS, Candidate, Outcome, Study
from kafkarec.report import Block, Columns, Document, ReportSection, ReportTable
from kafkarec.storage.output_rules import suggested_output
from kafkarec.support.command_line import command
from kafkarec.support.text_table import NOTHING, byte_size, counted, or_nothing

_UNITS = ((30, "g"), (20, "m"), (10, "k"))
_RESULTS = ("format", "batches", "codec", "level", "bytes", "of current", "write MB/s", "read MB/s", "", "note")
_OVERVIEW = ("partition", "bytes", "codecs", "records per batch", "smallest", "of current", "with")
_COUNTED_TWICE = ("records_with_headers", "control_records")


class Studies(NamedTuple):
    """The studies of the partitions that were read, by name, and the sizes of the others."""

    found: Sequence[tuple[str, Study]]
    other_sizes: Sequence[int]

    @property
    def counts(self) -> dict[str, int]:
        """How much was read."""
        return {
            "size": sum(one.size for _, one in self.found) + sum(self.other_sizes),
            "sampled": sum(one.sampled for _, one in self.found),
            "partitions": len(self.found) + len(self.other_sizes),
            "partitions_sampled": len(self.found),
        }


def document(studies: Studies, full: bool) -> Document:
    """Return the report. full: a table for each of several partitions."""
    parts = [(f"{name}: {_read_of(one)}", list(_details(name, one))) for name, one in studies.found]
    if len(parts) + len(studies.other_sizes) == 1:
        ((title, blocks),) = parts
        return Document("study", blocks, title)
    if full:
        sections = [ReportSection(title, blocks) for title, blocks in parts]
        return Document("study", [*sections, "", _read_of_all(studies)])
    return Document("study", [ReportTable(_overview(studies)), _total(studies), _read_of_all(studies)])


def values(studies: Studies) -> Iterator[dict[str, Any]]:
    """Yield the objects of the kinds log, outcome, not_tried and, for several partitions, at the end, sample."""
    for name, one in studies.found:
        log = {name: getattr(one, name) for name in ("size", "segments", "pieces", "sampled", "read_rate", "damage")}
        yield {"kind": "log", "source": name, **log, "makeup": one.makeup}
        yield from ({"kind": "outcome", "source": name, **outcome.as_dict()} for outcome in one.outcomes)
        yield from ({"kind": "not_tried", "source": name, **left_out._asdict()} for left_out in one.not_tried)
    if studies.counts["partitions"] > 1:
        yield {"kind": "sample", **studies.counts}


def _read_of(one: Study) -> str:
    """The size of a log, and how much of it was read."""
    total = f"{byte_size(one.size)} in {counted(one.segments, 'segment')}"
    if not one.is_whole:
        share = f"{byte_size(one.sampled)} ({100 * one.sampled / one.size:.2g} %)"
        return f"{total}; {one.pieces} pieces read, {share}"
    if one.pieces == 1:
        return f"{total}, all read"
    joins = "sizes may differ a little from those of convert, which joins batches across them"
    return f"{total}, all read in {one.pieces} pieces; {joins}"


def _details(name: str, one: Study) -> Iterator[Block]:
    found = one.makeup
    stored = found.by_codec.total()
    codecs = ", ".join(f"{codec} {100 * part / stored:.0f} %" for codec, part in found.by_codec.most_common())
    each = f"{found.records / found.batches:.1f} records, {byte_size(found.plain // found.batches)} decompressed"
    yield f"  current       {codecs}; a batch has {each}"
    yield ""
    yield ReportTable(_results(one))
    of_format = " of its format" if _has_formats(one) else ""
    yield f"* best trade-off: no other candidate{of_format} is both smaller and faster to write"
    if "2" not in one.formats:
        yield "smallest      not looked for: only format 2 loses nothing and is read by every broker"
    elif one.smallest is None:
        yield "smallest      the current batches"
    else:
        size = one.smallest.size
        convert = _convert_command(name, one.smallest.candidate)
        yield f"smallest      {byte_size(size)}, {byte_size(one.size - size)} less: {convert}"


def _results(one: Study) -> Columns:
    """The table of all candidates. Format and notes are in it if there is any but format 2."""
    none = NOTHING
    rows: list[tuple[str, ...]] = [
        (*("current",) * 3, none, str(one.size), "100.0 %", none, _rate(one.read_rate), "", "")
    ]
    for row in one.outcomes:
        tried = row.candidate
        sizes = (or_nothing(tried.level), str(row.size), _share(row), _rate(row.write_rate), _rate(row.read_rate))
        rows.append((tried.format, batches(tried), tried.compression, *sizes, "*" * row.is_best, _note(row)))
    for left_out in one.not_tried:
        rows.append((left_out.format, "any", left_out.compression, *[none] * 5, "", f"not tried: {left_out.reason}"))
    columns = _columns(_RESULTS, rows)
    return columns if _has_formats(one) else columns[1:-1]


def _columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Columns:
    return list(zip(titles, zip(*rows, strict=True), strict=True))


def _has_formats(one: Study) -> bool:
    return one.formats != ["2"] or bool(one.not_tried)


def _note(row: Outcome) -> str:
    """What the format loses of the records that were read, and whether a broker reads it."""
    lost = [word.replace("_", " ") for word in row.losses if word not in _COUNTED_TWICE]
    notes = [f"loses {', '.join(lost)}"] if lost else []
    if row.refused:
        notes.append(f"without {counted(row.refused, 'batch')} that it cannot hold")
    if FORMATS[row.candidate.format].no_broker:
        notes.append("no broker reads it")
    return "; ".join(notes)


def _share(row: Outcome) -> str:
    margin = "" if row.margin is None else f" ±{100 * row.margin:.1f}"
    return f"{100 * row.share:.1f} %{margin}"


def _rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f}"


# ---- options of convert: what was tried


def size(value: int | None) -> str:
    """Return a batch size as in the options."""
    if value is None:
        return "keep"
    for bits, unit in _UNITS:
        if value and not value & ((1 << bits) - 1):
            return f"{value >> bits}{unit}"
    return str(value)


def codec(tried: Candidate) -> str:
    """Return codec and level as in the options: `zstd:9`."""
    return tried.compression if tried.level is None else f"{tried.compression}:{tried.level}"


def batches(tried: Candidate) -> str:
    """Return the batch size of a candidate, or that batches stay as they are."""
    return "unchanged" if tried.batch_size is None else size(tried.batch_size)


def _convert_command(name: str, tried: Candidate) -> str:
    path = "-" if name == "standard input" else name
    given = {
        "-o": suggested_output("new", [path]) + "/",
        "--compression": tried.compression,
        "--level": tried.level,
        "--batch-size": tried.batch_size and size(tried.batch_size),
    }
    return command("convert", [path], *((option, value) for option, value in given.items() if value is not None))


# ---- several partitions


def _overview(studies: Studies) -> Columns:
    """A table of the partitions that were read, the largest saving first."""
    rows = []
    for name, one in sorted(studies.found, key=lambda named: _saved(named[1]), reverse=True):
        found, best = one.makeup, one.smallest
        codecs = ", ".join(codec for codec, _ in found.by_codec.most_common())
        now = (name, str(one.size), codecs, f"{found.records / found.batches:.1f}")
        if best is None:
            rows.append((*now, str(one.size), "100.0 %", "unchanged"))
        else:
            joined = "unchanged" if best.candidate.batch_size is None else f"of {batches(best.candidate)}"
            rows.append((*now, str(best.size), _share(best), f"{codec(best.candidate)}, batches {joined}"))
    return _columns(_OVERVIEW, rows)


def _saved(one: Study) -> int:
    return one.size - one.smallest.size if one.smallest else 0


def _total(studies: Studies) -> str:
    """All bytes, and how many the smallest results would save: partitions that were not read are taken to be like the
    others."""
    of_read, size = sum(one.size for _, one in studies.found), studies.counts["size"]
    saved = sum(_saved(one) for _, one in studies.found) * size // of_read
    return f"total {byte_size(size)}; {byte_size(saved)} less with these. All results: --full"


def _read_of_all(studies: Studies) -> str:
    size, sampled, partitions, partitions_sampled = studies.counts.values()
    if sampled == size:
        return "everything was read"
    share = f"read: {byte_size(sampled)} of {byte_size(size)} ({100 * sampled / size:.2g} %)"
    if partitions_sampled == partitions:
        return f"{share}, of every partition; --all reads everything"
    those = f"{partitions_sampled} of {partitions} partitions"
    return f"{share}, in {those}; the total takes the others to be like them; --all reads everything"
