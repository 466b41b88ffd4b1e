"""`register(spark)`: ships the wheel to the executors and registers the SQL functions.

Spark copies a `--py-files x.whl` to every executor but puts only `.zip` files on their sys.path. So the wheel is added
again under a .zip name that contains eight digits of its hash, so that two versions on one node have different names.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import bootstrap, capabilities, cluster, functions, udtf
from .bootstrap import wheels
from .capabilities import LATERAL, READ, STREAM, WRITE, Feature
from .source import NAME

FIXED_TIME = (1980, 1, 1, 0, 0, 0)
# Sessions that have our functions: registering them again would only make Spark log warnings.
_registered: set[str] = set()
# The class that each of them has as its data source.
_sources: dict[str, type] = {}
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True)
class Registered:
    """What `register` has registered. Printable."""

    version: str
    shipped: str
    rows: tuple[tuple[str, str], ...]
    problem: str | None = None  # what does not work, and how to fix it

    def __str__(self) -> str:
        width = max(len(call) for call, _ in self.rows)
        lines = [f"kafkarec {self.version} in this Spark session; executors get it from {self.shipped}"]
        lines += [f"  {call:<{width}}  {meaning}" for call, meaning in self.rows]
        return "\n".join(lines + ([f"Problem: {self.problem}"] if self.problem else []))

    __repr__ = __str__


def register(spark: Any) -> Registered:
    """See `spark_udfs.register`."""
    shipped = ship(spark)
    session = _session_id(spark)
    problem = _problem(spark)
    for name in functions.SQL_FUNCTIONS:
        if session not in _registered or not spark.catalog.functionExists(name):
            spark.udf.register(name, functions.sql_function(name))
    if capabilities.DATA_SOURCES.present and (problem is None or not _is_found_by_spark(spark)):
        problem = _register_source(spark, session) or problem
    if session not in _registered:
        spark.udtf.register(udtf.NAME, udtf.table_function())
    _registered.add(session)
    rows = [(f"SQL  {one.call}", one.meaning) for one in functions.SQL_FUNCTIONS.values()]
    rows += [
        ("SQL  inline_outer(kafka_decode(value))", "one row per record"),
        _row(LATERAL, "SQL  {}(value[, mode => ...])", "the same rows by a table function, slower"),
        ("spark_udfs.functions", "the same as Column functions, with all options"),
        ("spark_udfs.functions.kafka_explode(df, col)", "one row per record, the fastest way"),
        ("spark_udfs.functions.kafka_internal_rows(df, topic, type)", "internal topics, one column per field"),
        _row(READ, "{}.load(path)", "reads partition folders, data folders, segments, buckets"),
        ("spark_udfs.read_log(spark, path)", "the same rows by mapInArrow, for Spark 3.5"),
        _row(STREAM, "{}.load(path)", "reads the same as a stream, while they grow"),
        _row(WRITE, "{}.save(path)", "writes partition folders for a broker; also df.writeStream"),
        ("spark_udfs.write_log(df, path)", "writes the same with the offsets that df has"),
        ("spark_udfs.damage_report(spark, path)", "which bytes of which files are damaged"),
        ("spark_udfs.lag(query)", "how many offsets a stream has still to read"),
        ("spark_udfs.doctor(spark)", "the Python and kafkarec of each executor"),
        ("spark_udfs.activate()", "makes `import kafkarec` work in this process"),
    ]
    return Registered(_version(), shipped, tuple(rows), problem)


def _row(feature: Feature, call: str, meaning: str) -> tuple[str, str]:
    """A row of what `register` prints, which says so where this Spark cannot do it."""
    text = capabilities.missing(feature)
    return call.format(feature.written), meaning if text is None else f"NOT HERE: {text}"


def _register_source(spark: Any, session: str) -> str | None:
    """Registers the class for the session's setting of what an overwrite replaces, again if that has changed. Returns
    a description and a fix if this Spark keeps an installed class, which does not know the setting; None if all is
    well."""
    from .source import DynamicOverwriteSource, KafkarecDataSource

    setting = str(spark.conf.get(_OVERWRITE_MODE, "static"))
    source = DynamicOverwriteSource if setting.lower() == "dynamic" else KafkarecDataSource
    if _sources.get(session) is source or capabilities.register_source(spark, source):
        _sources[session] = source
        return None
    if source is KafkarecDataSource:
        return None
    problem = (
        f"this Spark uses the installed data source, for which {_OVERWRITE_MODE}=dynamic has no effect: an overwrite "
        f'replaces whole topics, unless each has option("partitionOverwriteMode", "dynamic")'
    )
    warnings.warn(problem, stacklevel=4)
    return problem


def _problem(spark: Any) -> str | None:
    """A description and a fix if the driver does not have the executors' Python, as with --archives and
    PYSPARK_PYTHON=./environment/bin/python; None: it has it."""
    if cluster.is_connect(spark) or shutil.which(spark.sparkContext.pythonExec):
        return None
    python = spark.sparkContext.pythonExec
    folder = os.path.dirname(os.path.dirname(python)) or "."
    problem = (
        f"the driver has no {python}, and Spark runs it there to plan LATERAL kafka_explode and, where the driver's "
        f'Python has no spark_udfs installed, format("kafkarec"). Unpack the archive there too, in {os.getcwd()}: '
        f"mkdir -p {folder} && tar -xzf ARCHIVE -C {folder}"
    )
    warnings.warn(problem, stacklevel=4)
    return problem


def _is_found_by_spark(spark: Any) -> bool:
    """Whether Spark finds the data source by the package pyspark_kafkarec, in the driver's Python."""
    return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(NAME))


