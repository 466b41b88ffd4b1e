"""One spark-submit: started at once, waited for later, so that two of them can run side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paths import SUPPORT

APPLICATIONS = SUPPORT / "spark" / "apps"
MASTER = "local-cluster[2,1,1024]"
# A JVM that lives for seconds spends most of its time compiling: the quick compiler and the plain collector do.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PLAIN_CONF = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
PLAIN_CONF |= {f"spark.{side}.extraJavaOptions": QUICK_JVM for side in ("driver", "executor")}


class Application:
    """One spark-submit, started at once; `result()` waits and gives what the application wrote. jars: as of --jars;
    environ: beside PYSPARK_PYTHON and the like; fat: None where it is installed."""

    def __init__(
        self,
        name: str,
        fat: Path | None,
        python: str,
        folder: Path,
        *arguments: str,
        jars: Sequence[Path] = (),
        environ: Mapping[str, str] | None = None,
        **conf: str,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / "result.json"
        command = [str(Path(python).parent / "spark-submit"), "--master", MASTER]
        command += [] if fat is None else ["--py-files", str(fat)]
        if jars:
            command += ["--jars", ",".join(map(str, jars))]
        for key, value in (PLAIN_CONF | conf).items():
            command += ["--conf", f"{key}={value}"]
        command += [str(APPLICATIONS / name), str(self.out), *arguments]
        keep = {"PATH", "JAVA_HOME", "LANG", "TMPDIR"}
        env = {name: value for name, value in os.environ.items() if name in keep}
        env |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "HOME": str(folder), **(environ or {})}
        self.log = (folder / "log.txt").open("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, cwd=folder, env=env)

    def killed(self) -> str:
        """Waits for one that takes its driver's life; what it logged."""
        try:
            status = self.process.wait(timeout=600)
        finally:
            self.process.kill()
        text = self._told()
        assert status == -signal.SIGKILL, text[-6000:]
        return text

    def result(self) -> dict[str, Any]:
        try:
            status = self.process.wait(timeout=600)
        finally:
            self.process.kill()
        text = self._told()
        assert status == 0, text[-6000:]
        told: dict[str, Any] = json.loads(self.out.read_text())
        return told | {"log": text}

    def _told(self) -> str:
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        return text


def said_by_executors(python: str) -> str:
    """Standard error of all executors of this environment's Spark."""
    work = Path(python).parents[1].glob("lib/python*/site-packages/pyspark/work/*/*/stderr")
    return "".join(path.read_text(errors="replace") for path in work)


def lines_of_tasks(python: str, what: str, below: Path) -> list[str]:
    """What tasks of this kind ("read", "staged", ...) wrote to their executors' standard error of files in a folder."""
    lines = said_by_executors(python).splitlines()
    return [line for line in lines if f": kafkarec {what} " in line and str(below) in line and "seconds=" in line]
