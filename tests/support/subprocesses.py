"""Runs programs, and code in a new interpreter: without pyarrow, under a memory limit, or next to a guard page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from paths import SUPPORT

BLOCK_PYARROW = """
import sys
class Without:
    '''A finder that does not see pyarrow: as if it were not installed.'''
    def __init__(self, finder):
        self._finder = finder
    def __getattr__(self, name):
        return getattr(self._finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] == "pyarrow" else self._finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
# The growth of peak memory since `begin()`, in bytes. VmHWM is reset first, so that earlier peaks do not count.
PEAK = """
import resource
def begin():
    global _start
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass
    _start = _status("VmRSS")
def _status(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
def peak():
    return _status("VmHWM") - _start
def limit_memory(extra):
    wanted = _status("VmSize") + extra
    resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted))
"""

_APART = """
import os, sys, traceback
def run_apart(name, code):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            exec(code, globals())
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def run_program(*words: object, **options) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, which may be any; what it prints is text."""
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)


def output_of(*words: object, **options) -> str:
    """Run a program, which must end with status 0; return its standard output."""
    done = run_program(*words, **options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}"
    return done.stdout


def run(code: str) -> str:
    """Return the code's standard output. Fail with its standard error if it raises or dies by a signal."""
    found = find_spec("kafkarec")  # that of the checkout, or an unpacked wheel (tools/other_pythons.py)
    path = [os.path.dirname(os.path.dirname(found.origin)), str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return output_of(sys.executable, "-c", code, env=dict(os.environ, PYTHONPATH=os.pathsep.join(path)))


def run_each(setup: str, codes: Mapping[str, str]):
    """Run each code in a copy of one process that has run `setup`, so none sees what another one keeps or limits."""
    run(f"{setup}{_APART}for name, code in {dict(codes)!r}.items():\n    run_apart(name, code)\n")
