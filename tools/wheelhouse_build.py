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
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wheelhouse_pack
from commands import CACHE, ROOT, run
from wheelhouse_platforms import LOCKS, Platform

WORK = CACHE / "build"
# What a build reads; copied, so that building never touches build/ or egg-info in the checkout.
SOURCES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "kafkarec")
GENERATED = (".so", ".c", ".o", ".pyc")
OLDEST_GLIBC = 17  # 2.17, that of manylinux2014: what the dependencies have wheels for, and auditwheel knows


def files_below(root: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """path below the root -> content, of these files and folders, without what is generated."""
    found = {file for name in names for file in (root / name, *(root / name).rglob("*"))}
    return {
        file.relative_to(root).as_posix(): file.read_bytes()
        for file in sorted(found)
        if file.is_file() and not {"__pycache__", "_trees"} & {*file.parts} and file.suffix not in GENERATED
    }


def digest(files: dict[str, bytes]) -> str:
    """Of all files, this interpreter and the compiler's name."""
    found = hashlib.sha256(f"{sys.version} {os.environ.get('CC', '')}".encode())
    for name, content in files.items():
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()


def kafkarec_wheel(root: Path) -> tuple[Path, Path]:
    """(the wheel, `kafkarec-<version>-cp311-abi3-manylinux_2_N_<machine>.whl` on Linux; the folder of its C files).

    Built once per content of the sources; only what has changed is compiled again.
    """
    final, stamp = WORK / "final", WORK / "made-of"
    sources = files_below(root, SOURCES)
    if not is_made(WORK, sources):
        began = time.monotonic()
        print("compiling kafkarec", flush=True)
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
        # no debugging information: it has this folder's path, and the module's build id is a hash of it, too
        env = os.environ | {"CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0"}
        run(*pip, "--no-build-isolation", "--wheel-dir", WORK / "built", WORK / "source", env=env)
        (built,) = (WORK / "built").glob("kafkarec-*.whl")
        final.mkdir()
        wheel = wheelhouse_pack.retagged(built, _platform_tag(built), final)
        stamp.write_text(f"{_compiled_with(sources)} {digest(sources)}")
        print(f"compiled  {wheel.name} in {time.monotonic() - began:.0f} s", flush=True)
    (wheel,) = final.glob("*.whl")
    return wheel, WORK / "source" / "kafkarec"


def is_made(work: Path, sources: dict[str, bytes]) -> bool:
    """Whether the wheel of these sources is there. If not, makes work/source the same as they: files that have not
    changed keep their times, by which Cython and setuptools see what to compile again. After a build that failed or
    used other tools or flags they compile everything."""
    copy, stamp = work / "source", work / "made-of"
    compiled_with, _, made_of = stamp.read_text().partition(" ") if stamp.exists() else ("", "", "")
    if made_of == digest(sources):
        return True
    stamp.unlink(missing_ok=True)
    if compiled_with != _compiled_with(sources):
        shutil.rmtree(work, ignore_errors=True)
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
    return False


def _compiled_with(sources: dict[str, bytes]) -> str:
    """All that decides how modules are compiled, and which."""
    modules = [name for name in sources if name.endswith(".pyx")]
    made_by = [os.environ.get("CFLAGS", ""), importlib.metadata.version("cython"), modules]
    return digest({"setup.py": sources["setup.py"], "tools": repr(made_by).encode()})


def compile_in_place(root: Path) -> None:
    """Puts the compiled modules of kafkarec's wheel into the source folder, too."""
    files, _ = wheelhouse_pack.read_wheel(kafkarec_wheel(root)[0])
    modules = {root / name: content for name, content in files.items() if name.endswith(".so")}
    for stale in {*(root / "kafkarec").glob("_*.so")} - modules.keys():
        stale.unlink()
    for module, content in modules.items():
        if not module.exists() or module.read_bytes() != content:
            part = module.with_suffix(".part")  # a process may have loaded the file that it replaces
            part.write_bytes(content)
            part.replace(module)


def _platform_tag(wheel: Path) -> str:
    tag = wheel.stem.rsplit("-", 1)[1]
    code = b"".join(content for name, content in wheelhouse_pack.read_wheel(wheel)[0].items() if name.endswith(".so"))
    minors = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", code)]
    if not tag.startswith("linux_") or not minors:  # macOS, musl
        return tag
    return f"manylinux_2_{max(*minors, OLDEST_GLIBC)}_{tag.removeprefix('linux_')}"


# ---- for other platforms

CROSS = ROOT / ".venv-cross"
DEFINES = ("NDEBUG", "CYTHON_PEP489_MULTI_PHASE_INIT=1", "Py_LIMITED_API=0x030B0000", "CYTHON_LIMITED_API=1")
# zig checks for undefined behaviour by default; the others are those of setup.py for clang
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-sanitize=undefined")
FLAGS += ("-mllvm", "-inlinehint-threshold=2000")


def cross_wheel(native: Path, sources: Path, target: Platform) -> Path:
    """The wheel for `target`, made once per content. native: this machine's wheel; sources: the C files."""
    made_with = [FLAGS, DEFINES, target, (LOCKS / "cross.txt").read_text(), wheelhouse_pack.sha256(native)]
    folder = WORK / "cross" / f"{target.name}-{hashlib.sha256(repr(made_with).encode()).hexdigest()[:16]}"
    for made in folder.glob("*.whl"):
        return made
    include = folder / "include"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for libc in ("gnu", "musl"):  # pyconfig.h under the names that Debian's asks for
        place = include / f"{target.machine}-linux-{libc}" / version
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_pyconfig(), place / "pyconfig.h")
    command: list[object] = [CROSS / "bin" / "python", "-m", "ziglang", "cc"]
    command += ["-target", target.target, *FLAGS, *(f"-D{define}" for define in DEFINES)]
    # macOS: the interpreter has the symbols of its C interface, and no library names them
    command += ["-undefined", "dynamic_lookup"] if target.libc == "macos" else ["-s"]
    command += ["-isystem", sysconfig.get_path("include"), "-isystem", include]

    def module(source: Path) -> Path:
        made = folder / f"{source.stem}.abi3.so"
        run(*command, source, "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(module, sorted(sources.glob("_*.c"))))
    modules = {f"kafkarec/{each.name}": each.read_bytes() for each in built}
    return wheelhouse_pack.retagged(native, target.tag, folder, modules)


def _pyconfig() -> Path:
    """This interpreter's own pyconfig.h, not the one that chooses by machine."""
    general = Path(sysconfig.get_config_h_filename())
    own = general.parents[1] / (sysconfig.get_config_var("MULTIARCH") or "") / general.parent.name / general.name
    return own if own.exists() else general
