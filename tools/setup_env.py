"""Makes the virtual environments and builds the core in place; called by tools/setup, standard library only.

usage: setup_env.py demo|test|wheelhouse|release|build|bench|ci

What is there is not made again: an environment has a stamp for each lock file, and tools/wheelhouse.py knows what it
has compiled and packed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from commands import ROOT, STORED, contains, write_command

VENV = ROOT / ".venv"


class Environment(NamedTuple):
    """One virtual environment: its folder and the lock files installed into it, in this order."""

    folder: Path
    locks: tuple[str, ...]


BUILD = Environment(VENV, ("build",))
DRIVER = Environment(VENV, ("runtime", "executor"))
TEST = Environment(VENV, ("test",))
BENCH = Environment(VENV, ("test", "bench"))
BARE = Environment(ROOT / ".venv-executor", ("executor",))
CROSS = Environment(ROOT / ".venv-cross", ("cross",))
RELEASE = Environment(ROOT / ".venv-release", ("release",))


class Plan(NamedTuple):
    """What one target needs."""

    compilers: tuple[Environment, ...]  # made before the core and the wheels
    others: tuple[Environment, ...]  # made beside what follows
    builds: tuple[str, ...] = ()  # options of tools/wheelhouse.py, which runs with each of them


PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
CORE = "--in-place"  # first: what is compiled for it is in the wheels
PLANS = {
    "demo": Plan((BUILD,), (DRIVER, BARE), (CORE, f"--here --python {PYTHON}")),
    "test": Plan((BUILD,), (TEST, BARE), (CORE, "--here")),
    "wheelhouse": Plan((BUILD, CROSS), (), ("",)),
    "release": Plan((BUILD, CROSS), (RELEASE,)),
    "build": Plan((BUILD,), (TEST,), (CORE,)),
    "bench": Plan((BUILD,), (BENCH,), (CORE,)),
    "ci": Plan((BUILD, CROSS), (TEST, BARE, RELEASE), (CORE, "")),  # all that the steps of .ci/run need
}
# variables that would redirect pip or Python
REDIRECTING = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV")


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def run(*command: object) -> None:
    """Runs a command, which says only what is new or wrong; stops if it fails."""
    env = {name: value for name, value in os.environ.items() if name not in REDIRECTING}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    words = list(map(str, command))
    if subprocess.run(words, cwd=ROOT, env=env | STORED, check=False).returncode:
        say(f"failed: {' '.join(words)}")
        sys.exit(3)


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def make_venv(folder: Path) -> None:
    """Makes an empty environment of this interpreter; replaces one of another interpreter, or one that was moved."""
    stamp = folder / ".made-by"
    wanted = f"{sys.base_prefix}\n{sys.version}\n{folder}\n"
    if contains(stamp, wanted) and python_of(folder).exists():
        return
    if folder.exists() and not stamp.exists():
        say(f"{folder} was not made by this set-up, which needs that name: rename it or remove it")
        sys.exit(3)
    shutil.rmtree(folder, ignore_errors=True)
    say(f"{folder.name}: a virtual environment of {sys.executable} ({sys.version.split()[0]})")
    folder.mkdir()
    stamp.touch()  # ours from here on, also if it is not finished
    run(sys.executable, "-m", "venv", folder)
    stamp.write_text(wanted)


def install(environment: Environment) -> None:
    """Installs the locked packages with their hashes checked."""
    folder = environment.folder
    make_venv(folder)
    for lock in environment.locks:
        path, stamp = ROOT / "requirements" / f"{lock}.txt", folder / f".installed-{lock}"
        wanted = path.read_text()
        if contains(stamp, wanted):
            continue
        say(f"{folder.name}: installing requirements/{path.name}")
        began = time.monotonic()
        pip = [python_of(folder), "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes", "-r", path]
        pip += ["--use-pep517"]
        if folder == VENV and lock != "build":
            # pyspark is published as source only: it is built with the locked setuptools. Python compiles what is
            # imported: to compile all of this takes pip twenty seconds
            pip += ["--no-build-isolation", "--no-compile"]
        run(*pip)
        stamp.write_text(wanted)
        say(f"{folder.name}: done in {time.monotonic() - began:.0f} s")


def use_checkout() -> None:
    """Makes this checkout's kafkarec what .venv imports, and what the command kafkarec there runs, in every folder."""
    (packages,) = (VENV / "lib").glob("python3*/site-packages")
    (packages / "kafkarec.pth").write_text(f"{ROOT}\n")
    write_command(VENV / "bin" / "kafkarec", f'exec {shlex.quote(str(python_of(VENV)))} -P -m kafkarec "$@"')


def build(plan: Plan) -> None:
    for options in plan.builds:
        run(python_of(VENV), "tools/wheelhouse.py", *options.split())


def main() -> None:
    plan = PLANS[sys.argv[1]]
    with ThreadPoolExecutor() as pool:
        list(pool.map(install, plan.compilers))
        use_checkout()
        # one after another: the second takes Spark's wheel, which pip makes of 450 MB of sources, from pip's cache
        steps = [pool.submit(lambda: [install(each) for each in plan.others]), pool.submit(build, plan)]
        try:
            for step in as_completed(steps):
                step.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


if __name__ == "__main__":
    main()
