"""The guard of memory maps, in a process that forks for each case: faults in guarded and in other maps."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
import subprocesses

pytestmark = pytest.mark.core

PROGRAM = """
import ctypes, faulthandler, mmap, os, signal, sys, tempfile, kafkarec

size = os.path.getsize(path)
whole = open(path, "rb").read()

def ended(case):
    'What became of a child that runs the case, and what it wrote to stderr.'
    with open(path, "wb") as file:
        file.write(whole)
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(errors.fileno(), 2)
            signal.alarm(20)
            try:
                os._exit(case())
            finally:
                os._exit(99)
        status = os.waitpid(child, 0)[1]
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read()

libc = ctypes.CDLL(None)

def leaves(flags):
    'A handler of somebody else, in C: it ends the process, with the number of the signal as its status.'
    def install():
        action = ctypes.create_string_buffer(152)      # struct sigaction: the handler first, the flags behind the mask
        ctypes.c_void_p.from_buffer(action).value = ctypes.cast(libc._exit, ctypes.c_void_p).value
        ctypes.c_int.from_buffer(action, 136).value = flags
        assert libc.sigaction(signal.SIGBUS, action, None) == 0
    return install

def shortened(cut, also=0, held=0, before=None):
    'A file of the guarded map, cut under it: an OSError. `also`: so many maps that were guarded before and let go of.'
    def case():
        if before is not None:
            before()
        for _ in range(also):
            with kafkarec.open(path, mmap=True) as other, other.opened():
                other.read()
        others = [kafkarec.open(path, mmap=True).__enter__() for _ in range(held)]
        for one in others:
            one.opened().__enter__()
        with kafkarec.open(path, mmap=True) as segment, segment.opened():
            os.truncate(path, cut)
            try:
                segment.read(errors="skip")
            except OSError as error:
                return 0 if error.errno == 5 else 1
        return 2
    return case

def grown_again():
    'What was read as zeros is lost, though the file is whole again; a new map of it is not.'
    with kafkarec.open(path, mmap=True) as segment, segment.opened():
        os.truncate(path, 0)
        for _ in range(2):
            try:
                segment.read(errors="skip")
            except OSError as error:
                if error.errno != 5:
                    return 1
            else:
                return 2
            with open(path, "r+b") as file:
                file.write(whole)
    with kafkarec.open(path, mmap=True) as segment, segment.opened():
        return 0 if len(segment.read()) == 600 else 3

def crowded():
    'A 65th map comes and goes unguarded: the first of the others stays what it was.'
    with kafkarec.open(path, mmap=True) as segment, segment.opened():
        held = [kafkarec.open(path, mmap=True).__enter__() for _ in range(63)]
        for one in held:
            one.opened().__enter__()
        with kafkarec.open(path, mmap=True) as other, other.opened():
            other.read()
        os.truncate(path, 0)
        try:
            segment.read(errors="skip")
        except OSError as error:
            return 0 if error.errno == 5 else 1
    return 2

def foreign(maps, before=None):
    'A fault in a map of somebody else, while `maps` are guarded.'
    def case():
        if before is not None:
            before()
        held = [kafkarec.open(path, mmap=True).__enter__() for _ in range(maps)]
        for one in held:
            one.opened().__enter__()
        with tempfile.TemporaryFile() as file:
            file.truncate(8192)
            area = mmap.mmap(file.fileno(), 8192)
            os.ftruncate(file.fileno(), 0)
            return area[5000]
    return case

for cut in (0, 1, 4095, 4096, 4097, size - 4096, size - 1):
    assert ended(shortened(cut)) == (0, b""), cut
for also in (1, 70):
    assert ended(shortened(0, also)) == (0, b""), also
for maps in (1, 2, 3):
    assert ended(foreign(maps)) == (-signal.SIGBUS, b""), maps
    code, stderr = ended(foreign(maps, faulthandler.enable))
    assert code == -signal.SIGBUS and b"Bus error" in stderr, (code, stderr)
if ctypes.sizeof(ctypes.c_void_p) == 8 and sys.platform == "linux":
    for flags in (0, 4):                                   # SA_SIGINFO
        assert ended(foreign(2, leaves(flags))) == (signal.SIGBUS, b""), flags
        assert ended(shortened(0, before=leaves(flags))) == (0, b""), flags
assert ended(foreign(1, lambda: signal.signal(signal.SIGBUS, signal.SIG_IGN))) == (-signal.SIGBUS, b"")
assert ended(crowded) == (0, b"")
assert ended(grown_again) == (0, b"")
assert ended(shortened(0, also=1, held=63)) == (0, b""), "the 64th map is guarded"
assert ended(shortened(0, held=64)) == (-signal.SIGBUS, b""), "the 65th is not"
"""


def test_a_guarded_map_and_a_foreign_map(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(builders.good_batch(20, base_offset=20 * n) for n in range(30)))
    subprocesses.run(f"path = {str(path)!r}{PROGRAM}")
