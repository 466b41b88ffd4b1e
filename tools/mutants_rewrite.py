"""Rewrites a .pxd so that one compiled build contains many mutants, each selected by a number: `kr_m(17)`.

A mutant is one logical line of a function with a small change: a comparison's neighbour, a number one more or less, a
dropped `+ 1`, an assignment left out. The rewritten lines:

    x += 1                 if kr_m(17):
                               x -= 1
                           elif kr_m(18):
                               pass
                           else:
                               x += 1
    if a < b:              if (not not (a <= b)) if kr_m(19) else (not not (a < b)):
    for i in range(n):     for i in range((n + 1) if kr_m(20) else (n)):
    cdef int x = 1         cdef int x
                           if kr_m(21): ...

Lines are taken apart by Python's tokenizer, which reads Cython; `<int64_t>x` is distinguished from a comparison by the
token before it.
"""

from __future__ import annotations

import io
import itertools
import keyword
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

OPERAND_KEYWORDS = {"True", "False", "None"}
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPPED = {
    "+": "-",
    "-": "+",
    "*": "//",
    "//": "*",
    "%": "//",
    "&": "|",
    "|": "&",
    "^": "|",
    "<<": ">>",
    ">>": "<<",
    "and": "or",
    "or": "and",
}
AUGMENTED = {
    "+=": "-=",
    "-=": "+=",
    "*=": "//=",
    "//=": "*=",
    "|=": "&=",
    "&=": "|=",
    "^=": "|=",
    "<<=": ">>=",
    ">>=": "<<=",
}
DROPPED = {"+", "-", "&", "<<", ">>"}
# operators with a higher precedence than `+`: `x + 1 * y`
TIGHTER = {"*", "//", "/", "%", "**", ".", "(", "["}
TIGHTER_THAN_AND = TIGHTER | {"+", "-", "<<", ">>"}
HEADER = re.compile(r"^c?p?def\s.*?(\w+)\s*\(.*:$", re.DOTALL)
NO_FUNCTION = re.compile(r"^cdef\s+(extern|enum|struct|packed|union)\b")
HEADER_ROW = re.compile(r"^cdef\s.*\(")


@dataclass(frozen=True)
class Mutant:
    """One change. `original` and `mutated` are whole logical lines on one line, so they survive moving."""

    file: str
    function: str
    line: int
    original: str
    mutated: str
    place: int  # of several equal ones in a function
    number: int = -1

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.original, self.mutated

    def __str__(self) -> str:
        return f"{self.number} {self.file}:{self.line} {self.function}: {self.original}  ->  {self.mutated}"


@dataclass
class Line:
    """A logical line: its tokens, and the blanks before each."""

    words: list[str]
    gaps: list[str]
    numbers: list[bool]
    row: int
    last_row: int
    indent: str
    function: str

    def text(self, start: int = 0, stop: int | None = None, change: tuple[int, int, str] | None = None) -> str:
        """Tokens [start, stop) on one line; change: (from, to, replacement)."""
        stop = len(self.words) if stop is None else stop
        parts = []
        i = start
        while i < stop:
            if change and i == change[0]:
                parts.append((self.gaps[i] if change[2] else "") + change[2])
                i = max(change[1], i + 1)
                continue
            parts.append(self.gaps[i] + self.words[i])
            i += 1
        return "".join(parts).strip()


@dataclass
class Slot:
    """A part of a line that is replaced as one: its tokens, and how its variants are written."""

    line: Line
    start: int
    stop: int
    form: str  # statement, condition, argument, value
    name: str = ""  # of the variable that a value is for
    variants: list[str] = field(default_factory=list)

    @property
    def original(self) -> str:
        return self.line.text(self.start, self.stop)


