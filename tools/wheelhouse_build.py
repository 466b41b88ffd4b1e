"""Compiles the kafkarec wheel in a copy of the sources, and sets the platform tag that its symbols allow. The compiled
modules in the source folder are those of that wheel. For other platforms zig's C compiler, which has each platform's
libraries, makes the same wheel of the same C files.

A wheel fresh from setuptools is tagged `linux_x86_64`, which says nothing about the glibc it needs. The
compiled module has the glibc version of each symbol it uses; the highest one determines the manylinux tag (PEP
600), so that an older executor reports "no wheel fits" and not an error of the dynamic loader.

The modules use the stable ABI, so this machine's Python headers serve. Debian's pyconfig.h includes one per machine:
that of the other machine is given a copy of this one, which is right for the stable ABI of 64-bit machines.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wheelhouse_pack
from wheelhouse_platforms import LOCKS, ROOT, Platform

# What a build reads; copied, so that building never touches build/ or egg-info in the checkout.
SOURCES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "kafkarec")
GENERATED = (".so", ".c", ".o", ".pyc")
OLDEST_GLIBC = 17  # 2.17, that of manylinux2014: what the dependencies have wheels for, and auditwheel knows
# PEP 600: libraries that every manylinux system has.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1"}


def kafkarec_wheel(root: Path, work: Path, version: str) -> tuple[Path, Path]:
    """(the wheel, `kafkarec-<version>-cp311-abi3-manylinux_2_N_<machine>.whl` on Linux; the folder of its C files).

    Built once per content of the sources; only what has changed is compiled again.
    """
    copy, final, stamp = work / "source", work / "final", work / "digest"
    sources = dict(_sources(root))
    wanted = _digest(sources)
    built = next(final.glob(f"kafkarec-{version}-*.whl"), None)
    if built is not None and stamp.exists() and stamp.read_text() == wanted:
        return built, copy / "kafkarec"
    _update(copy, sources, work / "compiled-with")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(work / "built"), str(copy)]
    # debugging information, removed later, has this folder's path, and the module's build id is a hash of it, too
    env = os.environ | {"CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise SystemExit(f"kafkarec does not build:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    built = next((work / "built").glob(f"kafkarec-{version}-*.whl"), None)
    if built is None:
        raise SystemExit(f"pip built no kafkarec-{version} wheel in {work / 'built'}")
    platform = built.name.removesuffix(".whl").rsplit("-", 1)[1]
    final.mkdir()
    wheel = wheelhouse_pack.retagged(built, _manylinux_tag(built, platform), final)
    (work / "compiled-with").write_text(_tools(sources))
    stamp.write_text(wanted)
    return wheel, copy / "kafkarec"


def compile_in_place(root: Path, work: Path, version: str) -> list[str]:
    """Puts the compiled modules of kafkarec's wheel into the source folder, too; returns their names."""
    files, _ = wheelhouse_pack.read_wheel(kafkarec_wheel(root, work, version)[0])
    modules = {name: content for name, content in files.items() if name.endswith(".so")}
    for stale in {*(root / "kafkarec").glob("_*.so")} - {root / name for name in modules}:
        stale.unlink()
    for name, content in modules.items():
        part = (root / name).with_suffix(".part")  # a process may have loaded the file that it replaces
        part.write_bytes(content)
        part.replace(root / name)
    return sorted(modules)


def _sources(root: Path) -> Iterator[tuple[str, bytes]]:
    """(path below the root, content) of all that a build reads."""
    for name in SOURCES:
        for file in sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]:
            if file.is_file() and "__pycache__" not in file.parts and file.suffix not in GENERATED:
                yield file.relative_to(root).as_posix(), file.read_bytes()


def _update(copy: Path, sources: dict[str, bytes], compiled_with: Path) -> None:
    """Makes `copy` the same as the sources. Files that have not changed keep their times: by these Cython and
    setuptools see what to compile again. After a build that failed or used other tools they compile everything."""
    work = copy.parent
    if not compiled_with.exists() or compiled_with.read_text() != _tools(sources):
        shutil.rmtree(work, ignore_errors=True)
    compiled_with.unlink(missing_ok=True)
    for folder in (work / "built", work / "final", work / "cross", *copy.glob("*.egg-info")):
        shutil.rmtree(folder, ignore_errors=True)
    for file in [*copy.rglob("*")]:  # setuptools would pack files of build/ that have no source any more
        if file.is_file() and file.suffix not in GENERATED and file.relative_to(copy).as_posix() not in sources:
            file.unlink()
    for name, content in sources.items():
        file = copy / name
        if not file.exists() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def _tools(sources: dict[str, bytes]) -> str:
    """All that decides how modules are compiled, and which."""
    modules = [name for name in sources if name.endswith(".pyx")]
    cython = importlib.metadata.version("cython")
    made_by = [sys.version, os.environ.get("CC", ""), os.environ.get("CFLAGS", ""), cython, modules]
    return _digest({"setup.py": sources["setup.py"], "tools": repr(made_by).encode()})


def _digest(files: dict[str, bytes]) -> str:
    """Of all files, this interpreter and the compiler's name."""
    found = hashlib.sha256(f"{sys.version} {os.environ.get('CC', '')}".encode())
    for name, content in files.items():
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()


def needed_libraries(module: bytes) -> set[str]:
    """The names of libraries among the texts of a compiled module."""
    return {name.decode() for name in re.findall(rb"\0(lib[\w+.-]*\.so[.\d]*)(?=\0)", module)}


def _manylinux_tag(wheel: Path, platform: str) -> str:
    if not platform.startswith("linux_"):
        return platform
    files, _ = wheelhouse_pack.read_wheel(wheel)
    libraries = [content for name, content in files.items() if name.endswith(".so")]
    needed = {name for code in libraries for name in needed_libraries(code)}
    minors = [int(minor) for code in libraries for minor in re.findall(rb"GLIBC_2\.(\d+)", code)]
    if not minors or needed - SYSTEM_LIBRARIES:
        return platform  # musl, or a library that not every system has: the tag stays unchanged
    machine = platform.removeprefix("linux_")
    return f"manylinux_2_{max([*minors, OLDEST_GLIBC])}_{machine}"


# ---- for other platforms

CROSS = ROOT / ".venv-cross"
DEFINES = ("NDEBUG", "CYTHON_PEP489_MULTI_PHASE_INIT=1", "Py_LIMITED_API=0x030B0000", "CYTHON_LIMITED_API=1")
# zig checks for undefined behaviour by default; the others are those of setup.py for clang
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-sanitize=undefined")
FLAGS += ("-mllvm", "-inlinehint-threshold=2000")


def cross_wheel(native: Path, sources: Path, work: Path, target: Platform) -> Path:
    """The wheel for `target`, made once per content in a folder below `work`.

    native: this machine's wheel; sources: the C files.
    """
    made_with = [FLAGS, DEFINES, target, (LOCKS / "cross.txt").read_text(), wheelhouse_pack.sha256(native)]
    folder = work / f"{target.name}-{hashlib.sha256(repr(made_with).encode()).hexdigest()[:16]}"
    for made in folder.glob("*.whl"):
        return made
    folder.mkdir(parents=True, exist_ok=True)
    include = _include(folder, target)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
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
