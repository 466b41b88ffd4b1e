"""tools/mutants_rewrite.py and mutants_c.py: the mutants that they derive from code, and the rewritten code.

Every run of `make mutants` shows that the rewritten core compiles.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest
from paths import ROOT


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("mutants_rewrite")


@pytest.fixture(scope="module")
def c_tool(tool: ModuleType) -> ModuleType:
    return load_tool("mutants_c")


def test_every_mutant_that_is_explained_is_one_of_the_present_code() -> None:
    listed = subprocess.run(
        [sys.executable, "tools/mutants.py", "--list", "--count", "1"], cwd=ROOT, capture_output=True, text=True
    )
    assert listed.returncode == 0, listed.stderr


def body(*lines: str) -> str:
    return "cdef inline int f(int n, uint8_t* p) noexcept nogil:\n" + "".join(f"    {line}\n" for line in lines)


def mutated(tool: ModuleType, *lines: str) -> list[str]:
    return [mutant.mutated for mutant in tool.mutants_of("a.pxd", body(*lines), {"LIMIT"})]


def test_a_cast_is_no_comparison(tool: ModuleType) -> None:
    mutants = mutated(tool, "return <int32_t>n < <int64_t*>p")
    assert mutants == ["return <int32_t>n <= <int64_t*>p"]
    assert mutated(tool, "x = g(<const uint8_t*>p, <void*>n)") == ["pass"]


def test_mutants_of_conditions(tool: ModuleType) -> None:
    assert mutated(tool, "if n < 2 and not p:") == [
        "if True:",
        "if False:",
        "if n <= 2 and not p:",
        "if n < 3 and not p:",
        "if n < 1 and not p:",
        "if n < 2 or not p:",
        "if n < 2 and p:",
    ]
    assert mutated(tool, "while n != 0:") == ["while False:", "while n == 0:", "while n != 1:"]


def test_a_condition_of_several_lines_is_one_line(tool: ModuleType) -> None:
    text = body("if (n > LIMIT", "        or n == 5):     # why", "    return OK")
    [first, *_] = mutants = tool.mutants_of("a.pxd", text, {"LIMIT"})
    assert first.original == "if (n > LIMIT or n == 5):"
    assert "if (n > (LIMIT + 1) or n == 5):" in [mutant.mutated for mutant in mutants]
    code, _ = tool.rewritten(text, {"LIMIT"}, {1: 7})
    assert code.splitlines()[4:] == [
        "    if ((not not (False)) if kr_m(7) else (not not ((n > LIMIT or n == 5)))):",
        "        return OK",
    ]


def test_mutants_of_statements(tool: ModuleType) -> None:
    assert mutated(tool, "x.count += 1") == ["pass", "x.count -= 1", "x.count += 2"]
    assert mutated(tool, "x.count = mark") == ["pass"]
    assert mutated(tool, "memcpy(p, q, n)") == ["pass"]
    assert mutated(tool, "p[0] = n & 0x7F") == [
        "pass",
        "p[0] = n | 0x7F",
        "p[0] = n",
        "p[0] = n & 0x80",
        "p[0] = n & 0x7e",
    ]
    code, positions = tool.rewritten(body("n += 1"), set(), {0: 3, 2: 5})
    assert code.splitlines()[4:] == [
        "    if kr_m(3):",
        "        pass",
        "    elif kr_m(5):",
        "        n += 2",
        "    else:",
        "        n += 1",
    ]
    assert dict(positions) == {5: [3], 6: [3], 7: [5], 8: [5]}


def test_an_operand_is_dropped_only_where_nothing_binds_tighter(tool: ModuleType) -> None:
    assert "x = n" in mutated(tool, "x = n + 1")
    assert "x = n  * k" not in " ".join(mutated(tool, "x = n + 1 * k"))
    assert not any("n  << 3" in code for code in mutated(tool, "x = n & 1 << 3"))


def test_mutants_of_declared_values(tool: ModuleType) -> None:
    line = "cdef int64_t left, size = n - 1, at = 0"
    assert mutated(tool, line) == [
        "cdef int64_t left, size = n + 1, at = 0",
        "cdef int64_t left, size = n, at = 0",
        "cdef int64_t left, size = n - 2, at = 0",
        "cdef int64_t left, size = n - 1, at = 1",
    ]
    code, _ = tool.rewritten(body(line), set(), {3: 9})
    assert code.splitlines()[4:] == [
        "    cdef int64_t left, size, at",
        "    size = n - 1",
        "    if kr_m(9):",
        "        at = 1",
        "    else:",
        "        at = 0",
    ]


def test_mutants_of_loop_bounds(tool: ModuleType) -> None:
    assert mutated(tool, "for i in range(k, n):") == [
        "for i in range(k + 1, n):",
        "for i in range(k - 1, n):",
        "for i in range(k, n + 1):",
        "for i in range(k, n - 1):",
    ]
    code, _ = tool.rewritten(body("for i in range(n):", "    g(i)"), set(), {0: 4})
    assert code.splitlines()[4].replace(" ", "") == "foriinrange(((n+1)ifkr_m(4)else(n))):"


def test_mutants_of_conditional_expressions_and_returns(tool: ModuleType) -> None:
    assert mutated(tool, "x = n if p else k") == ["pass", "x = n if True else k", "x = n if False else k"]
    assert mutated(tool, "return True") == ["return False"]
    text = "from s cimport OK\n" + body("return refuse(fault, BAD, n)", "return BAD", "return OK")
    mutants = tool.mutants_of("a.pxd", text.replace("from s cimport", "from kafkarec._c.status cimport"), set())
    assert [mutant.mutated for mutant in mutants] == ["return OK", "return OK"]


def test_only_bodies_of_functions_are_changed(tool: ModuleType) -> None:
    text = 'cdef enum:\n    LIMIT = 5\n\ncdef struct S:\n    int a\n\ncdef extern from "a.h":\n    int g(int n)\n\n'
    assert tool.mutants_of("a.pxd", text, {"LIMIT"}) == []
    assert tool.limits_of([text]) == {"LIMIT"}


def test_keys_of_mutants_do_not_depend_on_line_numbers(tool: ModuleType) -> None:
    first = tool.mutants_of("a.pxd", body("n += 1"), set())
    shifted = tool.mutants_of("a.pxd", "\n\n# more\n" + body("g(n)", "n += 1"), set())
    assert {mutant.key for mutant in first} < {mutant.key for mutant in shifted}


def test_the_core_has_mutants_of_every_file(tool: ModuleType) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "kafkarec" / "_c").glob("*.pxd")}
    limits = tool.limits_of(list(texts.values()))
    with_functions = {name for name, text in texts.items() if "noexcept nogil:\n" in text}
    counts = {name: len(tool.mutants_of(name, text, limits)) for name, text in texts.items()}
    assert len(with_functions) > 20
    assert {name for name, count in counts.items() if count} >= with_functions


# ---- C


def block(*lines: str) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f'cdef extern from * nogil:\n    """\n    static int f(int n) {{\n{body}    }}\n    """\n    int f(int n)\n'


def c_mutated(c_tool: ModuleType, *lines: str) -> list[str]:
    return [mutant.mutated for mutant in c_tool.mutants_of("a.pxd", block(*lines))]


def test_mutants_of_c_statements_and_values(c_tool: ModuleType) -> None:
    assert c_mutated(c_tool, "n += 8;") == [";", "n += 9", "n += 7"]
    assert c_mutated(c_tool, "int k = n - 1;") == ["int k = n + 1", "int k = n", "int k = n - 2"]
    assert c_mutated(c_tool, "int k;", "/* n + 1 */", "#define N 5") == []
    assert c_mutated(c_tool, "free(p);") == [";"]


def test_c_casts_and_signs_are_no_operators(c_tool: ModuleType) -> None:
    assert c_mutated(c_tool, "return (int64_t)*p;") == []
    assert c_mutated(c_tool, "return (uint32_t)p[0] << n;") == [
        "return (uint32_t)p[1] << n",
        "return (uint32_t)p[0] >> n",
    ]
    assert c_mutated(c_tool, "return -1;") == ["return -2", "return -0"]


def test_mutants_of_c_conditions(c_tool: ModuleType) -> None:
    assert c_mutated(c_tool, "if (n < k && p) return;") == [
        "if (1)",
        "if (0)",
        "if (n <= k && p)",
        "if (n < k || p)",
    ]
    assert c_mutated(c_tool, "for (k = 0; k < n; k++)", "    g(k);") == [
        "for (k = 0; 0; k++)",
        "for (k = 0; k <= n; k++)",
        ";",
    ]


def test_c_is_rewritten_with_its_mutants(c_tool: ModuleType) -> None:
    text = block("if (n >= 8) n -= 8;", "else g(n);")
    code = c_tool.rewritten(text, {2: 11, 5: 12})
    assert [line.strip() for line in code.splitlines()[2:6]] == [
        '#include "kr_mutants.h"',
        "static int f(int n) {",
        "if ((kr_m(11) ? (n > 8) : (n >= 8))) { if (!kr_m(12)) n -= 8; }",
        "else g(n);",
    ]
    assert c_tool.rewritten(text, {}) == text