def _version() -> str:
    manifest = wheels.load_manifest(bootstrap.package_origin())
    return str(manifest["version"] if manifest else bootstrap.activate().version)


def _session_id(spark: Any) -> str:
    if cluster.is_connect(spark):
        return f"connect {spark.session_id}"
    return f"{spark.sparkContext.applicationId} {spark._jsparkSession.sessionUUID()}"


def ship(spark: Any) -> str:
    """Adds spark_udfs to the session's Python files, once; returns its file name there."""
    origin = bootstrap.package_origin()
    if origin.is_archive and origin.location.endswith(".zip"):
        added = [] if cluster.is_connect(spark) else spark.sparkContext.listFiles
        if any(os.path.basename(each) == os.path.basename(origin.location) for each in added):
            return os.path.basename(origin.location)  # added already, by --py-files with a .zip name
    path = _zip_copy(origin.location, origin.is_archive)
    name = os.path.basename(path)
    if cluster.is_connect(spark):
        key = f"{_session_id(spark)} {name}"
        if key not in _registered:
            spark.addArtifacts(path, pyfile=True)
            _registered.add(key)
    elif not any(os.path.basename(each) == name for each in spark.sparkContext.listFiles):
        spark.sparkContext.addPyFile(path)
    return name


@cache
def _zip_copy(location: str, is_archive: bool) -> str:
    """Copies spark_udfs to `spark_udfs-<version>-<sha8>.zip` in a temporary folder; returns that path."""
    folder = tempfile.mkdtemp(prefix="spark_udfs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    temporary = os.path.join(folder, "copy")
    if is_archive:
        shutil.copyfile(location, temporary)
    else:
        _zip_package(location, temporary)
    with open(temporary, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    final = os.path.join(folder, f"spark_udfs-{_version()}-{digest[:8]}.zip")
    os.rename(temporary, final)
    return final


def _zip_package(location: str, target: str) -> None:
    """Writes an installed `spark_udfs` folder, with the wheels in it, as a zip whose bytes are always the same."""
    package = os.path.join(location, "spark_udfs")
    with zipfile.ZipFile(target, "w") as archive:
        for parent, folders, names in sorted(os.walk(package)):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            for name in sorted(names):
                path = os.path.join(parent, name)
                info = zipfile.ZipInfo(os.path.relpath(path, location).replace(os.sep, "/"), FIXED_TIME)
                info.external_attr = 0o100644 << 16
                with open(path, "rb") as file:
                    archive.writestr(info, file.read(), zipfile.ZIP_STORED)
