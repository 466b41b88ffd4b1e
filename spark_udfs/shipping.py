"""`ship(spark)`: adds this package to the Python files of a session, so that its executors can import it.

Spark copies a `--py-files x.whl` to every executor but puts only `.zip` files on their sys.path. So the wheel is added
again under a .zip name that contains eight digits of its hash, so that two versions on one node have different names.

A DataFrame with a Python function keeps the list of files that the session had when the function was made: what is
added later does not reach its tasks. So everything that makes such a function ships first.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from . import bootstrap, cluster

# Sessions of Spark Connect that have the file, which cannot be asked for their files.
_shipped: set[str] = set()


def version() -> str:
    """The version of kafkarec that is shipped."""
    index = bootstrap.trees_index()
    return str(index["version"] if index else bootstrap.activate().version)


def session_id(spark: Any) -> str:
    """Differs between sessions, also where they share a SparkContext."""
    if cluster.is_connect(spark):
        return f"connect {spark.session_id}"
    return f"{spark.sparkContext.applicationId} {spark._jsparkSession.sessionUUID()}"


def ship(spark: Any) -> str:
    """Adds spark_udfs to the session's Python files, once; returns its file name there."""
    name = os.path.basename(bootstrap.ORIGIN)
    if bootstrap.IS_ARCHIVE and name.endswith(".zip"):
        added = [] if cluster.is_connect(spark) else spark.sparkContext.listFiles
        if any(os.path.basename(each) == name for each in added):
            return name  # added already, by --py-files with a .zip name
    path = _zip_copy()
    name = os.path.basename(path)
    if cluster.is_connect(spark):
        key = f"{session_id(spark)} {name}"
        if key not in _shipped:
            spark.addArtifacts(path, pyfile=True)
            _shipped.add(key)
    elif not any(os.path.basename(each) == name for each in spark.sparkContext.listFiles):
        spark.sparkContext.addPyFile(path)
    return name


@cache
def _zip_copy() -> str:
    """Copies spark_udfs to `spark_udfs-<version>-<sha8>.zip` in a temporary folder; returns that path."""
    folder = tempfile.mkdtemp(prefix="spark_udfs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    temporary = os.path.join(folder, "copy")
    if bootstrap.IS_ARCHIVE:
        shutil.copyfile(bootstrap.ORIGIN, temporary)
    else:
        _zip_package(bootstrap.ORIGIN, temporary)
    with open(temporary, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    final = os.path.join(folder, f"spark_udfs-{version()}-{digest[:8]}.zip")
    os.rename(temporary, final)
    return final


def _zip_package(location: str, target: str) -> None:
    """Writes an installed `spark_udfs` folder, with its trees, as a zip; the same files always make the same bytes."""
    with zipfile.ZipFile(target, "w", strict_timestamps=False) as archive:
        for path in sorted(Path(location, "spark_udfs").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(location))
