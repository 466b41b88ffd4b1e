"""Results as JSON values: one function for dataclasses, named tuples and what they contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def jsonable(value: Any) -> Any:
    """A result as JSON values: dataclasses and named tuples are objects of their fields, other sequences arrays. A
    class whose object has more or other keys than its fields has a method `as_dict`."""
    if hasattr(value, "as_dict"):
        return jsonable(value.as_dict())
    if is_dataclass(value):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return jsonable(value._asdict())
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value
