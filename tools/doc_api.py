"""The reference page of the Python API, from the signatures and docstrings in the sources; nothing is imported."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kafkarec"

HEAD = """\
# Python API

<!-- written by tools/make_docs.py from the docstrings: do not edit -->

What is not listed here is not public. Names up to "More" are those of the package `kafkarec` itself; packages inside of
it have names of their own, below. Bytes that are wrong raise `KafkaRecordError` or one of its children, nothing else.
"""

# heading -> the names under it; public names that are not listed here come under "More"
SECTIONS = {
    "Bytes": ("decode", "stream", "scan", "batches", "decode_each", "scan_each"),
    "Files": ("open", "Segment", "Log", "LogDir"),
    "Check and repair": ("verify", "salvage", "diff", "explain", "transactions", "reindex"),
    "Write": (
        "encode",
        "SegmentWriter",
        "RecordBatchBuilder",
        "convert",
        "compact",
        "validate",
        "stamp",
        "estimate_size",
    ),
    "Weigh": ("study",),
    "What they say": ("Report", "SalvageReport", "Damage", "Converted", "Compacted", "ValidatedRecords", "Study"),
    "What they give": ("RecordColumns", "BatchTable", "Record", "RecordBatch", "RecordLists"),
    "Vocabulary": ("Compression", "Isolation", "TimestampType", "ControlRecordType"),
    "Errors": (
        "KafkaRecordError",
        "CorruptRecordError",
        "InvalidRecordError",
        "UnsupportedMagicError",
        "UnsupportedCompressionError",
        "LimitExceededError",
        "MissingCodecError",
        "InvalidArrowError",
    ),
}
# package -> its names that are not for users
PACKAGES: dict[str, set[str]] = {
    "internal_topics": set(),
    "ops.explain": {"tiles"},
    "ops.verify": {"KINDS"},
    "ops.salvage": set(),
    "ops.study": {"BATCH_SIZES", "CODECS", "Study", "codec_and_level", "study"},
    "state.transactions": {"listing"},
}
# methods that our own modules call on each other
INSIDE = {
    "groups",
    "opened",
    "named",
    "part",
    "parts",
    "headers",
    "record_batches",
    "of",
    "pieces",
    "joined",
    "open_source",
    "buffer_addresses",
    "list_capsules",
}
# classes that users get and do not make
MADE_BY_US = {"RecordBatch", "RecordLists", "RecordColumns", "BatchTable", "Record"}
# a base class -> the public class under which its members are described
_told: dict[str, str] = {}
_Definition = ast.FunctionDef | ast.ClassDef


class Found(NamedTuple):
    """A definition and the module that holds it."""

    node: ast.AST
    path: Path


def page() -> str:
    _told.clear()
    names = list(_exports(PACKAGE / "__init__.py"))
    placed = {name for section in SECTIONS.values() for name in section}
    sections = {title: [name for name in wanted if name in names] for title, wanted in SECTIONS.items()}
    sections["More"] = [name for name in names if name not in placed and not name.startswith("__")]
    lines = [HEAD]
    for title, wanted in sections.items():
        if wanted:
            lines.append(f"\n## {title}\n")
            lines += [_entry(name, find(PACKAGE / "__init__.py", name)) for name in wanted]
    for package, inside in PACKAGES.items():
        path = PACKAGE.joinpath(*package.split("."), "__init__.py")
        if path.exists() and (exported := [name for name in _exports(path) if name not in (*names, *inside)]):
            doc = ast.get_docstring(_tree(path)) or ""
            # where a docstring goes on with how its modules are laid out, its first sentence is for users
            shown = doc if f"{package}." in doc else doc.split("\n\n")[0]
            lines += [
                f"\n## kafkarec.{package}\n",
                split(shown)[0].strip() + "\n" if shown is doc else escaped(shown) + "\n",
            ]
            lines += [_entry(name, find(path, name)) for name in exported if name[0].islower() or name[0].isupper()]
    lines += ["\n## kafkarec.ops.diff\n", split(ast.get_docstring(_tree(PACKAGE / "ops" / "diff.py")) or "")[0]]
    lines += [_entry(name, find(PACKAGE / "ops" / "diff.py", name)) for name in ("compare", "Difference", "Extent")]
    lines += ["\n## kafkarec.sidecars\n", _small_files(PACKAGE / "sidecars")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _small_files(package: Path) -> str:
    """A package of modules that are alike: its docstring, and a table of their functions."""
    lines = [split(ast.get_docstring(_tree(package / "__init__.py")) or "")[0], "| function | |", "|---|---|"]
    for path in sorted(package.glob("*.py")):
        for node in _tree(path).body if f"`{path.stem}`" in lines[0] else ():
            if isinstance(node, ast.FunctionDef) and _public(node.name):
                call = signature(node).split(" -> ")[0].replace("|", "\\|")
                told = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                lines.append(f"| `{path.stem}.{' '.join(call.split())}` | {_cell(told)} |")
    return "\n".join(lines) + "\n"


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _exports(path: Path) -> Iterator[str]:
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.literal_eval(node.value)


def find(path: Path, name: str) -> Found | None:
    """Where `name` of the module at `path` is defined; imports within the package are followed."""
    body = _tree(path).body
    body += [inner for node in body if isinstance(node, ast.If) for inner in node.body]  # if TYPE_CHECKING
    for node in body:
        if isinstance(node, _Definition) and node.name == name:
            return Found(node, path)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                return Found(node, path)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name and (module := _module(path, node)):
                    return find(module, alias.name)
    return None


def _module(path: Path, node: ast.ImportFrom) -> Path | None:
    if node.level:
        base = path.parent
        for _ in range(node.level - 1):
            base = base.parent
    elif (node.module or "").startswith("kafkarec"):
        base = ROOT
    else:
        return None
    place = base.joinpath(*(node.module or "").split("."))
    tried = (place.with_suffix(".pyi"), place.with_suffix(".py"), place / "__init__.py")
    return next((one for one in tried if one.is_file()), None)


def _entry(name: str, found: Found | None) -> str:
    if found is None:
        return ""
    if isinstance(found.node, ast.ClassDef):
        return _class(name, found)
    if isinstance(found.node, ast.FunctionDef):
        return function(found.node, f"### {name}")
    return f"### {name}\n\n{_comment(found)}\n"


def _comment(found: Found) -> str:
    """A constant: the comment above it, or its value where that is short."""
    lines = found.path.read_text(encoding="utf-8").splitlines()
    at = found.node.lineno - 2
    told: list[str] = []
    while at >= 0 and lines[at].startswith("#"):
        told.insert(0, lines[at].lstrip("# "))
        at -= 1
    value = ast.unparse(found.node)
    if len(value) >= 90 and isinstance(found.node, ast.AnnAssign):
        value = f"{ast.unparse(found.node.target)}: {ast.unparse(found.node.annotation)}"
    return "\n\n".join(filter(None, (f"`{value}`" if len(value) < 90 else "", " ".join(told))))


def _class(name: str, found: Found) -> str:
    node = found.node
    assert isinstance(node, ast.ClassDef)
    bases = [ast.unparse(base) for base in node.bases]
    members = [*_members(found)]
    init = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    kind = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    shown = kind if init is None or bases or name in MADE_BY_US else signature(init, name)
    text, told = split(ast.get_docstring(node) or "")
    lines = [f"### {name}\n", code(shown), text, _as_above(name, found)]
    numbers = [one for one in members if isinstance(one, ast.Assign)]
    if numbers:
        lines.append(", ".join(f"`{ast.unparse(one.targets[0])}` = {ast.unparse(one.value)}" for one in numbers) + "\n")
    types = {ast.unparse(one.target): _type(one.annotation) for one in members if isinstance(one, ast.AnnAssign)}
    methods = [one for one in members if isinstance(one, ast.FunctionDef)]
    properties = {one.name: one for one in methods if _is(one, "property", "cached_property")}
    rows = [
        (
            ", ".join(f"`{each}`" for each in row.names),
            row.type or types.get(row.names[0], "") or _returned(properties, row),
            row.text,
        )
        for row in told
    ]
    named = {each for row in told for each in row.names}
    rows += [(f"`{each}`", kind, "") for each, kind in types.items() if each not in named]
    rows += [
        (f"`{each}`", _type(one.returns), _cell(ast.get_docstring(one) or ""))
        for each, one in properties.items()
        if each not in named
    ]
    if rows:
        lines += ["| attribute | type | |", "|---|---|---|"]
        lines += [f"| {names} | {kind} | {what} |" for names, kind, what in rows]
        lines.append("")
    plain = [one for one in methods if one.name not in properties and ast.get_docstring(one)]
    lines += [function(one, f"#### {name}.{one.name}") for one in plain]
    return "\n".join(lines) + "\n"


def _returned(properties: dict[str, ast.FunctionDef], row: Row) -> str:
    one = properties.get(row.names[0])
    return _type(one.returns) if one else ""


def _members(found: Found) -> Iterator[ast.stmt]:
    """What a user may call, the class's own and its bases'."""
    node = found.node
    assert isinstance(node, ast.ClassDef)
    names = set()
    for one in node.body:
        if isinstance(one, ast.FunctionDef):
            name = one.name
        elif isinstance(one, ast.AnnAssign):
            name = ast.unparse(one.target)
        elif isinstance(one, ast.Assign) and ast.unparse(one.targets[0]).isupper():
            name = ast.unparse(one.targets[0])
        else:
            continue
        names.add(name)
        if _public(name) and name not in INSIDE:
            yield one
    for above in _bases(found):
        if _told.setdefault(_key(above), node.name) == node.name:
            yield from (one for one in _members(above) if getattr(one, "name", None) not in names)


def _bases(found: Found) -> Iterator[Found]:
    assert isinstance(found.node, ast.ClassDef)
    for base in found.node.bases:
        above = find(found.path, ast.unparse(base))
        if above is not None and isinstance(above.node, ast.ClassDef) and not above.node.name.endswith("Error"):
            yield above


def _key(found: Found) -> str:
    assert isinstance(found.node, ast.ClassDef)
    return f"{found.path}:{found.node.name}"


def _as_above(name: str, found: Found) -> str:
    """A link to the class above on the page that describes the shared methods."""
    said = []
    for base in _bases(found):
        if _told.get(_key(base), name) != name:
            methods = [one for one in _members(base) if isinstance(one, ast.FunctionDef) and ast.get_docstring(one)]
            names = ", ".join(f"`.{one.name}`" for one in methods)
            said.append(f"Besides, as of `{_told[_key(base)]}`: {names}.\n")
    return "\n".join(said)


def _is(node: ast.FunctionDef, *names: str) -> bool:
    return any(ast.unparse(one).split(".")[-1] in names for one in node.decorator_list)


def _public(name: str) -> bool:
    return not name.startswith("_")


def _type(node: ast.expr | None) -> str:
    return "" if node is None else "`" + ast.unparse(node).strip("'\"").replace("|", "\\|") + "`"


def code(text: str) -> str:
    # a directive, not a plain fence: signatures are no code that could be run
    return f"```{{code-block}} python\n{text}\n```\n"


def function(node: ast.FunctionDef, heading: str) -> str:
    text, rows = split(ast.get_docstring(node) or "")
    lines = [heading + "\n", code(signature(node)), text]
    if rows:
        lines += ["| | |", "|---|---|"]
        lines += [f"| {', '.join(f'`{name}`' for name in row.names)} | {row.text} |" for row in rows]
        lines.append("")
    return "\n".join(lines) + "\n"


def signature(node: ast.FunctionDef, name: str | None = None) -> str:
    """`name(a: int, *, b: str = "x") -> C`, broken where it is long; private parameters are left out."""
    arguments = node.args
    parts: list[str] = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for one, default in zip(plain, defaults, strict=True):
        if one.arg not in ("self", "cls"):
            parts.append(_parameter(one, default))
        if arguments.posonlyargs and one is arguments.posonlyargs[-1] and parts:
            parts.append("/")
    if arguments.vararg:
        parts.append("*" + _parameter(arguments.vararg, None))
    elif any(_public(one.arg) for one in arguments.kwonlyargs):
        parts.append("*")
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if _public(one.arg):
            parts.append(_parameter(one, default))
    if arguments.kwarg:
        parts.append("**" + _parameter(arguments.kwarg, None))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and name is None else ""
    told = f"{name or node.name}({', '.join(parts)}){returns}"
    if len(told) > 100:
        told = f"{name or node.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    return told


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    told = one.arg + (f": {ast.unparse(one.annotation)}" if one.annotation else "")
    if default is None:
        return told
    return f"{told} = {ast.unparse(default)}" if one.annotation else f"{told}={ast.unparse(default)}"


class Row(NamedTuple):
    """A line of a docstring that describes a parameter or an attribute."""

    names: tuple[str, ...]
    type: str
    text: str


# "name, name: type   text", ".name   text": columns; "name: text": a parameter
_COLUMNS = re.compile(r"^(\.?\w+(?:, \.?\w+)*)(?:: ([\w |.\[\]]+?))?\s{2,}(\S.*)$")
_DOTTED = re.compile(r"^(\.\w+(?:, \.\w+)*)() (\S.*)$")
_PARAMETER = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*)(): (\S.*)$")
_WRAPPED = 96  # a line so long goes on in the next one


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
    """Angle brackets outside of code would be tags, stars emphasis; names with underlines are code."""
    return "`".join(
        part
        if at % 2
        else re.sub(r"(?<![\w/])(\w*_\w+|--[a-z]\w*)", r"`\1`", part.replace("<", "&lt;").replace("*", "\\*"))
        for at, part in enumerate(line.split("`"))
    )
