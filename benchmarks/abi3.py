"""Compares an abi3 build with one for this interpreter, timed in turn: `python benchmarks/abi3.py`.

Prints milliseconds per file (microseconds per call in the last column), the best of all rounds, and the ratio, which
docs/explanation/design.md quotes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from workloads import make

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
NAMES = ("none", "none_h3", "none_small", "lz4")

TIMED = """
import sys, time, kafkarec
def best(run, times, inner=1):
    shortest = 9e9
    for _ in range(times):
        start = time.perf_counter()
        for _ in range(inner):
            run()
        shortest = min(shortest, (time.perf_counter() - start) / inner)
    return shortest
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    print(best(lambda: kafkarec.decode(data).__arrow_c_stream__(), 15) * 1e3)
one = kafkarec.batches(data).__next__().raw.tobytes()
print(best(lambda: kafkarec.scan(one), 15, 500) * 1e6)
"""


def build(folder: Path, abi3: bool) -> None:
    shutil.copytree(ROOT / "kafkarec", folder / "kafkarec", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    env = dict(os.environ, KAFKAREC_ABI3="1" if abi3 else "0")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)


def time_once(folder: Path, files: list[str]) -> list[float]:
    env = dict(os.environ, PYTHONPATH=str(folder))
    done = subprocess.run([sys.executable, "-c", TIMED, *files], env=env, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folders = {way: Path(scratch, way) for way in ("abi3", "this interpreter")}
        for way, folder in folders.items():
            build(folder, way == "abi3")
        files = [str(path) for path in make(Path(scratch)) if path.stem.split(".")[0] in NAMES]
        best = {way: [9e9] * (len(files) + 1) for way in folders}
        for _ in range(ROUNDS):
            for way, folder in folders.items():
                best[way] = [min(pair) for pair in zip(best[way], time_once(folder, files), strict=True)]
    columns = [*(Path(path).stem for path in files), "scan call"]
    print(f"{'':18}" + "".join(f"{name:>12}" for name in columns))
    for way, row in best.items():
        print(f"{way:18}" + "".join(f"{value:12.2f}" for value in row))
    ratios = [a / b for a, b in zip(best["abi3"], best["this interpreter"], strict=True)]
    print(f"{'ratio':18}" + "".join(f"{value:12.2f}" for value in ratios))


if __name__ == "__main__":
    main()
