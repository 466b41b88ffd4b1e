"""The mutants of the C in a .pxd: the text of its `cdef extern from *` blocks.

    x = a + b;        x = (kr_m(17) ? (a - b) : (a + b));
    if (a < b)        if ((kr_m(18) ? (a <= b) : (a < b)))
    free(p);          { if (!kr_m(19)) free(p); }

Rows stay rows: what is replaced has as many line ends as before. Declarations without a value, `++` and macros stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mutants_rewrite import COMPARISONS, SWAPPED, Mutant

BLOCK = re.compile(r'^cdef extern from \*[^\n]*:\n    """\n(.*?)^    """$', re.MULTILINE | re.DOTALL)
WORDS = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | ^[ ]*\#(?:[^\n]|\\\n)*\n                      # comments and macros: left out
      | (?P<word>[A-Za-z_]\w* | \d\w* | "[^"]*" | '[^']*'
      | <<= | >>= | -> | \+\+ | -- | && | \|\| | << | >> | [-+*/%&|^<>=!]= | [^\s\w])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
TYPE = re.compile(r"(const|unsigned|signed|long|int|char|void|struct|ssize_t|off_t|uint32_t|kr_page|\w+_t)$")
ASSIGNED = {"=", "+=", "-=", "*=", "|=", "&=", "^=", "<<=", ">>="}
TURNED = {**SWAPPED, "*": "/", "/": "*", "%": "/", "&&": "||", "||": "&&"}
DROPPED = {"+", "-", "&", "<<", ">>"}
TIGHTER = {"*", "/", "%", "->", ".", "(", "["}
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")


@dataclass
class Word:
    text: str
    start: int
    end: int


@dataclass
class Slot:
    """Words [start, stop) that are replaced as one, in the statement [first, last)."""

    function: str
    first: int
    last: int
    start: int
    stop: int
    whole: bool = False  # a statement that may be left out
    variants: list[str] = field(default_factory=list)


def words_of(text: str, start: int, stop: int) -> list[Word]:
    return [
        Word(found["word"], found.start("word"), found.end("word"))
        for found in WORDS.finditer(text, start, stop)
        if found["word"]
    ]


def closing(words: list[Word], opening: int) -> int:
    depth = 0
    for i in range(opening, len(words)):
        depth += (words[i].text in "([{") - (words[i].text in ")]}")
        if depth == 0:
            return i
    raise ValueError("a bracket stays open")


def outside(words: list[Word], start: int, stop: int, wanted: set[str]) -> list[int]:
    """Indices of these words outside of brackets."""
    found, depth = [], 0
    for i in range(start, stop):
        if depth == 0 and words[i].text in wanted:
            found.append(i)
        depth += (words[i].text in "([{") - (words[i].text in ")]}")
    return found


def functions(words: list[Word]) -> Iterator[tuple[str, int, int]]:
    """(name, first word of the body, its closing brace)"""
    i = 0
    while i < len(words):
        if words[i].text == "{":
            end = closing(words, i)
            if words[i - 1].text == ")":
                opening = next(k for k in range(i) if words[k].text == "(" and closing(words, k) == i - 1)
                yield words[opening - 1].text, i + 1, end
            i = end
        i += 1


def slots_of(words: list[Word]) -> Iterator[Slot]:
    for name, i, end in functions(words):
        while i < end:
            text = words[i].text
            if text in ("if", "while", "for"):
                stop = closing(words, i + 1)
                ends = outside(words, i + 2, stop, {";"})
                start, until = (ends[0] + 1, ends[1]) if ends else (i + 2, stop)
                yield Slot(name, i, stop + 1, start, until)
                i = stop + 1
            elif text in ("{", "}", "else", "do", ";"):
                i += 1
            else:
                stop = outside(words, i, end, {";"})[0]
                yield from statement(words, name, i, stop)
                i = stop + 1


def statement(words: list[Word], name: str, start: int, stop: int) -> Iterator[Slot]:
    equals = outside(words, start, stop, ASSIGNED)
    if words[start].text == "return":
        if stop > start + 1:
            yield Slot(name, start, stop, start + 1, stop)
        return
    declaration = TYPE.match(words[start].text) and words[start + 1].text not in ASSIGNED | {"(", "[", "->"}
    if declaration:
        equals = equals if not outside(words, start, stop, {","}) else []
    else:
        yield Slot(name, start, stop, start, stop, whole=True)
    if equals:
        yield Slot(name, start, stop, equals[-1] + 1, stop)


def casts(words: list[Word], start: int, stop: int) -> set[int]:
    found: set[int] = set()
    for i in range(start, stop):
        if words[i].text == "(":
            end = closing(words, i)
            inside = [word.text for word in words[i + 1 : end]]
            if inside and TYPE.match(inside[0]) and all(TYPE.match(w) or w == "*" for w in inside):
                found.update(range(i, end + 1))
    return found


def changes(words: list[Word], start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """(from, to, replacement) for every small change to an expression."""
    skipped = casts(words, start, stop)
    for i in range(start, stop):
        text = words[i].text
        before = words[i - 1].text if i > start and i - 1 not in skipped else "("
        if i in skipped:
            continue
        number = NUMBER.match(text)
        if number:
            value = int(number[1], 0)
            form = hex if number[1][:2].lower() == "0x" else str
            yield i, i + 1, form(value + 1) + number[2]
            added = before in DROPPED and i - 1 > start and re.match(r"\w|[\])]", words[i - 2].text[-1])
            if value > 1 or (value == 1 and not added):
                yield i, i + 1, form(value - 1) + number[2]
        elif re.match(r"\w|[\])]", before[-1]) and i + 1 < stop:
            behind = words[i + 2].text if i + 2 < stop else ""
            if text in COMPARISONS:
                yield i, i + 1, COMPARISONS[text]
            elif text in TURNED:
                yield i, i + 1, TURNED[text]
                if text in DROPPED and NUMBER.match(words[i + 1].text) and behind not in TIGHTER:
                    yield i, i + 2, ""


def joined(text: str, words: list[Word], start: int, stop: int, change: tuple[int, int, str] | None = None) -> str:
    """Words [start, stop) on one line, changed."""
    parts: list[str] = []
    for i in range(start, stop):
        gap = " " if i > start and words[i].start > words[i - 1].end else ""
        if change and change[0] <= i < change[1]:
            parts.append(gap + change[2] if i == change[0] else "")
        else:
            parts.append(gap + words[i].text)
    return re.sub(r" +(?=[)\];])", "", "".join(parts)).strip()


def slots_with_variants(text: str) -> Iterator[tuple[list[Word], Slot]]:
    for block in BLOCK.finditer(text):
        words = words_of(text, block.start(1), block.end(1))
        for slot in slots_of(words):
            if slot.whole:
                slot.variants = [""]
            else:
                header = words[slot.first].text
                small = changes(words, slot.start, slot.stop)
                found = [joined(text, words, slot.start, slot.stop, change) for change in small]
                forced = {"if": ["1", "0"], "while": ["0"], "for": ["0"]}.get(header, [])
                slot.variants = list(dict.fromkeys(forced + found))
            yield words, slot


def mutants_of(file: str, text: str) -> list[Mutant]:
    """All candidates, in order. rewritten() uses the same order."""
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    for words, slot in slots_with_variants(text):
        original = joined(text, words, slot.first, slot.last)
        row = text.count("\n", 0, words[slot.start].start) + 1
        for variant in slot.variants:
            mutated = joined(text, words, slot.first, slot.last, (slot.start, slot.stop, variant)) or ";"
            key = slot.function, original, mutated
            seen[key] = seen.get(key, -1) + 1
            found.append(Mutant(file, slot.function, row, original, mutated, seen[key]))
    return found


def rewritten(text: str, chosen: dict[int, int]) -> str:
    """The file with these mutants in its C. `chosen`: index of the candidate -> its number."""
    edits: list[tuple[int, int, str]] = []
    index = 0
    for words, slot in slots_with_variants(text):
        wanted = []
        for variant in slot.variants:
            if index in chosen:
                wanted.append((chosen[index], variant))
            index += 1
        if not wanted:
            continue
        start, end = words[slot.start].start, words[slot.stop - 1].end
        if slot.whole:
            edits.append((start, start, f"{{ if (!kr_m({wanted[0][0]})) "))
            edits.append((words[slot.stop].end, words[slot.stop].end, " }"))
        else:
            code = "".join(f"kr_m({number}) ? ({variant}) : " for number, variant in wanted)
            edits.append((start, start, f"({code}("))
            edits.append((end, end, "))"))
    for start, end, code in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:start] + code + text[end:]
    if not edits:
        return text
    return BLOCK.sub(lambda block: block[0].replace('"""\n', '"""\n    #include "kr_mutants.h"\n', 1), text)
