"""Makes the virtual environments and builds the core in place; called by tools/setup, standard library only.

usage: setup_env.py demo|test|wheelhouse|release|build|lint|bench

Every step has a stamp that holds a hash of what the step depends on, so a second call does nothing and a
changed lock file or source redoes exactly its step.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".work"
VENV = ROOT / ".venv"
EXECUTOR = ROOT / ".venv-executor"


class Environment(NamedTuple):
    """One virtual environment: its folder and the lock files installed into it, in this order."""

    folder: Path
    locks: tuple[str, ...]


BUILD = Environment(VENV, ("build",))
DRIVER = Environment(VENV, ("build", "runtime", "spark"))
TEST = Environment(VENV, ("build", "test"))
BENCH = Environment(VENV, ("build", "test", "bench"))
BARE = Environment(EXECUTOR, ("executor",))
CROSS = Environment(ROOT / ".venv-cross", ("cross",))
RELEASE = Environment(ROOT / ".venv-release", ("release",))


class Plan(NamedTuple):
    """What one target needs."""

    environments: tuple[Environment, ...]
    core: bool = False  # built in place
    wheels: tuple[str, ...] | None = None  # the wheelhouse, current, by these options of tools/wheelhouse.py


PLANS = {
    "demo": Plan(
        (DRIVER, BARE), core=True, wheels=("--here", "--python", f"{sys.version_info[0]}.{sys.version_info[1]}")
    ),
    "test": Plan((TEST, BARE), core=True, wheels=("--here",)),
    "wheelhouse": Plan((BUILD, CROSS), wheels=()),
    "release": Plan((BUILD, CROSS, RELEASE)),
    "build": Plan((TEST,), core=True),
    "lint": Plan((TEST,), core=True),
    "bench": Plan((BENCH,), core=True),
}

# the lines of tools/wheelhouse.py that `make demo` shows; all of them are in .work/wheelhouse.log
WHEELHOUSE_NEWS = ("built", "no wheel", "packed", "tested", "not tested")


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def digest(parts: Iterable[bytes]) -> str:
    """One hash over all parts, their borders included."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def run(name: str, command: list[str], env: dict[str, str] | None = None) -> None:
    """Runs a command with its output in .work/<name>.log; on failure shows the end of it and stops."""
    WORK.mkdir(exist_ok=True)
    log = WORK / f"{name}.log"
    with log.open("wb") as out:
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=env, check=False)
    if done.returncode:
        sys.stderr.write("".join(log.read_text(errors="replace").splitlines(keepends=True)[-25:]))
        say(f"failed: {' '.join(command)}")
        say(f"the whole output is in {log.relative_to(ROOT)}")
        sys.exit(3)


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def clean_env() -> dict[str, str]:
    """The environment without variables that would redirect pip or Python."""
    drop = {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV"}
    env = {name: value for name, value in os.environ.items() if name not in drop}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return env


def make_venv(folder: Path) -> None:
    """Makes an empty environment of this interpreter; replaces one of another interpreter, or one that was moved."""
    stamp = folder / ".made-by"
    wanted = f"{sys.base_prefix}\n{sys.version}\n{folder}\n"
    if stamp.exists() and stamp.read_text() == wanted and python_of(folder).exists():
        return
    if folder.exists() and not stamp.exists():
        say(f"{folder} was not made by this set-up, which needs that name: rename it or remove it")
        sys.exit(3)
    if folder.exists():
        shutil.rmtree(folder)
    say(f"{folder.name}: a virtual environment of {sys.executable} ({sys.version.split()[0]})")
    folder.mkdir()
    stamp.touch()  # ours from here on, also if it is not finished
    run("venv", [sys.executable, "-m", "venv", str(folder)], clean_env())
    stamp.write_text(wanted)


def install(environment: Environment) -> None:
    """Installs the locked packages with their hashes checked; each lock file has its own stamp."""
    folder = environment.folder
    make_venv(folder)
    for lock in environment.locks:
        text = (ROOT / "requirements" / f"{lock}.txt").read_bytes()
        stamp = folder / f".installed-{lock}"
        wanted = digest([text])
        if stamp.exists() and stamp.read_text() == wanted:
            continue
        say(f"{folder.name}: installing requirements/{lock}.txt")
        began = time.monotonic()
        pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes"]
        # pyspark is published as source only: it is built with the locked setuptools if that is installed
        if "build" in environment.locks and lock != "build":
            pip.append("--no-build-isolation")
        run(f"pip-{folder.name}-{lock}", [*pip, "-r", f"requirements/{lock}.txt"], clean_env())
        stamp.write_text(wanted)
        say(f"{folder.name}: done in {time.monotonic() - began:.0f} s")


def digest_of(patterns: Iterable[str]) -> str:
    """One hash over this interpreter, the compiler's name and every file that the patterns name."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    files = sorted(path for path in found if path.is_file() and path.parent.name != "__pycache__")
    parts = [sys.version.encode(), os.environ.get("CC", "").encode()]
    for path in files:
        parts += [str(path.relative_to(ROOT)).encode(), path.read_bytes()]
    return digest(parts)


CORE_SOURCES = ("setup.py", "kafkarec/*.pyx", "kafkarec/**/*.pxd", "kafkarec/**/*.h")
WHEEL_SOURCES = (
    *CORE_SOURCES,
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "kafkarec/**/*.py*",
    "spark_udfs/**/*.py*",
    "pyspark_kafkarec/*.py*",
    "tools/wheelhouse*.py",
    "requirements/runtime.txt",
    "requirements/glibc217.txt",
)


def build_core() -> None:
    """Compiles kafkarec in place, if a source, the compiler or the interpreter has changed."""
    wanted = digest_of(CORE_SOURCES)
    stamp = WORK / "built-core"
    modules = list((ROOT / "kafkarec").glob("_*.pyx"))
    built = all(list(module.parent.glob(f"{module.stem}.*so")) for module in modules)
    if not (built and stamp.exists() and stamp.read_text() == wanted):
        say(f"building {', '.join(sorted(f'kafkarec/{module.stem}' for module in modules))} in place")
        began = time.monotonic()
        run("build-core", [str(python_of(VENV)), "tools/wheelhouse.py", "--in-place"], clean_env())
        stamp.write_text(wanted)
        say(f"built in {time.monotonic() - began:.0f} s")


def use_checkout() -> None:
    """Makes this checkout's kafkarec what .venv imports, and what the command kafkarec there runs, in every folder."""
    (packages,) = (VENV / "lib").glob("python3*/site-packages")
    (packages / "kafkarec.pth").write_text(f"{ROOT}\n")
    command = VENV / "bin" / "kafkarec"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python_of(VENV)))} -P -m kafkarec "$@"\n')
    command.chmod(0o755)


