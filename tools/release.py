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

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import wheelhouse_build  # noqa: E402
import wheelhouse_check  # noqa: E402
import wheelhouse_pack  # noqa: E402
import wheelhouse_platforms  # noqa: E402
from wheelhouse_platforms import PLATFORMS, Platform  # noqa: E402

import wheelhouse  # noqa: E402
from wheelhouse import PYTHONS  # noqa: E402

CACHE = ROOT / ".cache"
TOOLS = ROOT / ".venv-release" / "bin"
BUILT = (".*", "*.so", "*.c", "*.egg-info", "__pycache__", "build", "dist", "wheelhouse", "_trees")
SMOKE = """
import kafkarec, subprocess, sys
data = kafkarec.encode([(n, n, b"k", b"v%d" % n, []) for n in range(1000)], compression=sys.argv[1])
found = kafkarec.decode(data, check_crcs="all")
assert [r.value for r in found] == [b"v%d" % n for n in range(1000)]
assert len(kafkarec.scan(data)) == len(list(kafkarec.batches(data)))
assert "site-packages" in kafkarec.__file__, kafkarec.__file__
assert not {"pyarrow", "pandas", "polars"} & set(sys.modules)
"""
SOURCES = "the sources"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SAMPLE = ROOT / "tests" / "vectors" / "vectors" / "v2-multi-batch.bin"


def step(text: str) -> None:
    print(f"release: {text}", flush=True)


def run(*command: object, silent: bool = False, **options: object) -> str:
    """Standard output; ends the release with all output if the command fails, or is not `silent` on standard error."""
    words = list(map(str, command))
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, **options)  # type: ignore[call-overload]
    if done.returncode or (silent and done.stderr):
        raise SystemExit(f"release: {' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return str(done.stdout)


def exported(folder: Path) -> Path:
    """What is committed, without what lies about in the checkout; without git all but what is built."""
    target = folder / "source"
    if not _has_git():
        return Path(shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*BUILT)))
    target.mkdir()
    archive = folder / "source.tar"
    run("git", "archive", "--format=tar", "-o", archive, "HEAD", cwd=ROOT)
    run("tar", "-xf", archive, "-C", target)
    return target


def _has_git() -> bool:
    return shutil.which("git") is not None and (ROOT / ".git").exists()


def build(source: Path, out: Path, platforms: list[Platform], pythons: list[str]) -> None:
    """The sources, one wheel per platform, the spark_udfs wheel."""
    with ThreadPoolExecutor() as pool:
        sdist = pool.submit(run, TOOLS / "python", "-m", "build", "--sdist", "--outdir", out, source)
        for wheel in wheelhouse.kafkarec_wheels(source, platforms, CACHE):
            wheelhouse_pack.copy(wheel, out)
            step(f"built {wheel.name}")
        sdist.result()
    limits = [("--platform", one.name) for one in platforms if one.fat]
    limits += [("--python", python) for python in pythons]
    with tempfile.TemporaryDirectory(prefix="kafkarec-release-") as folder:
        words = ["--source", source, "--out", folder, "--no-check", *(word for limit in limits for word in limit)]
        if wheelhouse.main(list(map(str, words))):
            raise SystemExit("release: the spark_udfs wheel was not made")
        wheelhouse_pack.copy(next(Path(folder).glob("spark_udfs-*.whl")), out)


def check_wheel(wheel: Path) -> None:
    """With the tools that are made for it."""
    said = run(TOOLS / "abi3audit", "--strict", "--summary", wheel)
    step(f"abi3audit: {' '.join(said.split())}" if said.strip() else f"abi3audit: {wheel.name} keeps the stable ABI")
    tag = wheel.name.removesuffix(".whl").rsplit("-", 1)[1]
    if tag.startswith("manylinux"):
        shown = " ".join(run(TOOLS / "auditwheel", "show", wheel).split())
        allowed = re.search(r'platform tag: "(\w+)"', shown)
        if allowed is None or not _covers(tag, allowed[1]):
            raise SystemExit(f"release: {wheel.name} does not deserve its tag: {shown}")
        step(f"auditwheel: {wheel.name} could also be {allowed[1]}")
    elif tag.startswith("musllinux"):  # auditwheel looks for the libraries, and so needs a system with musl
        needed = {name for content in _modules(wheel) for name in wheelhouse_build.needed_libraries(content)}
        if needed != {"libc.so"} or any(b"GLIBC_" in content for content in _modules(wheel)):
            raise SystemExit(f"release: {wheel.name} needs {', '.join(sorted(needed))}, not only musl's libc.so")
        step(f"{wheel.name} needs libc.so, and no version of a symbol")


