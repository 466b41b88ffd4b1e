"""A Spark Connect client may run on a system without executors: importing spark_udfs must not need their packages."""

import sys

from paths import ROOT
from subprocesses import output_of

import spark_udfs

PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
for name in ("fcntl", "kafkarec", "resource"):
    sys.modules[name] = None
del os.geteuid
import spark_udfs
from spark_udfs import cluster, damage, diagnosis, functions, registration, udtf, write_functions
from spark_udfs.source import KafkarecDataSource
print("imported")
"""


def test_the_client_imports_without_unix_modules_and_without_kafkarec():
    assert output_of(sys.executable, "-c", PROGRAM, ROOT, timeout=120) == "imported\n"


def test_no_module_takes_the_name_of_a_public_function():
    """Importing a submodule sets an attribute of the package, which would replace a public function of the same
    name."""
    package = ROOT / "spark_udfs"
    modules = {path.stem for path in package.glob("*.py")} | {path.name for path in package.iterdir() if path.is_dir()}
    assert {"bootstrap", "damage", "registration"} <= modules
    assert modules & set(spark_udfs.__all__) == set()
