"""The wheel cache on a node: order of roots, refusals, one unpacking for many processes, crashes, full disks."""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fat_wheels
import pytest
from subprocesses import run_program

UID = os.geteuid()
OURS = f"kafkarec-cache-{UID}"
NOBODY_UID = 65534

# Kills its own process after a few files are written, as the kernel's out-of-memory killer would.
KILLED = """
import os, signal
from spark_udfs import bootstrap
bootstrap._try_library = lambda folder, tree: os.kill(os.getpid(), signal.SIGKILL)
"""
UNPACKS_NOTHING = fat_wheels.program("from spark_udfs import bootstrap\nbootstrap._unpack = None")


@pytest.fixture
def public_path():
    """A folder that other users may enter, which pytest's own folders do not permit."""
    with tempfile.TemporaryDirectory(prefix="kafkarec-test-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def python_for_others():
    """An interpreter that any user may run; the test is skipped where there is none."""
    if UID != 0:
        pytest.skip("only root can run a process under another user id")
    candidates = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]
    test = "import sys, json, hashlib; sys.exit(sys.version_info < (3, 11))"
    for python in filter(os.path.exists, candidates):
        with contextlib.suppress(PermissionError):
            if not subprocess.run(
                [python, "-ISc", test], user=NOBODY_UID, group=NOBODY_UID, cwd="/", check=False
            ).returncode:
                return python
    pytest.skip("no Python of 3.11 or later here that another user may run")


def keys(root):
    """The unpacked folders of a root."""
    return [path for path in (root / OURS).iterdir() if path.is_dir() and ".tmp-" not in path.name]


# ---- choice of the root ----


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({"KAFKAREC_CACHE": "a", "SPARK_EXECUTOR_DIRS": "b", "SPARK_LOCAL_DIRS": "c", "LOCAL_DIRS": "d"}, "a"),
        ({"SPARK_EXECUTOR_DIRS": "b:c", "SPARK_LOCAL_DIRS": "d", "LOCAL_DIRS": "e"}, "b"),
        ({"SPARK_LOCAL_DIRS": "c,d", "LOCAL_DIRS": "e"}, "c"),
        ({"LOCAL_DIRS": "d,e"}, "d"),
        ({}, "."),
    ],
)
def test_roots_are_tried_in_order(fake_fat, tmp_path, variables, expected):
    outcome = fat_wheels.activate(fake_fat, None, environ=variables, cwd=tmp_path)
    assert outcome["path"].startswith(str(tmp_path / expected / OURS))
    assert stat.S_IMODE((tmp_path / expected / OURS).stat().st_mode) == 0o700


def test_neither_home_nor_a_passwd_entry_is_needed(fake_fat, public_path):
    python = python_for_others()
    shutil.copyfile(fake_fat, public_path / fake_fat.name)
    root = public_path / "root"
    root.mkdir()
    os.chmod(root, 0o777 | stat.S_ISVTX)
    outcome = fat_wheels.activate(
        public_path / fake_fat.name, root, python=python, cwd="/", user=23456, group=23456, extra_groups=[]
    )
    assert outcome["path"].startswith(str(root / "kafkarec-cache-23456"))


def shell(folder, commands):
    subprocess.run(commands, shell=True, check=True, cwd=folder)


@pytest.mark.parametrize(
    "commands, message",
    [
        ("mkdir -m 777 root", "it is writable by everybody, with no sticky bit"),
        ("mkdir real; ln -s real root", "is a symlink"),
        # refused because of the symlink, or because of the open folder
        ("mkdir -m 777 open; mkdir open/inner; ln -s open/inner root", "open is writable by everybody"),
        ("echo a file > root", "is not a folder"),
        (f"mkdir -p root/elsewhere; ln -s elsewhere root/{OURS}", f"{OURS} is a symlink"),
        (f"mkdir root; mkdir -m 770 root/{OURS}", "is open to others (mode 0770)"),
    ],
)
def test_a_refused_root_is_skipped_with_its_reason(fake_fat, tmp_path, commands, message):
    root, work = tmp_path / "root", tmp_path / "work"
    shell(tmp_path, f"{commands}; mkdir work")
    outcome = fat_wheels.activate(fake_fat, root, cwd=work)
    assert outcome["path"].startswith(str(work / OURS))
    assert message in outcome["notes"][0]
    assert str(root) in outcome["notes"][0]


