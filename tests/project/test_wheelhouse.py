"""The wheelhouse: reproducible bytes, a RECORD that pip accepts, complete trees in the spark_udfs wheel."""

import hashlib
import io
import json
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest
import wheelhouse_build
import wheelhouse_pack
import wheelhouse_platforms
from packaging.utils import parse_wheel_filename
from subprocesses import output_of

import kafkarec
import wheelhouse

HERE = wheelhouse_platforms.here()


@cache
def parts(fat):
    """The files of the trees."""
    files, _ = wheelhouse_pack.read_wheel(fat)
    folder = f"{wheelhouse_pack.TREES}/"
    return {name.removeprefix(folder): content for name, content in files.items() if name.startswith(folder)}


def index(fat):
    return json.loads(parts(fat)["index.json"])


def test_same_files_give_the_same_bytes(tmp_path):
    files = {"a/b.py": b"x = 1\n", "a/c.zip": b"stored", "a-1.dist-info/METADATA": b"Name: a\nVersion: 1\n"}
    first = wheelhouse_pack.write_wheel(tmp_path / "first.whl", files, "a-1.dist-info")
    backwards = dict(reversed(files.items()))
    second = wheelhouse_pack.write_wheel(tmp_path / "second.whl", backwards, "a-1.dist-info")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {each.date_time[:3] for each in archive.infolist()} == {(1980, 1, 1)}, "not the time of the build"


def test_fat_wheel_holds_the_package_and_its_trees(fat):
    assert index(fat)["version"] == kafkarec.__version__ == wheelhouse.version()
    files, dist_info = wheelhouse_pack.read_wheel(fat)
    assert dist_info == f"spark_udfs-{kafkarec.__version__}.dist-info"
    sources = {
        f"spark_udfs/{path.relative_to(wheelhouse.ROOT / 'spark_udfs').as_posix()}": path.read_bytes()
        for path in (wheelhouse.ROOT / "spark_udfs").rglob("*.py")
    }
    assert {name: files[name] for name in sources} == sources
    assert b"Requires-Dist" not in files[f"{dist_info}/METADATA"]  # a cluster has a pyspark of its own
    assert set(parts(fat)) == {"index.json", *index(fat)["parts"]}


def test_pip_accepts_the_fat_wheel(fat, tmp_path):
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    output_of(*pip, "--target", tmp_path, fat)
    assert (tmp_path / wheelhouse_pack.TREES / "index.json").exists()


@pytest.mark.parametrize("python", wheelhouse.PYTHONS)
def test_every_promised_interpreter_has_a_complete_tree(fat, python):
    """On the oldest system that is promised: glibc 2.17, such as Amazon Linux 2. Its files are those of its wheels."""
    (tree,) = [
        each
        for each in index(fat)["trees"]
        if (each["python"], each["machine"]) == (f"cp{python.replace('.', '')}", HERE.machine)
    ]
    assert tree["glibc"] == [2, 17]
    wheels = [wheelhouse.ROOT / "wheelhouse" / name for name in tree["wheels"]]
    found = {parse_wheel_filename(wheel.name)[0] for wheel in wheels}
    assert found == {"kafkarec", *wheelhouse_platforms.dependencies(HERE)}
    packed = parts(fat)
    files = {}
    for name in tree["parts"]:
        assert hashlib.sha256(packed[name]).hexdigest() == index(fat)["parts"][name]["sha256"]
        with zipfile.ZipFile(io.BytesIO(packed[name])) as archive:
            part = {each: archive.read(each) for each in archive.namelist()}
        assert {each: len(content) for each, content in part.items()} == index(fat)["parts"][name]["files"]
        assert not part.keys() & files.keys()
        files |= part
    assert files == wheelhouse_pack.installed(tuple(wheels))
    assert tree["library"] in index(fat)["parts"][tree["parts"][0]]["files"]  # it is tried before the rest is written
    assert len([name for name in files if name.endswith(".dist-info/METADATA")]) == len(wheels)  # crc32c reads its own


def made(folder, name, files):
    dist_info = "-".join(name.split("-")[:2]) + ".dist-info"
    metadata = {f"{dist_info}/METADATA": b"Requires-Dist: b>=1.5\n"}
    return wheelhouse_pack.write_wheel(folder / f"{name}.whl", metadata | files, dist_info)


