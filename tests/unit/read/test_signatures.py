"""The options of decode, their defaults and types, wherever a public function has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from typing import Any

import kafkarec

# What Kafka checks before it writes these; headers alone, unless asked.
OWN_CHECKS = {"convert", "compact", "validate", "scan_pieces", "headers"}
SELECTION = {"data", "isolation", "aborted", "last_stable_offset"}
OPTIONS = {
    name: one for name, one in signature(kafkarec.decode).parameters.items() if name not in {*SELECTION, "threads"}
}


def parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    return dict(signature(function).parameters)


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in kafkarec.__all__:
        found = getattr(kafkarec, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found):
            methods = inspect.getmembers(found, inspect.isfunction)
            yield from ((f"{name}.{method}", function) for method, function in methods if not method.startswith("_"))


def test_the_options_have_the_defaults_of_the_contract() -> None:
    assert {name: option.default for name, option in OPTIONS.items()} == {
        "columns": None,
        "control": False,
        "check_crcs": True,
        "errors": "raise",
        "max_decompressed_bytes": 128 << 20,
        "timestamp_unit": "ms",
        "header_keys": "utf8",
        "restore": True,
        "layout": "copy",
    }


def test_every_way_to_decode_has_every_option() -> None:
    assert parameters(kafkarec.stream).keys() == parameters(kafkarec.decode).keys()
    # the columns of Arrow lists are copies, and a value has no transactions of its own
    assert parameters(kafkarec.decode_each).keys() == OPTIONS.keys() - {"layout"} | {"values", "max_output_bytes"}


def test_options_of_public_functions_have_the_same_defaults_and_types() -> None:
    compared = set()
    for where, function in public_functions():
        for name, parameter in parameters(function).items():
            if name not in OPTIONS or (name == "check_crcs" and where.rpartition(".")[2] in OWN_CHECKS):
                continue
            assert (where, name, parameter.default) == (where, name, OPTIONS[name].default)
            assert (where, name, parameter.annotation) == (where, name, OPTIONS[name].annotation)
            compared.add(where.rpartition(".")[2])
    assert compared >= {"decode", "stream", "decode_each", "scan", "batches", "convert", "salvage", "compact", "study"}
