"""spark-submit typed in a checkout, where Spark's workers find the source folders before the wheel."""

import checkouts
import pytest
from paths import ROOT
from spark_submit import shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Quick ones, which a user does not need."""
    folder = tmp_path_factory.mktemp("conf")
    home, conf = shared_spark()
    lines = [f"{name} {value}\n" for name, value in (conf | {"spark.master": "local[2]"}).items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": home}


def test_the_spark_blocks_in_the_readme_run(tmp_path, fat, settings):
    made = checkouts.after_make_demo(tmp_path / "made", fat)
    (application,) = checkouts.blocks(ROOT / "README.md", "On Spark", "python")
    (submit,) = checkouts.blocks(ROOT / "README.md", "On Spark", "sh")
    (made / "your_application.py").write_text(application)
    done = checkouts.typed(made, submit, settings)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "only showing top 20 rows" in done.stdout
    assert "0 of 6 files damaged" in done.stdout
    assert {path.name for path in (made / "new-logs").iterdir()} >= {"txn-0", "compacted-0"}


def test_a_worker_with_only_pyspark_uses_the_wheels_in_the_source_folder(tmp_path, fat, bare_python):
    """It cannot import the compiled source folder, as it has no codecs, although that comes first on its path."""
    made = checkouts.after_make_demo(tmp_path / "made", fat)
    code = "import spark_udfs; print(spark_udfs.activate()); import kafkarec; print(kafkarec.decode(bytes()))"
    done = checkouts.typed(made, f"{bare_python} -c '{code}'", {"KAFKAREC_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    assert "source='unpacked'" in done.stdout and "cannot be imported: No module named" in done.stdout
