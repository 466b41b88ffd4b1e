"""The reference page of the Python API, from signatures and docstrings."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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
_OF_FILES = "groups opened named part parts headers record_batches of pieces joined copy open_source take"
# public methods that are for kafkarec's own modules only
INTERNAL_METHODS = {*_OF_FILES.split(), "buffer_addresses", "list_capsules"}
# classes that users do not construct
NOT_CONSTRUCTED = {"RecordBatch", "RecordLists", "RecordColumns", "BatchTable", "Record"}


def page() -> str:
    names = [name for name in kafkarec.__all__ if not name.startswith("__")]
    sections = {title: listed.split() for title, listed in SECTIONS.items()}
    placed = {name for section in sections.values() for name in section}
    described_in: dict[type, str] = {}
    lines = [HEAD]
    for title, wanted in {**sections, "More": [name for name in names if name not in placed]}.items():
        lines.append(f"\n## {title}\n")
        lines += [_entry(name, getattr(kafkarec, name), described_in) for name in wanted]
    for package, inside in PACKAGES.items():
        module = importlib.import_module(f"kafkarec.{package}")
        doc = inspect.getdoc(module) or ""
        # if a docstring continues with a list of the package's modules, only its first paragraph is for users
        shown = doc if f"{package}." in doc else doc.split("\n\n")[0]
        shown_names = [name for name in module.__all__ if name not in inside and name not in names]
        lines += [f"\n## kafkarec.{package}\n", (split(doc)[0] if shown is doc else escaped(shown)) + "\n"]
        lines += [_entry(name, getattr(module, name), described_in) for name in shown_names]
    for place, for_users in MODULES.items():
        module = importlib.import_module(f"kafkarec.{place}")
        lines += [f"\n## kafkarec.{place}\n", split(inspect.getdoc(module) or "")[0]]
        lines += [_entry(name, getattr(module, name), described_in) for name in for_users]
    lines += ["\n## kafkarec.sidecars\n", _small_files()]
    lines += ["\n## kafkarec.experimental\n", _experimental(described_in)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _experimental(described_in: dict[type, str]) -> str:
    """The modules of formats that no broker reads."""
    package = importlib.import_module("kafkarec.experimental")
    lines = ["**No broker reads these formats.**", split(inspect.getdoc(package) or "")[0]]
    lines.append("More in [Magic 3, an experiment](../explanation/magic-3.md).\n")
    for name, for_users in EXPERIMENTAL.items():
        module = importlib.import_module(f"kafkarec.experimental.{name}")
        lines += [f"### kafkarec.experimental.{name}\n", split(inspect.getdoc(module) or "")[0]]
        lines += [
            re.sub(r"(?m)^###(#?) (?=\w)", rf"####\1 {name}.", _entry(one, getattr(module, one), described_in))
            for one in for_users
        ]
    return "\n".join(lines)


def _small_files() -> str:
    """A package of similar modules: its docstring, and a table of their functions."""
    package = importlib.import_module("kafkarec.sidecars")
    text = split(inspect.getdoc(package) or "")[0]
    lines = [text, "| function | |", "|---|---|"]
    for path in sorted(Path(package.__path__[0]).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body if f"`{path.stem}`" in text else ():
            if isinstance(node, ast.FunctionDef) and _public(node.name):
                call = " ".join(signature(node).split(" -> ")[0].replace("|", "\\|").split())
                what = _cell(_doc(node).split("\n\n")[0])
                lines.append(f"| `{path.stem}.{call}` | {what} |")
    return "\n".join(lines) + "\n"


@cache
def _definition(of: type | Callable[..., Any]) -> ast.ClassDef | ast.FunctionDef:
    """The syntax of a class or function: annotations and defaults as they are written."""
    try:
        source = inspect.getsource(of)
    except OSError:
        return _compiled_class(of)
    [node] = ast.parse(textwrap.dedent(source)).body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    return node


def _compiled_class(of: Any) -> ast.ClassDef:
    """The syntax of a class of a compiled module: its stub, with the docstrings of the class."""
    stub = Path(sys.modules[of.__module__].__file__ or "").with_name(of.__module__.split(".")[-1] + ".pyi")
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    [node] = [one for one in nodes if isinstance(one, ast.ClassDef) and one.name == of.__name__]
    methods = [(one, getattr(of, one.name)) for one in node.body if isinstance(one, ast.FunctionDef)]
    for one, described in [(node, of), *((one, member) for one, member in methods if one.name != "__init__")]:
        one.body.insert(0, ast.Expr(ast.Constant(_without_signature(inspect.getdoc(described) or ""))))
    return node


def _without_signature(doc: str) -> str:
    """A docstring without the line that the compiler has put before it."""
    first, _, others = doc.partition("\n\n" if "\n\n" in doc else "\n")
    return others if re.fullmatch(r"\w+\(.*\)", first) else doc


def _doc(node: ast.ClassDef | ast.FunctionDef) -> str:
    return ast.get_docstring(node) or ""


def _entry(name: str, of: Any, described_in: dict[type, str]) -> str:
    if isinstance(of, type):
        return _class(name, of, described_in)
    if callable(of):
        node = _definition(of)
        assert isinstance(node, ast.FunctionDef)
        return function(node, f"### {name}")
    value = repr(of)
    shown = f"{name}: {type(of).__name__}" if len(value) > 90 or value.startswith("<") else f"{name} = {value}"
    return f"### {name}\n\n`{shown}`\n"


def _class(name: str, of: type, described_in: dict[type, str]) -> str:
    """described_in: a base class -> the public class under which its members are described."""
    node = _definition(of)
    assert isinstance(node, ast.ClassDef)
    bases = [ast.unparse(base) for base in node.bases]
    links = [_link(above, described_in) for above in _ours(of.__mro__[1:]) if described_in.get(above, name) != name]
    members = [*_members(of, name, described_in)]
    init = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    kind = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    shown = kind if init is None or bases or name in NOT_CONSTRUCTED else signature(init, name)
    text, described = split(_doc(node))
    lines = [f"### {name}\n", code(shown), text, "\n".join(links)]
    numbers = [one for one in members if isinstance(one, ast.Assign)]
    if numbers:
        lines.append(", ".join(f"`{ast.unparse(one.targets[0])}` = {ast.unparse(one.value)}" for one in numbers) + "\n")
    types = {ast.unparse(one.target): _type(one.annotation) for one in members if isinstance(one, ast.AnnAssign)}
    methods = [one for one in members if isinstance(one, ast.FunctionDef)]
    properties = {one.name: one for one in methods if _is_property(one)}
    types |= {each: _type(one.returns) for each, one in properties.items()}
    rows = [
        (", ".join(f"`{each}`" for each in row.names), row.type or types.get(row.names[0], ""), row.text)
        for row in described
    ]
    named = {each for row in described for each in row.names}
    rows += [
        (f"`{each}`", kind, _cell(_doc(properties[each])) if each in properties else "")
        for each, kind in types.items()
        if each not in named
    ]
    if rows:
        lines += ["| attribute | type | |", "|---|---|---|"]
        lines += [f"| {names} | {kind} | {what} |" for names, kind, what in rows]
        lines.append("")
    lines += [function(one, f"#### {name}.{one.name}") for one in methods if one.name not in properties and _doc(one)]
    return "\n".join(lines) + "\n"


def _members(of: type, name: str, described_in: dict[type, str]) -> Iterator[ast.stmt]:
    """The members for users: those of the class, and of its bases if no class above on the page has described them."""
    node = _definition(of)
    names = set()
    for one in node.body:
        if isinstance(one, ast.FunctionDef):
            member = one.name
        elif isinstance(one, ast.AnnAssign):
            member = ast.unparse(one.target)
        elif isinstance(one, ast.Assign) and ast.unparse(one.targets[0]).isupper():
            member = ast.unparse(one.targets[0])
        else:
            continue
        names.add(member)
        if _public(member) and member not in INTERNAL_METHODS:
            yield one
    for above in _ours(of.__bases__):
        if described_in.setdefault(above, name) == name:
            yield from (one for one in _members(above, name, described_in) if getattr(one, "name", None) not in names)


def _ours(bases: tuple[type, ...]) -> list[type]:
    """Those that the page describes; compiled ones have private members only."""
    ours = [one for one in bases if one.__module__.startswith("kafkarec") and not issubclass(one, Exception)]
    return [one for one in ours if not one.__module__.startswith("kafkarec._")]


def _link(above: type, described_in: dict[type, str]) -> str:
    """A link to the class above on the page that describes the methods of `above`."""
    methods = [one for one in _members(above, "", described_in) if isinstance(one, ast.FunctionDef) and _doc(one)]
    return f"Also the members of `{described_in[above]}`: {', '.join(f'`.{one.name}`' for one in methods)}.\n"


def _is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).split(".")[-1] in ("property", "cached_property") for one in node.decorator_list)


def _public(name: str) -> bool:
    return not name.startswith("_")


def _type(node: ast.expr | None) -> str:
    return "" if node is None else "`" + ast.unparse(node).strip("'\"").replace("|", "\\|") + "`"


def code(text: str) -> str:
    # a directive, not a plain fence: signatures cannot be run
    return f"```{{code-block}} python\n{text}\n```\n"


def function(node: ast.FunctionDef, heading: str) -> str:
    text, rows = split(_doc(node))
    lines = [heading + "\n", code(signature(node)), text]
    if rows:
        lines += ["| | |", "|---|---|"]
        lines += [f"| {', '.join(f'`{name}`' for name in row.names)} | {row.text} |" for row in rows]
        lines.append("")
    return "\n".join(lines) + "\n"


def signature(node: ast.FunctionDef, name: str | None = None) -> str:
    """`name(a: int, *, b: str = "x") -> C`, on several lines if it is long; private parameters are left out."""
    arguments = copy.deepcopy(node.args)
    arguments.args = [one for one in arguments.args if one.arg not in ("self", "cls")]
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    public = [(one, default) for one, default in by_keyword if _public(one.arg)]
    values: list[str] = []  # defaults are put in after splitting: a lambda has commas

    def numbered(default: ast.expr) -> ast.expr:
        values.append(ast.unparse(default))
        return ast.Name(f"_{len(values) - 1}")

    arguments.defaults = [numbered(default) for default in arguments.defaults]
    arguments.kwonlyargs = [one for one, _ in public]
    arguments.kw_defaults = [default and numbered(default) for _, default in public]
    parts = re.split(r", (?=\*{0,2}\w+: |\*,|/)", ast.unparse(arguments)) if ast.unparse(arguments) else []
    parts = [re.sub(r"=_(\d+)$", lambda match: f" = {values[int(match[1])]}", part) for part in parts]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and name is None else ""
    text = f"{name or node.name}({', '.join(parts)}){returns}"
    if len(text) > 100:
        text = f"{name or node.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    return text


class Row(NamedTuple):
    """A line of a docstring that describes a parameter or an attribute."""

    names: tuple[str, ...]
    type: str
    text: str


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
            rows.append(Row(names, f"`{match[2]}`".replace("|", "\\|") if match[2] else "", _cell(match[3])))
            open_row, last = True, len(line)
            continue
        if indented and open_row:
            joint = " " if last > _WRAPPED else "<br>"
            rows[-1] = rows[-1]._replace(text=rows[-1].text + joint + _cell(line))
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


def _cell(text: str) -> str:
    return escaped(" ".join(text.split())).replace("|", "\\|")


def escaped(line: str) -> str:
    """Angle brackets outside of code would be tags, stars emphasis; names with underscores are code."""
    return "`".join(
        part
        if at % 2
        else re.sub(r"(?<![\w/])(\w*_\w+|--[a-z]\w*)", r"`\1`", part.replace("<", "&lt;").replace("*", "\\*"))
        for at, part in enumerate(line.split("`"))
    )
