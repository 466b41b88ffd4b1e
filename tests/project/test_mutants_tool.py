"""tools/mutants.py: the mutants that it derives from code, and those that compilers refuse.

Every run of `make mutants` shows that the core compiles with them.
"""

import mutants
import pytest


@pytest.fixture
def found_in(tmp_path):
    """Text -> its mutants."""
    path = tmp_path / "a.pxd"
    return lambda text: path.write_text(text) and mutants.candidates([path])


def body(*lines):
    return "cdef enum:\n    LIMIT = 5\n\ncdef inline int f(int n, uint8_t* p) noexcept nogil:\n" + "".join(
        f"    {line}\n" for line in lines
    )


def test_every_mutant_that_is_explained_is_one_of_the_present_code():
    found = mutants.candidates()
    assert mutants.explained(found)
    with_functions = {path.name for path in mutants.SOURCES if "noexcept nogil:\n" in path.read_text("utf-8")}
    assert len(with_functions) > 20
    assert {mutant.file for mutant in found} >= with_functions


# A line -> what may be changed in it.
LINES = {
    "return <int32_t>n < <int64_t*>p": ["< -> <="],  # a cast is no comparison
    "x = g(<const uint8_t*>p, <void*>n)": ["pass"],
    "if n < 2 and not p: pass": ["True", "False", "and -> or", "< -> <=", "2 -> 3", "2 -> 1", "not -> "],
    "if Cursor is Exact: pass": [],
    "while n != 0: pass": ["False", "!= -> ==", "0 -> 1"],
    "x.count += 1": ["pass", "+= -> -=", "1 -> 2", "1 -> 0"],
    "x.count = mark": ["pass"],
    "memcpy(p, q, n)": ["pass"],
    "p[0] = n & 0x7F": ["pass", "& -> |", "without &", "0x7F -> 128", "0x7F -> 126"],
    "cdef int64_t left, size = n - 1, at[3]": ["- -> +", "1 -> 2", "1 -> 0"],
    "for i in range(2, n): pass": ["2 -> 3", "2 -> 1"],
    "x = n if p else k": ["pass", "True", "False"],
    "x = LIMIT + LIMIT": [
        *("pass", "+ -> -", "without +"),
        *("LIMIT + 1", "LIMIT - 1", "LIMIT + 1 (2)", "LIMIT - 1 (2)"),
    ],
    "return True": ["return False"],
    "return refuse(fault, BAD, n)": ["return OK"],
}


def test_mutants_of_each_line(found_in):
    of_ok = len(found_in(body("x = OK")))
    found = {line: [mutant.change for mutant in found_in(body(line, "x = OK"))[:-of_ok]] for line in LINES}
    assert found == LINES


def test_only_bodies_of_functions_are_changed(found_in):
    assert found_in('cdef struct S:\n    int a\n\ncdef extern from "a.h":\n    int g(int n)\n' + body("pass")) == []


def test_keys_of_mutants_do_not_depend_on_line_numbers(found_in):
    shifted = found_in("\n\n# more\n" + body("g(n)", "n += 1"))
    assert {mutant.key for mutant in found_in(body("n += 1"))} < {mutant.key for mutant in shifted}


def test_what_a_compiler_names_is_refused(tmp_path, monkeypatch, found_in):
    monkeypatch.setattr(mutants, "WORK", tmp_path)
    plus, one, other = (
        mutant for mutant in found_in(body("g(p,", "  p + 1)", "g(1)")) if mutant.change in ("+ -> -", "1 -> 2")
    )
    statement = body("").count("\n")
    code = [f'/* "a.pxd":{statement}', f"x = kr_m({one.number:#x});", "y = (", " z);", '/* "a.pxd":9', "kr_m(9);"]
    (tmp_path / "a.c").write_text("\n".join(code))
    found = [plus, one, other]
    assert mutants.refused_numbers(found, f"/b/a.pxd:{plus.row}:{plus.column}: no sum of pointers") == {plus.number}
    assert mutants.refused_numbers(found, f"/b/a.pxd:{statement}:4: no value") == {plus.number, one.number}
    assert mutants.refused_numbers(found, "a.c:4:2: error: no z\na.c:6:1: warning: unused") == {one.number}
    assert mutants.refused_numbers(found, "setup.py is wrong") == set()
