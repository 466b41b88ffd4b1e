"""A build that is not against the stable ABI, as each free-threaded one is, can be imported and reads."""

import os
import shutil
import sys

import checkouts
import pytest
from long_run import LONG
from paths import ROOT
from plain_logs import batch
from subprocesses import output_of

READ = """
import kafkarec
from kafkarec import _core
assert "abi3" not in _core.__file__, _core.__file__
record, = kafkarec.decode(open("x.log", "rb").read())
assert "member" in repr(vars(kafkarec.Record)["offset"])
print(record.offset, record.key, record.value, record.headers)
"""


@pytest.mark.slow
@pytest.mark.skipif(not (LONG or os.environ.get("CI")), reason="a minute of compiling; CI=1 or KAFKAREC_LONG=1 runs it")
def test_a_build_for_one_interpreter_reads_a_record(tmp_path):
    """Of the module whose type Record is changed when it is imported; the others are those that are here."""
    if shutil.which(os.environ.get("CC", "gcc")) is None:
        pytest.skip("there is no compiler")
    others = [path.name for path in (ROOT / "kafkarec").glob("_*.pyx") if path.stem != "_core"]
    checkouts.copy(tmp_path, "_core*.so", *others)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    env = dict(os.environ, KAFKAREC_ABI3="0", KAFKAREC_OPTIMIZE="-O0", PYTHONPATH=str(tmp_path))
    output_of(sys.executable, "setup.py", "-q", "build_ext", "-i", cwd=tmp_path, env=env)
    (tmp_path / "x.log").write_bytes(batch(7, 1, key=b"k", value=b"v", headers=[(b"h", None)]))
    assert output_of(sys.executable, "-c", READ, cwd=tmp_path, env=env) == "7 b'k' b'v' [('h', None)]\n"
