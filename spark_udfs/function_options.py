"""The options of kafka_decode and kafka_scan: checked on the driver, passed to the workers as one short literal.

A SQL call has one more argument (Spark refuses named ones for Arrow functions): the mode, `kafka_decode(v,
'PERMISSIVE')`, or JSON, `kafka_decode(v, '{"mode": "PERMISSIVE", "end_of_log": "strict"}')`. The Column functions write
the same texts.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MODES = ("FAILFAST", "PERMISSIVE")
# Also the option endOfLog of the data source.
ENDS = ("tail", "strict")
_CHOICES = {"mode": MODES, "end_of_log": ENDS}


@dataclass(frozen=True)
class FunctionOptions:
    """The options with their defaults.

    mode: FAILFAST raises at the first damage, PERMISSIVE keeps everything else and a row with the reason
    check_crcs: verify the checksum of every batch
    max_value_bytes: a larger value is refused: it may not fit in Spark's heap; for files there is the data source
    max_decompressed_bytes: limit of one value, all its compressed payloads together; above it: limit_exceeded
    max_output_bytes: a piece of output ends at the value that reaches this size; kafka_explode halves larger values
    control: also return the records of control batches
    restore: PERMISSIVE returns batches of which only length or magic is damaged and the checksum proves the right one
    end_of_log: tail leaves an incomplete batch at a value's end out, as a consumer does; strict: it is damage
    """

    mode: str = "FAILFAST"
    check_crcs: bool = True
    max_decompressed_bytes: int = 128 << 20
    max_output_bytes: int = 8 << 20  # measured: with 4 to 16 MiB Spark processes a piece while the next one is decoded
    control: bool = False
    restore: bool = True
    end_of_log: str = ENDS[0]
    max_value_bytes: int = (1 << 31) - 1

    @property
    def errors(self) -> str:
        return {"FAILFAST": "raise", "PERMISSIVE": "skip"}[self.mode]


def from_keywords(**given: Any) -> FunctionOptions:
    """Options from keyword arguments. ValueError or TypeError for a wrong name, type or value, with the valid ones."""
    known: dict[str, type] = {field.name: type(field.default) for field in fields(FunctionOptions)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"there is no option {name!r}; {did_you_mean(name, known)}")
        if type(value) is not known[name]:  # exactly this type: True is not a number of bytes
            raise TypeError(f"option {name} must be {known[name].__name__}, not {type(value).__name__}")
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
            raise ValueError(f"option {name} must be above 0, not {value}")
        if name in _CHOICES:
            spelled = {each.lower(): each for each in _CHOICES[name]}
            given[name] = spelled.get(str(value).lower())
            if given[name] is None:
                raise ValueError(f"option {name} must be one of {', '.join(_CHOICES[name])}, not {value!r}")
    return FunctionOptions(**given)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question for the most similar one of the names that there are, whose case does not matter, or all of them."""
    return question_of_similar(name, known) or f"there are: {', '.join(known)}"


def question_of_similar(name: str, known: Iterable[str]) -> str:
    """Empty: no name is similar."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f"did you mean {by_lower[near[0]]}?" if near else ""


def from_arguments(arguments: Mapping[str, Any]) -> FunctionOptions:
    """The options among the arguments of a function: its `locals()`."""
    return from_keywords(**{field.name: arguments[field.name] for field in fields(FunctionOptions)})


def to_literal(options: FunctionOptions) -> str | None:
    """The literal for a call: `PERMISSIVE`, or JSON if any other option is set. None: no option differs from its
    default."""
    return literal_of_changes(asdict(options), asdict(FunctionOptions()), "mode")


def literal_of_changes(given: Mapping[str, Any], defaults: Mapping[str, Any], main: str) -> str | None:
    """The inverse of `parsed_literal`, with only what differs from the defaults; None: nothing does."""
    changed = {name: value for name, value in given.items() if value != defaults.get(name)}
    if set(changed) == {main}:
        return str(changed[main])
    return json.dumps(changed, sort_keys=True) if changed else None


def from_literal(text: str | None) -> FunctionOptions:
    """The inverse of `to_literal`; in SQL a user may have written the text."""
    return from_keywords(
        **parsed_literal(text, "kafka_decode", "mode", '{"mode": "PERMISSIVE", "end_of_log": "strict"}')
    )


def parsed_literal(text: str | None, function: str, main: str, example: str) -> dict[str, Any]:
    """The options in a literal of a SQL function: the value of its option `main` alone, or JSON as in the example."""
    if not isinstance(text, str):
        shown = "null" if text is None else repr(text)
        raise ValueError(f"the {main} of {function} is {shown}; pass one, or JSON such as {example}")
    if not text.lstrip().startswith("{"):
        return {main: text}
    try:
        return dict(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"the options of {function} must be JSON such as {example}: {error}") from None
