"""AddressSanitizer and UndefinedBehaviorSanitizer while every golden file and thousands of spoiled ones are read (P1,
P5) and written again, and while all tests of the C core run."""

import os
import re
import shutil
import sys
from pathlib import Path

import checkouts
import pytest
from long_run import LONG
from paths import ROOT, SUPPORT
from subprocesses import output_of, run_program

READ = """
import random, sys
import golden, builders, kafkarec
from fake_file import FakeFile
from core_reading import with_right_checksums
COLUMNS = ["offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence", "batch_position"]
def read(data):
    for options in ({}, {"errors": "skip"}, {"errors": "skip", "threads": 2, "timestamp_unit": "ns"}):
        try:
            columns = kafkarec.decode(data, columns=COLUMNS, control=True, **options)
            columns.__arrow_c_stream__()
            for record in columns:
                record.headers
        except kafkarec.KafkaRecordError:
            pass
    try:
        [list(batch) for batch in kafkarec.batches(data)]
    except kafkarec.KafkaRecordError:
        pass
    through_windows(data)
def through_windows(data):
    # kept rows move in memory, windows end at varying positions, some pages are unreadable
    size = rng.choice([61, 64, 300, 5000])
    start = rng.randrange(len(data) + 1)
    for unreadable in ([], [range(start, start + 9)]):
        segment = kafkarec.open(FakeFile(data, size, 32, unreadable))
        segment.read(columns=COLUMNS, errors="skip", control=True, start_offset=rng.randrange(300),
                     end_offset=rng.randrange(600), start_timestamp=rng.choice([None, 1_700_000_000_005]))
        segment.scan(errors="skip")
        segment.verify()
rng = random.Random(5)
count = 0
for case in golden.vectors() + golden.invalid() + golden.segment_files():
    read(case.bytes)
    for _ in range(6 if len(case.bytes) < 5000 else 0):
        data = bytearray(case.bytes)
        for _ in range(rng.choice([1, 2, 8])):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        read(bytes(data))
        read(with_right_checksums(bytes(data)))
        count += 1
assert count > 1000
print("read", count)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (LONG or os.environ.get("CI")),
        reason="minutes, so that `make test` stays short; CI=1 or KAFKAREC_LONG=1 runs it",
    ),
]


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """(a folder with kafkarec built with -fsanitize=address,undefined, the libraries to preload)."""
    compiler = os.environ.get("CC", "gcc")
    if shutil.which(compiler) is None:
        pytest.skip(f"no compiler {compiler} here")
    compiler_runtime, stdcxx = (
        run_program(compiler, f"-print-file-name={name}").stdout.strip() for name in ("libasan.so", "libstdc++.so.6")
    )
    if not Path(compiler_runtime).is_absolute():
        pytest.skip("this compiler has no libasan.so")
    folder = checkouts.copy(tmp_path_factory.mktemp("sanitized"), "*.so")
    shutil.copy(ROOT / "pyproject.toml", folder)
    env = dict(os.environ, KAFKAREC_SANITIZE="address,undefined")
    output_of(sys.executable, "setup.py", "-q", "build_ext", "-i", cwd=folder, env=env)
    return folder, f"{compiler_runtime}:{stdcxx}" if Path(stdcxx).is_absolute() else compiler_runtime


def environment(folder, libraries):
    """The environment of a process that imports kafkarec from the folder. Sanitizer reports go to files report.*.

    Of allocations two frames are kept: thirty, for each object of Python, are a third of the time. Freed memory is kept
    from use until 16 MiB more are freed: with the usual 256 most of the time is that of new pages."""
    return dict(
        os.environ,
        LD_PRELOAD=libraries,
        ASAN_OPTIONS="detect_leaks=0:malloc_context_size=2:quarantine_size_mb=16:allocator_may_return_null=1:"
        f"log_path={folder}/report",
        UBSAN_OPTIONS=f"halt_on_error=1:print_stacktrace=1:log_path={folder}/report",
        PYTHONMALLOC="malloc",
        PYTHONPATH=os.pathsep.join([str(folder), str(SUPPORT)]),
    )


def reports(folder):
    return "\n".join(path.read_text(errors="replace")[:6000] for path in sorted(folder.glob("report.*")))


LIVE = """
import random, sys, threading, time
import builders, kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import request
from kafkarec.read.passes import read_chunks
asked = request(errors="skip", check_crcs=False)
audited = asked._replace(options=asked.options._replace(audit=True))
parts = builders.records(60, value=b"v" * 50, headers=[(b"head", b"x" * 9), (b"\\xc3(", None)])
codecs = ["none", "none", "gzip", "snappy", "lz4", "zstd"]
good = b"".join(builders.batch(parts, codec=c, base_offset=60 * i) for i, c in enumerate(codecs * 20))
inner = [builders.message(offset=i) for i in range(9)]
good += b"".join(builders.wrapper(inner, codec="lz4", offset=9 * n) for n in range(20))
data, stop = bytearray(good), threading.Event()
def spoil():
    rng = random.Random(1)
    while not stop.is_set():
        for _ in range(50):
            data[rng.randrange(len(data))] = rng.randrange(256)
        at = rng.randrange(len(data) - 5000)
        data[at : at + 5000] = good[at : at + 5000]
