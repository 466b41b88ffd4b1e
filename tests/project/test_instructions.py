"""benchmarks/instructions.py: which counts fail, what is said about the others, and which compiler a module names."""

import json
import platform

import pytest
from paths import ROOT
from source_files import loaded

TOOL = loaded("benchmarks/instructions.py")
BASE = {"none": 200.0, "lz4": 1000.0}


@pytest.mark.parametrize(
    "now, status, said, not_said",
    [
        (BASE, 0, [" +0.0%"], ["MORE", "less", "to commit"]),
        ({"none": 205.0, "lz4": 975.0}, 0, [" +2.5%", " -2.5%"], ["MORE", "less", "to commit"]),
        ({"none": 207.0, "lz4": 1000.0}, 1, [" +3.5%  MORE", "a rise of over 3%", "to commit"], ["less"]),
        ({"none": 200.0, "lz4": 969.0}, 0, [" -3.1%  less", "to commit"], ["MORE", "a rise"]),
        ({"none": 200.0, "lz4": 1000.0, "new": 5.0}, 0, ["new", "to commit"], ["MORE"]),
    ],
)
def test_a_rise_fails_and_a_fall_asks_for_a_baseline(now, status, said, not_said):
    lines, found = TOOL.report("gcc 12.2 x86_64", {"gcc 12.2 x86_64": BASE}, now)
    text = "\n".join(lines)
    assert found == status, text
    assert all(each in text for each in said) and not any(each in text for each in not_said), text


def test_an_unknown_compiler_is_said_and_does_not_fail():
    lines, status = TOOL.report("gcc 99.1 x86_64", {"gcc 12.2 x86_64": BASE}, {"none": 900.0})
    assert status == 0
    assert any("no baseline for this compiler" in line and "gcc 12.2 x86_64" in line for line in lines)
    assert json.loads(lines[-1]) == {"gcc 99.1 x86_64": {"none": 900.0}}


@pytest.mark.parametrize(
    "comment, named",
    [
        (b"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0", "gcc 12.2"),
        (b"GCC: (GNU) 15.1.1 20250425\0", "gcc 15.1"),
        (b"GCC: (Debian 12.2.0) 12.2.0\0Debian clang version 19.1.7 (3)\0", "clang 19.1"),
    ],
)
def test_the_compiler_is_read_from_the_module(tmp_path, comment, named):
    module = tmp_path / "_core.so"
    module.write_bytes(b"\x7fELF\0" + comment + b"\0.symtab")
    assert TOOL.compiler(module) == f"{named} {platform.machine()}"


def test_a_module_or_a_count_without_what_is_looked_for_is_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\x7fELF\0")
    for look in (TOOL.compiler, TOOL.total):
        with pytest.raises(SystemExit):
            look(path)
    path.write_text("events: Ir\ntotals: 4711\n")
    assert TOOL.total(path) == 4711


def test_every_baseline_has_every_workload():
    baselines = json.loads((ROOT / "benchmarks" / "instructions.json").read_text())
    assert baselines
    for key, counts in baselines.items():
        assert counts.keys() == TOOL.COUNTED.keys() and all(count > 50 for count in counts.values()), key
