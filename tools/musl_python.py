"""A CPython with musl, from Debian's sources, compiled with zig's C compiler; musl's own library is Debian's package.

.cache/musl/cc        the compiler
.cache/musl/prefix    zlib and libffi (static), CPython: without OpenSSL, pip and whatever else it does without
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import system_packages
from commands import run, write_command
from wheelhouse_build import CROSS
from wheelhouse_platforms import locked

VERSION = "3.13"
# The next release has libffi without its configure script.
PACKAGES = {"zlib": "zlib/bookworm", "libffi": "libffi/bookworm", "python": f"python{VERSION}"}
CONFIGURE = {
    "zlib": ("--static",),
    "libffi": ("--disable-shared", "--disable-docs", "--disable-exec-static-tramp"),
    "python": ("--without-ensurepip", "--disable-test-modules"),
}
# As in its setup.py: the modules, and the parts of the library that each is linked with.
LZ4 = {
    "_version": ("lz4",),
    "block/_block": ("lz4", "lz4hc"),
    "frame/_frame": ("lz4", "lz4hc", "lz4frame", "xxhash"),
}


def build(work: Path) -> Path:
    """The interpreter, built once."""
    prefix = work.resolve() / "prefix"
    python = prefix / "bin" / f"python{VERSION}"
    if python.exists():
        return python
    root = system_packages.unpacked(work, "musl", "trixie", sources_of=("trixie", "bookworm"))
    (linker,) = root.resolve().glob("usr/lib/ld-musl-*.so.1")
    cc = compiler(work)
    # -fPIC: the linker knows zig's list of musl's names, not which of them share a place, and so must copy no variable
    env = os.environ | {"CC": str(cc), "CFLAGS": "-O1 -fPIC", "OPT": "-DNDEBUG"}
    env["LDFLAGS"] = f"-dynamic -Wl,--dynamic-linker={linker}"
    # CPython knows musl, which modules have in their names, by this macro of its stdarg.h; clang has its own stdarg.h
    env["CPP"] = f"{cc} -E -D__DEFINED_va_list"
    env["PKG_CONFIG_LIBDIR"] = str(prefix / "lib" / "pkgconfig")  # so that CPython finds these two and no other library
    for name, package in PACKAGES.items():
        print(f"musl: compiling {name}", flush=True)
        source = system_packages.source(root, package)
        configure = ["./configure", f"--prefix={prefix}", *CONFIGURE[name]]
        for command in (configure, ["make", f"-j{os.cpu_count()}"], ["make", "install"]):
            run(*command, cwd=source, env=env)
    return python


def compiler(work: Path) -> Path:
    """A command that is zig's C compiler for this processor and musl."""
    # by default zig checks for undefined behaviour and refuses __DATE__, of which CPython's version has one
    flags = f"-target {platform.machine()}-linux-musl -fno-sanitize=undefined -Wno-date-time"
    (zig,) = CROSS.glob("lib/python3*/site-packages/ziglang/zig")
    return write_command(work.resolve() / "cc", f'exec {zig} cc {flags} "$@"')


def build_lz4(work: Path, python: Path, folder: Path) -> None:
    """lz4, which publishes no wheel for musl, into `folder`: what `pip install` compiles there."""
    source = work.resolve() / "lz4"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    wanted = source / "wanted.txt"
    wanted.write_text(locked("runtime")["lz4"])
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=lz4"]
    run(*pip, "--dest", source, "-r", wanted)
    run("tar", "-xf", *source.glob("lz4-*.tar.gz"), "--strip-components=1", "-C", source)
    flags = ["-O2", "-fPIC", "-shared", "-I", "lz4libs", "-I", str(python.parents[1] / "include" / python.name)]
    shutil.copytree(source / "lz4", folder / "lz4", ignore=shutil.ignore_patterns("*.c", "*.h"))
    for name, parts in LZ4.items():
        files = [f"lz4/{name}.c", *(f"lz4libs/{part}.c" for part in parts)]
        target = folder.resolve() / "lz4" / f"{name}.so"
        run(work.resolve() / "cc", *flags, *files, "-o", target, cwd=source)
