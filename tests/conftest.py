"""Settings of the suite. Helpers are modules of tests/support: golden, builders, oracle, reading, subprocesses.

KAFKAREC_LONG=1   the long run: many more examples, fresh random seeds (the default run is derandomized)
KAFKAREC_CORE=1   fewer examples, for `make test-core` and `make mutants`
CI=1              a skipped test fails the run
"""

import gc
import os

import hypothesis
import jvm_oracle
import pytest
from long_run import CORE, LONG
from paths import ROOT

hypothesis.settings.register_profile(
    "suite", max_examples=150, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("long", max_examples=20_000, deadline=None, print_blob=True)
hypothesis.settings.register_profile("core", hypothesis.settings.get_profile("suite"), max_examples=20)
hypothesis.settings.load_profile("long" if LONG else "core" if CORE else "suite")


# Files of minutes begin first: the last ones of a run in several processes are then short.
FIRST = ("project/test_sanitizers", "jvm/", "fence/", "project/", "fuzz/")


def pytest_collection_modifyitems(config, items):
    """In the core subset nothing is slow, also of a file that belongs to it."""
    items.sort(key=lambda item: next((n for n, name in enumerate(FIRST) if name in item.nodeid), len(FIRST)))
    slow = [item for item in items if item.get_closest_marker("slow")] if CORE else []
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


@pytest.fixture(scope="module", autouse=True)
def _few_objects_to_collect():
    """Twenty thousand tests and their reports are some millions of objects, which each collection would look at."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session, exitstatus):
    """CI=1 (set by .ci/run): what is skipped is not tested, so a skip fails the run; pytest lists the reasons."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if os.environ.get("CI") == "1" and skipped and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\nCI=1: {len(skipped)} skipped, which counts as a failure here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """Apache Kafka's own classes in one JVM; skips where they cannot be had."""
    jvm_oracle.needed()
    oracle = jvm_oracle.Oracle(tmp_path_factory.mktemp("classes"))
    yield oracle
    oracle.close()


@pytest.fixture(scope="session")
def fat():
    """The fat wheel of these sources, built again if one of them is newer."""
    import wheelhouse  # of the tools, which the tests of the core do without

    built = ROOT / "wheelhouse" / f"spark_udfs-{wheelhouse.version()}-py3-none-any.whl"
    sources = [
        path
        for package in ("kafkarec", "spark_udfs", "pyspark_kafkarec")
        for path in (ROOT / package).rglob("*.p*")
        if "__pycache__" not in path.parts
    ]
    if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        assert wheelhouse.main(["--no-check", "--here"]) == 0
    return built