def test_a_folder_below_an_open_one_is_refused(fake_fat, tmp_path):
    shell(tmp_path, "mkdir -m 777 open; mkdir work")
    outcome = fat_wheels.activate(fake_fat, tmp_path / "open" / "inner", cwd=tmp_path / "work")
    assert f"{tmp_path / 'open'} is writable by everybody" in outcome["notes"][0]
    assert not (tmp_path / "open" / "inner").exists()


def test_roots_of_another_user_and_read_only_roots_are_skipped(fake_fat, public_path):
    python = python_for_others()
    shutil.copyfile(fake_fat, public_path / fake_fat.name)
    foreign, read_only, work = (public_path / name for name in ("foreign", "read_only", "work"))
    for folder, owner, mode in ((foreign, 12345, 0o755), (read_only, NOBODY_UID, 0o555), (work, NOBODY_UID, 0o700)):
        folder.mkdir()
        os.chmod(folder, mode)
        os.chown(folder, owner, owner)
    outcome = fat_wheels.activate(
        public_path / fake_fat.name,
        foreign,
        python=python,
        environ={"SPARK_LOCAL_DIRS": str(read_only)},
        cwd=work,
        user=NOBODY_UID,
        group=NOBODY_UID,
        extra_groups=[],
    )
    assert outcome["path"].startswith(str(work / f"kafkarec-cache-{NOBODY_UID}"))
    assert f"belongs to user id 12345, and this process is {NOBODY_UID}" in outcome["notes"][0]
    assert "is not writable" in outcome["notes"][1]


def test_the_error_lists_each_root_with_its_reason(fake_fat, tmp_path):
    program = "import os, tempfile; tempfile.tempdir = os.getcwd()\n" + fat_wheels.PROGRAM
    shell(tmp_path, "touch file; mkdir -m 777 open")
    outcome = fat_wheels.activate(fake_fat, tmp_path / "file", program, cwd=tmp_path / "open")
    lines = outcome["error"].splitlines()
    assert lines[0] == "no folder on this node can hold the unpacked files of kafkarec:"
    assert lines[1] == f"  {tmp_path / 'file'} (from KAFKAREC_CACHE): it is not a folder"
    assert lines[2].startswith(f"  {tmp_path / 'open'} (from the working folder): it is writable by everybody")
    assert "--archives" in lines[3]


