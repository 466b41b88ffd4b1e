"""What `run.py` and `encode.py` share: the machine's description, the type of their figures, the geometric mean."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

Times = dict[str, dict[str, float]]  # contestant -> file -> best seconds


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def machine() -> str:
    """Processor, number of cores, operating system and Python version."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {system}"
