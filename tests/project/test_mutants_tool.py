"""tools/mutants.py: the mutants that it derives from code, and the rewritten code.

Every run of `make mutants` shows that the rewritten core compiles.
"""

from dataclasses import replace

import mutants
from paths import ROOT


def test_every_mutant_that_is_explained_is_one_of_the_present_code():
    assert mutants.explained(mutants.candidates())


def body(*lines):
    return "cdef inline int f(int n, uint8_t* p) noexcept nogil:\n" + "".join(f"    {line}\n" for line in lines)


def found_in(text):
    return list(mutants.mutants_of("a.pxd", text, {"LIMIT"}))


def mutated(*lines):
    return [mutant.mutated for mutant in found_in(body(*lines))]


def rewritten(text, numbers):
    """The lines with some mutants in them. numbers: index of the candidate -> its number."""
    found = found_in(text)
    return mutants.rewritten(text, [replace(found[at], number=number) for at, number in numbers.items()]).splitlines()


# A line -> its mutants.
LINES = {
    "return <int32_t>n < <int64_t*>p": ["return <int32_t>n <= <int64_t*>p"],  # a cast is no comparison
    "x = g(<const uint8_t*>p, <void*>n)": ["pass"],
    "if n < 2 and not p:": [
        *("if True:", "if False:", "if n <= 2 and not p:", "if n < 3 and not p:", "if n < 1 and not p:"),
        *("if n < 2 or not p:", "if n < 2 and p:"),
    ],
    "while n != 0:": ["while False:", "while n == 0:", "while n != 1:"],
    "x.count += 1": ["pass", "x.count -= 1", "x.count += 2"],
    "x.count = mark": ["pass"],
    "memcpy(p, q, n)": ["pass"],
    "p[0] = n & 0x7F": ["pass", "p[0] = n | 0x7F", "p[0] = n", "p[0] = n & 0x80", "p[0] = n & 0x7e"],
    "cdef int64_t left, size = n - 1, at = 0": [
        "cdef int64_t left, size = n + 1, at = 0",
        "cdef int64_t left, size = n, at = 0",
        "cdef int64_t left, size = n - 2, at = 0",
        "cdef int64_t left, size = n - 1, at = 1",
    ],
    "for i in range(k, n):": [
        *("for i in range(k + 1, n):", "for i in range(k - 1, n):"),
        *("for i in range(k, n + 1):", "for i in range(k, n - 1):"),
    ],
    "x = n if p else k": ["pass", "x = n if True else k", "x = n if False else k"],
    "x = [k for k in p if k]": ["pass", "x = [k for k in p if True]", "x = [k for k in p if False]"],
    "return True": ["return False"],
}


def test_mutants_of_each_line():
    assert {line: mutated(line) for line in LINES} == LINES


def test_a_condition_of_several_lines_is_one_line():
    text = body("if (n > LIMIT", "        or n == 5):     # why", "    return OK")
    assert found_in(text)[0].original == "if (n > LIMIT or n == 5):"
    assert "if (n > (LIMIT + 1) or n == 5):" in [mutant.mutated for mutant in found_in(text)]
    assert rewritten(text, {1: 7})[1:3] == [
        "    if ((not not (False)) if kr_m(7) else (not not ((n > LIMIT or n == 5)))):     # why",
        "        return OK",
    ]


def test_lines_are_rewritten_with_their_mutants():
    assert rewritten(body("n += 1"), {0: 3, 2: 5})[1:4] == [
        "    if kr_m(3): pass",
        "    elif kr_m(5): n += 2",
        "    else: n += 1",
    ]
    line = "cdef int64_t left, size = n - 1, at = 0"
    assert rewritten(body(line), {3: 9})[1] == "    cdef int64_t left, size = n - 1, at = ((1) if kr_m(9) else (0))"
    code = rewritten(body("for i in range(n):", "    g(i)"), {0: 4})
    assert code[1] == "    for i in range(((n + 1) if kr_m(4) else (n))):"


def test_an_operand_is_dropped_only_where_nothing_binds_tighter():
    assert "x = n" in mutated("x = n + 1")
    assert "x = n  * k" not in " ".join(mutated("x = n + 1 * k"))
    assert not any("n  << 3" in code for code in mutated("x = n & 1 << 3"))


def test_a_reason_that_is_returned_becomes_ok():
    text = "from s cimport OK\n" + body("return refuse(fault, BAD, n)", "return BAD", "return OK")
    assert [mutant.mutated for mutant in found_in(text)] == ["return OK", "return OK"]
    assert found_in(text.partition("\n")[2].replace("return OK", "pass")) == []  # a name that the file does not have


def test_only_bodies_of_functions_are_changed():
    text = 'cdef enum:\n    LIMIT = 5\n\ncdef struct S:\n    int a\n\ncdef extern from "a.h":\n    int g(int n)\n\n'
    assert found_in(text) == []
    assert mutants.limits_of([text]) == {"LIMIT"}
    assert mutants.rewritten(text, []) == text


def test_keys_of_mutants_do_not_depend_on_line_numbers():
    shifted = found_in("\n\n# more\n" + body("g(n)", "n += 1"))
    assert {mutant.key for mutant in found_in(body("n += 1"))} < {mutant.key for mutant in shifted}


def test_the_core_has_mutants_of_every_file():
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "kafkarec" / "_c").glob("*.pxd")}
    with_functions = {name for name, text in texts.items() if "noexcept nogil:\n" in text}
    assert len(with_functions) > 20
    assert {name for name, text in texts.items() if found_in(text)} >= with_functions
