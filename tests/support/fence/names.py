"""Public names: Python's with their parameters, options of verbs, columns, reasons, Spark's functions and options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from doc_api import EXPERIMENTAL, INTERNAL_METHODS, PACKAGES
from make_docs import parser_of_verb

import kafkarec
import spark_udfs
from kafkarec import errors, experimental, internal_topics, sidecars
from kafkarec.cli import verb_parsers
from kafkarec.ops.verify import KINDS
from spark_udfs import functions, schema
from spark_udfs.source import options

from .calls import Recorder
from .rows import Row

# Of files, logs and folders what the contract names; their other members are for kafkarec's own modules.
_FACADES = {
    kafkarec.Segment: "base_offset name size raw",
    kafkarec.Log: "segments left_out start_offset next_offset size",
    kafkarec.LogDir: "left_out",
}
_OF_EACH = "path topic partition read stream follow scan batches verify salvage transactions last_stable_offset "
_OF_EACH += "offset_for_timestamp close"


def _python() -> Iterator[tuple[str, Any]]:
    for name in sorted(kafkarec.__all__):
        yield from _described(name, getattr(kafkarec, name))
    for package, hidden in PACKAGES.items():
        module = __import__(f"kafkarec.{package}", fromlist=["*"])
        for name in sorted(set(module.__all__) - hidden - set(kafkarec.__all__)):
            yield from _described(f"{package}.{name}", getattr(module, name))
    for name in sorted(vars(sidecars)):
        if inspect.ismodule(getattr(sidecars, name)):
            public = {one: each for one, each in vars(getattr(sidecars, name)).items() if one in ("read", "write")}
            yield f"sidecars.{name}", {one: _parameters(each) for one, each in public.items()}
    for name, listed in EXPERIMENTAL.items():
        module = getattr(experimental, name, None) or __import__(f"kafkarec.experimental.{name}", fromlist=["*"])
        for one in listed:
            yield from _described(f"experimental.{name}.{one}", getattr(module, one))
    yield "internal_topics", sorted(internal_topics.__all__)


def _described(name: str, value) -> Iterator[tuple[str, Any]]:
    if not inspect.isclass(value):
        yield name, _parameters(value) if callable(value) else type(value).__name__
        return
    bases = [base.__name__ for base in value.__mro__[1:-1] if base.__module__ != "typing"]
    if name in ("RecordBatchBuilder", "SegmentWriter"):
        yield f"{name}()", _parameters(value)
    if value in _FACADES:
        members = f"{_OF_EACH} {_FACADES[value]}".split()
        known = [one for one in members if hasattr(value, one) or one in inspect.signature(value).parameters]
    else:
        of_python = {one for base in value.__mro__ if base.__module__ == "builtins" for one in dir(base)}
        own = {*dir(value), *getattr(value, "__annotations__", ()), *getattr(value, "_fields", ())} - of_python
        known = sorted(one for one in own - INTERNAL_METHODS if not one.startswith("_"))
    yield name, {"bases": bases, "members": {one: _member(value, one) for one in known}}


def _member(value: type, name: str):
    found = inspect.getattr_static(value, name, None)
    return _parameters(getattr(value, name)) if callable(getattr(found, "__func__", found)) else "value"


def _parameters(value):
    """`name` or `name=default` of each parameter; "by name" before those that are passed by name only."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (ValueError, TypeError):
        return "no signature"
    found = []
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and "by name" not in found:
            found.append("by name")
        found.append(str(one.replace(annotation=one.empty, default=_shown(one.default))))
    return found


def _shown(default):
    return "<function>" if inspect.isfunction(default) else default


def _command_line() -> Iterator[tuple[str, Any]]:
    yield "verbs", list(verb_parsers.VERBS)
    for verb in verb_parsers.VERBS:
        for action in parser_of_verb(verb)._actions:
            yield (
                f"{verb} {' '.join(action.option_strings) or action.dest}",
                {
                    "type": type(action).__name__.strip("_"),
                    "nargs": action.nargs,
                    "choices": list(action.choices) if action.choices else None,
                    "default": action.default if isinstance(action.default, str | int | None) else str(action.default),
                    "required": action.required,
                },
            )


def _tables() -> Iterator[tuple[str, Any]]:
    log = kafkarec.decode(b"")
    yield "record columns", [str(one) for one in log.to_arrow().schema]
    yield "batch columns", [str(one) for one in kafkarec.scan(b"").to_arrow().schema]
    for column in ("topic", "partition", "file", *_BY_NAME):
        yield f"record column {column}", str(kafkarec.decode(b"", columns=[column]).to_arrow().schema[0])
    yield "reasons", sorted(errors.REASONS)
    yield "findings", {kind: [str(one) for one in KINDS[kind].severities] for kind in sorted(KINDS)}
    for one in (kafkarec.Compression, kafkarec.TimestampType, kafkarec.Isolation, kafkarec.ControlRecordType):
        yield one.__name__, {each.name: each.value for each in one}


_BY_NAME = (
    "batch_position", "base_offset", "partition_leader_epoch", "magic", "compression", "is_transactional", "is_control",
    "control_type", "producer_id", "producer_epoch", "sequence",
)  # fmt: skip


def _spark() -> Iterator[tuple[str, Any]]:
    for name in sorted(spark_udfs.__all__):
        yield from _described(name, getattr(spark_udfs, name))
    for name in sorted(one for one, each in vars(functions).items() if inspect.isfunction(each) and one[0] != "_"):
        if getattr(functions, name).__module__ == functions.__name__:
            yield f"functions.{name}", _parameters(getattr(functions, name))
    for name, one in sorted(functions.SQL_FUNCTIONS.items()):
        yield f"SQL {name}", one.call
    for option in options.TABLE:
        yield f"option {option.name}", {"uses": option.uses, "default": str(option.default)}
    yield "records", schema.sql_struct(schema.RECORD_COLUMNS)
    yield "batches", schema.sql_struct(schema.BATCH_COLUMNS)


def _listed(found: Callable[[], Iterator[tuple[str, Any]]]) -> Callable[[Recorder], None]:
    def run(here):
        here.rows += [Row("names", here.scenario, name, value) for name, value in found()]

    return run


LISTED = {f"names/{name}": _listed(found) for name, found in {
    "python": _python, "command-line": _command_line, "tables": _tables, "spark": _spark}.items()}  # fmt: skip
