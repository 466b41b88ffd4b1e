"""The reference page of the Python API, from signatures and docstrings as griffe finds them."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import griffe
from doc_text import cell, escaped, table

import kafkarec

HEAD = """\
# Python API

<!-- written by tools/make_docs.py from the docstrings: do not edit -->

What is not listed here is not public. Names up to "More" are in the package `kafkarec` itself; the names of its
subpackages follow below. Invalid bytes raise `KafkaRecordError` or one of its subclasses, and no other exception.
"""

# heading -> the names under it; public names that are not listed here are under "More"
SECTIONS = {
    "Bytes": "decode stream scan batches decode_each scan_each",
    "Files": "open find Segment Log LogDir",
    "Check and repair": "verify salvage",
    "Write": "encode SegmentWriter RecordBatchBuilder convert compact validate stamp estimate_size",
    "Compare settings": "study",
    "Reports and results": "Report SalvageReport Damage Restored Converted Compacted ValidatedRecords Study",
    "Records and batches": "RecordColumns BatchTable Record RecordBatch RecordLists",
    "Enumerations": "Compression Isolation TimestampType ControlRecordType",
    "Errors": "KafkaRecordError CorruptRecordError InvalidRecordError UnsupportedMagicError "
    "UnsupportedCompressionError LimitExceededError MissingCodecError InvalidArrowError RemoteError",
}
_OF_TASKS = "ParameterError PartitionedFiles UnknownKeyError WrittenFile make_folder segments_in_range sync_folder"
# package -> its names that are not for users
PACKAGES: dict[str, set[str]] = {
    "internal_topics": set(),
    "ops.explain": set(),
    "ops.verify": {"KINDS"},
    "ops.salvage": set(),
    "ops.study": {"BATCH_SIZES", "CODECS", "FORMATS", "codec_and_level", "format_name"},
    "state.transactions": {"listing"},
    "distributed": {*_OF_TASKS.split(), "write_file"},
}
# module -> its names for users
MODULES: dict[str, tuple[str, ...]] = {
    "ops.diff": ("compare", "Difference", "Extent"),
}
# module -> its names for users; the section has the text of their package first
EXPERIMENTAL: dict[str, tuple[str, ...]] = {
    "v3": ("encode", "decode", "from_v2", "to_v2"),
    "header_first": ("encode", "decode", "from_v2", "to_v2", "offsets", "ValidatedOffsets"),
}
_OF_FILES = "groups opened named part parts headers record_batches of pieces joined copy open_sidecar take"
# public methods that are for kafkarec's own modules only
INTERNAL_METHODS = {*_OF_FILES.split(), "list_capsules"}
# classes that users do not construct
NOT_CONSTRUCTED = {"RecordBatch", "RecordLists", "RecordColumns", "BatchTable", "Record"}


def page() -> str:
    # without compiled modules, which griffe else finds before or after their stubs, as the folder lists them
    package = griffe.load("kafkarec", search_paths=[Path(kafkarec.__file__).parents[1]], allow_inspection=False)
    names = [name for name in kafkarec.__all__ if not name.startswith("__")]
    sections = {title: listed.split() for title, listed in SECTIONS.items()}
    placed = {name for section in sections.values() for name in section}
    described_in: dict[str, str] = {}
    lines = [HEAD]
    for title, wanted in {**sections, "More": [name for name in names if name not in placed]}.items():
        lines.append(f"\n## {title}\n")
        lines += [_entry(package, name, described_in) for name in wanted]
    for place, inside in PACKAGES.items():
        module = package[place]
        doc = _doc(module)
        # if a docstring continues with a list of the package's modules, only its first paragraph is for users
        text = split(doc)[0] if f"{place}." in doc else escaped(doc.split("\n\n")[0])
        lines += [f"\n## {module.path}\n", text + "\n"]
        for_users = [name for name in module.exports if name not in inside and name not in names]
        lines += [_entry(module, name, described_in) for name in for_users]
    for place, listed in MODULES.items():
        lines += [f"\n## kafkarec.{place}\n", split(_doc(package[place]))[0]]
        lines += [_entry(package[place], name, described_in) for name in listed]
    lines += ["\n## kafkarec.sidecars\n", _side_files(package["sidecars"])]
    lines += ["\n## kafkarec.experimental\n", _experimental(package["experimental"], described_in)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _experimental(package: Any, described_in: dict[str, str]) -> str:
    """The modules of formats that no broker reads."""
    lines = ["**No broker reads these formats.**", split(_doc(package))[0]]
    lines.append("More in [Magic 3, an experiment](../explanation/magic-3.md).\n")
    for name, for_users in EXPERIMENTAL.items():
        module = package[name]
        lines += [f"### {module.path}\n", split(_doc(module))[0]]
        lines += [
            re.sub(r"(?m)^###(#?) (?=\w)", rf"####\1 {name}.", _entry(module, one, described_in)) for one in for_users
        ]
    return "\n".join(lines)


def _side_files(package: Any) -> str:
    """A package of similar modules: its docstring, and a table of their functions."""
    text = split(_doc(package))[0]
    rows = []
    for name in sorted(one for one in package.modules if f"`{one}`" in text):
        for of in package[name].functions.values():
            if _public(of.name) and not of.is_alias:
                call = " ".join(signature(of, of.name).replace("|", "\\|").split())
                rows.append((f"`{name}.{call}`", cell(_doc(of).split("\n\n")[0])))
    return f"{text}\n{table(('function', ''), rows)}"


def _doc(of: Any) -> str:
    """The docstring; stubs have none: that of the compiled module, without the compiler's line before it."""
    if of.filepath.suffix != ".pyi":
        return of.docstring.value if of.docstring else ""
    if of.is_attribute and "property" not in of.labels:
        return ""
    doc = inspect.getdoc(pydoc.locate(of.path)) or ""
    first, _, others = doc.partition("\n\n" if "\n\n" in doc else "\n")
    return others if re.fullmatch(r"\w+\(.*\)", first) else doc


