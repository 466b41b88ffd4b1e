"""A Spark Connect server on executors without kafkarec, and clients: processes with the fat wheel only."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from spark_submit import APPLICATIONS, MASTER, command, environment, quick_conf

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS = 120


class Server:
    """Starts a server without waiting for it; `url` waits for its port."""

    def __init__(self, python: str, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        settings = {name: value for name, value in quick_conf(python).items() if name != "spark.log.level"}
        settings |= {"spark.connect.grpc.binding.port": "0", "spark.connect.grpc.binding.address": "127.0.0.1"}
        words, environ = command(python, MASTER, settings, "--class", CLASS), environment(folder, python)
        self.log = folder / "server.txt"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=environ)

    @property
    def url(self) -> str:
        """The server's URL; it chooses a free port, which only its log names."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"Spark Connect server started at: [\d.]+:(\d+)", self.log.read_text(errors="replace"))
            if found:
                return f"sc://127.0.0.1:{found[1]}"
            time.sleep(0.2)
        raise AssertionError(self.log.read_text(errors="replace")[-4000:])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Client:
    """Starts a client program without waiting for it; `result()` waits and returns the JSON that it wrote."""

    def __init__(self, name: str, fat: Path, folder: Path, url: str, *arguments: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.log = folder / "result.json", folder / "log.txt"
        words = [sys.executable, str(APPLICATIONS / name), str(self.out), url, *arguments]
        environ = environment(folder) | {"PYTHONPATH": str(fat), "KAFKAREC_CACHE": str(folder / "cache")}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=environ)

    def result(self):
        try:
            status = self.process.wait(timeout=400)
        finally:
            self.process.kill()
        assert status == 0, self.log.read_text(errors="replace")[-6000:]
        return json.loads(self.out.read_text())
