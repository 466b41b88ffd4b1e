"""The repository: make, set-up, lock files, generated docs, the inputs of demo and benchmark."""

import hashlib
import mmap
import os
import re
import shutil
import struct
import sys
import tomllib
import zipfile
from pathlib import Path

import make_docs
import pytest
import run_demo
import setup_env
from commands import write_command
from paths import ROOT
from source_files import loaded
from subprocesses import output_of, run_program

import kafkarec
from kafkarec import ControlRecordType
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import LATEST_CODEC, MAGICS
from kafkarec.format.schema import BATCH_FIELDS, DEFAULT_RECORD_COLUMNS, RECORD_FIELDS

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
SEGMENT = ROOT / "examples" / "data" / "all-codecs-0" / "00000000000000000000.log"


def locked(path):
    """Project -> versions (numpy has one per Python version)."""
    versions = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE):
        versions.setdefault(name.lower().replace("_", "-"), set()).add(version)
    return versions


# ---- make ------------------------------------------------------------------------------------------------


def test_make_alone_lists_the_targets():
    listed = output_of("make", "-s", cwd=ROOT)
    for target in ("demo", "test", "wheelhouse", "build", "lint", "bench", "fuzz", "clean"):
        assert f"make {target} " in listed


def bare_path(tmp_path):
    """A PATH with the tools that every system has, and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ["sh", "dirname", "sed", "head", "tail", "tr", "id", "grep", "readlink", "mkdir", "mv"]:
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def set_up(path, checkout):
    """Run tools/setup in a checkout that has nothing else, so that no .venv is found; then print the interpreter."""
    (checkout / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup", checkout / "tools")
    (checkout / "tools" / "setup_env.py").write_text("import sys\nprint(sys.executable)\n")
    env = {"PATH": path, "HOME": str(checkout), "NO_INSTALL": "1"}
    return run_program("sh", "tools/setup", "wheelhouse", cwd=checkout, env=env)


def test_set_up_without_compiler_prints_the_command_to_run(tmp_path):
    path = bare_path(tmp_path)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    write_command(tmp_path / "bin" / "apt-get", f"echo ran >{tmp_path}/ran")
    completed = set_up(path, tmp_path)
    assert completed.returncode == 3, completed.stdout + completed.stderr
    assert "missing: a C compiler" in completed.stdout
    lines = [line for line in completed.stdout.splitlines() if "apt-get install -y" in line]
    assert len(lines) == 1 and lines[0].endswith("gcc libc6-dev"), completed.stdout
    assert not (tmp_path / "ran").exists(), "something was installed despite NO_INSTALL=1"


def test_set_up_without_python_and_package_manager(tmp_path):
    completed = set_up(bare_path(tmp_path), tmp_path)
    assert completed.returncode == 3, completed.stdout + completed.stderr
    assert "missing: Python 3.11" in completed.stdout
    assert "this system's package manager" in completed.stdout
    assert completed.stderr == ""


def test_commands_that_are_missing_are_installed_or_named(tmp_path):
    """By tools/need, which says nothing of those that are there."""
    path, ran = bare_path(tmp_path), tmp_path / "ran"
    for name, line in (("apt-get", f'echo "$*" >>{ran}; echo "many lines"'), ("id", "echo 0")):
        (tmp_path / "bin" / name).unlink(missing_ok=True)
        write_command(tmp_path / "bin" / name, line)
    install = "install -y --no-install-recommends default-jdk javac-x"
    line = f"apt-get update && apt-get {install}\n"
    missing = ["sed", "java-x:default-jdk", "javac-x"]
    for words, more, status, said in (
        (["sed", "sh:dash"], {}, 0, ""),
        (missing, {"NO_INSTALL": "1"}, 3, f"missing: java-x javac-x; on Debian or Ubuntu: {line}"),
        (missing, {}, 0, f"+ {line}"),
    ):
        assert not ran.exists()
        done = run_program(ROOT / "tools" / "need", *words, env={"PATH": path, **more})
        assert (done.returncode, done.stdout, done.stderr) == (status, "", said)
    assert ran.read_text() == f"update\n{install}\n"


def made_of(python):
    """The file of the interpreter that an environment's Python was made of."""
    code = "import os, sys; print(os.path.realpath(sys._base_executable))"
    return Path(output_of(python, "-c", code).strip())