def _entry(module: Any, name: str, described_in: dict[str, str]) -> str:
    value = getattr(importlib.import_module(module.path), name)
    if not callable(value):
        text = repr(value)
        shown = f"{name}: {type(value).__name__}" if len(text) > 90 or text.startswith("<") else f"{name} = {text}"
        return f"### {name}\n\n`{shown}`\n"
    written = inspect.unwrap(value)  # the one that is in the source
    of = module.package[f"{written.__module__}.{written.__qualname__}".removeprefix("kafkarec.")]
    if of.is_class:
        return _class(name, of.final_target if of.is_alias else of, described_in)
    returns = of.returns if written is value else inspect.signature(value).return_annotation
    return _function(of, f"### {name}", name, returns)


def _class(name: str, of: Any, described_in: dict[str, str]) -> str:
    """described_in: the path of a base class -> the public class under which its members are described."""
    members = [*_members(of, name, described_in)]
    links = [_link(above, described_in) for above in _ours(of.mro()) if described_in.get(above.path, name) != name]
    has_init = "__init__" in of.members and "dataclass" not in of.labels
    is_constructed = has_init and not of.bases and name not in NOT_CONSTRUCTED
    bases = f"({', '.join(map(str, of.bases))})" if of.bases else ""
    shown = signature(of.members["__init__"], name) if is_constructed else f"class {name}{bases}"
    text, described = split(_doc(of))
    lines = [f"### {name}\n", _code(shown), text, "\n".join(links)]
    numbers = [one for one in members if one.is_attribute and one.name.isupper()]
    if numbers:
        lines.append(", ".join(f"`{one.name}` = {one.value}" for one in numbers) + "\n")
    values = {one.name: one for one in members if one.is_attribute and one not in numbers}
    kinds = {each: f"`{_annotation(one)}`".replace("|", "\\|") for each, one in values.items() if _annotation(one)}
    named = {each for row in described for each in row.names}
    rows = [*described, *(Row((each,), "", cell(_doc(one))) for each, one in values.items() if each not in named)]
    if rows:
        cells = [(row.places, row.type or kinds.get(row.names[0], ""), row.text) for row in rows]
        lines.append(table(("attribute", "type", ""), cells))
    methods = [one for one in members if one.is_function and _doc(one)]
    lines += [_function(one, f"#### {name}.{one.name}", one.name, one.returns) for one in methods]
    return "\n".join(lines) + "\n"


def _members(of: Any, name: str, described_in: dict[str, str]) -> Iterator[Any]:
    """The members for users: those of the class, and of its bases if no class above on the page has described them."""
    for one in of.members.values():
        is_described = one.is_function or "property" in one.labels or one.name.isupper() or _annotation(one)
        if _public(one.name) and one.name not in INTERNAL_METHODS and is_described:
            yield one
    for above in _ours(of.resolved_bases):
        if described_in.setdefault(above.path, name) == name:
            yield from (one for one in _members(above, name, described_in) if one.name not in of.members)


