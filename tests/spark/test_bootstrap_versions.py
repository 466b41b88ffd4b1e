"""Several versions in one process: ours has precedence, an equal installed one is used, another loaded one is an
error."""

from __future__ import annotations

import shutil
from pathlib import Path

import fat_wheels
import pytest
import wheelhouse_pack


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fat_wheels.fat_wheel(tmp_path_factory.mktemp("fat"))


def installed(folder: Path, version: str, code: str = "") -> Path:
    """A kafkarec of some version, as pip installs it."""
    package = folder / f"site-{version}" / "kafkarec"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"{code}\nfrom ._version import __version__\n")
    (package / "_version.py").write_text(f'__version__ = "{version}"\n')
    return package.parent


def before(code: str) -> str:
    return fat_wheels.PROGRAM.replace("try:\n", code + "\ntry:\n", 1)


def test_an_equal_installed_version_is_used_and_nothing_is_unpacked(fat: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, fat_wheels.VERSION)
    outcome = fat_wheels.activate(fat, tmp_path / "root", before(f"sys.path.append({str(site)!r})"))
    assert (outcome["source"], outcome["path"]) == ("installed", str(site))
    assert not (tmp_path / "root").exists()


def test_another_installed_version_is_ignored(fat: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, "0.0.1")
    outcome = fat_wheels.activate(fat, tmp_path / "root", before(f"sys.path.insert(0, {str(site)!r})"))
    assert outcome["source"] == "unpacked"
    assert outcome["file"].startswith(str(tmp_path / "root"))


def test_an_equal_installed_version_that_cannot_be_imported_is_ignored(fat: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, fat_wheels.VERSION, "import a_module_that_is_missing")
    outcome = fat_wheels.activate(fat, tmp_path / "root", before(f"sys.path.insert(0, {str(site)!r})"))
    assert outcome["source"] == "unpacked"
    assert "cannot be imported: No module named 'a_module_that_is_missing'" in outcome["notes"][0]


@pytest.mark.parametrize("has_its_own", [True, False])
def test_fsspec_is_that_of_the_executor_if_it_has_one(tmp_path: Path, has_its_own: bool) -> None:
    """Its s3fs, which nothing here knows, takes exactly one version."""
    files = {"fsspec/__init__.py": b"", "fsspec-2.dist-info/METADATA": b"Name: fsspec\nVersion: 2\n"}
    library = wheelhouse_pack.write_wheel(tmp_path / "fsspec-2-py3-none-any.whl", files, "fsspec-2.dist-info")
    if has_its_own:
        (tmp_path / "site" / "fsspec").mkdir(parents=True)
        (tmp_path / "site" / "fsspec" / "__init__.py").touch()
    program = before(f"sys.path.append({str(tmp_path / 'site')!r})").replace(
        "import kafkarec\n", "import kafkarec, fsspec\n"
    )
    outcome = fat_wheels.activate(
        fat_wheels.fat_wheel(tmp_path / "fat", fat_wheels.VERSION, library),
        tmp_path / "root",
        program.replace("kafkarec.__file__", "fsspec.__file__"),
    )
    assert outcome["source"] == "unpacked"
    assert outcome["file"].startswith(str(tmp_path / ("site" if has_its_own else "root")))


def test_another_loaded_version_is_an_error_that_names_both(fat: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, "0.0.1")
    outcome = fat_wheels.activate(fat, tmp_path / "root", before(f"sys.path.insert(0, {str(site)!r})\nimport kafkarec"))
    assert outcome["error"].startswith(f"kafkarec 0.0.1 is loaded already from {site}")
    assert f"needs {fat_wheels.VERSION}" in outcome["error"]


def test_an_equal_loaded_version_is_used(fat: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, fat_wheels.VERSION)
    program = before(f"sys.path.insert(0, {str(site)!r})\nimport kafkarec")
    assert fat_wheels.activate(fat, tmp_path / "root", program)["source"] == "imported before"


def with_codec(folder: Path) -> Path:
    """A fat wheel that holds crc32c 2.9."""
    folder.mkdir()
    codec = wheelhouse_pack.write_wheel(
        folder / "crc32c-2.9-py3-none-any.whl",
        {
            "crc32c/__init__.py": b'__version__ = "2.9"\n',
            "crc32c-2.9.dist-info/METADATA": b"Name: crc32c\nVersion: 2.9\n",
        },
        "crc32c-2.9.dist-info",
    )
    return fat_wheels.fat_wheel(folder, fat_wheels.VERSION, codec)


def loaded_codec(version: str) -> str:
    return before(
        "import types\nmodule = types.ModuleType('crc32c')\nmodule.__file__ = '/site/crc32c/__init__.py'\n"
        f"module.__version__ = {version!r}\nsys.modules['crc32c'] = module"
    )


def test_a_loaded_dependency_that_is_new_enough_is_used(tmp_path: Path) -> None:
    outcome = fat_wheels.activate(with_codec(tmp_path / "fat"), tmp_path / "root", loaded_codec("2.7.1"))
    assert outcome["notes"] == ["crc32c 2.7.1 was imported before and stays"]


def test_a_loaded_dependency_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    outcome = fat_wheels.activate(with_codec(tmp_path / "fat"), tmp_path / "root", loaded_codec("2.6"))
    assert outcome["error"].startswith("crc32c 2.6 is loaded already from /site/crc32c/__init__.py; ")
    assert "needs 2.7 or later (spark_udfs contains 2.9)" in outcome["error"]
    assert not (tmp_path / "root").exists()


def test_two_versions_share_one_root(fat: Path, tmp_path: Path) -> None:
    other = fat_wheels.fat_wheel(tmp_path / "other", "9.8.8")
    outcome = [fat_wheels.activate(each, tmp_path / "root") for each in (fat, other, fat)]
    assert [each["notes"] for each in outcome] == [[], [], []]
    assert outcome[0]["path"] == outcome[2]["path"] != outcome[1]["path"]


def test_a_source_checkout_needs_an_installed_kafkarec(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("_trees")  # which set-up puts there
    shutil.copytree(fat_wheels.ROOT / "spark_udfs", tmp_path / "checkout" / "spark_udfs", ignore=without)
    outcome = fat_wheels.activate(tmp_path / "checkout", tmp_path / "root")
    assert "contains no compiled packages, and kafkarec is not installed here" in outcome["error"]
