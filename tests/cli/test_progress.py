"""The extra `cli` for real: the bar of `rich` on a terminal, drawn and taken away; argcomplete, asked as by a shell."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
from pathlib import Path

import pytest
from command import COMMAND, ENVIRONMENT
from paths import SEGMENTS

ERASE = b"\x1b[2K"


def on_a_terminal(*words: object) -> tuple[int, bytes, bytes]:
    """(exit status, standard output, what the terminal got as standard error)."""
    outer, inner = pty.openpty()
    env = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=inner, env=env)
    os.close(inner)
    shown = b""
    while True:
        try:
            block = os.read(outer, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not block:
            break
        shown += block
    os.close(outer)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out, shown


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (("study", SEGMENTS / "all-codecs-0", "--codecs", "zstd", "--batch-sizes", "keep"), b"100%"),
        (("cat", SEGMENTS / "txn-0"), b"18.0/18.0 kB"),
    ],
    ids=["study", "cat"],
)
def test_a_bar_is_drawn_and_taken_away(words: tuple[object, ...], end: bytes, tmp_path: Path) -> None:
    target = tmp_path / "out"
    status, out, shown = on_a_terminal(*words, "-o", target)
    assert (status, out) == (0, b"") and target.stat().st_size
    bar = "━".encode()
    assert bar in shown and end in shown, shown
    assert ERASE in shown.rpartition(bar)[2], shown[-200:]
    quiet = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, env=ENVIRONMENT, timeout=60, check=True)
    assert quiet.stderr == b""
    if words[0] == "cat":
        assert target.read_bytes() == quiet.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [("kafkarec st", ["study "]), ("kafkarec study --plo", ["--plot "]), ("kafkarec cat --isol", ["--isolation "])],
)
def test_a_shell_is_answered(line: str, offered: list[str]) -> None:
    """As bash asks by argcomplete's protocol: the line in variables, the answer at descriptor 8."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    run = f"exec 8>&1 9>/dev/null; exec {shlex.join(COMMAND)} >/dev/null"
    done = subprocess.run(["bash", "-c", run], capture_output=True, env=ENVIRONMENT | asked, timeout=60, check=True)
    assert done.stdout.decode().splitlines() == offered