def _ours(bases: list[Any]) -> list[Any]:
    """Those that the page describes."""
    return [one for one in bases if one.path.startswith("kafkarec.") and not one.name.endswith("Error")]


def _link(above: Any, described_in: dict[str, str]) -> str:
    """A link to the class above on the page that describes the methods of `above`."""
    members = [one for one in _members(above, "", described_in) if _doc(one)]
    return f"Also the members of `{described_in[above.path]}`: {', '.join(f'`.{one.name}`' for one in members)}.\n"


def _public(name: str) -> bool:
    return not name.startswith("_")


def _annotation(of: Any) -> str:
    """That of an attribute: where it is assigned, or else in its class or one above."""
    classes = inspect.getmro(pydoc.locate(of.parent.path))
    declared = (inspect.get_annotations(each).get(of.name) for each in classes)
    return str(of.annotation or next(filter(None, declared), "")).strip("'")


def _code(text: str) -> str:
    # a directive, not a plain fence: signatures cannot be run
    return f"```{{code-block}} python\n{text}\n```\n"


def _function(of: Any, heading: str, name: str, returns: Any) -> str:
    text, rows = split(_doc(of))
    lines = [heading + "\n", _code(signature(of, name, returns)), text]
    if rows:
        lines.append(table(("", ""), [(row.places, row.text) for row in rows]))
    return "\n".join(lines) + "\n"


_MARKS = {"variadic positional": "*", "variadic keyword": "**"}


def signature(of: Any, name: str, returns: Any = None) -> str:
    """`name(a: int, *, b: str = "x") -> C`, on several lines if it is long; private parameters are left out."""
    parts: list[str] = []
    for one in of.parameters:
        by_name = one.kind.value == "keyword-only"
        if one.name in ("self", "cls") or (by_name and not _public(one.name)):
            continue
        if by_name and not any(part.startswith("*") for part in parts):
            parts.append("*")
        annotation = f": {one.annotation}" if one.annotation else ""
        default = f" = {one.default}" if one.default is not None and one.kind.value not in _MARKS else ""
        parts.append(_MARKS.get(one.kind.value, "") + one.name + annotation + default)
    end = f") -> {returns}" if returns else ")"
    text = f"{name}({', '.join(parts)}{end}"
    return text if len(text) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + end


class Row(NamedTuple):
    """A line of a docstring that describes a parameter or an attribute."""

    names: tuple[str, ...]
    type: str
    text: str

    @property
    def places(self) -> str:
        return ", ".join(f"`{name}`" for name in self.names)


# "name, name: type   text", ".name   text": columns; "name: text": a parameter
_COLUMNS = re.compile(r"^(\.?\w+(?:, \.?\w+)*)(?:: ([\w |.\[\]]+?))?\s{2,}(\S.*)$")
_DOTTED = re.compile(r"^(\.\w+(?:, \.\w+)*)() (\S.*)$")
_PARAMETER = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*)(): (\S.*)$")
_WRAPPED = 96  # a line at least this long continues in the next one


def split(doc: str) -> tuple[str, list[Row]]:
    """A docstring's text, and its rows; an indented run that belongs to no row is kept unchanged."""
    text: list[str] = []
    rows: list[Row] = []
    block: list[str] = []
    open_row = False
    last = 0
    for line in doc.split("\n"):
        match = _COLUMNS.match(line) or _DOTTED.match(line) or _PARAMETER.match(line)
        indented = line.startswith("  ") and bool(line.strip())
        if match:
            names = tuple(name.lstrip(".") for name in match[1].split(", "))
            rows.append(Row(names, f"`{match[2]}`".replace("|", "\\|") if match[2] else "", cell(match[3])))
            open_row, last = True, len(line)
            continue
        if indented and open_row:
            joint = " " if last > _WRAPPED else "<br>"
            rows[-1] = rows[-1]._replace(text=rows[-1].text + joint + cell(line))
            last = len(line)
            continue
        open_row = False
        if indented:
            block.append(line)
        elif block and not line.strip():
            block.append("")
        else:
            text += _block(block)
            block.clear()
            text.append(escaped(line))
    return "\n".join([*text, *_block(block)]) + "\n", rows


def _block(lines: list[str]) -> list[str]:
    return ["```text", textwrap.dedent("\n".join(lines)).strip("\n"), "```\n"] if lines else []