def _modules(wheel: Path) -> list[bytes]:
    files, _ = wheelhouse_pack.read_wheel(wheel)
    return [content for name, content in files.items() if name.endswith(".so")]


def _covers(tag: str, allowed: str) -> bool:
    """Whether a system of `tag` has all that a wheel of `allowed` needs."""
    family, _, rest = tag.partition("_")
    other, _, needed = allowed.partition("_")
    numbers = [tuple(map(int, re.findall(r"^(\d+)_(\d+)", each)[0])) for each in (rest, needed)]
    return family == other and numbers[0] >= numbers[1] and tag.endswith(allowed.split("_", 3)[3])


def check(out: Path, pythons: list[str]) -> None:
    """The wheels, and `pip install` in an empty environment of each CPython of this machine; that of the sources takes
    longest, and so comes first."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        steps = [pool.submit(_try, sys.executable, SOURCES, [str(next(out.glob("kafkarec-*.tar.gz")))])]
        wheels = ["kafkarec[spark]", "--find-links", str(out), "--only-binary=kafkarec,spark_udfs"]
        for python in pythons:
            executable = wheelhouse_check.find_interpreter(python)
            if executable:
                steps.append(pool.submit(_try, executable, f"the wheels on CPython {python}", wheels))
            else:
                step(f"the wheels on CPython {python}: not tried, no such interpreter on this machine")
        steps += [pool.submit(check_wheel, wheel) for wheel in sorted(out.glob("kafkarec-*.whl"))]
        run(TOOLS / "twine", "check", *out.iterdir())
        for each in as_completed(steps):
            each.result()


def _try(executable: str, what: str, wanted: list[str]) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkarec-release-") as folder:
        run(executable, "-m", "venv", folder)
        python = Path(folder) / "bin" / "python"
        log = Path(folder) / "pip.log"
        run(python, "-m", "pip", "install", "--quiet", "--log", log, "--disable-pip-version-check", *wanted)
        if what == SOURCES:
            _no_warning(log.read_text())
        for codec in CODECS:
            run(python, "-c", SMOKE, codec, cwd=folder, silent=True)
        kafkarec = Path(folder) / "bin" / "kafkarec"
        for verb in ("scan", "cat"):
            if not run(kafkarec, verb, SAMPLE, cwd=folder, silent=True):
                raise SystemExit(f"release: {what}: kafkarec {verb} printed nothing")
        said = run(python, "-m", "kafkarec", "doctor", cwd=folder, silent=True).split("\n")
        shown = run(kafkarec, "--version", cwd=folder, silent=True).strip()
        if shown.split()[-1] != wheelhouse.version():
            raise SystemExit(f"release: {what} is of another version: {shown}")
    step(f"{what}: installed, every codec written and read, {said[-2]} ({time.monotonic() - began:.0f} s)")


def _no_warning(log: str) -> None:
    """Of Cython and of the C compiler, with -Wall and -Wextra, which setup.py sets."""
    found = [line for line in log.splitlines() if "warning: " in line and re.search(r"\.(c|pyx|pxd):", line)]
    if found or "-Wall" not in log or "-Wextra" not in log:
        raise SystemExit("\n".join(["release: the sources compile with warnings, or without -Wall -Wextra", *found]))


def write_sums(out: Path) -> None:
    lines = [f"{wheelhouse_pack.sha256(file)}  {file.name}\n" for file in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="release.py", description="Builds and checks a release in dist/.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--here", action="store_true", help="only this platform and interpreter: a check, no release")
    options = parser.parse_args(arguments)
    here = wheelhouse_platforms.here()
    if here is None:
        raise SystemExit("release: this machine is none of the platforms")
    platforms = [here] if options.here else list(PLATFORMS)
    pythons = [f"{sys.version_info[0]}.{sys.version_info[1]}"] if options.here else list(PYTHONS)
    began = time.monotonic()
    if not _has_git() and not options.here:
        raise SystemExit("release: it is built from what is committed, and there is no git or no clone")
    changed = run("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT) if _has_git() else ""
    if changed:
        step("not committed, and so not in it:\n" + changed.rstrip())
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="kafkarec-release-") as folder:
        build(exported(Path(folder)), out, platforms, pythons)
    check(out, pythons)
    run(
        *(TOOLS / "cyclonedx-py", "requirements", ROOT / "requirements" / "runtime.txt"),
        *("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "-o", out / "sbom.json"),
    )
    write_sums(out)
    for file in sorted(out.iterdir()):
        step(f"{file.stat().st_size:>10,}  {file.name}")
    outcome = "checked, and no release: of one platform only" if options.here else "complete"
    step(f"{outcome}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
