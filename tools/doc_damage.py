"""Tables of docs/damage.md: reasons and exceptions from `kafkarec.errors`, findings from
`kafkarec.ops.verify.finding_kinds`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from string import ascii_uppercase

from kafkarec import errors
from kafkarec.ops.verify.finding_kinds import KINDS

_OFTEN = 3  # an advice that so many reasons or findings have is written once, below a letter


def _letters() -> dict[str, str]:
    """Advice that many have -> the letter that stands for it on the page."""
    counted = [
        *Counter(reason.advice for reason in errors.REASONS.values()).items(),
        *Counter(kind.advice for kind in KINDS.values() if kind.advice != "nothing to do").items(),
    ]
    return {advice: ascii_uppercase[n] for n, advice in enumerate(text for text, times in counted if times >= _OFTEN)}


def _lettered(advices: Iterable[str]) -> str:
    """The list of the letters that stand for some of these advices."""
    wanted = set(advices)
    return "".join(f"* {letter}: {advice}\n" for advice, letter in _letters().items() if advice in wanted) + "\n"


def _cell(advice: str) -> str:
    for common, letter in _letters().items():
        advice = advice.replace(common, letter)
    return advice


def reasons() -> str:
    rows = [
        f"| `{word}` | {reason.sentence} | {', '.join(filter(None, (reason.expected, reason.found)))} "
        f"| {_cell(reason.advice)} | `{reason.error.__name__}` |\n"
        for word, reason in errors.REASONS.items()
    ]
    head = "| reason | meaning | numbers | what to do | exception |\n|---|---|---|---|---|\n"
    return _lettered(reason.advice for reason in errors.REASONS.values()) + head + "".join(rows)


def findings() -> str:
    rows = [
        f"| `{word}` | {' or '.join(kind.severities)} | {kind.violation} | {_cell(kind.advice)} |\n"
        for word, kind in KINDS.items()
    ]
    head = "| finding | severity | meaning | what to do |\n|---|---|---|---|\n"
    return _lettered(kind.advice for kind in KINDS.values()) + head + "".join(rows)


def exceptions() -> str:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    # a class may have a second name there
    family = dict.fromkeys(cls for cls in classes if issubclass(cls, errors.KafkaRecordError))
    rows = [f"| `{cls.__name__}` | `{cls.__bases__[0].__name__}` | {_sentence(cls.__doc__)} |\n" for cls in family]
    return "| exception | is a | meaning |\n|---|---|---|\n" + "".join(rows)


def _sentence(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())