def test_what_trees_have_in_common_is_packed_once(tmp_path):
    library = made(
        tmp_path, "b-2-py3-none-any", {"b.py": b"pure", "b-2.data/scripts/b": b"", "b-2.data/purelib/c.py": b""}
    )
    trees = []
    for machine in ("x86_64", "aarch64"):
        ours = made(
            tmp_path, f"kafkarec-1-py3-none-{machine}", {"kafkarec/a.so": machine.encode(), "kafkarec/a.py": b""}
        )
        for python in ("3.11", "3.12"):
            built = {"d.so": f"{machine} {python} with a longer one".encode()}
            tag = f"cp{python.replace('.', '')}"
            wheels = (ours, library, made(tmp_path, f"d-1-{tag}-{tag}-{machine}", built))
            trees.append(wheelhouse_pack.Tree(python, machine, (2, 17), wheels))
    data = wheelhouse_pack.trees_data("1", trees)
    contents = json.loads(data.pop("index.json"))
    metadata = [f"{each}.dist-info/METADATA" for each in ("b-2", "d-1", "kafkarec-1")]
    assert {name: sorted(part["files"]) for name, part in contents["parts"].items()} == {
        "all.zip": sorted([*metadata, "b.py", "c.py", "kafkarec/a.py"]),
        "aarch64.zip": ["kafkarec/a.so"],
        "x86_64.zip": ["kafkarec/a.so"],
        **{f"{python}-{machine}.zip": ["d.so"] for python in ("cp311", "cp312") for machine in ("aarch64", "x86_64")},
    }
    assert set(data) == set(contents["parts"])
    assert contents["trees"][3]["parts"] == ["aarch64.zip", "all.zip", "cp312-aarch64.zip"]
    assert contents["serves"] == "CPython 3.11 to 3.12 on x86_64, aarch64 with glibc 2.17 or later"
    assert contents["libraries"] == {name: ["b", "2", "1.5"] for name in ("b", "c")} | {"d": ["d", "1", "0"]}


def test_two_wheels_with_different_files_of_one_name_are_refused(tmp_path):
    wheels = tuple(made(tmp_path, f"{name}-1-py3-none-any", {"same.py": name.encode()}) for name in "ab")
    with pytest.raises(SystemExit, match=r"b-1-py3-none-any.whl and another wheel have different files 'same.py'"):
        wheelhouse_pack.installed(wheels)


def test_kafkarec_wheel_has_the_right_tags(fat):
    (ours,) = {
        name
        for tree in index(fat)["trees"]
        for name in tree["wheels"]
        if tree["machine"] == HERE.machine and name.startswith("kafkarec-")
    }
    if not sys.platform.startswith("linux"):
        pytest.skip(f"manylinux tags are for Linux, this is {sys.platform}")
    assert "linux_" in ours
    files, dist_info = wheelhouse_pack.read_wheel(wheelhouse.ROOT / "wheelhouse" / ours)
    tags = {line.removeprefix("Tag: ") for line in files[f"{dist_info}/WHEEL"].decode().splitlines() if "Tag: " in line}
    assert tags == {str(tag) for tag in parse_wheel_filename(ours)[3]}


def test_lower_bounds_and_modules_of_the_dependencies(fat):
    libraries = index(fat)["libraries"]
    needed = wheelhouse_platforms.dependencies(HERE).keys() - {"fsspec"}
    assert {project for project, _, _ in libraries.values()} == needed
    assert libraries["snappy"][0] == "python-snappy" and libraries["crc32c"][2] == "2.7"


def test_a_wheel_that_is_not_locked_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"something else")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    entry = f"a==1 \\\n    --hash=sha256:{'0' * 64}\n"
    with pytest.raises(SystemExit, match="DO NOT MATCH THE HASHES"):
        wheelhouse_platforms.wheels_of([entry], HERE, "3.12", tmp_path / "into")


def test_a_module_without_what_is_not_loaded_is_smaller_and_loaded(tmp_path):
    from kafkarec import _core

    module = Path(_core.__file__).read_bytes()
    small = wheelhouse_pack.loaded(module)
    assert len(small) < len(module) and wheelhouse_pack.loaded(small) == small
    header = 64  # has the place of the section headers
    assert all(one in (0, other) for one, other in zip(small[header:], module[header:], strict=False))
    made = tmp_path / "_core.abi3.so"
    made.write_bytes(small)
    output_of(sys.executable, "-c", f"import ctypes; ctypes.PyDLL({str(made)!r}).PyInit__core")
    assert wheelhouse_pack.loaded(b"#!/bin/sh\n") == b"#!/bin/sh\n"


