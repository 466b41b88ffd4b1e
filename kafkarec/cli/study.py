"""`kafkarec study`: estimates what another codec, level or batch size would save.

The report has a table per partition or a line per partition. --plot (extra `study`): size against write speed, a line
per codec, a marker per batch size.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any

from kafkarec.logs import Log
from kafkarec.ops.study import (
    BATCH_SIZES,
    CODECS,
    FORMATS,
    Candidate,
    NothingToTry,
    Outcome,
    Study,
    codec_and_level,
    format_name,
    study,
)
from kafkarec.ops.study.sampling import sample_shares
from kafkarec.report import Block, Document, ReportTable
from kafkarec.storage.output_rules import STANDARD_INPUT, suggested_output
from kafkarec.storage.segment_file import size_or_zero
from kafkarec.support.command_line import command
from kafkarec.support.text_table import byte_size, counted

from . import DAMAGED, FINE, input_logs, new_log, output_files, progress, shared_options
from .problems import higher_limit_option, rerun_command, say
from .shared_options import CouldNot, WrongUse, add_option, output_path_parser

DESCRIPTION = """Estimates the size of a log with other codecs, levels, batch sizes and formats. Tries each of them on
pieces spread over the log, with the code of convert, and writes nothing. Sizes are printed with their margin of error;
--all reads everything. Speeds are those of this machine on one processor, including checksums."""
EXAMPLES = """examples:
  kafkarec study /kafka-logs/orders-0                            codecs, levels and batch sizes, side by side
  kafkarec study /kafka-logs                                     a line per partition read, the largest saving first
  kafkarec study orders-0 --codecs zstd:3,zstd:12,zstd:19 --batch-sizes 64k,256k,1m
  kafkarec study orders-0 --formats 0,1,2 --codecs lz4,zstd      also other formats
  kafkarec study orders-0 --html study.html                      the same as a page
  kafkarec study orders-0 --plot orders.svg                      size against speed (pip install 'kafkarec[study]')

exit status: 0 fine, 1 damage in the pieces (left out), 2 wrong usage, 3 failed"""

UNCHANGED = "keep"
_SAMPLE = 16 << 20
_UNITS = ((30, "g"), (20, "m"), (10, "k"))
_RESULTS = {
    "format": "format",
    "batches": "batches",
    "codec": "compression",
    "level": "level",
    "bytes": "size",
    "of current": "share",
    "write MB/s": "write_rate",
    "read MB/s": "read_rate",
    "": "is_best",
    "note": "note",
}
_IMAGE_SUFFIXES = (".svg", ".png", ".pdf")  # of plots
_MARKERS = "osD^vP*X"  # a marker per batch size; a colour per codec
_Found = Sequence[tuple[str, Study]]
_COUNTED_TWICE = ("records_with_headers", "control_records")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser)
    group = parser.add_argument_group("what to try")
    add_option(
        group,
        "--formats LIST",
        (
            f"record formats of {','.join(FORMATS)} (default 2); "
            "0 and 1 lose headers, producers and markers; no broker reads 3 and header-first"
        ),
        _list_parser(format_name),
        dest="record_formats",
        default=("2",),
    )
    add_option(
        group,
        "--codecs LIST",
        f"codecs, with or without a level (default {','.join(CODECS)})",
        _list_parser(_codec),
        default=CODECS,
    )
    add_option(
        group,
        "--batch-sizes LIST",
        (
            f"bytes before compression, as for convert; {UNCHANGED}: as they are (default "
            f"{','.join(map(_size_text, BATCH_SIZES))})"
        ),
        _list_parser(_batch_size),
        default=BATCH_SIZES,
    )
    some = parser.add_mutually_exclusive_group()
    add_option(
        some,
        "--sample SIZE",
        "how much to read, of all partitions together (default 16m); of many small ones, some are read",
        shared_options.size,
        default=_SAMPLE,
    )
    add_option(some, "--all", "read everything")
    shared_options.add_threads(parser)
    shared_options.add_decompressed_limit(parser)
    shared_options.add_page(parser, "the report as an HTML page")
    help_ = "plot size against write speed to a .svg, .png or .pdf file"
    add_option(parser, "--plot FILE", help_, output_path_parser("--plot"))
    shared_options.add_format_and_output(parser)


def _list_parser(parse: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return the parser of a list: words with commas."""

    def parse_list(text: str) -> list[Any]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        try:
            if words:
                return list(map(parse, words))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        raise argparse.ArgumentTypeError("the list is empty")

    return parse_list


def _codec(word: str) -> str:
    codec_and_level(word)
    return word


def _batch_size(word: str) -> int | None:
    return None if word == UNCHANGED else shared_options.batch_size(word)


