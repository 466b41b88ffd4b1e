"""The wheelhouse: reproducible bytes, a RECORD that pip and the bootstrap accept, a correct manifest."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
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
