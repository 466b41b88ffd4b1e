"""The routines of CRC-32C and CRC-32, each forced in turn, compared with one that goes bit by bit; `_c/decompress.pxd`.

Which one is used, what is found to be wrong, and what an import of the package does not import.
"""

import random
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import subprocesses
from oracle_codecs import xxh32

from kafkarec import _checksum, _core

pytestmark = pytest.mark.core

LONGEST = 20_000
# Every length at some alignments; then pieces, each begun with the checksum of those before.
EVERY_LENGTH = f"""
import random
from kafkarec import _core

def bit_by_bit(polynomial, data):
    # the checksums of the first 0, 1, 2 ... bytes; the eight steps of each value of a byte are gone once
    steps = list(range(256))
    for _ in range(8):
        steps = [state >> 1 ^ (polynomial if state & 1 else 0) for state in steps]
    state, found = 0xFFFFFFFF, [0]
    for byte in data:
        state = state >> 8 ^ steps[(state ^ byte) & 255]
        found.append(state ^ 0xFFFFFFFF)
    return found

chance = random.Random(1)
block = memoryview(chance.randbytes({LONGEST} + 64))
for checksum, polynomial in ((_core.crc32c, 0x82F63B78), (_core.crc32, 0xEDB88320)):
    for start in (0, 1, 6, 13, 63):
        right = bit_by_bit(polynomial, block[start : start + {LONGEST}])
        for length in range({LONGEST} + 1):
            assert checksum(block[start : start + length]) == right[length], (start, length)
        crc = at = 0
        while at < {LONGEST}:
            more = min(chance.choice((0, 1, 7, 8, 100, 255, 256, 257, 3000)), {LONGEST} - at)
            crc = checksum(block[start + at : start + at + more], crc)
            at += more
            assert crc == right[at], (start, at, more)
routines = _core.ROUTINES
print(routines.small.library, routines.crc32.library, routines.small.function, routines.large.library)
assert not routines.wrong
"""
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="crc32c exports other functions on macOS")


@pytest.mark.parametrize(
    "setting, software, used",
    [
        pytest.param("", "auto", "crc32c isal _crc32c_hw_", marks=ON_LINUX),
        ("", "force", "crc32c isal _crc32c_sw_slicing_by_8 crc32c"),
        ("isal", "force", "isal isal crc32_iscsi isal"),
        pytest.param("crc32c", "auto", "crc32c None _crc32c_hw_", marks=ON_LINUX),
        ("crc32c", "force", "crc32c None _crc32c_sw_slicing_by_8 crc32c"),
        ("table", "auto", "None None table None"),
    ],
)
def test_each_routine_agrees_with_bit_by_bit(setting, software, used):
    environment = {"KAFKAREC_CRC32C": setting, "CRC32C_SW_MODE": software}
    assert subprocesses.run(f"import os\nos.environ.update({environment})\n{EVERY_LENGTH}").startswith(used)


@ON_LINUX
@pytest.mark.parametrize("isal_is_faster, large", [(True, "isal"), (False, "crc32c")])
def test_many_bytes_go_to_the_faster_library(isal_is_faster, large):
    found = _checksum.find(isal_is_faster)
    assert (found.small.library, found.large.library, found.crc32.library) == ("crc32c", large, "isal")


def test_check_values_of_the_catalogue():
    assert _core.xxh32_of(b"123456789") == 0x937BAD67
    assert _core.crc32c(b"123456789") == 0xE3069283
    assert _core.crc32(b"123456789") == 0xCBF43926


def test_xxh32_of_each_length_and_alignment():
    data = memoryview(random.Random(3).randbytes(5000))
    for start in range(9):
        for length in (*range(70), 4991):
            piece = data[start : start + length]
            assert _core.xxh32_of(piece) == xxh32(bytes(piece))


def test_an_unknown_setting_is_refused_by_name():
    code = """
import os
os.environ["KAFKAREC_CRC32C"] = "own"
import kafkarec
try:
    kafkarec.decode(b"")
except ValueError as error:
    print(error)
"""
    assert subprocesses.run(code).strip() == "KAFKAREC_CRC32C='own': one of isal, crc32c, table"


def test_tables_serve_where_the_libraries_are_missing():
    code = """
import sys
from paths import VECTORS
class Without:
    def __init__(self, finder):
        self._finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in ("isal", "crc32c") else self._finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import kafkarec
from kafkarec._core import ROUTINES
print(len(kafkarec.decode((VECTORS / "vectors/v2-none-logappend.bin").read_bytes())), ROUTINES)
"""
    table = "Routine(library=None, function='table', address=0)"
    assert subprocesses.run(code).split(" ", 1)[1].strip() == (
        f"Routines(small={table}, large={table}, crc32={table}, wrong=())"
    )


def test_a_library_with_wrong_checksums_is_not_used_and_doctor_says_so(tmp_path):
    found = find_spec("crc32c")
    package = tmp_path / "crc32c"
    shutil.copytree(Path(found.origin).parent, package)
    (module,) = package.glob("_crc32c*.so")
    entry = 0xF26B8303.to_bytes(4, "little")  # the second of its table
    assert module.read_bytes().count(entry) == 1
    module.write_bytes(module.read_bytes().replace(entry, bytes(4)))
    answer = subprocesses.run(f"""
import os, sys
sys.path.insert(0, {str(tmp_path)!r})
os.environ["CRC32C_SW_MODE"] = "force"
import golden, kafkarec
from kafkarec.cli import main
assert len(kafkarec.decode(golden.vector("v2-none-logappend").bytes)), "the table is used"
print(main(["doctor"]))
""")
    assert "_crc32c_sw_slicing_by_8 computes wrong checksums and is not used: please report it\n3\n" in answer
    assert "  crc32c            small kafkarec's table (below 256 bytes), large kafkarec's table (from" in answer


def test_the_package_of_crc32c_is_not_imported():
    """Its import takes longer than that of kafkarec, as it reads its own metadata."""
    code = "import sys, kafkarec\nkafkarec.decode, kafkarec.encode\n"
    code += "print({'crc32c', 'importlib.metadata'} & {*sys.modules})"
    assert subprocesses.run(code) == "set()\n"
