"""Compiles the kafkarec wheel in a copy of the sources, and sets the platform tag that its symbols allow. The compiled
modules in the source folder are those of that wheel.

A wheel fresh from setuptools is tagged `linux_x86_64`, which says nothing about the glibc it needs. The
compiled module has the glibc version of each symbol it uses; the highest one determines the manylinux tag (PEP
600), so that an older executor reports "no wheel fits" and not an error of the dynamic loader.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import wheelhouse_pack

# What a build reads; copied, so that building never touches build/ or egg-info in the checkout.
SOURCES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "kafkarec")
GENERATED = (".so", ".c", ".o", ".pyc")
BUILD_NEEDS = {"setuptools": (77,), "Cython": (3, 3)}
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
    command += ["--no-build-isolation"] if _have_build_tools() else []
    command += ["--wheel-dir", str(work / "built"), str(copy)]
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
    cython = importlib.metadata.version("cython") if _have_build_tools() else ""
    made_by = [sys.version, os.environ.get("CC", ""), os.environ.get("CFLAGS", ""), cython, modules]
    return _digest({"setup.py": sources["setup.py"], "tools": repr(made_by).encode()})


def _digest(files: dict[str, bytes]) -> str:
    """Of all files, this interpreter and the compiler's name."""
    found = hashlib.sha256(f"{sys.version} {os.environ.get('CC', '')}".encode())
    for name, content in files.items():
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()


def _have_build_tools() -> bool:
    """Whether this environment has the build requirements of pyproject.toml; else pip uses an isolated one."""
    for project, least in BUILD_NEEDS.items():
        try:
            found = tuple(int(part) for part in re.findall(r"\d+", importlib.metadata.version(project))[:2])
        except importlib.metadata.PackageNotFoundError:
            return False
        if found < least:
            return False
    return True


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
