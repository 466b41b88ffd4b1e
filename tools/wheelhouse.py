"""Fills wheelhouse/: the kafkarec wheels, their dependency wheels, and one wheel `spark_udfs` that contains them.

    python tools/wheelhouse.py [--here] [--python 3.12]    for this platform, this CPython only
    python tools/wheelhouse.py --in-place                  compiles kafkarec's modules into the source folder, no more

That wheel is pure Python by its tag and contains, as data, what CPython 3.11 to 3.14 needs on Linux with glibc 2.17 or
later, x86-64 and aarch64: the wheels, unpacked to a tree of files for each interpreter, of which
`spark_udfs.bootstrap` takes one on the executors. The same sources give the same bytes. What no loader reads of their
modules is left out. Downloads are kept in .cache/wheels, so that a second run needs no network; what exists for these
sources is not made again. Every interpreter of this machine then decodes a few batches with that wheel alone.
"""

from __future__ import annotations

import argparse
import fcntl
import runpy
import sys
from pathlib import Path

import wheelhouse_build
import wheelhouse_check
import wheelhouse_pack
import wheelhouse_platforms
from commands import CACHE, ROOT
from wheelhouse_pack import Tree
from wheelhouse_platforms import PLATFORMS, Platform

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OUT = ROOT / "wheelhouse"
# All that decides what is in it.
MADE_OF = (*wheelhouse_build.SOURCES, "spark_udfs", "pyspark_kafkarec", "requirements/runtime.txt")
MADE_OF += ("requirements/glibc217.txt", *(f"tools/{each.name}" for each in (ROOT / "tools").glob("wheelhouse*.py")))


def version() -> str:
    """The project's version, from kafkarec/_version.py."""
    return str(runpy.run_path(str(ROOT / "kafkarec" / "_version.py"))["__version__"])


def fat_wheel(source: Path, wheels: dict[Platform, Path], pythons: list[str], out: Path) -> tuple[Path, list[Tree]]:
    """The spark_udfs wheel of these sources, in `out`, and what is in it. wheels: kafkarec's"""
    trees = []
    for platform in filter(lambda each: each.fat, wheels):
        for python in pythons:
            parts = wheels[platform], *wheelhouse_platforms.dependency_wheels(platform, python)
            trees.append(Tree(python, platform.machine, platform.oldest, parts))
    data = wheelhouse_pack.trees_data(version(), trees)
    return wheelhouse_pack.fat_wheel(source / "spark_udfs", version(), data, out), trees


def fill(platforms: list[Platform], pythons: list[str]) -> Path:
    """Fills wheelhouse/; returns the spark_udfs wheel."""
    ours = dict(zip(platforms, wheelhouse_build.kafkarec_wheels(ROOT, platforms, OUT), strict=True))
    fat, trees = fat_wheel(ROOT, ours, pythons, OUT)
    others = {wheel for tree in trees for wheel in tree.wheels} - {*ours.values()}
    kept = {fat, *ours.values(), *(wheelhouse_pack.copy(wheel, OUT) for wheel in sorted(others))}
    for stale in set(OUT.glob("*.whl")) - kept:
        stale.unlink()
    wheelhouse_pack.unpack_data(fat, ROOT)
    about = f"{fat.stat().st_size / 1e6:.1f} MB for {wheelhouse_pack.served(trees)}"
    print(f"packed    {fat.name}  {about}, sha256 {wheelhouse_pack.sha256(fat)}", flush=True)
    return fat


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="wheelhouse.py", description="Fills the wheelhouse; see the head of this file."
    )
    parser.add_argument("--here", action="store_true", help="only for the platform of this machine")
    parser.add_argument("--python", choices=PYTHONS, help="only for this CPython")
    parser.add_argument("--in-place", action="store_true", help="only compile kafkarec into its source folder")
    parser.add_argument("--no-check", action="store_true", help="do not try the result in this machine's interpreters")
    options = parser.parse_args(arguments)
    here = wheelhouse_platforms.here()
    platforms = [here] if options.here else [one for one in PLATFORMS if one.fat or one == here]
    pythons = [options.python] if options.python else list(PYTHONS)
    CACHE.mkdir(exist_ok=True)
    OUT.mkdir(exist_ok=True)
    with (CACHE / "wheelhouse.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # make demo and make test may run at once
        if options.in_place:
            wheelhouse_build.compile_in_place(ROOT)
            return 0
        stamp = CACHE / "wheelhouse-made-of"
        wanted = wheelhouse_build.digest(wheelhouse_build.files_below(ROOT, MADE_OF))
        limits = {*filter(None, ("here" if options.here else "", options.python))}
        made_of, _, limited = stamp.read_text().partition(" ") if stamp.exists() else ("", "", "")
        there = any(OUT.glob("spark_udfs-*.whl")) and any((ROOT / "spark_udfs" / "_trees").glob("*.zip"))
        if there and made_of == wanted and {*limited.split()} <= limits:  # filled with these limits or fewer
            return 0
        stamp.unlink(missing_ok=True)
        print(f"filling {OUT.name}/", flush=True)
        fat = fill(platforms, pythons)
        if here.fat and not options.no_check:
            for python, executable in wheelhouse_check.interpreters(pythons):
                print(f"tested     CPython {python}: {wheelhouse_check.try_in(executable, fat)}", flush=True)
        stamp.write_text(" ".join((wanted, *sorted(limits))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