def run(args: argparse.Namespace) -> int:
    logs = input_logs.find(args)
    if args.plot and len(logs) > 1:
        raise WrongUse(f"--plot needs a single partition, and there are {len(logs)}")
    if args.plot is not None:
        image_format, figure = _empty_figure(args.plot)  # before the study begins
    found, counts = _run_studies(logs, args)
    output_files.write_report(args, _document(found, counts), _json_objects(found, counts))
    if args.plot is not None:
        with output_files.opened(args, "plot") as sink:
            _draw(figure, *found[0])
            picture = io.BytesIO()
            figure.savefig(picture, format=image_format)
            sink.write(picture.getvalue())
    status = FINE
    for name, one in found:
        if one.damage:
            ranges = f"{counted(one.damage, 'damaged range')} in what was read, left out"
            say(f"{name}: {ranges}; see {command('verify', [_path_named(name)])}")
            status = DAMAGED
    return status


def _run_studies(logs: Sequence[Log], args: argparse.Namespace) -> tuple[_Found, dict[str, int]]:
    """Return the study of each partition that was read, by name, and how much was read of all."""
    found: list[tuple[str, Study]] = []
    other_sizes, options = [], shared_options.arguments_for(study, args)
    with progress.show_share() as tick:
        sizes = [sum(map(size_or_zero, log.segments)) for log in logs]
        samples = sizes if args.all else sample_shares(sizes, args.sample)
        done, whole = 0, max(1, sum(samples))
        for log, size, sample in zip(logs, sizes, samples, strict=True):
            if size and not sample:
                other_sizes.append(size)
                continue
            name = new_log.source_name(log, args.paths)
            try:
                one = study(
                    log,
                    done=partial(lambda before, own, share: tick(before + own * share), done / whole, sample / whole),
                    **options | {"formats": args.record_formats, "sample": None if args.all else sample},
                )
                found.append((name, one))
            except NothingToTry as error:
                higher = ""
                if "limit_exceeded" in error.reasons:
                    option = higher_limit_option(args.max_decompressed_bytes)
                    higher = f". With a higher limit: {rerun_command(args.argv, option)}"
                say(f"{name}: {error}, left out{higher}")
            done += sample
    if not found:
        raise CouldNot("no good batch in any input" if not other_sizes else "no good batch in what was read")
    return found, {
        "size": sum(one.size for _, one in found) + sum(other_sizes),
        "sampled": sum(one.sampled for _, one in found),
        "partitions": len(found) + len(other_sizes),
        "partitions_sampled": len(found),
    }


def _document(found: _Found, counts: Mapping[str, int]) -> Document:
    """Return the report: all results of a partition, a line for each of several."""
    name, one = found[0]
    if counts["partitions"] == 1:
        return Document("study", list(_details(name, one)), f"{name}: {_sampled_text(one)}")
    # Partitions that were not read are taken to be like the others.
    saved = sum(_saved_bytes(one) for _, one in found) * counts["size"] // sum(one.size for _, one in found)
    total = f"total {byte_size(counts['size'])}; {byte_size(saved)} less with these. All results: name one partition"
    size, sampled, partitions, partitions_sampled = counts.values()
    share = f"read: {byte_size(sampled)} of {byte_size(size)} ({100 * sampled / size:.2g} %)"
    if sampled == size:
        read = "everything was read"
    elif partitions_sampled == partitions:
        read = f"{share}, of every partition; --all reads everything"
    else:
        those = f"{partitions_sampled} of {partitions} partitions"
        read = f"{share}, in {those}; the total takes the others to be like them; --all reads everything"
    return Document("study", [_overview(found), total, read])


