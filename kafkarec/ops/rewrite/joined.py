"""The function that returns all output of another one, which yields it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

Options = ParamSpec("Options")
Yielded = TypeVar("Yielded")
Joined = TypeVar("Joined")


def joined(
    name: str, function: Callable[Options, Yielded], join: Callable[[Yielded], Joined]
) -> Callable[Options, Joined]:
    """`function` with the name `name`, which returns `join` of what it yields."""

    @wraps(function)
    def call(*data: Options.args, **options: Options.kwargs) -> Joined:
        return join(function(*data, **options))

    call.__name__ = call.__qualname__ = name
    returned = signature(function).replace(return_annotation=join.__annotations__["return"])
    call.__dict__["__signature__"] = returned
    return call
