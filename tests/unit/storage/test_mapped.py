"""open(path, mmap=True) while the file is truncated: reading raises an OSError, and the process survives.

Each case runs in a separate process: without the guard it would end by SIGBUS.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import builders
import pytest

import kafkarec

READ = """
import faulthandler, os, sys, threading
import kafkarec
path, cut, when, how = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
if how == "faulthandler":
    faulthandler.enable()
segment = kafkarec.open(path, mmap=True)
def shorten():
    os.truncate(path, cut)
try:
    if when == "before":
        with segment:
            with segment.opened():
                shorten()
                segment.scan() if how == "scan" else segment.read(errors="skip")
    elif when == "between":
        pieces = segment.stream(batch_bytes=1 << 20, errors="skip")
        next(pieces)
        shorten()
        for piece in pieces:
            pass
    else:
        with segment, segment.opened():
            threading.Timer(0.003, shorten).start()
            while True:
                segment.read(errors="skip")
except OSError as error:
    assert error.errno == 5 and error.filename == path, error
    print("ended:", error)
"""


@pytest.fixture(scope="module")
def log() -> bytes:
    batches = [builders.batch(builders.records(100, value=b"v" * 300), base_offset=100 * i) for i in range(150)]
    return b"".join(batches)


@pytest.mark.parametrize(
    ("cut", "when", "how"),
    [
        (0, "before", "read"),
        ("a page", "before", "scan"),
        ("a byte", "before", "read"),
        (5000, "between", "read"),
        ("a byte", "between", "read"),
        (5000, "during", "read"),
        ("a byte", "during", "read"),
        (5000, "during", "faulthandler"),
    ],
)
def test_a_file_that_shrinks_under_its_map(log: bytes, tmp_path: Path, cut: int | str, when: str, how: str) -> None:
    size = {"a page": len(log) - 4096, "a byte": len(log) - 1}.get(str(cut), cut)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    command = [sys.executable, "-c", READ, path, str(size), when, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert done.stdout.startswith("ended: ") and f"it has {size} bytes, and had {len(log)}" in done.stdout, done.stdout


AGAIN = """
import os, sys
import kafkarec
for _ in range(70):
    with kafkarec.open(sys.argv[1], mmap=True) as segment, segment.opened():
        pass
with kafkarec.open(sys.argv[1], mmap=True) as segment, segment.opened():
    os.truncate(sys.argv[1], 0)
    try:
        segment.read(errors="skip")
    except OSError as error:
        print("ended:", error.errno)
"""


@pytest.mark.core
def test_a_map_that_is_closed_frees_its_slot(log: bytes, tmp_path: Path) -> None:
    """64 maps are guarded at a time; 70 were opened before this one."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    done = subprocess.run([sys.executable, "-c", AGAIN, path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "ended: 5\n"), done.stderr


OTHERS = """
import mmap, os, sys, tempfile
import kafkarec
with kafkarec.open(sys.argv[1], mmap=True) as segment, segment.opened():
    file = tempfile.TemporaryFile()
    file.truncate(8192)
    area = mmap.mmap(file.fileno(), 8192)
    os.ftruncate(file.fileno(), 0)
    print("reading", flush=True)
    area[5000]
"""


def test_a_fault_in_a_foreign_map_goes_to_its_own_handler(log: bytes, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    done = subprocess.run([sys.executable, "-c", OTHERS, path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "reading\n"), done.stderr


def test_a_map_reads_what_pread_reads_and_many_maps_may_be_open(log: bytes, tmp_path: Path) -> None:
    """64 maps are guarded at a time; more can be read."""
    wanted = kafkarec.decode(log)[-1]
    paths = [tmp_path / f"{i:020}.log" for i in range(70)]
    segments = []
    for path in paths:
        path.write_bytes(log)
        segments.append(kafkarec.open(path, mmap=True).__enter__())
    for segment in segments:
        assert segment.read(start_offset=14_990)[-1] == wanted
    for segment in segments:
        segment.__exit__(None, None, None)
