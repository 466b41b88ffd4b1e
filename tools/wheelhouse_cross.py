"""Compiles kafkarec for other platforms with zig's C compiler, which has each platform's libraries.

    the wheel of this machine, its C files  ->  the same wheel with modules for aarch64, musl, macOS

The modules use the stable ABI, so this machine's Python headers serve. Debian's pyconfig.h includes one per machine:
that of the other machine is given a copy of this one, which is right for the stable ABI of 64-bit machines.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

import wheelhouse_pack
from wheelhouse_platforms import LOCKS, ROOT, Platform

CROSS = ROOT / ".venv-cross"
DEFINES = ("NDEBUG", "CYTHON_PEP489_MULTI_PHASE_INIT=1", "Py_LIMITED_API=0x030B0000", "CYTHON_LIMITED_API=1")
# zig checks for undefined behaviour by default; the others are those of setup.py for clang
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-sanitize=undefined")
FLAGS += ("-mllvm", "-inlinehint-threshold=2000")


def kafkarec_wheel(native: Path, sources: Path, work: Path, target: Platform) -> Path:
    """The wheel for `target`, made once per content in a folder below `work`.

    native: this machine's wheel; sources: the C files.
    """
    made_with = [FLAGS, DEFINES, target, (LOCKS / "cross.txt").read_text(), wheelhouse_pack.sha256(native)]
    folder = work / f"{target.name}-{hashlib.sha256(repr(made_with).encode()).hexdigest()[:16]}"
    for made in folder.glob("*.whl"):
        return made
    folder.mkdir(parents=True, exist_ok=True)
    include = _include(folder, target)
    with ThreadPoolExecutor(cpu_count()) as pool:
        built = list(pool.map(lambda source: _module(source, folder, include, target), sorted(sources.glob("_*.c"))))
    modules = {f"kafkarec/{each.name}": each.read_bytes() for each in built}
    return wheelhouse_pack.retagged(native, target.tag, folder, modules)


def _module(source: Path, folder: Path, include: Path, target: Platform) -> Path:
    module = folder / f"{source.stem}.abi3.so"
    command = [str(CROSS / "bin" / "python"), "-m", "ziglang", "cc"]
    command += ["-target", target.target, *FLAGS, *(f"-D{define}" for define in DEFINES)]
    # macOS: the interpreter has the symbols of its C interface, and no library names them
    command += ["-undefined", "dynamic_lookup"] if target.libc == "macos" else ["-s"]
    command += ["-isystem", sysconfig.get_path("include"), "-isystem", str(include), str(source), "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source.name} does not compile for {target.name}:\n{done.stderr[-3000:]}")
    return module


def _include(work: Path, target: Platform) -> Path:
    """A folder with pyconfig.h under the names that Debian's asks for."""
    folder = work / "include"
    libc = "musl" if target.libc == "musl" else "gnu"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for place in (f"{target.machine}-linux-{libc}", f"{target.machine}-linux-gnu"):
        (folder / place / version).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_pyconfig(), folder / place / version / "pyconfig.h")
    return folder


def _pyconfig() -> Path:
    """This interpreter's own pyconfig.h, not the one that chooses by machine."""
    general = Path(sysconfig.get_config_h_filename())
    own = general.parents[1] / (sysconfig.get_config_var("MULTIARCH") or "") / general.parent.name / general.name
    return own if own.exists() else general
