"""The output of `study` as one HTML page: the tables of the text, and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from kafkarec.ops.study import Study
from kafkarec.support import html_page
from kafkarec.support.html_page import text
from kafkarec.support.text_table import byte_size, counted, noun

from . import study_output, study_pictures
from .study_output import Named

_MAX_SECTIONS = 100
_STYLE = """svg { display: block; width: 100%; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
table.results td { white-space: nowrap; } table.claims td { min-width: 9rem; overflow-wrap: normal; }
@media (max-width: 640px) { table.claims td { min-width: 6.5rem; padding: 5px 6px; } }
"""


def as_html(found: Sequence[Named], other_sizes: Sequence[int]) -> Iterator[str]:
    """Yield the page in pieces. other_sizes: of the partitions that were not read."""
    several = len(found) + len(other_sizes) > 1
    title, *lines = _summary(found, other_sizes) if several else _headline(*found[0])
    body = chain(_header(title, lines), _sections(found, several))
    return html_page.page(title, body, study_pictures.STYLE + _STYLE)


def _header(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f'<header>\n<p class="kicker">kafkarec study</p>\n<h1>{text(title)}</h1>\n'
    yield "".join(f"<p>{text(line)}</p>\n" for line in lines)
    yield "</header>\n"


def _sections(found: Sequence[Named], several: bool) -> Iterator[str]:
    if several:
        yield "<section><h2>Partitions, the largest saving first</h2>\n"
        yield from html_page.table(study_output.overview(found), "results")
        yield "</section>\n"
    for name, one in study_output.by_saving(found)[:_MAX_SECTIONS]:
        yield f"<section><h2>{text(name)}</h2>\n"
        if several:
            yield f"<p class=path>{text(study_output.sample_text(one))}</p>\n"
        yield from _details(name, one)
        yield "</section>\n"
    if len(found) > _MAX_SECTIONS:
        more = len(found) - _MAX_SECTIONS
        yield f"<p>{more} more {noun(more, 'partition')}: in --format json.</p>\n"


def _headline(name: str, one: Study) -> list[str]:
    """Return what would save most, and how much of the log was read."""
    best = one.smallest
    if best is None:
        said = "Nothing that was tried is smaller than the current batches"
        if "2" not in one.formats:
            said = f"{name} in {noun(len(one.formats), 'format')} {', '.join(one.formats)}"
    else:
        saved, result = byte_size(one.size - best.size), byte_size(best.size)
        wanted = study_output.batches_and_codec(best)
        said = f"{wanted} would save {100 - 100 * best.share:.1f} %: {saved} of {byte_size(one.size)}, {result} remain"
    return [said, f"{name}: {study_output.sample_text(one)}"]


def _summary(found: Sequence[Named], other_sizes: Sequence[int]) -> list[str]:
    size, saved = study_output.totals(found, other_sizes)
    said = f"{byte_size(saved)} of {byte_size(size)} would be saved with the smallest result of each partition"
    many = counted(len(found) + len(other_sizes), "partition")
    return [said, f"{many}; {study_output.read_text(found, other_sizes)}"]


def _details(name: str, one: Study) -> Iterator[str]:
    if one.smallest is not None:
        yield f"<pre>{text(study_output.convert_command(name, one.smallest))}</pre>\n"
    yield "<h3>what the decompressed bytes are</h3>\n"
    yield from study_pictures.byte_shares(one)
    yield f"<p>current: {text(study_output.current_text(one.makeup))}</p>\n"
    yield "<h3>smallest size of each codec, % of the current bytes</h3>\n"
    yield from study_pictures.smallest_sizes(one)
    yield "<h3>size, % of the current bytes, against write speed</h3>\n"
    yield from study_pictures.size_and_speed(one)
    yield "<h3>everything that was tried</h3>\n"
    yield from html_page.table(study_output.results(one), "results")
    yield f"<p>* {text(study_output.starred(one))}</p>\n"
    if one.claims:
        yield "<h3>what is claimed of the formats, and what holds here</h3>\n"
        yield from html_page.table(study_output.claims(one.claims), "claims")
        yield f"<p>{text(study_output.CLAIMS_NOTE)}</p>\n"
