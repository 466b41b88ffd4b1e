"""Compiles kafkarec's modules in place, and packs its wheels with the platform tag that their symbols allow. For other
platforms zig's C compiler, which has each platform's libraries, makes the modules of the same C files.

A compiled module has the glibc version of each symbol it uses; the highest one determines the manylinux tag (PEP 600),
so that an older executor reports "no wheel fits" and not an error of the dynamic loader.

The modules use the stable ABI, so this machine's Python headers serve. Debian's pyconfig.h includes one per machine:
that of the other machine is given a copy of this one, which is right for the stable ABI of 64-bit machines.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wheelhouse_pack
from commands import CACHE, ROOT, contains, run
from wheelhouse_platforms import LOCKS, Platform, here

SOURCES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "kafkarec")  # what a build reads
GENERATED = (".so", ".c", ".o", ".pyc")
# What setup.py and the compiler take from the environment.
SETTINGS = ("CC", "CPPFLAGS", "LDFLAGS", *(f"KAFKAREC_{name}" for name in ("ABI3", "DEBUG", "OPTIMIZE", "SANITIZE")))
OLDEST_GLIBC = 17  # 2.17, that of manylinux2014: what the dependencies have wheels for, and auditwheel knows


def files_below(root: Path, names: Iterable[str]) -> dict[str, bytes]:
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


def compile_in_place(root: Path) -> list[Path]:
    """The modules of this machine, which are put beside their sources, too. Cython and setuptools see by the times of
    files what to compile again; after a build that failed, or with other tools or flags, everything is."""
    package, work = root / "kafkarec", root / "build" / "kafkarec"
    work.mkdir(parents=True, exist_ok=True)
    # no debugging information: it has this folder's path, and the module's build id is a hash of it, too
    env = os.environ | {"CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0"}
    sources = sorted(each.name for each in package.glob("_*.pyx"))
    settings = [env["CFLAGS"], *map(env.get, SETTINGS)]
    made_with = (sys.version, settings, importlib.metadata.version("cython"), sources)
    stamp, wanted = work / "made-with", f"{made_with} {(root / 'setup.py').read_text()}"
    command: list[object] = [sys.executable, "setup.py", "-q", "build_ext"]
    command += ["--build-temp", work / "temporary", "--build-lib", work / "modules"]
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not contains(stamp, wanted):
            shutil.rmtree(work / "modules", ignore_errors=True)
            command, env = [*command, "--force"], env | {"CYTHON_FORCE_REGEN": "1"}
        stamp.unlink(missing_ok=True)
        began = time.monotonic()
        run(*command, cwd=root, env=env)
        stamp.write_text(wanted)
        made = {package / each.name: each.read_bytes() for each in (work / "modules" / "kafkarec").glob("_*.so")}
        for stale in {*package.glob("_*.so")} - made.keys():
            stale.unlink()
        changed = [module for module in made if not module.exists() or module.read_bytes() != made[module]]
        for module in changed:
            part = module.with_suffix(".part")  # a process may have loaded the file that it replaces
            part.write_bytes(made[module])
            part.replace(module)
        if changed:
            print(f"compiled  kafkarec in {time.monotonic() - began:.0f} s", flush=True)
    return sorted(made)


def kafkarec_wheels(root: Path, platforms: Iterable[Platform], out: Path) -> list[Path]:
    """kafkarec's wheel for each platform, in their order, in `out`."""
    native = compile_in_place(root)
    with tempfile.TemporaryDirectory() as described:
        run(sys.executable, "setup.py", "-q", "dist_info", "--output-dir", described, cwd=root)
        (dist_info,) = Path(described).glob("*.dist-info")
        files = files_below(root, ("kafkarec",)) | files_below(dist_info.parent, (dist_info.name,))

    def wheel_for(platform: Platform) -> Path:
        modules = native if platform == here() else cross_modules(root, platform)
        contents = {f"kafkarec/{each.name}": each.read_bytes() for each in modules}
        tag = f"cp311-abi3-{_native_tag(contents.values()) if platform == here() else platform.tag}"
        wheel = f"Wheel-Version: 1.0\nGenerator: tools/wheelhouse.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
        contents |= files | {f"{dist_info.name}/WHEEL": wheel.encode()}
        return wheelhouse_pack.write_wheel(out / f"{dist_info.stem}-{tag}.whl", contents, dist_info.name)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(wheel_for, platforms))


def _native_tag(modules: Iterable[bytes]) -> str:
    tag = re.sub(r"[-.]", "_", sysconfig.get_platform())
    minors = [int(minor) for code in modules for minor in re.findall(rb"GLIBC_2\.(\d+)", code)]
    if not tag.startswith("linux_") or not minors:  # macOS, musl
        return tag
    return f"manylinux_2_{max(*minors, OLDEST_GLIBC)}_{tag.removeprefix('linux_')}"


# ---- for other platforms

CROSS = ROOT / ".venv-cross"
DEFINES = ("NDEBUG", "CYTHON_PEP489_MULTI_PHASE_INIT=1", "Py_LIMITED_API=0x030B0000", "CYTHON_LIMITED_API=1")
# zig checks for undefined behaviour by default; the others are those of setup.py for clang
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-sanitize=undefined")
FLAGS += ("-mllvm", "-inlinehint-threshold=2000")


def cross_modules(root: Path, target: Platform) -> list[Path]:
    """The modules for another platform, compiled once per content of the C files."""
    sources = sorted(each.with_suffix(".c") for each in (root / "kafkarec").glob("_*.pyx"))
    made_with = [FLAGS, DEFINES, target, (LOCKS / "cross.txt").read_text(), [each.read_bytes() for each in sources]]
    folder = CACHE / "cross" / f"{target.name}-{hashlib.sha256(repr(made_with).encode()).hexdigest()[:16]}"
    include = folder / "include"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    # this interpreter's own pyconfig.h, not the one that chooses by machine
    general = Path(sysconfig.get_config_h_filename())
    own = general.parents[1] / (sysconfig.get_config_var("MULTIARCH") or "") / general.parent.name / general.name
    for libc in ("gnu", "musl"):  # under the names that Debian's asks for
        place = include / f"{target.machine}-linux-{libc}" / version
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own if own.exists() else general, place / "pyconfig.h")
    command: list[object] = [CROSS / "bin" / "python", "-m", "ziglang", "cc"]
    command += ["-target", target.target, *FLAGS, *(f"-D{define}" for define in DEFINES)]
    # macOS: the interpreter has the symbols of its C interface, and no library names them
    command += ["-undefined", "dynamic_lookup"] if target.libc == "macos" else ["-s"]
    command += ["-isystem", sysconfig.get_path("include"), "-isystem", include]

    def module(source: Path) -> Path:
        made, part = folder / f"{source.stem}.abi3.so", folder / f"{source.stem}.part"
        if not made.exists():
            run(*command, source, "-o", part)
            part.rename(made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(module, sources))
