"""Writes the generated tables of docs/; a test checks that those in the repository are current.

| what | from |
|---|---|
| tables of docs/damage.md | `errors.REASONS` and `ops.verify.finding_kinds`, the closed tables |
| that of docs/spark/reference.md | the table of `doc_spark.py`, which a test proves |

Not in the repository, only in the site:

| what | from |
|---|---|
| docs/reference/cli.md | what `kafkarec VERB --help` prints |
| docs/reference/api.md | the names that are public; Sphinx's autodoc describes them, with `doc_api.py` |
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable
from string import ascii_uppercase
from unittest import mock

import doc_api
import doc_spark
import doc_text
from commands import ROOT

from kafkarec import errors
from kafkarec.cli.verb_parsers import VERBS, parser_of
from kafkarec.ops.verify.finding_kinds import KINDS

# ---- docs/damage.md

_OFTEN = 3  # an advice that so many reasons or findings have is written once, below a letter


def _letters() -> dict[str, str]:
    """Advice that many have -> the letter that stands for it on the page."""
    counted = [
        *Counter(reason.advice for reason in errors.REASONS.values()).items(),
        *Counter(kind.advice for kind in KINDS.values() if kind.advice != "nothing to do").items(),
    ]
    return {advice: ascii_uppercase[n] for n, advice in enumerate(text for text, times in counted if times >= _OFTEN)}


def _lettered(advices: Iterable[str]) -> str:
    """The list of the letters that stand for some of these advices."""
    wanted = set(advices)
    return "".join(f"* {letter}: {advice}\n" for advice, letter in _letters().items() if advice in wanted) + "\n"


def _advice(text: str) -> str:
    for common, letter in _letters().items():
        text = text.replace(common, letter)
    return text


def reasons() -> str:
    rows = []
    for word, one in errors.REASONS.items():
        numbers = ", ".join(filter(None, (one.expected, one.found)))
        rows.append((f"`{word}`", one.sentence, numbers, _advice(one.advice), f"`{one.error.__name__}`"))
    head = ("reason", "meaning", "numbers", "what to do", "exception")
    return _lettered(reason.advice for reason in errors.REASONS.values()) + doc_text.table(head, rows)


def findings() -> str:
    rows = [
        (f"`{word}`", " or ".join(kind.severities), kind.violation, _advice(kind.advice))
        for word, kind in KINDS.items()
    ]
    head = ("finding", "severity", "meaning", "what to do")
    return _lettered(kind.advice for kind in KINDS.values()) + doc_text.table(head, rows)


def exceptions() -> str:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    # a class may have a second name there
    family = dict.fromkeys(cls for cls in classes if issubclass(cls, errors.KafkaRecordError))
    sentences = {cls: " ".join((cls.__doc__ or "").split("\n\n")[0].split()) for cls in family}
    rows = [(f"`{cls.__name__}`", f"`{cls.__bases__[0].__name__}`", text) for cls, text in sentences.items()]
    return doc_text.table(("exception", "is a", "meaning"), rows)


# ---- docs/reference/cli.md

COMMAND_LINE = """\
# Command line

<!-- written by tools/make_docs.py from the verbs' parsers: do not edit -->

`kafkarec VERB ...`, or `python -m kafkarec VERB ...`. No verb needs a broker, and no verb writes into the
folder of its input.

{verbs}
## Common options

| | |
|---|---|
| `PATH` | a file of batches (`.log`, `.checkpoint`, any blob), a partition folder, a data folder, a folder of \
folders `key=value`, a glob in quotes, a URL if the verb accepts one, `-` for standard input |
| times | ISO 8601 (UTC without a zone), milliseconds, or `-1h`, `-15m`, `-2d` before now |
| `--format` | text for people, json for programs; names in the JSON do not change |
| `-o FILE`, `--html FILE`, `--plot FILE` | a new file, which appears under its name only when it is complete; \
`-`, `/dev/stdout`, `/dev/fd/N`, pipes and devices are written directly |
| `--force` | replaces an existing file, never a folder |
| `--debug` | prints a traceback if an error ends the run; never printed without it |

| exit status | |
|---|---|
| 0 | fine |
| 1 | damage found; the requested output is complete |
| 2 | wrong use |
| 3 | not possible: file, permission, network, missing extra, limit |
| 130 | Ctrl-C |

**No output ever replaces an input.** `-o`, `--html` and `--plot` refuse a file that exists (`--force` replaces it) and,
`--force` or not, any input, and any name inside a partition or data folder that holds an input: exit status 2, and
nothing is created. Symbolic links, hard links and other spellings of a path are recognised. A folder that merely
contains partition folders is not a data folder, so `kafkarec cat orders-0 -o orders.jsonl` works in it.

A closed pipe (`| head`) is not an error and prints nothing. Messages go to standard error, one line each, and never
contain bytes of keys, values or headers.
"""


def parser_of_verb(verb: str) -> argparse.ArgumentParser:
    actions = parser_of(verb)._actions
    (chosen,) = [action.choices for action in actions if isinstance(action, argparse._SubParsersAction)]
    parser: argparse.ArgumentParser = chosen[verb]
    return parser


def command_line() -> str:
    rows = [(f"[`{verb}`](#{verb})", doc_text.cell(what)) for verb, what in VERBS.items()]
    page = COMMAND_LINE.format(verbs=doc_text.table(("verb", "what"), rows))
    with mock.patch.dict(os.environ, COLUMNS="100"):
        for verb in VERBS:
            page += f"\n## {verb}\n\n```text\n{parser_of_verb(verb).format_help()}```\n"
    return page


# ---- all of them

# page -> the name between its markers -> what stands there
TABLES = {
    "docs/damage.md": {"reasons": reasons, "findings": findings, "exceptions": exceptions},
    "docs/spark/reference.md": {"versions": doc_spark.block},
}
BUILT = {"docs/reference/cli.md": command_line, "docs/reference/api.md": doc_api.page}


def with_tables(name: str) -> str:
    """The page with the tables of now."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for table, make in TABLES[name].items():
        begin, end = f"<!-- {table}, written by make docs -->\n", f"<!-- end of the {table} -->\n"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{make()}\n{end}{rest.split(end)[1]}"
    return text


def write_built() -> None:
    """Writes the pages that are not in the repository; Sphinx's settings call it."""
    for name, make in BUILT.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(make())


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(with_tables(page), encoding="utf-8")
