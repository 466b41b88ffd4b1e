"""Finds the commands that a run printed, and reads them as a shell does in the folder in which they were printed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

_COMMAND = re.compile(r"(?:^|[ :(])(kafkarec [a-z]+ .*)$", re.MULTILINE)


def printed(text: str) -> list[str]:
    """The commands at the end of a line, `kafkarec VERB ...`."""
    return [found.strip() for found in _COMMAND.findall(text)]


def words_of(line: str, folder: Path) -> list[str]:
    """The words that a command line passes to kafkarec."""
    script = f"kafkarec() {{ printf '%s\\0' \"$@\"; }}\n{line}"
    return [os.fsdecode(word) for word in pasted(script, folder).stdout.split(b"\0")[:-1]]


def pasted(script: str, folder: Path, shell: str = "bash") -> subprocess.CompletedProcess[bytes]:
    """Runs lines in a shell, without an error."""
    done = subprocess.run([shell, "-c", script], cwd=folder, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done
    return done
