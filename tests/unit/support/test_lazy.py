"""Public names are imported on first use, and are those of the modules that hold them."""

import subprocess
import sys

import pytest

import kafkarec
from kafkarec import distributed


@pytest.mark.parametrize("module", [kafkarec, distributed], ids=lambda one: one.__name__)
def test_every_name_is_there_and_no_other(module):
    assert dir(module) == module.__all__
    assert all(getattr(module, name) is not None for name in dir(module))
    with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute 'nothing'$"):
        getattr(module, "nothing")  # noqa: B009


def test_a_name_imports_only_what_holds_it():
    code = "import sys; from kafkarec import distributed; before = len(sys.modules); distributed.display_url\n"
    code += "print('kafkarec._core' in sys.modules, len(sys.modules) > before, 'display_url' in vars(distributed))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True True\n"
