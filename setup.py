"""Builds the compiled modules, `kafkarec/_*.pyx`.

KAFKAREC_ABI3=0   build for this interpreter only, not against the stable ABI (docs/explanation/design.md)
KAFKAREC_DEBUG=1  assertions on, no optimisation, line tracing for coverage
KAFKAREC_OPTIMIZE=-O1   instead of -O3: compiled in less time, for tests of what does not depend on it
KAFKAREC_SANITIZE=address,undefined   compile and link with these sanitizers
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

if sys.platform == "win32":
    sys.exit("kafkarec does not run on Windows: its file access and its locks are POSIX. Install it in WSL.")

ABI3 = os.environ.get("KAFKAREC_ABI3", "1") != "0" and not sysconfig.get_config_var("Py_GIL_DISABLED")
DEBUG = os.environ.get("KAFKAREC_DEBUG", "0") == "1"
SANITIZE = os.environ.get("KAFKAREC_SANITIZE", "")


def is_clang():
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        return "clang" in subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return False


macros = [("CYTHON_PEP489_MULTI_PHASE_INIT", "1")]
if ABI3:
    macros += [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")]
else:
    # heap types, as with the stable ABI: `use_member_descriptors` changes Record's
    macros += [("CYTHON_USE_TYPE_SPECS", "1")]
if DEBUG:
    macros += [("CYTHON_TRACE_NOGIL", "1"), ("KAFKAREC_DEBUG", "1")]

compile_args, link_args = ["-Wall", "-Wextra", "-fno-strict-aliasing"], []
if DEBUG:
    compile_args += ["-O0", "-g"]
elif SANITIZE:
    # -O1 and line numbers alone: checks of everything that is inlined take the compiler three minutes at -O3 -g
    compile_args += ["-O1", "-g1", f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    link_args += [f"-fsanitize={SANITIZE}"]
else:
    # The loop over records (record.pxd) is a quarter faster when all of it is inlined: tests/project/test_inner_loop.py
    of_gcc = ["-finline-limit=20000", "--param=inline-unit-growth=80"]
    inline = ["-mllvm", "-inlinehint-threshold=2000"] if is_clang() else of_gcc
    compile_args += [os.environ.get("KAFKAREC_OPTIMIZE", "-O3"), *inline]

extensions = [
    Extension(
        f"kafkarec.{source.stem}",
        [str(source)],
        depends=sorted(map(str, [*Path("kafkarec").glob("_*/*.pxd"), *Path("kafkarec").glob("_*.pxd")])),
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        py_limited_api=ABI3,
    )
    for source in sorted(Path("kafkarec").glob("_*.pyx"))
]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "linetrace": DEBUG,
}

if __name__ == "__main__":  # Cython's processes may import this file
    # Sources and metadata name the .pyx files as they are: translating all to C takes twenty seconds.
    if not {"sdist", "egg_info", "dist_info"} & set(sys.argv):
        extensions = cythonize(extensions, nthreads=os.cpu_count(), compiler_directives=DIRECTIVES)
    setup(
        ext_modules=extensions,
        options={"build_ext": {"parallel": os.cpu_count()}}
        | ({"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {}),
    )