@pytest.mark.parametrize("active", [".venv", "other"])
def test_set_up_with_an_active_environment_uses_the_interpreter_it_was_made_of(tmp_path, active):
    """Not the one in .venv, which set-up may make again, and not that of another project's environment."""
    for name in (".venv", "other"):
        output_of(sys.executable, "-m", "venv", "--without-pip", tmp_path / name)
    path = bare_path(tmp_path)
    write_command(tmp_path / "bin" / "cc", "")
    completed = set_up(f"{tmp_path / active / 'bin'}:{path}", tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    used = Path(completed.stdout.strip())
    assert tmp_path not in used.parents
    assert os.path.realpath(used) == str(made_of(tmp_path / active / "bin" / "python"))


def test_an_environment_of_somebody_else_is_not_deleted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(setup_env, "ROOT", tmp_path)
    made = setup_env.run
    monkeypatch.setattr(setup_env, "run", lambda *command: made(*command, "--without-pip"))  # sooner
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    with pytest.raises(SystemExit):
        setup_env.make_venv(folder)
    assert (folder / "bin" / "python").exists() and "rename it or remove it" in capsys.readouterr().out
    (folder / ".made-by").touch()  # of this set-up, which was stopped
    monkeypatch.setattr(sys, "executable", sys._base_executable)
    setup_env.make_venv(folder)
    assert made_of(folder / "bin" / "python") == Path(os.path.realpath(sys.executable))


def test_what_is_published_as_source_becomes_a_wheel_without_compression(tmp_path):
    """Spark's jars, 400 MB, are compressed already. pip passes --config-settings on to what its command line names."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "setup.py").write_text('from setuptools import setup\nsetup(name="jars", py_modules=["jars"])\n')
    (source / "jars.py").touch()
    (tmp_path / "lock.txt").write_text(f"jars @ {source.as_uri()}\n")
    pip = ("-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-cache-dir", "--no-build-isolation")
    setup_env.run(sys.executable, *pip, "--use-pep517", "--wheel-dir", tmp_path, "-r", tmp_path / "lock.txt")
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as wheel:
        assert {each.compress_type for each in wheel.infolist()} == {zipfile.ZIP_STORED}


# ---- locks and versions ----------------------------------------------------------------------------------


def test_runtime_lock_has_the_packages_requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~ ;\[]", each)[0] for each in project["dependencies"]}
    required = {line for line in (ROOT / "requirements" / "runtime.in").read_text().split("\n") if line[:1].isalpha()}
    assert required == needed | {"fsspec"}, "executors need it for URLs; of others it is an extra"
    assert required <= set(locked(ROOT / "requirements" / "runtime.txt"))


def test_the_extra_for_spark_brings_what_executors_need_too():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {re.split(r"[<>=]", each)[0]: each for each in project["optional-dependencies"]["spark"]}
    assert set(brought) == {"spark_udfs", "pyspark", "pyarrow", "pandas", "fsspec"}
    assert "<3" in brought["pandas"]  # pyspark 4.3.0 warns about 3.x


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_locks_pin_with_hashes_and_name_no_host(path):
    text = path.read_text()
    for entry in re.split(r"(?m)^(?=[a-z0-9])", text)[1:]:
        assert re.match(r"[\w.-]+==\S+", entry), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:80]
    assert "://" not in text and "index-url" not in text


def test_locks_agree_with_each_other():
    everything = locked(ROOT / "requirements" / "test.txt")
    other_version = "glibc217"  # of wheels for old systems; the bootstrap's tests and `make aarch64` run them
    for path in LOCKS:
        for name, versions in locked(path).items():
            assert path.stem == other_version or versions <= everything.get(name, versions), f"{path.name}: {name}"


def test_executors_get_three_packages_and_their_requirements():
    text = (ROOT / "requirements" / "executor.in").read_text()
    required = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert required == ["pyspark==4.3.0", "pyarrow", "pandas<3"]
    ours = {"kafkarec", "crc32c", "lz4", "zstandard", "python-snappy", "cramjam", "isal", "fsspec"}
    assert not ours & set(locked(ROOT / "requirements" / "executor.txt"))


def test_docs_name_the_current_version():
    newest = re.search(r"(?m)^## (\S+), \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text())
    assert newest is not None and newest[1] == kafkarec.__version__
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    named = {
        (path.name, version) for path in pages for version in re.findall(r"spark_udfs-(\d[\w.]*)-py3", path.read_text())
    }
    assert {"README.md", "start.md"} <= {name for name, _ in named}
    assert {version for _, version in named} == {kafkarec.__version__}, named


@pytest.mark.parametrize("page", make_docs.TABLES)
def test_generated_tables_are_current(page):
    assert make_docs.with_tables(page) == (ROOT / page).read_text(encoding="utf-8"), "run make docs"


@pytest.mark.parametrize("title, fields", [("Records", RECORD_FIELDS), ("Batches", BATCH_FIELDS)])
def test_the_page_of_columns_has_every_column_and_its_type(title, fields):
    page = (ROOT / "docs" / "columns.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    types_by_column = {}
    for row in re.findall(r"^\| `.*$", page, re.MULTILINE):
        names, types, *_ = row.strip("| ").split(" | ")
        split = re.split(r", (?![^<\[]*[>\]])", types.strip("`"))
        columns = re.findall(r"`(\w+)`", names)
        types_by_column |= dict(zip(columns, split if len(split) > 1 else split * len(columns), strict=True))
    assert types_by_column == {name: field.type for name, field in fields.items()}


def test_the_page_of_columns_says_which_are_default_and_never_null():
    page = " ".join((ROOT / "docs" / "columns.md").read_text().split())
    assert f"return by default: {', '.join(f'`{name}`' for name in DEFAULT_RECORD_COLUMNS)}." in page
    required = " and ".join(f"`{name}`" for name, field in RECORD_FIELDS.items() if not field.nullable)
    assert f"In the Arrow schema {required} are `not null`" in page
    kinds = ", ".join(f"{kind.value} {kind.name}" for kind in ControlRecordType if kind >= 0)
    assert f"raw id: {kinds} |" in page and page.count(f"| {' '.join(CODEC_NAMES)} |") == 2
    assert f"codec ids above {LATEST_CODEC} |" in page
    assert page.count(f"| `magic` | int8 | never | {', '.join(map(str, MAGICS))} |") == 2


def test_figures_in_the_readme_are_those_of_the_last_benchmark():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text().splitlines()
    names = r"^\| (?:kafkarec|Kafka's classes|aiokafka|kafka-python) \|.*$"
    rows = re.findall(names, (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(rows) == 4 and set(rows) <= set(results), "README.md quotes rows of benchmarks/RESULTS.md"


def test_links_in_docs_are_valid():
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            path = (page.parent / target).resolve()
            if not path.exists() or path.parent == ROOT / "docs" / "reference":  # written by docs/conf.py, not in git
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


# ---- the demo's input ------------------------------------------------------------------------------------


def test_repeated_batches_keep_the_brokers_checksums():
    log = SEGMENT.read_bytes()
    once = kafkarec.decode(log)
    repeated, following = run_demo.repeat(log, 3, 5000)
    columns = kafkarec.decode(repeated)  # CRCs checked
    assert len(columns) == 3 * len(once)
    assert columns[0].offset == 5000 and following == 5000 + 3 * 865
    assert [record.value for record in columns] == 3 * [record.value for record in once]
    offsets = [record.offset for record in columns]
    assert offsets == sorted(set(offsets))


def test_the_demo_flips_one_bit(tmp_path):
    log = SEGMENT.read_bytes()
    run_demo.make_flipped(log, tmp_path)
    damaged = (tmp_path / "all-codecs-0" / SEGMENT.name).read_bytes()
    assert [a ^ b for a, b in zip(log, damaged, strict=True) if a != b] == [1]
    columns = kafkarec.decode(damaged, errors="skip")
    assert [each.reason for each in columns.damage] == ["crc_mismatch"]


@pytest.fixture
def pieces_of(monkeypatch, tmp_path):
    """bytes -> the pieces of 10 kB into which examples/log_pieces.py cuts a file with these bytes."""
    log_pieces = loaded("examples/log_pieces.py")
    monkeypatch.setattr(log_pieces, "PIECE_BYTES", 10_000)

    def cut(data):
        path = tmp_path / "0.log"
        path.write_bytes(data)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            return log_pieces.cut(log)

    return cut


def test_pieces_end_at_batch_borders_and_cover_the_file(pieces_of):
    log = SEGMENT.read_bytes()
    pieces = pieces_of(log)
    assert len(pieces) > 3
    assert [start for start, _ in pieces] == [0, *(stop for _, stop in pieces[:-1])]
    assert pieces[-1][1] == len(log)
    records = sum(len(kafkarec.decode(log[start:stop])) for start, stop in pieces)
    assert records == len(kafkarec.decode(log))


def test_a_damaged_log_is_one_piece_and_zeros_at_its_end_are_in_none(pieces_of):
    log = SEGMENT.read_bytes()
    assert pieces_of(log + bytes(5000)) == pieces_of(log), "zeros to the end are no piece"
    damaged = bytearray(log)
    struct.pack_into(">i", damaged, 8, -7)
    assert pieces_of(bytes(damaged)) == [(0, len(log))], "a damaged log is one piece"


# ---- the benchmark's input -------------------------------------------------------------------------------


def test_workloads_are_readable_and_the_same_every_time():
    workloads = loaded("benchmarks/workloads.py")
    for work in workloads.WORKLOADS:
        for small in (work._replace(batches=3), work._replace(batches=3, java=True, random=True)):
            data = workloads.build(small)
            assert hashlib.sha256(data).digest() == hashlib.sha256(workloads.build(small)).digest()
            columns = kafkarec.decode(data)
            assert len(columns) == 3 * work.records
            last = columns[-1]
            assert (last.offset, len(last.value)) == (3 * work.records - 1, work.value_bytes)
            assert len(last.headers) == work.headers and (last.key is not None) == work.keys


def test_benchmarks_use_names_that_their_modules_have():
    texts = [path.read_text() for path in (ROOT / "benchmarks").glob("*.py")]
    modules = {name: loaded(f"benchmarks/{name}.py") for name in ("workloads", "shared")}
    for name, module in modules.items():
        used = {word for text in texts for word in re.findall(rf"\b{name}\.([A-Za-z_]\w*)", text)} - {"py"}
        for names in (found for text in texts for found in re.findall(rf"(?m)^from {name} import ([\w, ]+)", text)):
            used |= set(names.rstrip(" #").split(", "))
        assert used, name
        assert [each for each in sorted(used) if not hasattr(module, each.split()[0])] == [], name


def test_the_results_have_a_row_for_every_workload():
    workloads = loaded("benchmarks/workloads.py")
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    for title, rows in workloads.AXES.items():
        section = results.split(f"\n## {title}\n")[1].split("\n## ")[0]
        assert re.findall(r"^\| (\S.*?) \| [\d.]+ ", section, re.MULTILINE) == [*rows], title