def build_wheels(options: tuple[str, ...]) -> None:
    """tools/wheelhouse.py, if one of its inputs has changed or the wheels are for fewer platforms or interpreters."""
    wanted = digest_of(WHEEL_SOURCES)
    stamp = WORK / "built-wheels"
    made, _, made_by = stamp.read_text().partition(" ") if stamp.exists() else ("", "", "")
    enough = set(made_by.split()) <= set(options)  # each option is a limit
    there = any((ROOT / "wheelhouse").glob("spark_udfs-*.whl")) and any((ROOT / "spark_udfs" / "_trees").glob("*.zip"))
    if there and made == wanted and enough:
        return
    say("filling wheelhouse/")
    began = time.monotonic()
    run("wheelhouse", [str(python_of(VENV)), "tools/wheelhouse.py", *options], clean_env())
    for line in (WORK / "wheelhouse.log").read_text().splitlines():
        if line.startswith(WHEELHOUSE_NEWS):
            say(f"  {line}")
    stamp.write_text(" ".join((wanted, *options)))
    say(f"filled in {time.monotonic() - began:.0f} s")


def build(plan: Plan) -> None:
    """The core, then the wheels: what is compiled for one is in the other."""
    if plan.core:
        build_core()
        use_checkout()
    if plan.wheels is not None:
        build_wheels(plan.wheels)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PLANS:
        print(f"usage: setup_env.py {'|'.join(PLANS)}", file=sys.stderr)
        return 2
    plan = PLANS[arguments[0]]
    compilers = {BUILD} | ({CROSS} & set(plan.environments))
    for environment in compilers:  # of the steps below; the rest is independent
        install(environment)
    with ThreadPoolExecutor() as pool:
        steps = [pool.submit(install, environment) for environment in plan.environments if environment not in compilers]
        steps.append(pool.submit(build, plan))
        try:
            for step in as_completed(steps):
                step.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