def lines_of(text: str) -> list[Line]:
    """The logical lines of all functions' bodies."""
    found: list[Line] = []
    current: list[tokenize.TokenInfo] = []
    function = ""
    skipped = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in skipped:
            continue
        if token.type != tokenize.NEWLINE:
            current.append(token)
            continue
        if current:
            line = line_of(current, function)
            if not line.indent:
                header = HEADER.match(line.text())
                function = header[1] if header and not NO_FUNCTION.match(line.text()) else ""
            elif function:
                found.append(line)
        current = []
    return found


def line_of(tokens: list[tokenize.TokenInfo], function: str) -> Line:
    gaps = [""]
    for before, token in itertools.pairwise(tokens):
        if before.end[0] == token.start[0]:
            gaps.append(" " * (token.start[1] - before.end[1]))
        else:
            gaps.append("" if before.string in "([{" or token.string in ")]}" else " ")
    first = tokens[0]
    return Line(
        [token.string for token in tokens],
        gaps,
        [token.type == tokenize.NUMBER for token in tokens],
        first.start[0],
        tokens[-1].end[0],
        first.line[: first.start[1]],
        function,
    )


def ends_operand(word: str) -> bool:
    """Whether an operator after this word takes two operands."""
    if word in OPERAND_KEYWORDS or word in (")", "]", "}"):
        return True
    return (word[0].isalnum() or word[0] in "_\"'") and not keyword.iskeyword(word)


def cast_words(line: Line) -> set[int]:
    """Indices of the tokens of casts: `<`, a type, `>`."""
    found: set[int] = set()
    i = 0
    while i < len(line.words):
        if line.words[i] == "<" and (i == 0 or i - 1 in found or not ends_operand(line.words[i - 1])):
            stop = line.words.index(">", i)
            found.update(range(i, stop + 1))
            i = stop
        i += 1
    return found