@contextlib.contextmanager
def tmpfs(folder, options):
    folder.mkdir()
    process = run_program("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder)
    if process.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {process.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    "options, note",
    [
        ("noexec,mode=0700", "a shared library cannot be loaded from it"),
        ("size=32k,mode=0700", "No space left on device"),
    ],
)
def test_a_noexec_root_and_a_full_disk_are_skipped_and_left_clean(fake_fat, tmp_path, options, note):
    with tmpfs(tmp_path / "root", options) as root:
        outcome = fat_wheels.activate(fake_fat, root, cwd=tmp_path)
        assert note in outcome["notes"][0] and outcome["path"].startswith(str(tmp_path / OURS))
        assert [path.name for path in (root / OURS).iterdir() if path.is_dir()] == []


# ---- one unpacking for several processes ----


def test_sixteen_processes_make_one_folder(fake_fat, tmp_path):
    options = fat_wheels.settings(tmp_path / "root")
    running = [
        subprocess.Popen(
            fat_wheels.command(fake_fat), stdout=subprocess.PIPE, text=True, env=options["env"], cwd=tmp_path
        )
        for _ in range(16)
    ]
    outcome = [json.loads(process.communicate()[0]) for process in running]
    assert len({each["path"] for each in outcome}) == 1
    assert [str(path) for path in keys(tmp_path / "root")] == [outcome[0]["path"]]


def test_second_process_unpacks_nothing(fake_fat, tmp_path):
    first = fat_wheels.activate(fake_fat, tmp_path / "root")
    before = {path: path.lstat().st_mtime_ns for path in Path(first["path"]).rglob("*")}
    assert fat_wheels.activate(fake_fat, tmp_path / "root", UNPACKS_NOTHING)["path"] == first["path"]
    assert {path: path.lstat().st_mtime_ns for path in Path(first["path"]).rglob("*")} == before


def test_after_a_kill_in_the_middle_the_next_process_succeeds(fake_fat, tmp_path):
    root = tmp_path / "root"
    process = subprocess.run(fat_wheels.command(fake_fat, fat_wheels.program(KILLED)), **fat_wheels.settings(root))
    assert process.returncode == -signal.SIGKILL
    assert len(list((root / OURS).glob("*.tmp-*"))) == 1
    assert keys(root) == []
    assert fat_wheels.activate(fake_fat, root)["source"] == "unpacked"
    assert list((root / OURS).glob("*.tmp-*")) == []


def test_a_child_that_is_forked_meanwhile_removes_nothing(fake_fat, tmp_path):
    """By another thread. It exits as any process, with the cleanup that Python has registered."""
    forks = """
import atexit, os
from spark_udfs import bootstrap
def try_and_fork(*arguments, real=bootstrap._try_library):
    real(*arguments)
    if os.fork() == 0:
        atexit._run_exitfuncs()
        os._exit(0)
    assert os.wait()[1] == 0
bootstrap._try_library = try_and_fork
"""
    found = fat_wheels.activate(fake_fat, tmp_path / "root", fat_wheels.program(forks))
    assert (found["source"], found["notes"]) == ("unpacked", [])


def test_a_second_process_waits_for_the_one_that_unpacks(fake_fat, tmp_path):
    """The second process finds the lock taken, waits, and then uses the folder that the first process made."""
    root = tmp_path / "root"
    slow = fat_wheels.program(
        "import time\nfrom spark_udfs import bootstrap\nplain = bootstrap.zips_of_tree\n"
        "def slow(tree):\n    time.sleep(1)\n    return plain(tree)\nbootstrap.zips_of_tree = slow\n"
    )
    options = fat_wheels.settings(root)
    first = subprocess.Popen(fat_wheels.command(fake_fat, slow), stdout=subprocess.PIPE, text=True, env=options["env"])
    while not list(root.glob(f"{OURS}/*.tmp-*")):
        assert first.poll() is None
        time.sleep(0.01)
    second = fat_wheels.activate(fake_fat, root, UNPACKS_NOTHING)
    assert second["path"] == json.loads(first.communicate()[0])["path"]


# ---- changes after the unpacking ----


@pytest.mark.parametrize(
    "commands, message",
    [
        ("printf x >> kafkarec/_library.so", "'kafkarec/_library.so': expected {size} bytes, found {longer} bytes"),
        ("echo 'exit(1)' > crc32c.py", "'crc32c.py': expected no file, found 8 bytes"),
        ("ln -s /tmp crc32c", "'crc32c': expected no file, found a symlink or special file"),
        ("rm kafkarec/_version.py", "'kafkarec/_version.py': expected 22 bytes, found no file"),
    ],
)
def test_a_changed_copy_is_unpacked_again(fake_fat, tmp_path, commands, message):
    """Cleaners of temporary folders remove old files."""
    folder = Path(fat_wheels.activate(fake_fat, tmp_path / "root")["path"])
    size = (folder / "kafkarec" / "_library.so").stat().st_size
    before = files(folder)
    shell(folder, commands)
    outcome = fat_wheels.activate(fake_fat, tmp_path / "root")
    assert outcome["notes"] == [f"{folder} was unpacked again: {message.format(size=size, longer=size + 1)}"]
    assert outcome["path"] == str(folder) and files(folder) == before
    assert keys(tmp_path / "root") == [folder] and not list(folder.parent.glob("*.tmp-*"))
    assert fat_wheels.activate(fake_fat, tmp_path / "root")["notes"] == []


def files(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_same_size_but_other_bytes_are_found_by_verify(fake_fat, tmp_path):
    folder = Path(fat_wheels.activate(fake_fat, tmp_path / "root")["path"])
    before = files(folder)
    library = folder / "kafkarec" / "_library.so"
    raw = bytearray(library.read_bytes())
    raw[-1] ^= 1
    library.write_bytes(raw)
    assert fat_wheels.activate(fake_fat, tmp_path / "root")["notes"] == []
    for notes in ([f"{folder} was unpacked again: 'kafkarec/_library.so': found other bytes"], []):
        assert fat_wheels.activate(fake_fat, tmp_path / "root", environ={"KAFKAREC_VERIFY": "1"})["notes"] == notes
        assert files(folder) == before


def test_the_import_opens_no_file_and_starts_no_thread(fake_fat, tmp_path):
    program = (
        "import json, os, sys, threading\nsys.path.insert(0, sys.argv[1])\n"
        "before = set(os.listdir('/proc/self/fd'))\nimport spark_udfs.bootstrap\n"
        "print(json.dumps([len(set(os.listdir('/proc/self/fd')) - before), threading.active_count(),\n"
        "                  [name for name in ('pyspark', 'pyarrow', 'kafkarec') if name in sys.modules]]))"
    )
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip(f"no /proc on {sys.platform}: open files cannot be counted")
    assert fat_wheels.activate(fake_fat, tmp_path / "root", program) == [0, 1, []]
