"""docs/howto/payloads.md on the older Sparks, by `make sparks LONG=1`; on the newest it runs as every other page."""

import doc_blocks
import doc_spark
import pytest
from long_run import MINUTES
from paths import DOCS, ROOT
from spark_submit import older_python
from subprocesses import run_program

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

PAGE = DOCS / "howto" / "payloads.md"
VERSIONS = list(doc_spark.RELEASES)[:-1]

# Runs in the Python of a Spark, which has nothing of ours: sys.argv has the fat wheel, the folder of doc_blocks, its
# root here, and a page. What the wheel unpacks is the checkout that a page runs with.
PROGRAM = """
import os, sys
sys.path[:0] = sys.argv[1:3]
import doc_blocks, doc_standins, spark_udfs
lacking = doc_standins.missing(["avro"])
if lacking:
    sys.exit(f"skipped: {lacking}")
doc_blocks.ROOT = doc_blocks.Path(sys.argv[3])
doc_standins.ROOT = os.pathsep.join([spark_udfs.activate().path, sys.argv[1]])
sys.exit(2 * doc_blocks.main(sys.argv[4:]))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_page_prints_the_same_on_every_spark(version, fat, tmp_path):
    """Spark 3.5 has no data sources in Python: there the page's one `load` is read_log, as the page says."""
    text = PAGE.read_text(encoding="utf-8")
    load, instead = 'spark.read.format("kafkarec").load(logs)', "spark_udfs.read_log(spark, logs)"
    assert text.count(f"= {load}") == 1 and f"`{instead}`" in text
    page = tmp_path / "docs" / "payloads.md"
    page.parent.mkdir()
    page.write_text(text.replace(f"= {load}", f"= {instead}") if version == "3.5" else text, encoding="utf-8")
    for name in ("tests", "examples", "pyproject.toml", "Makefile", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = map(str, (fat, ROOT / "tools", tmp_path, page))
    python = older_python(version)
    assert python, "make sparks LONG=1 runs this"
    done = run_program(python, "-c", PROGRAM, *words, cwd=tmp_path)
    if done.returncode == 1 and "\nskipped: " in f"\n{done.stderr}":
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert f"{len(doc_blocks.read(PAGE).blocks)} blocks" in done.stdout
