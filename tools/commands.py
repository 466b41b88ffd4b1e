"""Commands that these tools run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def run(
    *command: object, cwd: Path | str | None = None, env: Mapping[str, str] = os.environ, may_complain: bool = True
) -> str:
    """Standard output; ends this process with all output if the command fails, or prints what it may not."""
    words = list(map(str, command))
    own = {name: value for name, value in env.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, cwd=cwd, env=own)
    if done.returncode or (done.stderr and not may_complain):
        output = (done.stdout + done.stderr)[-4000:]
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}\n{output}")
    return done.stdout
