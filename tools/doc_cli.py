"""The reference page of the command line, from the parsers of the verbs."""

from __future__ import annotations

import argparse
import importlib
import re

from doc_api import cell

HEAD = """\
# Command line

<!-- written by tools/make_docs.py from the verbs' parsers: do not edit -->

`kafkarec VERB ...`, or `python -m kafkarec VERB ...`. No verb needs a broker, and no verb writes into the
folder of its input.

| verb | what |
|---|---|
"""

RULES = """
## Common options

| | |
|---|---|
| `PATH` | a file of batches (`.log`, `.checkpoint`, any blob), a partition folder, a data folder, a folder of \
folders `key=value`, a glob in quotes, a URL if the verb accepts one, `-` for standard input |
| times | ISO 8601 (UTC without a zone), milliseconds, or `-1h`, `-15m`, `-2d` before now |
| `--format` | text for people, json for programs; names in the JSON do not change |
| `-o FILE`, `--html FILE`, `--plot FILE` | a new file, which appears under its name only when it is complete; \
`-`, `/dev/stdout`, `/dev/fd/N`, pipes and devices are written directly |
| `--force` | replaces an existing file and, with `build`, `convert`, `compact`, an existing log |
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


def page() -> str:
    from kafkarec.cli.verb_parsers import VERBS

    rows = [f"| [`{verb}`](#{verb}) | {cell(what)} |" for verb, what in VERBS.items()]
    return HEAD + "\n".join(rows) + "\n" + RULES + "".join(map(_verb, VERBS))


def _verb(verb: str) -> str:
    from kafkarec.cli.verb_parsers import parser_of

    module = importlib.import_module(f"kafkarec.cli.{verb}")
    whole = parser_of(verb)
    chosen = next(action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    parser = chosen.choices[verb]
    lines = [f"\n## {verb}\n", cell(module.DESCRIPTION) + "\n", "```{code-block} sh", _usage(parser, verb), "```\n"]
    for group in parser._action_groups:
        actions = [one for one in group._group_actions if one.dest not in ("help", "debug")]
        if not actions:
            continue
        titles = {"positional arguments": "what", "options": "option"}
        lines += [f"| {titles.get(group.title or '', group.title)} | |", "|---|---|"]
        lines += [f"| {_names(one)} | {_help(one)} |" for one in actions]
        lines.append("")
    lines += _examples(module.EXAMPLES)
    return "\n".join(lines) + "\n"


def _usage(parser: argparse.ArgumentParser, verb: str) -> str:
    places = [one for one in parser._actions if not one.option_strings]
    names = []
    for one in places:
        name = one.metavar if isinstance(one.metavar, str) else one.dest.upper()
        names.append({"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}.get(str(one.nargs), name))
    return " ".join(["kafkarec", verb, "[options]", *names])


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest.upper()}`"
    value = ""
    if action.nargs != 0:
        name = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
        value = f" {name}" if action.nargs != "?" else f" [{name}]"
    return ", ".join(f"`{option}{value}`".replace("|", "\\|") for option in action.option_strings)


def _help(action: argparse.Action) -> str:
    text = action.help or ""
    return cell(text % {**vars(action), "prog": "kafkarec"} if "%" in text else text)


def _commented(line: str) -> str:
    """Turns the description after an example (two spaces or more away) into a comment, so that the block is shell."""
    return re.sub(r"^(.*?\S)(\s{2,})(\S.*)$", r"\1\2# \3", line)


def _examples(text: str) -> list[str]:
    """The examples as one block, and the text after them."""
    before, _, rest = text.partition("examples:\n")
    commands = [_commented(line[2:].rstrip()) for line in rest.split("\n") if line.startswith("  ")]
    notes = " ".join(line.strip() for line in (before + "\n" + rest).split("\n") if line and not line.startswith("  "))
    lines = ["```{code-block} sh", *commands, "```\n"] if commands else []
    return [*lines, cell(notes)] if notes.strip() else lines
