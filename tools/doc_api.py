"""The page of the Python API, which Sphinx's autodoc fills; this extension of it reads the docstrings' layout.

A docstring's lines "name: text", ".name   text" and "name, name: type   text" describe parameters and attributes; a
line that is indented and belongs to none of them is kept as it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from enum import Enum
from importlib import import_module
from textwrap import dedent
from typing import Any

from doc_text import escaped

import kafkarec

HEAD = """\
# Python API

<!-- written by tools/make_docs.py: do not edit -->

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
    "distributed": {*_OF_TASKS.split(), "type_by_head", "write_file"},
}
# formats that no broker reads: module of `experimental` -> its names for users
EXPERIMENTAL: dict[str, tuple[str, ...]] = {
    "v3": ("encode", "decode", "from_v2", "to_v2"),
    "header_first": ("encode", "decode", "from_v2", "to_v2", "offsets", "ValidatedOffsets"),
}
_OF_FILES = "groups opened named part parts headers record_batches of pieces joined copy open_sidecar take"
# public methods that are for kafkarec's own modules only
INTERNAL_METHODS = {*_OF_FILES.split(), "list_capsules"}
CONSTRUCTED = {"kafkarec.RecordBatchBuilder", "kafkarec.SegmentWriter"}  # by users


# ---- the page


def page() -> str:
    """Titles and the names below them, which autodoc describes."""
    ours = {name for name in kafkarec.__all__ if not name.startswith("__")}
    sections = {title: names.split() for title, names in SECTIONS.items()}
    sections["More"] = sorted(ours.difference(*sections.values()))
    parts = [HEAD, *(f"## {title}\n\n{_listed('kafkarec', names)}" for title, names in sections.items())]
    for place, inside in PACKAGES.items():
        exported = import_module(f"kafkarec.{place}").__all__
        parts.append(_module(place, sorted({*exported} - inside - ours)))
    parts.append(_module("ops.diff", ("compare", "Difference", "Extent")))
    parts.append(_module("sidecars", ()))
    for name in re.findall(r"(?m)^\| `(\w+)`", parts[-1]):
        functions = inspect.getmembers(import_module(f"kafkarec.sidecars.{name}"), inspect.isfunction)
        own = (function for function, of in functions if of.__module__.endswith(name) and not function.startswith("_"))
        parts.append(f"### {name}\n\n{_listed(f'kafkarec.sidecars.{name}', own)}")
    parts.append(_module("experimental", ()))
    parts += [_module(f"experimental.{name}", names) for name, names in EXPERIMENTAL.items()]
    return "\n".join(parts)


def _module(place: str, names: Iterable[str]) -> str:
    """A title, the module's docstring up to the list of what is in the package, its names."""
    path = f"kafkarec.{place}"
    lines = [f"## {path}\n"]
    for kind, part in parts_of(import_module(path).__doc__ or ""):
        if kind == "row":
            break
        lines += ["```text", dedent("\n".join(part)).strip(), "```\n"] if kind == "block" else map(escaped, part)
    return "\n".join([*lines, "", _listed(path, names)])


def _listed(module: str, names: Iterable[str]) -> str:
    lines = ["```{eval-rst}"]
    for name in names:
        value = getattr(import_module(module), name)
        is_class = inspect.isclass(value)
        kind = "exception" if is_class and issubclass(value, Exception) else "class" if is_class else "function"
        lines.append(f".. auto{kind if callable(value) else 'data'}:: {module}.{name}")
        if is_class and issubclass(value, Enum):
            lines.append("   :undoc-members:")
        elif not callable(value) and len(repr(value)) > 90:
            lines.append("   :no-value:")
    return "\n".join([*lines, "```\n"])


# ---- docstrings

# "name, name: type   text", ".name   text": columns; "name: text": a parameter
_ROWS = (
    re.compile(r"(\.?\w+(?:, \.?\w+)*)(?:: ([\w |.\[\]]+?))?\s{2,}(\S.*)"),
    re.compile(r"(\.\w+(?:, \.\w+)*)() (\S.*)"),
    re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*)(): (\S.*)"),
)
_WRAPPED = 96  # a line of a row at least this long continues in the next one


def parts_of(doc: str) -> list[tuple[str, list[str]]]:
    """("text", lines), ("block", lines that are kept), ("row", [names, type, paragraphs...])."""
    parts: list[tuple[str, list[str]]] = [("text", [])]
    before = ""
    for line in doc.split("\n"):
        kind, lines = parts[-1]
        is_indented = line.startswith("  ")
        if row := next(filter(None, (each.fullmatch(line) for each in _ROWS)), None):
            parts.append(("row", [row[1].replace(".", ""), row[2] or "", row[3]]))
        elif kind == "row" and is_indented:
            lines += [line.strip()] if len(before) <= _WRAPPED else [f"{lines.pop()} {line.strip()}"]
        elif kind == "block" and (is_indented or not line):
            lines.append(line)
        elif is_indented or kind != "text":
            parts.append(("block" if is_indented else "text", [line]))
        else:
            lines.append(line)
        before = line
    return parts


def rst(text: str) -> str:
    """What autodoc reads: code in double backticks, no other character with a meaning."""
    parts = enumerate(text.split("`"))
    return "".join(
        f"``{part}``" if n % 2 else re.sub(r"[*_|](?=\S)|(?<=\S)[*_|]", r"\\\g<0>", part) for n, part in parts
    )


def read_docstring(app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Rows become a list of definitions; of a class also the annotated attributes that no row describes."""
    parts, lines[:] = [] if what == "data" else parts_of("\n".join(lines)), []  # data has the docstring of its type
    types: dict[str, str] = {}
    if what == "class":
        for each in reversed(of.__mro__):
            if each.__module__.startswith("kafkarec."):
                declared = {one: kind for one, kind in inspect.get_annotations(each).items() if one[0] != "_"}
                types |= {one: getattr(kind, "__forward_arg__", str(kind)) for one, kind in declared.items()}
        named = {one for kind, part in parts if kind == "row" for one in part[0].split(", ")}
        parts += [("row", [one, "", f"`{types.pop(one)}`"]) for one in [*types] if one not in named]
    for kind, part in parts:
        if kind == "row":
            names, its_type, *text = part
            its_type = its_type or types.get(names.split(", ")[0], "")
            term = ", ".join(f"``{one}``" for one in names.split(", ")) + (f" : ``{its_type}``" if its_type else "")
            lines += ["", term]
            for paragraph in text:
                lines += [f"    {rst(paragraph)}", ""]
        elif kind == "block":
            lines += ["", ".. code-block:: text", "", *part, ""]
        else:
            for paragraph in "\n".join(part).split("\n\n"):
                lines += ["", *(paragraph if paragraph.startswith(">>>") else rst(paragraph)).split("\n")]


def read_signature(
    app: Any, what: str, name: str, of: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Results are not constructed by users."""
    is_result = what in ("class", "exception") and name not in CONSTRUCTED and signature is not None
    return ("", "") if is_result else (signature, returns)


def is_left_out(app: Any, what: str, name: str, of: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples are rows of the class's docstring. Of a property its name and type may say enough."""
    if name in INTERNAL_METHODS or str(of.__doc__).startswith("Alias for field"):
        return True
    return False if isinstance(of, property) and name[0] != "_" else None


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", read_signature)
    app.connect("autodoc-skip-member", is_left_out)
    return {"parallel_read_safe": True}