def matching(line: Line, opening: int) -> int:
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(line.words)):
        depth += (line.words[i] in "([{") - (line.words[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError(f"line {line.row}: a bracket stays open")


def top_level(line: Line, start: int, stop: int, words: set[str]) -> list[int]:
    """Indices of these words outside of brackets."""
    found, depth = [], 0
    for i in range(start, stop):
        if depth == 0 and line.words[i] in words:
            found.append(i)
        depth += (line.words[i] in "([{") - (line.words[i] in ")]}")
    return found


def changes(line: Line, start: int, stop: int, limits: set[str]) -> Iterator[tuple[int, int, str]]:
    """All small changes to the expression of tokens [start, stop): (from, to, replacement)."""
    casts = cast_words(line)
    for i in range(start, stop):
        word = line.words[i]
        if i in casts:
            continue
        before = line.words[i - 1] if i > start and i - 1 not in casts else "("
        if line.numbers[i] and word[0].isdigit() and "." not in word:
            if before == "[" and word == "0" and line.words[i + 1] == "]":
                continue  # Cython's way to write *p
            dropped = before in DROPPED and i - 1 > start and ends_operand(line.words[i - 2])
            yield from number_changes(i, word, dropped or before in AUGMENTED)
        elif word in limits and before != ".":
            yield i, i + 1, f"({word} + 1)"
            yield i, i + 1, f"({word} - 1)"
        elif word == "not":
            yield i, i + 1, ""
        elif word == "if":
            other = top_level(line, i + 1, stop, {"else"})[0]
            yield i + 1, other, "True"
            yield i + 1, other, "False"
        elif ends_operand(before) and i + 1 < stop and line.words[i + 1] not in ")],":
            if word in COMPARISONS:
                yield i, i + 1, COMPARISONS[word]
            elif word in SWAPPED:
                yield i, i + 1, SWAPPED[word]
                yield from drops(line, i, stop, limits)


def number_changes(i: int, word: str, added: bool) -> Iterator[tuple[int, int, str]]:
    value = int(word, 0)
    form: Callable[[int], str] = hex if word[:2].lower() == "0x" else str
    yield i, i + 1, form(value + 1)
    if value > 1 or (value == 1 and not added):  # `x + 0` is what drops() makes
        yield i, i + 1, form(value - 1)


def drops(line: Line, i: int, stop: int, limits: set[str]) -> Iterator[tuple[int, int, str]]:
    """`+ 1` and `& 0x7F` left out, where the operator is at `i`."""
    word, operand = line.words[i], line.words[i + 1]
    following = line.words[i + 2] if i + 2 < stop else ""
    tighter = TIGHTER_THAN_AND if word == "&" else TIGHTER
    if word in DROPPED and (line.numbers[i + 1] or operand in limits) and following not in tighter:
        yield i, i + 2, ""


def declared(line: Line) -> list[Slot]:
    """The values of a `cdef`, one slot for each."""
    stop = len(line.words)
    commas = [0, *top_level(line, 1, stop, {","}), stop]
    slots = []
    for left, right in itertools.pairwise(commas):
        equals = top_level(line, left + 1, right, {"="})
        if equals:
            slots.append(Slot(line, equals[0] + 1, right, "value", line.words[equals[0] - 1]))
    return slots


def slots_of(line: Line) -> list[Slot]:
    """What of a logical line may be replaced."""
    first, stop = line.words[0], len(line.words)
    if first == "cdef":
        return declared(line)
    if first in ("if", "elif", "while") and line.words[-1] == ":":
        return [Slot(line, 1, stop - 1, "condition")]
    if first == "for":
        opening = next((i for i, word in enumerate(line.words) if word == "range"), -1) + 1
        if not opening:
            return []
        edges = [opening, *top_level(line, opening + 1, matching(line, opening), {","}), matching(line, opening)]
        return [Slot(line, a + 1, b, "argument") for a, b in itertools.pairwise(edges)]
    if line.words[-1] == ":" or first[0] in "\"'" or first in ("pass", "raise", "global"):
        return []
    return [Slot(line, 0, stop, "statement")]


def whole_changes(slot: Slot, has_ok: bool) -> Iterator[str]:
    """Changes to a slot as a whole."""
    line, words = slot.line, slot.line.words
    if slot.form == "condition":
        if words[0] != "while":
            yield "True"
        yield "False"
    elif slot.form == "argument":
        if not line.numbers[slot.start]:
            yield f"{slot.original} + 1"
            yield f"{slot.original} - 1"
    elif slot.form == "statement" and words[0] == "return":
        value = line.text(1)
        if value in ("True", "False"):
            yield f"return {value == 'False'}"
        elif value == "ENOMEM":
            yield "return 0"
        elif has_ok and value != "OK" and (value.startswith("refuse(") or re.fullmatch(r"status|[A-Z][A-Z_]+", value)):
            yield "return OK"
    elif slot.form == "statement":
        yield "pass"
        for i in top_level(line, 0, len(words), set(AUGMENTED)):
            yield line.text(change=(i, i + 1, AUGMENTED[words[i]]))


def limits_of(texts: list[str]) -> set[str]:
    """Members of all anonymous `cdef enum:`s: the named limits."""
    found: set[str] = set()
    for text in texts:
        for block in re.findall(r"^cdef enum:\n((?:[ \t]+.*\n|\n)+)", text, re.MULTILINE):
            for row in block.splitlines():
                found.update(re.findall(r"\b([A-Z][A-Z0-9_]+)\b", row.partition("#")[0].partition("=")[0]))
    return found


def slots_with_variants(text: str, limits: set[str]) -> list[Slot]:
    has_ok = re.search(r"^(from .*status cimport|    .*\bOK,)", text, re.MULTILINE) is not None and "OK" in text
    found = []
    for line in lines_of(text):
        for slot in slots_of(line):
            expression = slot.start + (slot.form == "statement" and line.words[0] == "return")
            variants = list(whole_changes(slot, has_ok))
            variants += [
                line.text(slot.start, slot.stop, change) for change in changes(line, expression, slot.stop, limits)
            ]
            slot.variants = [v for v in dict.fromkeys(variants) if v != slot.original]
            found.append(slot)
    return found


def mutants_of(file: str, text: str, limits: set[str]) -> list[Mutant]:
    """All candidates of a file, in order. rewritten() uses the same order."""
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    for slot in slots_with_variants(text, limits):
        whole = slot.line.text()
        for variant in slot.variants:
            mutated = (
                variant
                if slot.form == "statement"
                else " ".join(
                    part for part in (slot.line.text(0, slot.start), variant, slot.line.text(slot.stop)) if part
                )
            )
            mutated = mutated.replace("( ", "(").replace(" )", ")").replace(" ,", ",")
            mutated = re.sub(r" :$", ":", mutated)
            key = slot.line.function, whole, mutated
            seen[key] = seen.get(key, -1) + 1
            found.append(Mutant(file, slot.line.function, slot.line.row, whole, mutated, seen[key]))
    return found


def rewritten(text: str, limits: set[str], chosen: dict[int, int]) -> tuple[str, list[tuple[int, list[int]]]]:
    """The file with mutants in it. `chosen`: index of the candidate in this file -> its number. Also: which numbers
    are in each of the new lines that have any."""
    rows = text.splitlines()
    by_line: dict[int, list[tuple[Slot, list[tuple[int, str]]]]] = {}
    index = 0
    for slot in slots_with_variants(text, limits):
        wanted = []
        for variant in slot.variants:
            if index in chosen:
                wanted.append((chosen[index], variant))
            index += 1
        by_line.setdefault(slot.line.row, []).append((slot, wanted))
    out: list[str] = []
    places: list[tuple[int, list[int]]] = []
    row = 1
    imported = False
    while row <= len(rows):
        if not imported and HEADER_ROW.match(rows[row - 1]) and not NO_FUNCTION.match(rows[row - 1]):
            out += ["from kafkarec._c.mutants cimport kr_m", "", ""]
            imported = True
        slots = by_line.get(row, [])
        if not any(wanted for _, wanted in slots):
            out.append(rows[row - 1])
            row += 1
            continue
        for code, numbers in replaced(slots):
            out.append(slots[0][0].line.indent + code)
            if numbers:
                places.append((len(out), numbers))
        row = slots[0][0].line.last_row + 1
    return "\n".join(out) + "\n", places


def replaced(slots: list[tuple[Slot, list[tuple[int, str]]]]) -> Iterator[tuple[str, list[int]]]:
    """The code for one logical line, and the mutants' numbers in each row of it."""
    line = slots[0][0].line
    if line.words[0] == "cdef":
        yield bare(line), []
        for slot, wanted in slots:
            yield from branches([(n, f"{slot.name} = {v}") for n, v in wanted], f"{slot.name} = {slot.original}")
    elif slots[0][0].form == "statement":
        yield from branches(slots[0][1], slots[0][0].original)
    else:
        code, last = "", 0
        for slot, wanted in slots:
            code += line.text(last, slot.start) + " " + chosen_of(slot, wanted)
            last = slot.stop
        yield code + line.text(last), [number for _, wanted in slots for number, _ in wanted]


def bare(line: Line) -> str:
    """A `cdef` without its values."""
    out, last = "", 0
    for slot in declared(line):
        out += line.text(last, slot.start - 1)
        last = slot.stop
    return out + line.text(last)


def branches(wanted: list[tuple[int, str]], original: str) -> Iterator[tuple[str, list[int]]]:
    if not wanted:
        yield original, []
        return
    for i, (number, variant) in enumerate(wanted):
        yield f"{'elif' if i else 'if'} kr_m({number}):", [number]
        yield f"    {variant}", [number]
    yield "else:", []
    yield f"    {original}", []


def chosen_of(slot: Slot, wanted: list[tuple[int, str]]) -> str:
    """A conditional expression over the mutants of a condition or an argument."""
    wrap = "(not not ({}))" if slot.form == "condition" else "({})"
    code = "".join(wrap.format(variant) + f" if kr_m({number}) else " for number, variant in wanted)
    return f"({code}{wrap.format(slot.original)})"