def _json_objects(found: _Found, counts: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the objects of the kinds log, outcome, not_tried and, for several partitions, at the end, sample."""
    for name, one in found:
        log = {name: getattr(one, name) for name in ("size", "segments", "pieces", "sampled", "read_rate", "damage")}
        yield {"kind": "log", "source": name, **log, "makeup": one.makeup}
        yield from ({"kind": "outcome", "source": name, **outcome.as_dict()} for outcome in one.outcomes)
        yield from ({"kind": "not_tried", "source": name, **left_out._asdict()} for left_out in one.not_tried)
    if counts["partitions"] > 1:
        yield {"kind": "sample", **counts}


def _sampled_text(one: Study) -> str:
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
    yield _results(one)
    of_format = " of its format" if _has_other_formats(one) else ""
    yield f"* best trade-off: no other candidate{of_format} is both smaller and faster to write"
    if "2" not in one.formats:
        yield "smallest      not looked for: only format 2 loses nothing and is read by every broker"
    elif one.smallest is None:
        yield "smallest      the current batches"
    else:
        size, tried = one.smallest.size, one.smallest.candidate
        path = _path_named(name)
        given = {
            "-o": suggested_output("new", [path]) + "/",
            "--compression": tried.compression,
            "--level": tried.level,
            "--batch-size": tried.batch_size and _size_text(tried.batch_size),
        }
        options = ((option, value) for option, value in given.items() if value is not None)
        convert = command("convert", [path], *options)
        yield f"smallest      {byte_size(size)}, {byte_size(one.size - size)} less: {convert}"


def _path_named(name: str) -> str:
    """Return the path of the command line for the name of a source."""
    return STANDARD_INPUT if name == input_logs.shown_name(STANDARD_INPUT) else name


def _results(one: Study) -> ReportTable:
    """The table of all candidates. Format and notes are in it if there is any but format 2."""
    unmarked: dict[str, Any] = {"is_best": "", "note": ""}
    current = dict.fromkeys(("format", "batches", "compression"), "current")
    rows: list[dict[str, Any]] = [
        unmarked | current | {"size": one.size, "share": "100.0 %", "read_rate": one.read_rate}
    ]
    for row in one.outcomes:
        shown = {"batches": _batches_text(row.candidate), "share": _share_text(row), "note": _format_drawbacks(row)}
        rows.append(row.as_dict() | shown | {"is_best": "*" * row.is_best})
    for left_out in one.not_tried:
        note = f"not tried: {left_out.reason}"
        rows.append(unmarked | left_out._asdict() | {"batches": "any", "note": note})
    columns = _RESULTS
    if not _has_other_formats(one):
        columns = {title: name for title, name in _RESULTS.items() if title not in ("format", "note")}
    return ReportTable.of(rows, columns)


def _has_other_formats(one: Study) -> bool:
    return one.formats != ["2"] or bool(one.not_tried)


def _format_drawbacks(row: Outcome) -> str:
    """What the format loses of the records that were read, and whether a broker reads it."""
    lost = [word.replace("_", " ") for word in row.losses if word not in _COUNTED_TWICE]
    notes = [f"loses {', '.join(lost)}"] if lost else []
    if row.refused:
        notes.append(f"without {counted(row.refused, 'batch')} that it cannot hold")
    if FORMATS[row.candidate.format].proposal is not None:
        notes.append("no broker reads it")
    return "; ".join(notes)


def _share_text(row: Outcome) -> str:
    margin = "" if row.margin is None else f" ±{100 * row.margin:.1f}"
    return f"{100 * row.share:.1f} %{margin}"


# ---- options of convert: what was tried


def _size_text(value: int | None) -> str:
    """Return a batch size as in the options."""
    if value is None:
        return "keep"
    for bits, unit in _UNITS:
        if value and not value & ((1 << bits) - 1):
            return f"{value >> bits}{unit}"
    return str(value)


def _codec_and_level(tried: Candidate) -> str:
    """Return codec and level as in the options: `zstd:9`."""
    return tried.compression if tried.level is None else f"{tried.compression}:{tried.level}"


def _batches_text(tried: Candidate) -> str:
    """Return the batch size of a candidate, or that batches stay as they are."""
    return "unchanged" if tried.batch_size is None else _size_text(tried.batch_size)


def _overview(found: _Found) -> ReportTable:
    """A table of the partitions that were read, the largest saving first."""
    rows = []
    for name, one in sorted(found, key=lambda named: _saved_bytes(named[1]), reverse=True):
        makeup, best = one.makeup, one.smallest
        row = {
            "partition": name,
            "bytes": one.size,
            "codecs": [codec for codec, _ in makeup.by_codec.most_common()],
            "records per batch": f"{makeup.records / makeup.batches:.1f}",
            "smallest": one.size,
            "of current": "100.0 %",
            "with": "unchanged",
        }
        if best is not None:
            joined = "unchanged" if best.candidate.batch_size is None else f"of {_batches_text(best.candidate)}"
            row |= {"smallest": best.size, "of current": _share_text(best)}
            row["with"] = f"{_codec_and_level(best.candidate)}, batches {joined}"
        rows.append(row)
    return ReportTable.of(rows, {title: title for title in rows[0]})


def _saved_bytes(one: Study) -> int:
    return one.size - one.smallest.size if one.smallest else 0


# ---- the plot


def _empty_figure(path: str) -> tuple[str, Any]:
    """Return the image format of a file name, and a figure of matplotlib. WrongUse if the suffix is of no image."""
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise CouldNot("--plot needs matplotlib: pip install 'kafkarec[study]'") from None
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _IMAGE_SUFFIXES:
        raise WrongUse(f"--plot {path}: the name must end in one of {', '.join(_IMAGE_SUFFIXES)}")
    return suffix.removeprefix("."), Figure(figsize=(8, 5), layout="constrained")


def _draw(figure: Any, name: str, one: Study) -> None:
    axes = figure.subplots()
    sizes = dict.fromkeys(row.candidate.batch_size for row in one.outcomes)
    markers = dict(zip(sizes, cycle(_MARKERS), strict=False))
    for codec in dict.fromkeys(_codec_and_level(row.candidate) for row in one.outcomes):
        rows = [row for row in one.outcomes if _codec_and_level(row.candidate) == codec and row.write_rate]
        points = [(row.write_rate or 0.0, 100 * row.share) for row in rows]
        (line,) = axes.plot(*(zip(*points, strict=True) if points else ((), ())), linewidth=1, alpha=0.6, label=codec)
        for point, row in zip(points, rows, strict=True):
            axes.plot(*point, markers[row.candidate.batch_size], color=line.get_color(), markersize=7)
    for size, marker in markers.items():
        label = "batches unchanged" if size is None else f"batches of {_size_text(size)}"
        axes.plot([], [], marker, color="gray", label=label)
    axes.axhline(100, color="gray", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", xlabel="write speed of one processor, MB/s of decompressed bytes", title=name)
    axes.set(ylabel="% of the current bytes", ylim=(0, None))
    figure.legend(loc="outside right upper", fontsize=8)
