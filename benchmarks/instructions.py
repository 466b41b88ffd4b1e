"""`make instructions`: instructions of `decode` per record, counted by callgrind and compared with instructions.json.

A count depends on neither the clock nor other work, so it shows a change of some percent on any machine. It does depend
on the compiler, so each version of one has its own baseline. A workload that needs over SLACK more than its baseline
fails; SLACK less, or an unknown compiler, asks for `--write`. Counted is the second of two calls of `kafkarec.decode`,
with all that it calls, but without CRCs: ISA-L chooses its routine by the processor.

usage: instructions.py [--write]
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT), str(ROOT / "tools")]  # the other modules, and kafkarec as built in place

import system_packages  # noqa: E402
import workloads  # noqa: E402

BASELINES = HERE / "instructions.json"
SLACK = 0.03
CALLS = 2  # the first one imports modules and allocates pages
# name -> (workload, records, options of decode)
COUNTED: dict[str, tuple[str, int, dict[str, object]]] = {
    "none_small": ("none_small", 10_000, {}),
    "none": ("none", 5_000, {}),
    "none_h3": ("none_h3", 5_000, {}),
    "batch_1": ("batch_1", 5_000, {}),
    "lz4": ("lz4", 5_000, {}),
    "none, views": ("none", 5_000, {"layout": "view"}),
}
_ONE_RECORD = workloads.AXES["Records per batch"]["1"]
WORKLOADS = workloads.BY_NAME | {_ONE_RECORD.name: _ONE_RECORD}
# callgrind writes what it has counted whenever getppid is called, which nothing else calls
COUNTING = f"""
import gc, json, os, sys, kafkarec
gc.disable()  # a collection falls into one workload or another
for path, options, records in json.load(open(sys.argv[1])):
    with open(path, "rb") as file:
        data = file.read()
    for _ in range({CALLS}):
        os.getppid()
        columns = kafkarec.decode(data, check_crcs=False, **options)
        os.getppid()
    assert len(columns) == records
    del columns
"""


def compiler(module: Path) -> str:
    """What compiled an extension module, such as "gcc 12.2 x86_64"."""
    text = module.read_bytes()
    for name, pattern in (("clang", rb"clang version (\d+\.\d+)"), ("gcc", rb"GCC: \([^)]*\) (\d+\.\d+)")):
        # a module of clang also has the C library's start files, which gcc compiled
        found = re.search(pattern, text)
        if found:
            return f"{name} {found[1].decode()} {platform.machine()}"
    raise SystemExit(f"{module} does not say what compiled it")


def count() -> dict[str, float]:
    """Workload -> instructions per record."""
    valgrind = system_packages.command("valgrind", "valgrind")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = []
        for label, (workload, records, options) in COUNTED.items():
            work = WORKLOADS[workload]
            path = folder / label
            path.write_bytes(workloads.build(work._replace(batches=records // work.records)))
            runs.append((str(path), options, records))
        (folder / "runs").write_text(json.dumps(runs))
        command = [valgrind, "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder / 'counted'}"]
        env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
        command += [sys.executable, "-c", COUNTING, str(folder / "runs")]
        ran = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            raise SystemExit(ran.stderr)
        # a part before each call, from the start or the end of the previous one, and one before its end
        parts = [folder / f"counted.{2 * CALLS * (number + 1)}" for number in range(len(COUNTED))]
        return {label: round(total(part) / COUNTED[label][1], 1) for label, part in zip(COUNTED, parts, strict=True)}


def total(part: Path) -> int:
    found = re.search(r"^totals: (\d+)$", part.read_text(errors="replace"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"callgrind wrote no total to {part.name}")
    return int(found[1])


def compare(baseline: dict[str, float], now: dict[str, float]) -> tuple[list[str], bool, bool]:
    """(a table, has a workload risen over SLACK, does the baseline have to be written). A workload without a baseline,
    or a baseline without a workload, asks for writing, too."""
    lines = [f"{'workload':14} {'baseline':>9} {'now':>9} {'change':>8}"]
    risen = fallen = False
    for name, counted in now.items():
        if name not in baseline:
            lines.append(f"{name:14} {'':9} {counted:9.1f}")
            continue
        change = counted / baseline[name] - 1
        verdict = "  MORE" if change > SLACK else "  less" if change < -SLACK else ""
        risen, fallen = risen or change > SLACK, fallen or change < -SLACK
        lines.append(f"{name:14} {baseline[name]:9.1f} {counted:9.1f} {change:+8.1%}{verdict}")
    return lines, risen, fallen or baseline.keys() != now.keys()


def report(key: str, baselines: dict[str, dict[str, float]], now: dict[str, float]) -> tuple[list[str], int]:
    """(what to print, the exit status)."""
    lines, risen, stale = compare(baselines.get(key, {}), now)
    lines.insert(0, f"instructions per record, {key}")
    if key not in baselines:
        known = ", ".join(baselines) or "none"
        lines.append(f"no baseline for this compiler (there are: {known}), so nothing was compared")
    if risen:
        lines.append(f"a rise of over {SLACK:.0%}: find its cause, or say why it is worth it and commit a new baseline")
    if risen or stale:
        lines += [
            "to commit: `make instructions ARGS=--write` writes this into benchmarks/instructions.json:",
            json.dumps({key: now}),
        ]
    return lines, int(risen)


def main(arguments: list[str]) -> int:
    from kafkarec import _core

    if arguments not in ([], ["--write"]):
        raise SystemExit(__doc__)
    key, now = compiler(Path(_core.__file__)), count()
    baselines = json.loads(BASELINES.read_text()) if BASELINES.exists() else {}
    lines, status = report(key, baselines, now)
    print("\n".join(lines))
    if arguments:
        BASELINES.write_text(json.dumps(baselines | {key: now}, indent=1, sort_keys=True) + "\n")
        print(f"written: {BASELINES.relative_to(ROOT)}")
        return 0
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
