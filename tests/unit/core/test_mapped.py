"""The guard of memory maps, in one process that forks for each case: whose fault it is, and what was there before."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
import subprocesses

pytestmark = pytest.mark.core

PROGRAM = """
import faulthandler, mmap, os, signal, tempfile, kafkarec

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

def shortened(cut, also=0):
    'A file of the guarded map, cut under it: an OSError. `also`: so many maps that were guarded before and let go of.'
    def case():
        for _ in range(also):
            with kafkarec.open(path, mmap=True) as other, other.opened():
                other.read()
        with kafkarec.open(path, mmap=True) as segment, segment.opened():
            os.truncate(path, cut)
            try:
                segment.read(errors="skip")
            except OSError as error:
                return 0 if error.errno == 5 else 1
        return 2
    return case

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
    code, told = ended(foreign(maps, faulthandler.enable))
    assert code == -signal.SIGBUS and b"Bus error" in told, (code, told)
"""


def test_a_guarded_map_and_a_map_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(builders.good_batch(20, base_offset=20 * n) for n in range(30)))
    subprocesses.run(f"path = {str(path)!r}{PROGRAM}")
