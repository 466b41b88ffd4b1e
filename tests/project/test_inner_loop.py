"""The loop over the records of a batch is one function: the compiler has inlined all that it calls for each record.

Else the local copies of columns' pointers are in memory, and decoding takes a quarter to a third longer.
"""

import re
import shutil

import pytest
from subprocesses import output_of

from kafkarec import _core

# Called for a record that does not fit or is refused, and by the exact form, which reads the last records of an input.
SELDOM = {"decode_with_cursor", "why_refused", "java_utf8"}


def test_the_quick_form_calls_no_function_for_a_record():
    if shutil.which("nm") is None:
        pytest.skip("there is no nm, which comes with a compiler")
    listed = output_of("nm", _core.__file__)
    named = re.findall(r" [tT] (?:__pyx_fuse_(\d)_?)?_*pyx_f_8kafkarec_2_c_(?:6record|6varint|4utf8)_(\w+)", listed)
    quick = {name for form, name in named if form != "1"}
    assert "decode_with_cursor" in quick, "nm shows no functions of the C core"
    assert quick <= SELDOM, f"not inlined: {sorted(quick - SELDOM)}"
