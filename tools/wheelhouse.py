"""Fills wheelhouse/: the kafkarec wheels, their dependency wheels, and one wheel `spark_udfs` that contains them.

    python tools/wheelhouse.py [--out wheelhouse] [--platform NAME ... | --here] [--python 3.12 ...]
    python tools/wheelhouse.py --in-place       compiles kafkarec's modules into the source folder, nothing else

That wheel is pure Python by its tag and contains, as data, what CPython 3.11 to 3.14 needs on Linux with glibc 2.17 or
later, x86-64 and aarch64: the wheels, unpacked to a tree of files for each interpreter, of which
`spark_udfs.bootstrap` takes one on the executors. The same sources give the same bytes. Debugging information is left
out, after the hashes of the locks were compared. Downloads are kept in .cache/wheels, so that a second run
needs no network. Every interpreter of this machine then decodes a few batches with that wheel alone.
"""

from __future__ import annotations

import argparse
import fcntl
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import wheelhouse_build  # noqa: E402
import wheelhouse_check  # noqa: E402
import wheelhouse_pack  # noqa: E402
import wheelhouse_platforms  # noqa: E402
from wheelhouse_platforms import BY_NAME, PLATFORMS, Platform  # noqa: E402

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def version() -> str:
    """The project's version, from kafkarec/_version.py."""
    text = (ROOT / "kafkarec" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    if not found:
        raise SystemExit("kafkarec/_version.py holds no __version__")
    return found[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="wheelhouse.py", description="Fills the wheelhouse; see the head of this file."
    )
    parser.add_argument("--out", type=Path, default=ROOT / "wheelhouse", help="folder for the wheels")
    parser.add_argument("--source", type=Path, default=ROOT, help="the sources of the packages, if not this checkout")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache", help="folder for downloads and builds")
    parser.add_argument("--platform", action="append", choices=BY_NAME, help="only for this one; may be repeated")
    parser.add_argument("--here", action="store_true", help="only for the platform of this machine")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only for this CPython; may be repeated")
    parser.add_argument("--in-place", action="store_true", help="only compile kafkarec into its source folder")
    parser.add_argument("--no-check", action="store_true", help="do not try the result in this machine's interpreters")
    options = parser.parse_args(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    with (options.cache / "wheelhouse.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # make demo and make test may run at once
        if options.in_place:
            for name in wheelhouse_build.compile_in_place(options.source, options.cache / "build", version()):
                print(f"compiled  {name}")
            return 0
        return fill(options)


def chosen(options: argparse.Namespace) -> list[Platform]:
    """The platforms of the wheels."""
    here = wheelhouse_platforms.here()
    if here is None:
        raise SystemExit(f"no platform of tools/wheelhouse_platforms.py is this machine's: {', '.join(BY_NAME)}")
    if options.here:
        return [here]
    if options.platform:
        return [BY_NAME[name] for name in options.platform]
    return [one for one in PLATFORMS if one.fat or one == here]


def kafkarec_wheels(source: Path, platforms: list[Platform], cache: Path) -> list[Path]:
    """kafkarec's wheel for each platform, in their order, without debugging information."""
    native, c_files = wheelhouse_build.kafkarec_wheel(source, cache / "build", version())

    def wheel_for(platform: Platform) -> Path:
        wheel = native
        if platform != wheelhouse_platforms.here():
            wheel = wheelhouse_build.cross_wheel(native, c_files, cache / "build" / "cross", platform)
        return wheelhouse_pack.stripped(wheel, cache / "stripped")

    with ThreadPoolExecutor(cpu_count()) as pool:
        return list(pool.map(wheel_for, platforms))


def fill(options: argparse.Namespace) -> int:
    """Runs all steps; returns the exit status, 1 if an interpreter failed."""
    pythons = tuple(options.python or PYTHONS)
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)

    platforms = chosen(options)
    trees: list[wheelhouse_pack.Tree] = []
    carried: set[Path] = set()
    for platform, ours in zip(platforms, kafkarec_wheels(options.source, platforms, options.cache), strict=True):
        print(f"built     {ours.name}")
        for python in pythons:
            wheels, missing = wheelhouse_platforms.dependency_wheels(platform, python, options.cache / "wheels")
            stripped = (ours, *(wheelhouse_pack.stripped(wheel, options.cache / "stripped") for wheel in wheels))
            carried |= {*stripped}
            if platform.fat and not missing:
                trees.append(wheelhouse_pack.Tree(python, platform.machine, platform.oldest, stripped))
            for line in missing:
                print(f"no wheel  {line}")

    carried = {wheelhouse_pack.copy(wheel, options.out) for wheel in carried}
    for wheel in sorted(carried):
        print(f"have      {wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB")
    data = wheelhouse_pack.trees_data(version(), trees)
    fat = wheelhouse_pack.fat_wheel(options.source / "spark_udfs", version(), data, options.out)
    for stale in set(options.out.glob("*.whl")) - {fat, *carried}:
        stale.unlink()
    if options.out == ROOT / "wheelhouse":
        wheelhouse_pack.unpack_data(fat, ROOT)
    about = f"{fat.stat().st_size / 1e6:.1f} MB for {wheelhouse_pack.served(trees)}"
    print(f"packed    {fat.name}  {about}, sha256 {wheelhouse_pack.sha256(fat)}")

    failed, here = False, wheelhouse_platforms.here()
    served_here = [tree.python for tree in trees if here and here.fat and tree.machine == here.machine]
    for python in () if options.no_check else served_here:
        executable = wheelhouse_check.find_interpreter(python)
        if executable is None:
            print(f"not tested CPython {python}: no such interpreter on this machine")
            continue
        passed, words = wheelhouse_check.try_in(executable, fat, ROOT)
        print(f"tested     CPython {python}: {words}")
        failed |= not passed
    print(f"wheelhouse: {options.out} in {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