sys.setswitchinterval(1e-5)
spoiler = threading.Thread(target=spoil)
spoiler.start()
rows, until = 0, time.monotonic() + 6
while time.monotonic() < until:
    for options in ({"check_crcs": False}, {"threads": 2}, {}):
        columns = kafkarec.decode(data, errors="skip", **options)
        columns.__arrow_c_stream__()
        rows += sum(len(record.headers) for record in columns[:50])
    kafkarec.scan(data, errors="skip")
    list(read_chunks(audited, Source(data)))
stop.set()
spoiler.join()
assert rows > 0
print("read", rows)
"""


WRITE = """
import os, random
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
import golden, kafkarec, pyarrow as pa
from random_encode_calls import Made, WIDE
rng = random.Random(11)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "keep")
def write(records, **options):
    try:
        return len(kafkarec.encode(records, **options))
    except (ValueError, TypeError):
        return 0
written = 0
for case in golden.vectors():
    columns = kafkarec.decode(case.bytes, control=True, columns=WIDE, header_keys="binary")
    low, high = sorted(rng.randrange(len(columns) + 1) for _ in range(2))
    for part in (columns, columns[low:high], columns.to_arrow(), columns[low:high].to_arrow(), list(columns)):
        for size in (None, 0, 100, 16384):
            magic = rng.choice([0, 1, 2, 2, "keep"])
            written += write(part, compression=rng.choice(CODECS), batch_size=size, magic=magic)
for seed in range(400):
    made = Made(seed)
    for records in (made.rows, made.table(), made.table().slice(rng.randrange(9))):
        written += write(records, **made.options)
    write([*made.rows, (2**62, "now", None, None, [])])
    names = ("offset", "timestamp", "key", "value", "headers")
    written += write([dict(zip(names, row)) for row in made.rows], **made.options)
    built = kafkarec.RecordBatchBuilder(compression=rng.choice(CODECS[:5]))
    for row in made.rows * 3:
        try:
            built.has_room_for(*row[1:])
            built.append(*row[1:])
        except (ValueError, TypeError):
            pass
    written += len(built.build())
assert written > 1_000_000
print("read", written)
"""


@pytest.mark.parametrize(
    "snippet",
    [READ, LIVE, WRITE],
    ids=["spoiled files", "a buffer that changes while it is read", "rows and columns written"],
)
def test_sanitizers_report_nothing(snippet, sanitized):
    """The second program: the GIL is released, so a bytearray or a mapped file may change while the C core reads it."""
    folder, libraries = sanitized
    completed = run_program(sys.executable, "-c", snippet, cwd=folder, env=environment(folder, libraries))
    assert reports(folder) == ""
    assert completed.returncode == 0, completed.stderr[-3000:]
    assert completed.stdout.startswith("read ")


@pytest.mark.timeout(3000)
def test_the_tests_of_the_core_run_without_a_report(sanitized):
    """Without the tests that measure memory, as the sanitizer allocates its own, those that fork, which takes seconds
    with the sanitizer's map of all memory, and those of Python. Compiled modules of Python are copied with the others:
    to compile them again takes thirteen seconds with the sanitizer."""
    selection = ["-m", "core and not recycled and not python", "-k", "not memory and not fork"]
    folder, libraries = sanitized
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("spark"))
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, folder / name)
    files = [
        str(path.relative_to(folder))
        for path in sorted((folder / "tests").rglob("test_*.py"))
        if re.search(r"^(pytestmark = \[?|@)pytest\.mark\.core\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(files) > 20
    env = environment(folder, libraries) | {"KAFKAREC_CORE": "1", "PYTHONPATH": str(folder)}
    words = (sys.executable, "-m", "pytest", "-q", *selection, "-p", "no:cacheprovider", *files)
    completed = run_program(*words, cwd=folder, env=env)
    assert reports(folder) == ""
    assert completed.returncode == 0, completed.stdout[-5000:]
    assert " passed" in completed.stdout
