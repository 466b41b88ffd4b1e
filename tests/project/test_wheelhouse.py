"""The wheelhouse: reproducible bytes, a RECORD that pip and the bootstrap accept, a correct manifest."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import wheelhouse_build
import wheelhouse_fetch
import wheelhouse_pack
import wheelhouse_platforms
import wheelhouse_strip

import kafkarec
import wheelhouse
from spark_udfs.bootstrap import tags, wheels

HERE = wheelhouse_platforms.here()
assert HERE is not None, "no wheel is made for this platform"


def manifest(fat: Path) -> dict[str, object]:
    contents = wheels.load_manifest(wheels.PackageOrigin(str(fat), is_archive=True))
    assert contents is not None
    return contents


def test_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    files = {"a/b.py": b"x = 1\n", "a/c.whl": b"stored", "a-1.dist-info/METADATA": b"Name: a\nVersion: 1\n"}
    first = wheelhouse_pack.write_wheel(tmp_path / "first.whl", files, "a-1.dist-info")
    backwards = dict(reversed(files.items()))
    second = wheelhouse_pack.write_wheel(tmp_path / "second.whl", backwards, "a-1.dist-info")
    assert first.read_bytes() == second.read_bytes()


def test_fat_wheel_holds_the_package_and_its_wheels(fat: Path) -> None:
    assert manifest(fat)["version"] == kafkarec.__version__ == wheelhouse.version()
    files, dist_info = wheelhouse_pack.read_wheel(fat)
    assert dist_info == f"spark_udfs-{kafkarec.__version__}.dist-info"
    sources = {
        f"spark_udfs/{path.relative_to(wheelhouse.ROOT / 'spark_udfs').as_posix()}": path.read_bytes()
        for path in (wheelhouse.ROOT / "spark_udfs").rglob("*.py")
    }
    assert {name: files[name] for name in sources} == sources
    assert b"Requires-Dist" not in files[f"{dist_info}/METADATA"]  # a cluster has a pyspark of its own
    listed = {line["file"] for line in manifest(fat)["wheels"]}
    assert listed == {name.rpartition("/")[2] for name in files if name.endswith(".whl")}


def test_record_holds_for_the_bootstrap_and_for_pip(fat: Path, tmp_path: Path) -> None:
    names = {name for name, _ in wheels.members(fat.read_bytes(), fat.name)}
    assert "spark_udfs/bootstrap/__init__.py" in names
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    completed = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(tmp_path), str(fat)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert (tmp_path / "spark_udfs" / "_wheels" / "manifest.json").exists()


def test_every_wheel_inside_is_complete(fat: Path) -> None:
    origin = wheels.PackageOrigin(str(fat), is_archive=True)
    for line in manifest(fat)["wheels"]:
        wheel = wheels.Wheel(**line)
        names = [name for name, _ in wheels.members(wheels.fetch(origin, wheel), wheel.file)]
        assert any(name.endswith(".dist-info/METADATA") for name in names)  # crc32c reads its own METADATA


@pytest.mark.parametrize("python", wheelhouse.PYTHONS)
def test_every_promised_interpreter_finds_its_wheels(fat: Path, python: str) -> None:
    """The oldest system that is promised: glibc 2.17, such as Amazon Linux 2."""
    chosen = wheels.choose(manifest(fat), HERE.interpreter(python))
    assert {wheel.project for wheel in chosen} == {"kafkarec", *wheelhouse_fetch.dependencies(HERE)}


def test_kafkarec_wheel_has_the_right_tags(fat: Path) -> None:
    chosen = wheels.choose(manifest(fat), HERE.interpreter(wheelhouse.PYTHONS[0]))
    (ours,) = [wheel.file for wheel in chosen if wheel.project == "kafkarec"]
    if not sys.platform.startswith("linux"):
        pytest.skip(f"manylinux tags are for Linux, this is {sys.platform}")
    assert "linux_" in ours
    with zipfile.ZipFile(fat) as archive:
        content = archive.read(f"{wheelhouse_pack.DATA_FOLDER}/{ours}")
    files = dict(wheels.members(content, ours))
    dist_info = next(name for name in files if name.endswith(".dist-info/WHEEL"))
    tags_in_wheel = [line.removeprefix("Tag: ") for line in files[dist_info].decode().splitlines() if "Tag: " in line]
    assert tags_in_wheel == tags.wheel_tags(ours)


def test_lower_bounds_and_modules_of_the_dependencies(fat: Path) -> None:
    contents = manifest(fat)
    assert set(contents["requires"]) == set(wheelhouse_fetch.dependencies(HERE))
    assert contents["modules"]["python-snappy"] == ["snappy"]
    assert contents["modules"]["kafkarec"] == ["kafkarec"]


def test_a_cached_wheel_that_is_not_locked_is_not_used(tmp_path: Path) -> None:
    name = "python_snappy-0.7.3-py3-none-any.whl"
    (tmp_path / name).write_bytes(b"something else")
    good = wheelhouse_pack.sha256(tmp_path / name)
    python = HERE.interpreter(wheelhouse.PYTHONS[0])
    cached = wheelhouse_fetch._cached(tmp_path, "python-snappy", "0.7.3", frozenset([good]), python)
    assert cached == tmp_path / name
    assert wheelhouse_fetch._cached(tmp_path, "python-snappy", "0.7.3", frozenset(["0" * 64]), python) is None


def test_what_is_stripped_is_what_nothing_loads(fat: Path) -> None:
    """Each compiled module of the carried wheels is as small as it can be, and keeps what its program headers name."""
    for line in manifest(fat)["wheels"]:
        with zipfile.ZipFile(fat) as archive:
            content = archive.read(f"{wheelhouse_pack.DATA_FOLDER}/{line['file']}")
        for name, module in wheels.members(content, line["file"]):
            if module.startswith(wheelhouse_strip.MAGIC):
                assert all(each.flags & 2 for title, each in wheelhouse_strip.sections(module)[1:-1]), name
                assert wheelhouse_strip.stripped(module) == module


def test_stripping_changes_nothing_that_is_loaded() -> None:
    from kafkarec import _core

    module = Path(_core.__file__).read_bytes()
    small = wheelhouse_strip.stripped(module)
    assert len(small) < len(module)
    header = 64  # has the place of the section headers
    for first, end in wheelhouse_strip.loaded(module):
        assert small[max(first, header) : end] == module[max(first, header) : end]
    names = {name for name, _ in wheelhouse_strip.sections(small)}
    assert ".dynsym" in names and ".symtab" not in names
    assert wheelhouse_strip.stripped(b"#!/bin/sh\n") == b"#!/bin/sh\n"


@pytest.mark.parametrize("platform", wheelhouse_platforms.PLATFORMS, ids=lambda one: one.name)
def test_tags_of_each_platform(platform: wheelhouse_platforms.Platform) -> None:
    """The kafkarec wheel that is compiled for it fits its interpreters, and those of no other platform."""
    wheel = f"kafkarec-1-cp311-abi3-{platform.tag}.whl"
    fitting = [
        one.name
        for one in wheelhouse_platforms.PLATFORMS
        if set(tags.wheel_tags(wheel)) & set(tags.compatible_tags(one.interpreter("3.13")))
    ]
    assert fitting == [platform.name]


def test_wheelhouse_is_not_committed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "wheelhouse"], cwd=wheelhouse.ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git repository here")
    assert listed.stdout.split() in ([], ["wheelhouse/.gitkeep"])


def test_check_program_fails_with_a_bad_wheel(tmp_path: Path) -> None:
    """The check itself must be able to fail."""
    import wheelhouse_check

    empty = wheelhouse_pack.write_wheel(tmp_path / "spark_udfs-1-py3-none-any.whl", {}, "spark_udfs-1.dist-info")
    outcome = wheelhouse_check._try(sys.executable, empty, wheelhouse.ROOT)
    assert outcome.ran and not outcome.passed
    assert "No module named 'spark_udfs'" in outcome.words


# ---- compiling: once, for the wheel and for the source folder ---------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, bytes]:
    wheelhouse_build._update(tmp_path / "work" / "source", SOURCES, tmp_path / "work" / "compiled-with")
    for name in ("kafkarec/_a.c", "build/lib/kafkarec/_a.abi3.so", "build/lib/kafkarec/b.py"):
        path = tmp_path / "work" / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "work" / "compiled-with").write_text(wheelhouse_build._tools(SOURCES))
    return dict(SOURCES)


SOURCES = {"setup.py": b"1", "kafkarec/_a.pyx": b"2", "kafkarec/b.py": b"3", "kafkarec/c.py": b"4"}


def updated(tmp_path: Path, sources: dict[str, bytes]) -> dict[str, int]:
    """File -> time of its last change, after the copy was brought up to these sources."""
    copy = tmp_path / "work" / "source"
    wheelhouse_build._update(copy, sources, tmp_path / "work" / "compiled-with")
    return {path.relative_to(copy).as_posix(): path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()}


def test_what_has_not_changed_keeps_its_time_and_what_is_gone_is_not_packed(
    tmp_path: Path, sources: dict[str, bytes]
) -> None:
    copy = tmp_path / "work" / "source"
    before = {path.relative_to(copy).as_posix(): path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()}
    del sources["kafkarec/b.py"]
    after = updated(tmp_path, sources | {"kafkarec/c.py": b"5"})
    assert set(after) == {*sources, "kafkarec/_a.c", "build/lib/kafkarec/_a.abi3.so"}
    assert {name for name in after if after[name] != before[name]} == {"kafkarec/c.py"}


@pytest.mark.parametrize("reason", ["another setup.py", "another module", "stopped", "another compiler"])
def test_everything_is_compiled_again(
    tmp_path: Path, sources: dict[str, bytes], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "another setup.py":
        sources["setup.py"] = b"2"
    if reason == "another module":
        sources["kafkarec/_d.pyx"] = b""
    if reason == "stopped":
        updated(tmp_path, sources)
    if reason == "another compiler":
        monkeypatch.setenv("CC", "another")
    assert set(updated(tmp_path, sources)) == set(sources)


def test_modules_in_the_source_folder_are_those_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"kafkarec/_a.abi3.so": b"new", "kafkarec/b.py": b"", "kafkarec-1.dist-info/METADATA": b""}
    wheel = wheelhouse_pack.write_wheel(tmp_path / "kafkarec-1-cp311-abi3-any.whl", files, "kafkarec-1.dist-info")
    monkeypatch.setattr(wheelhouse_build, "kafkarec_wheel", lambda *arguments: (wheel, tmp_path))
    (tmp_path / "kafkarec").mkdir()
    for name in ("_a.abi3.so", "_gone.abi3.so"):
        (tmp_path / "kafkarec" / name).write_bytes(b"old")
    assert wheelhouse_build.compile_in_place(tmp_path, tmp_path, "1") == ["kafkarec/_a.abi3.so"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "kafkarec").iterdir()} == {"_a.abi3.so": b"new"}


def test_the_data_of_the_wheel_is_in_the_source_folder(fat: Path, tmp_path: Path) -> None:
    (tmp_path / "spark_udfs" / "_wheels").mkdir(parents=True)
    (tmp_path / "spark_udfs" / "_wheels" / "old.whl").touch()
    wheelhouse_pack.unpack_data(fat, tmp_path)
    here = wheels.PackageOrigin(str(tmp_path), is_archive=False)
    assert wheels.load_manifest(here) == manifest(fat)
    assert all(wheels.fetch(here, wheels.Wheel(**line)) for line in manifest(fat)["wheels"])
    assert not (tmp_path / "spark_udfs" / "_wheels" / "old.whl").exists()
