"""What the Spark tests run with: the fat wheel, bare executor environments, and spark-submit itself.

The applications in apps/ run as users run them, `spark-submit --py-files <wheel> app.py` on real executors
(`local-cluster`); driver and executors have a Python with pyspark, pyarrow and pandas only. Each application does
many things and writes one JSON file; the tests read it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tools")]

import wheelhouse_check  # noqa: E402
import wheelhouse_pack  # noqa: E402
from source_session import spark_environment, spark_session  # noqa: E402, F401

import wheelhouse  # noqa: E402

if TYPE_CHECKING:
    from stream_broker import Broker

RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Partition folders below tmp_path/data, as a broker writes them."""
    from stream_broker import Broker  # needs pyspark

    made = Broker(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture(scope="session")
def fat() -> Path:
    """The fat wheel of these sources; built anew where a source is younger than it."""
    built = ROOT / "wheelhouse" / f"spark_udfs-{wheelhouse.version()}-py3-none-any.whl"
    sources = [
        path
        for package in ("kafkarec", "spark_udfs", "pyspark_kafkarec")
        for path in (ROOT / package).rglob("*.p*")
        if "__pycache__" not in path.parts
    ]
    if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        assert wheelhouse.main(["--no-check"]) == 0
    return built


@pytest.fixture(scope="session")
def other_version(fat: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same kafkarec under another version, in a fat wheel of its own."""
    folder = tmp_path_factory.mktemp("other_version")
    version = f"{wheelhouse.version()}.post1"
    tag = f"cp{RUNNING.replace('.', '')}-"
    carried = [wheel for wheel in fat.parent.glob("*.whl") if f"-{tag}" in wheel.name or "-py3-none" in wheel.name]
    carried = [wheel for wheel in carried if not wheel.name.startswith(("kafkarec-", "spark_udfs-"))]
    (ours,) = fat.parent.glob("kafkarec-*.whl")
    files, dist_info = wheelhouse_pack.read_wheel(ours)
    old, new = (text.encode() for text in (wheelhouse.version(), version))
    renamed = {name.replace(dist_info, f"kafkarec-{version}.dist-info"): content for name, content in files.items()}
    for name in ("kafkarec/_version.py", f"kafkarec-{version}.dist-info/METADATA"):
        renamed[name] = renamed[name].replace(old, new, 1)
    target = folder / ours.name.replace(wheelhouse.version(), version, 1)
    wheelhouse_pack.write_wheel(target, renamed, f"kafkarec-{version}.dist-info")
    return wheelhouse_pack.fat_wheel(ROOT / "spark_udfs", version, [target, *carried], folder)


@pytest.fixture(scope="session")
def bare_python() -> Iterator[str]:
    """This Python version with pyspark, pyarrow and pandas only."""
    yield from environment(RUNNING)


@pytest.fixture(scope="session")
def other_python() -> Iterator[str]:
    """The same for another version of Python that is on this machine."""
    others = [python for python in wheelhouse.PYTHONS if python != RUNNING]
    found = [python for python in others if wheelhouse_check.find_interpreter(python)]
    if not found:
        pytest.skip(f"no CPython of {', '.join(others)} on this machine")
    yield from environment(found[0])


def environment(python: str) -> Iterator[str]:
    """The environment of the set-up if it fits, else one below .cache, made once."""
    set_up = ROOT / ".venv-executor" / "bin" / "python"
    folder = ROOT / ".cache" / f"executor-{python}"
    if python == RUNNING and set_up.exists() and version_of(set_up) == python:
        folder = set_up.parents[1]
    elif not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        interpreter = wheelhouse_check.find_interpreter(python) or sys.executable
        lock = ROOT / "requirements" / "executor.txt"
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
        pip = [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "-r",
            str(lock),
        ]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no environment of Python {python} can be made: {done.stderr.strip().splitlines()[-1]}")
        (folder / "complete").touch()
    # local-cluster keeps the executors' folders, the wheel's copies in them, below SPARK_HOME
    applications = "lib/python*/site-packages/pyspark/work/app-*"
    others = set(folder.glob(applications))
    yield str(folder / "bin" / "python")
    for application in set(folder.glob(applications)) - others:
        shutil.rmtree(application, ignore_errors=True)


def version_of(python: Path) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
