"""Runs spark-submit: started without waiting, so that two can run in parallel."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import doc_spark
import worker_daemon
from commands import application_folders
from jvm_oracle import tool
from paths import ROOT, SUPPORT
from subprocesses import output_of

APPLICATIONS = SUPPORT / "spark" / "apps"
MASTER = "local-cluster[2,1,1024]"
ONE_EXECUTOR = "local-cluster[1,2,1024]"
"""Of two tasks at once: where nothing depends on a second executor, which takes some seconds of processor time."""
# A JVM that runs for seconds spends most of its time compiling: use only the C1 compiler and the serial collector,
# which need not run because of the first classes.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
PLAIN_CONF = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
# Queries of a few rows take less time than the Java classes that Spark makes for them.
PLAIN_CONF |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
WITH_CODEGEN = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's own settings, for the applications of every function."""
PLAIN_CONF |= {f"spark.{side}.extraJavaOptions": QUICK_JVM for side in ("driver", "executor")}


def command(python: str, master: str, conf: Mapping[str, str], *words: str) -> list[str]:
    """spark-submit of a Python's Spark."""
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return [str(Path(python).parent / "spark-submit"), "--master", master, *settings, *words]


def environment(folder: Path, python: str | None = None) -> dict[str, str]:
    """A user's environment, whose home is the folder; with a Python for Spark's driver and its workers."""
    keep = {"PATH", "JAVA_HOME", "LANG", "TMPDIR"}
    env = {name: value for name, value in os.environ.items() if name in keep} | {"HOME": str(folder)}
    if python is not None:
        env |= {"PYSPARK_PYTHON": worker_daemon.python(folder, python), "PYSPARK_DRIVER_PYTHON": python}
    return env


@functools.cache
def quick_conf(python: str) -> dict[str, str]:
    """PLAIN_CONF; in the set-up's environment, which has most applications, with an archive of Spark's classes that is
    made once for a Java: to load and verify them is a third of the processor time of an application. There and in the
    environments of older Sparks each Python process, of which a stream starts one, gets pyspark as it is installed:
    to import that of the archives takes twice as long."""
    environment = Path(python).parents[1]
    if environment == ROOT / ".venv-executor" or python == older_python(environment.name):
        for packed in environment.glob("lib/python*/site-packages/pyspark/python/lib/*.zip"):
            packed.unlink(missing_ok=True)
    if environment != ROOT / ".venv-executor":
        return PLAIN_CONF
    application, java = APPLICATIONS / "classes.py", Path(str(tool("java"))).resolve().parents[1] / "release"
    build = hashlib.sha256(java.read_bytes() + application.read_bytes()).hexdigest()[:8]
    archive = environment / f"spark-classes-{build}.jsa"
    if not archive.exists():
        made = archive.with_name(f"{archive.name}.{os.getpid()}")
        options = {"spark.driver.extraJavaOptions": f"{QUICK_JVM} -XX:ArchiveClassesAtExit={made}"}
        env = os.environ | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        output_of(*command(python, "local[1]", options, str(application)), env=env)
        made.replace(archive)
    options = f"{QUICK_JVM} -XX:SharedArchiveFile={archive}"
    return PLAIN_CONF | {f"spark.{side}.extraJavaOptions": options for side in ("driver", "executor")}


def shared_spark() -> tuple[str, dict[str, str]]:
    """SPARK_HOME and settings for a session in this process: those of the set-up's environment if it has this Spark,
    so that the classes come from its archive."""
    import pyspark

    own, python = Path(pyspark.__file__).parent, ROOT / ".venv-executor" / "bin" / "python"
    for home in python.parents[1].glob("lib/python*/site-packages/pyspark"):
        if (home / "version.py").read_bytes() == (own / "version.py").read_bytes():
            return str(home), quick_conf(str(python))
    return str(own), PLAIN_CONF


def older_python(version: str) -> str | None:
    """The Python of an older Spark, such as 4.1; None without the environments that tools/spark_versions.py makes."""
    folder = os.environ.get("KAFKAREC_SPARK_ENVIRONMENTS")
    return f"{folder}/{version}/bin/python" if folder else None


def versions() -> list[str]:
    """The newest Spark, that of the other tests; with KAFKAREC_SPARK_ENVIRONMENTS all others."""
    *older, newest = doc_spark.RELEASES
    return older if older_python(newest) else [newest]


class Application:
    """Starts spark-submit without waiting for it; `result()` waits and returns the JSON that the application wrote.

    fat       the fat wheel; None where kafkarec is installed
    jars      for --jars
    environ   environment variables besides PYSPARK_PYTHON and so on
    """

    def __init__(
        self,
        name: str,
        fat: Path | None,
        python: str,
        folder: Path,
        *arguments: str,
        jars: Sequence[Path] = (),
        environ: Mapping[str, str] | None = None,
        master: str = MASTER,
        **conf: str,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / "result.json"
        words = [] if fat is None else ["--py-files", str(fat)]
        words += ["--jars", ",".join(map(str, jars))] if jars else []
        words = command(
            python, master, quick_conf(python) | conf, *words, str(APPLICATIONS / name), str(self.out), *arguments
        )
        env = environment(folder, python) | {**(environ or {}), "SPARK_LAUNCHER_OPTS": QUICK_JVM}
        self.log = (folder / "log.txt").open("w+")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT, cwd=folder, env=env)

    def kill(self):
        """Kill the driver and all that it has started."""
        for process in (self.process.pid, *_descendants(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def killed(self) -> str:
        """Wait for an application that kills its driver, and return its log."""
        try:
            status = self.process.wait(timeout=600)
        finally:
            self.process.kill()
        text = self._log_text()
        assert status == -signal.SIGKILL, _shortened(text)
        return text

    def result(self) -> dict[str, Any]:
        try:
            status = self.process.wait(timeout=600)
        finally:
            self.process.kill()
        text = self._log_text()
        assert status == 0, _shortened(text)
        result = json.loads(self.out.read_text())
        return result | {"log": text}

    def _log_text(self) -> str:
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        return text


def _descendants(process: int) -> list[int]:
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def _shortened(text: str) -> str:
    """Return both ends of a log: what failed stands at its beginning, a driver that shuts down fills the rest."""
    left_out = len(text) - 24_000
    return text if left_out <= 0 else f"{text[:18_000]}\n[... {left_out} characters ...]\n{text[-6000:]}"


def executor_stderr(python: str) -> str:
    """Return standard error of all executors of this environment's Spark."""
    found = (path for folder in application_folders(python) for path in folder.glob("*/stderr"))
    return "".join(path.read_text(errors="replace") for path in found)
