"""kafkarec and spark_udfs installed in a Python environment, shipped with --archives; Spark finds the data source
itself."""

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from long_run import MINUTES
from paths import ROOT, SEGMENTS
from spark_submit import ONE_EXECUTOR, Application
from subprocesses import run_program

import kafkarec
from spark_udfs import bootstrap

RECORDS = sum(len(kafkarec.open(path).read()) for path in (SEGMENTS / "txn-0").glob("*.log"))


def environment(fat, bare_python, folder):
    """A virtual environment with the fat wheel, kafkarec and its codecs as pip installs them. pyarrow and pandas stay
    in the bare environment, as packing them takes a minute and tests nothing of ours."""
    subprocess.run([bare_python, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(fat) as archive:
        archive.extractall(site)
        tree = bootstrap.fitting_tree(json.loads(archive.read(f"{bootstrap.TREES}/index.json")))
        for name in tree["parts"]:
            zipfile.ZipFile(io.BytesIO(archive.read(f"{bootstrap.TREES}/{name}"))).extractall(site)
    (bare,) = Path(bare_python).parents[1].glob("lib/python*/site-packages")
    (site / "bare.pth").write_text(f"{bare}\n")
    return folder


@pytest.fixture(scope="module")
def results(fat, bare_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    installed = environment(fat, bare_python, folder / "installed")
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(installed, ".")
    environ = {
        "PYSPARK_PYTHON": "./environment/bin/python",
        "PYSPARK_DRIVER_PYTHON": str(installed / "bin" / "python"),
    }
    conf = {"spark.archives": f"{archive}#environment", "master": ONE_EXECUTOR}
    arguments = (str(SEGMENTS), str(archive))
    return Application("packed.py", None, bare_python, folder / "app", *arguments, environ=environ, **conf).result()


@pytest.mark.spark
@pytest.mark.slow
@MINUTES
class TestPacked:
    def test_spark_finds_the_data_source_without_register(self, results):
        assert results["by itself"] == RECORDS
        assert results["view"] > 100
        assert results["modules"] == []

    def test_executors_use_the_archive_and_unpack_nothing(self, results):
        (row,) = results["doctor"]
        assert row["executable"].endswith("/environment/bin/python")
        assert row["source"] == "installed" and row["wheels"] == []
        assert "/environment/lib/python" in row["path"]
        assert row["versions"]["kafkarec"] == kafkarec.__version__ and row["problem"] is None

    def test_register_changes_nothing_and_reports_what_the_driver_lacks(self, results):
        assert results["registered too"] == results["decode"] == results["stream"] == RECORDS
        ((message, file),) = results["warned"]
        assert "the driver has no ./environment/bin/python" in message and message in results["registered"]
        assert "mkdir -p ./environment && tar -xzf ARCHIVE -C ./environment" in message
        assert file.endswith("packed.py")
        assert 'Cannot run program "./environment/bin/python"' in results["lateral"]

    def test_everything_works_with_the_archive_unpacked_for_the_driver(self, results):
        assert results["lateral unpacked"] == RECORDS
        assert "but the driver" not in results["registered again"]


LOOKUP = """
import io, sys
from pyspark.sql.worker import lookup_data_sources
from pyspark.sql.datasource import DataSource
out = io.BytesIO()
lookup_data_sources._main(io.BytesIO(), out)
listed = out.getvalue()
# the answer begins with the number of data sources, an int
print([name for name in ("kafkarec", "others") if name.encode() in listed], int.from_bytes(listed[:4], "big"))
print([name for name in sys.modules if name.partition(".")[0] in ("kafkarec", "crc32c", "lz4")])
"""
OTHERS = "from pyspark.sql import datasource as d\nclass DefaultSource(d.DataSource):\n    name = lambda: 'others'\n"


@pytest.mark.parametrize(
    "spoil, names, message",
    [
        (None, "['kafkarec', 'others'] 2", ""),
        ("", "['others'] 1", "ModuleNotFoundError: No module named 'spark_udfs.source'"),
        ("raise RuntimeError('spoiled')", "['others'] 1", "RuntimeError: spoiled"),
        (
            "import no_such_module",
            "['others'] 1",
            "pyspark_kafkarec: no data source kafkarec: ModuleNotFoundError",
        ),
    ],
    ids=["whole", "incomplete", "raises", "needs a missing module"],
)
def test_lookup_of_data_sources_never_fails(tmp_path, spoil, names, message):
    """Spark runs its own lookup at the first use of any data source, where an error of ours would hide those of
    others."""
    (tmp_path / "pyspark_kafkarec").symlink_to(ROOT / "pyspark_kafkarec")
    (tmp_path / "pyspark_others.py").write_text(OTHERS)
    if spoil is None:
        (tmp_path / "spark_udfs").symlink_to(ROOT / "spark_udfs")
    else:
        (tmp_path / "spark_udfs").mkdir()
        (tmp_path / "spark_udfs" / "__init__.py").write_text(spoil)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = {"PYTHONPATH": str(tmp_path)}
    completed = run_program(sys.executable, "-P", "-c", LOOKUP, env=environ | path, cwd=tmp_path)
    assert completed.stdout.splitlines() == [names, "[]"], completed.stderr
    assert message in completed.stderr and completed.stderr.count("\n") <= 1
