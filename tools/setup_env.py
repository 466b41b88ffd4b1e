"""Makes the virtual environments and builds the core in place; called by tools/setup, standard library only.

usage: setup_env.py demo|test|wheelhouse|build|lint|bench

Every step has a stamp that holds a hash of what the step depends on, so a second call does nothing and a changed
lock file or source redoes exactly its step.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
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
DRIVER = Environment(VENV, ("build", "spark"))
TEST = Environment(VENV, ("build", "test"))
BENCH = Environment(VENV, ("build", "test", "bench"))
BARE = Environment(EXECUTOR, ("executor",))

# what is asked for -> (environments, core built in place)
PLAN: dict[str, tuple[tuple[Environment, ...], bool]] = {
    "demo": ((DRIVER, BARE), False),
    "test": ((TEST, BARE), True),
    "wheelhouse": ((BUILD,), False),
    "build": ((TEST,), True),
    "lint": ((TEST,), True),
    "bench": ((BENCH,), True),
}


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def digest(parts: Iterable[bytes]) -> str:
    """One hash over all parts, their borders included."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def run(name: str, command: list[str], env: dict[str, str] | None = None) -> None:
    """Run quietly with the output in .work/<name>.log; on failure show its end and stop."""
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
    """The environment without what would lead pip or Python elsewhere."""
    drop = {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV"}
    env = {name: value for name, value in os.environ.items() if name not in drop}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return env


def make_venv(folder: Path) -> None:
    """An empty environment of this interpreter; one of another interpreter, or a moved one, is replaced."""
    stamp = folder / ".made-by"
    wanted = f"{sys.executable}\n{sys.version}\n{folder}\n"
    if stamp.exists() and stamp.read_text() == wanted and python_of(folder).exists():
        return
    if folder.exists():
        shutil.rmtree(folder)
    say(f"{folder.name}: a virtual environment of {sys.executable} ({sys.version.split()[0]})")
    run("venv", [sys.executable, "-m", "venv", str(folder)], clean_env())
    stamp.write_text(wanted)


def install(environment: Environment) -> None:
    """Install the locked files, hashes checked; each lock file has its own stamp."""
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
        # pyspark is published as source only: it is built with the locked setuptools where that is there
        if "build" in environment.locks and lock != "build":
            pip.append("--no-build-isolation")
        run(f"pip-{folder.name}-{lock}", [*pip, "-r", f"requirements/{lock}.txt"], clean_env())
        stamp.write_text(wanted)
        say(f"{folder.name}: done in {time.monotonic() - began:.0f} s")


def core_sources() -> list[Path]:
    package = ROOT / "kafkarec"
    sources = [package / "_core.pyx", *package.glob("_c/*.pxd"), *package.glob("_c/*.h"), ROOT / "setup.py"]
    return sorted(path for path in sources if path.exists())


def build_core() -> None:
    """`setup.py build_ext --inplace`, when a source, the compiler or the interpreter is another one."""
    wanted = digest(
        [sys.version.encode(), os.environ.get("CC", "").encode()]
        + [part for path in core_sources() for part in (path.name.encode(), path.read_bytes())]
    )
    stamp = WORK / "built-core"
    modules = list((ROOT / "kafkarec").glob("_core*.so"))
    if modules and stamp.exists() and stamp.read_text() == wanted:
        return
    say("building kafkarec/_core in place")
    began = time.monotonic()
    # cythonize goes by time stamps, which a checkout does not keep
    (ROOT / "kafkarec" / "_core.c").unlink(missing_ok=True)
    run("build-core", [str(python_of(VENV)), "setup.py", "-q", "build_ext", "--inplace", "--force"], clean_env())
    WORK.mkdir(exist_ok=True)
    stamp.write_text(wanted)
    say(f"built in {time.monotonic() - began:.0f} s")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PLAN:
        print(f"usage: setup_env.py {'|'.join(PLAN)}", file=sys.stderr)
        return 2
    environments, in_place = PLAN[arguments[0]]
    for environment in environments:
        install(environment)
    if in_place:
        build_core()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
