"""`make release`: everything that is published, in dist/, built from what is committed and checked.

    kafkarec-<v>.tar.gz                        the sources
    kafkarec-<v>-cp311-abi3-<platform>.whl     one per platform of tools/wheelhouse_platforms.py
    spark_udfs-<v>-py3-none-any.whl            for spark-submit --py-files: all that Linux needs, x86-64 and aarch64
    sbom.json                                  CycloneDX: what `pip install kafkarec` brings, with versions and hashes
    SHA256SUMS                                 of all of these

Checked: the stable ABI is kept (abi3audit), the Linux tags are honest (auditwheel), the metadata is accepted (twine),
the sources compile without a warning, the wheels and the sources can be installed in empty environments and read and
write there, in each CPython of this machine.
RELEASING.md has the steps around it. `--here` is a quick check of the same steps: this platform and interpreter only.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import wheelhouse_build
import wheelhouse_check
import wheelhouse_pack
import wheelhouse_platforms
from commands import ROOT, run
from wheelhouse_platforms import PLATFORMS, Platform

import wheelhouse

OUT = ROOT / "dist"
TOOLS = ROOT / ".venv-release" / "bin"
SMOKE = """
import kafkarec, sys
for codec in kafkarec.Compression:
    data = kafkarec.encode([(n, n, b"k", b"v%d" % n, []) for n in range(1000)], compression=codec)
    found = kafkarec.decode(data, check_crcs="all")
    assert [r.value for r in found] == [b"v%d" % n for n in range(1000)]
    assert len(kafkarec.scan(data)) == len(list(kafkarec.batches(data)))
assert "site-packages" in kafkarec.__file__, kafkarec.__file__
assert not {"pyarrow", "pandas", "polars"} & set(sys.modules)
"""
SAMPLE = ROOT / "tests" / "vectors" / "vectors" / "v2-multi-batch.bin"


def step(text: str) -> None:
    print(f"release: {text}", flush=True)


def build(folder: Path, platforms: list[Platform], pythons: list[str]) -> None:
    """The sources, one wheel per platform, the spark_udfs wheel: of what is committed, without what lies about in the
    checkout."""
    source = folder / "source"
    source.mkdir()
    run("git", "archive", "--format=tar", "-o", folder / "source.tar", "HEAD", cwd=ROOT)
    run("tar", "-xf", folder / "source.tar", "-C", source)
    with ThreadPoolExecutor() as pool:
        sdist = pool.submit(run, sys.executable, "setup.py", "-q", "sdist", "--dist-dir", OUT, cwd=source)
        checkout, committed = (wheelhouse_build.files_below(each, wheelhouse_build.SOURCES) for each in (ROOT, source))
        compiled = ROOT if checkout == committed else source  # the checkout's modules are there already
        wheels = wheelhouse_build.kafkarec_wheels(compiled, platforms, OUT)
        for wheel in wheels:
            step(f"built {wheel.name}")
        sdist.result()
    wheelhouse.fat_wheel(source, dict(zip(platforms, wheels, strict=True)), pythons, OUT)


def check_wheel(wheel: Path) -> None:
    """With the tools that are made for it."""
    said = run(TOOLS / "abi3audit", "--strict", "--summary", wheel)
    step(f"abi3audit: {' '.join(said.split())}" if said.strip() else f"abi3audit: {wheel.name} keeps the stable ABI")
    tag = wheel.stem.rsplit("-", 1)[1]
    system, *version, machine = tag.split("_", 3)
    if system == "manylinux":
        shown = " ".join(run(TOOLS / "auditwheel", "show", wheel).split())
        allowed = re.search(rf'platform tag: "manylinux_(\d+)_(\d+)_{machine}"', shown)
        if allowed is None or [*map(int, allowed.groups())] > [*map(int, version)]:
            raise SystemExit(f"release: {wheel.name} does not deserve its tag: {shown}")
        step(f"auditwheel: {wheel.name} could also be for glibc {'.'.join(allowed.groups())}")
    elif system == "musllinux":  # auditwheel looks for the libraries, and so needs a system with musl
        code = b"".join(
            content for name, content in wheelhouse_pack.read_wheel(wheel)[0].items() if name.endswith(".so")
        )
        needed = {name.decode() for name in re.findall(rb"\0(lib[\w+.-]*\.so[.\d]*)(?=\0)", code)}
        if needed != {"libc.so"} or b"GLIBC_" in code:
            raise SystemExit(f"release: {wheel.name} needs {', '.join(sorted(needed))}, not only musl's libc.so")
        step(f"{wheel.name} needs libc.so, and no version of a symbol")


def check(pythons: list[str]) -> None:
    """The wheels, and `pip install` in an empty environment of each CPython of this machine; that of the sources takes
    longest, and so comes first."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        (sources,) = OUT.glob("kafkarec-*.tar.gz")
        steps = [pool.submit(install, sys.executable, "the sources", sources)]
        wheels = ("kafkarec[spark]", "--find-links", OUT, "--only-binary=kafkarec,spark_udfs")
        for python, executable in wheelhouse_check.interpreters(pythons):
            steps.append(pool.submit(install, executable, f"the wheels on CPython {python}", *wheels))
        steps += [pool.submit(check_wheel, wheel) for wheel in sorted(OUT.glob("kafkarec-*.whl"))]
        run(TOOLS / "twine", "check", *OUT.iterdir())
        for each in as_completed(steps):
            each.result()


