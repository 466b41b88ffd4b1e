"""Public names are imported on first use, and are those of the modules that hold them."""

import os
import signal
import threading

import pytest
import subprocesses

import kafkarec
from kafkarec import distributed
from kafkarec._lazy import cached_property


@pytest.mark.parametrize("module", [kafkarec, distributed], ids=lambda one: one.__name__)
def test_every_name_is_there_and_no_other(module):
    assert dir(module) == module.__all__
    assert all(getattr(module, name) is not None for name in dir(module))
    with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute 'nothing'$"):
        getattr(module, "nothing")  # noqa: B009


def test_a_name_imports_only_what_holds_it():
    code = "import sys; from kafkarec import distributed; before = len(sys.modules); distributed.local_path\n"
    code += "print('kafkarec._core' in sys.modules, len(sys.modules) > before, 'local_path' in vars(distributed))"
    assert subprocesses.run(code) == "False True True\n"


class Slow:
    """Its property takes the values that are there, and waits for them."""

    def __init__(self, values):
        self.values, self.asked, self.given = iter(values), threading.Event(), threading.Event()

    @cached_property
    def value(self):
        self.asked.set()
        self.given.wait()
        return next(self.values)


def test_a_property_is_computed_once_and_threads_share_its_value():
    slow, found = Slow([[1], [2]]), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(2)]
    for one in threads:
        one.start()
    slow.given.set()
    for one in threads:
        one.join()
    assert found[0] is found[1] is slow.value
    assert vars(slow)["value"] is slow.value


def test_a_process_that_is_forked_while_a_thread_computes_a_property_does_not_wait_for_it():
    slow, other = Slow([1]), Slow([2])
    other.given.set()
    thread = threading.Thread(target=lambda: slow.value, daemon=True)
    thread.start()
    slow.asked.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(other.value)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    slow.given.set()
    thread.join()