def test_the_trees_have_only_what_is_loaded(fat):
    for part, content in parts(fat).items():
        if part.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for name in archive.namelist():
                    module = archive.read(name)
                    assert wheelhouse_pack.loaded(module) == module, name


@pytest.mark.parametrize("platform", wheelhouse_platforms.PLATFORMS, ids=lambda one: one.name)
def test_tags_of_each_platform(platform):
    """The kafkarec wheel that is compiled for it fits its interpreters, and those of no other platform."""
    fitting = [one.name for one in wheelhouse_platforms.PLATFORMS if platform.tag in one.tags]
    assert fitting == [platform.name]


def test_which_wheels_fit_the_oldest_system():
    tags = wheelhouse_platforms.BY_NAME["manylinux-x86_64"].tags
    assert tags[0] == "manylinux_2_17_x86_64" and tags[-1] == "manylinux1_x86_64" and "manylinux2014_x86_64" in tags
    assert not {"manylinux_2_28_x86_64", "manylinux_2_17_aarch64", "musllinux_1_1_x86_64"} & {*tags}


def test_check_program_fails_with_a_bad_wheel(tmp_path):
    """The check itself must be able to fail."""
    import wheelhouse_check

    empty = wheelhouse_pack.write_wheel(tmp_path / "spark_udfs-1-py3-none-any.whl", {}, "spark_udfs-1.dist-info")
    with pytest.raises(SystemExit, match="No module named 'spark_udfs'"):
        wheelhouse_check.try_in(sys.executable, empty)


# ---- in the source folder ---------------------------------------------------------------------------------------


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """A folder with a module that was compiled once; the options that setup.py was called with."""
    package, called = tmp_path / "kafkarec", []

    def setup(*words, cwd, env):
        called.append("--force" in words and env["CYTHON_FORCE_REGEN"] == "1")
        made = cwd / "build" / "kafkarec" / "modules" / "kafkarec"
        made.mkdir(parents=True, exist_ok=True)
        (made / "_a.abi3.so").write_bytes(b"new")

    monkeypatch.setattr(wheelhouse_build, "run", setup)
    package.mkdir()
    (package / "_a.pyx").touch()
    (tmp_path / "setup.py").touch()
    for name in ("_a.abi3.so", "_gone.abi3.so"):
        (package / name).write_bytes(b"old")
    assert wheelhouse_build.compile_in_place(tmp_path) == [package / "_a.abi3.so"]
    return called


def test_compiled_modules_are_beside_their_sources(tmp_path, builds):
    (module,) = (tmp_path / "kafkarec").glob("*.so")
    assert (module.name, module.read_bytes()) == ("_a.abi3.so", b"new")


def test_what_to_compile_again_is_left_to_setuptools(tmp_path, builds):
    wheelhouse_build.compile_in_place(tmp_path)
    assert builds == [True, False]


@pytest.mark.parametrize("reason", ["another setup.py", "another module", "stopped", "CC", "CFLAGS", "KAFKAREC_ABI3"])
def test_everything_is_compiled_again(tmp_path, builds, reason, monkeypatch):
    if reason == "another setup.py":
        (tmp_path / "setup.py").write_text("2")
    if reason == "another module":
        (tmp_path / "kafkarec" / "_d.pyx").touch()
    if reason == "stopped":
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr(wheelhouse_build, "run", lambda *words, **named: sys.exit("stopped"))
            wheelhouse_build.compile_in_place(tmp_path)
    if reason.isupper():
        monkeypatch.setenv(reason, "0")
    wheelhouse_build.compile_in_place(tmp_path)
    assert builds == [True, True]


def test_the_data_of_the_wheel_is_in_the_source_folder(fat, tmp_path):
    folder = tmp_path / wheelhouse_pack.TREES
    folder.mkdir(parents=True)
    (folder / "old.zip").touch()
    wheelhouse_pack.unpack_data(fat, tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == parts(fat)