def install(executable: str, what: str, *wanted: object) -> None:
    """In an empty environment; then reads and writes there."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkarec-release-") as folder:
        run(executable, "-m", "venv", folder)
        commands = Path(folder) / "bin"
        python, kafkarec, log = commands / "python", commands / "kafkarec", Path(folder) / "pip.log"
        run(python, "-m", "pip", "install", "--quiet", "--log", log, "--disable-pip-version-check", *wanted)
        if what == "the sources":
            no_warning(log.read_text())
        run(python, "-c", SMOKE, cwd=folder, may_complain=False)
        for verb in ("scan", "cat"):
            if not run(kafkarec, verb, SAMPLE, cwd=folder, may_complain=False):
                raise SystemExit(f"release: {what}: kafkarec {verb} printed nothing")
        said = run(python, "-m", "kafkarec", "doctor", cwd=folder, may_complain=False).split("\n")
        shown = run(kafkarec, "--version", cwd=folder, may_complain=False).strip()
        if shown.split()[-1] != wheelhouse.version():
            raise SystemExit(f"release: {what} is of another version: {shown}")
    step(f"{what}: installed, every codec written and read, {said[-2]} ({time.monotonic() - began:.0f} s)")


def no_warning(log: str) -> None:
    """Of Cython and of the C compiler, with -Wall and -Wextra, which setup.py sets."""
    found = [line for line in log.splitlines() if "warning: " in line and re.search(r"\.(c|pyx|pxd):", line)]
    if found or "-Wall" not in log or "-Wextra" not in log:
        raise SystemExit("\n".join(["release: the sources compile with warnings, or without -Wall -Wextra", *found]))


def main(only_here: bool) -> None:
    platforms = [wheelhouse_platforms.here()] if only_here else list(PLATFORMS)
    pythons = [f"{sys.version_info[0]}.{sys.version_info[1]}"] if only_here else list(wheelhouse.PYTHONS)
    began = time.monotonic()
    changed = run("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT)
    if changed:
        step("not committed, and so not in it:\n" + changed.rstrip())
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    with tempfile.TemporaryDirectory(prefix="kafkarec-release-") as folder:
        build(Path(folder), platforms, pythons)
    check(pythons)
    run(
        *(TOOLS / "cyclonedx-py", "requirements", ROOT / "requirements" / "runtime.txt"),
        *("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "-o", OUT / "sbom.json"),
    )
    made = sorted(OUT.iterdir())
    (OUT / "SHA256SUMS").write_text("".join(f"{wheelhouse_pack.sha256(file)}  {file.name}\n" for file in made))
    for file in made:
        step(f"{file.stat().st_size:>10,}  {file.name}")
    outcome = "checked, and no release: of one platform only" if only_here else "complete"
    step(f"{outcome}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main("--here" in sys.argv[1:])
