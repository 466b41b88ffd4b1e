"""Several versions in one process: ours has precedence, an equal installed one is used, another loaded one is an
error."""

import shutil

import fat_wheels
import pytest
import wheelhouse_pack


def installed(folder, version, code=""):
    """A kafkarec of some version, as pip installs it."""
    package = folder / f"site-{version}" / "kafkarec"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"{code}\nfrom ._version import __version__\n")
    (package / "_version.py").write_text(f'__version__ = "{version}"\n')
    return package.parent


@pytest.mark.parametrize(
    "version, code, then, source, notes",
    [
        (fat_wheels.VERSION, "", "", "installed", ""),
        (fat_wheels.VERSION, "", "import kafkarec", "imported before", ""),
        ("0.0.1", "", "", "unpacked", ""),
        (fat_wheels.VERSION, "import missing", "", "unpacked", "cannot be imported: No module named 'missing'"),
    ],
    ids=["equal", "equal and loaded", "another", "equal, cannot be imported"],
)
def test_an_equal_installed_version_is_used_and_nothing_is_unpacked(
    fake_fat, tmp_path, version, code, then, source, notes
):
    site = installed(tmp_path, version, code)
    outcome = fat_wheels.activate(
        fake_fat, tmp_path / "root", fat_wheels.program(f"sys.path.insert(0, {str(site)!r})\n{then}")
    )
    assert outcome["source"] == source and notes in "".join(outcome["notes"])
    assert (outcome["path"] == str(site)) == (source != "unpacked") != (tmp_path / "root").exists()
    assert outcome["file"].startswith(outcome["path"])


@pytest.mark.parametrize("has_its_own", [True, False])
def test_fsspec_is_that_of_the_executor_if_it_has_one(tmp_path, has_its_own):
    """Its s3fs, which nothing here knows, takes exactly one version."""
    files = {"fsspec/__init__.py": b"", "fsspec-2.dist-info/METADATA": b"Name: fsspec\nVersion: 2\n"}
    library = wheelhouse_pack.write_wheel(tmp_path / "fsspec-2-py3-none-any.whl", files, "fsspec-2.dist-info")
    if has_its_own:
        (tmp_path / "site" / "fsspec").mkdir(parents=True)
        (tmp_path / "site" / "fsspec" / "__init__.py").touch()
    program = fat_wheels.program(f"sys.path.append({str(tmp_path / 'site')!r})").replace(
        "import kafkarec\n", "import kafkarec, fsspec\n"
    )
    outcome = fat_wheels.activate(
        fat_wheels.fat_wheel(tmp_path / "fat", fat_wheels.VERSION, library),
        tmp_path / "root",
        program.replace("kafkarec.__file__", "fsspec.__file__"),
    )
    assert outcome["source"] == "unpacked"
    assert outcome["file"].startswith(str(tmp_path / ("site" if has_its_own else "root")))


def test_another_loaded_version_is_an_error_that_names_both(fake_fat, tmp_path):
    site = installed(tmp_path, "0.0.1")
    outcome = fat_wheels.activate(
        fake_fat, tmp_path / "root", fat_wheels.program(f"sys.path.insert(0, {str(site)!r})\nimport kafkarec")
    )
    assert outcome["error"].startswith(f"kafkarec 0.0.1 is loaded already from {site}")
    assert f"needs {fat_wheels.VERSION}" in outcome["error"]


def test_it_can_be_tried_again_after_an_error(fake_fat, tmp_path):
    site = installed(tmp_path, "0.0.1")
    code = (
        f"sys.path.insert(0, {str(site)!r})\nimport kafkarec\ntry:\n    bootstrap.activate()\n"
        "except bootstrap.BootstrapError as error:\n    assert 'is loaded already' in str(error)\n"
        "else:\n    raise AssertionError\n"
        "del sys.modules['kafkarec'], sys.modules['kafkarec._version'], sys.path[0]"
    )
    outcome = fat_wheels.activate(fake_fat, tmp_path / "root", fat_wheels.program(code))
    assert outcome["source"] == "unpacked" and outcome["path"].startswith(str(tmp_path / "root"))


def with_codec(folder):
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


def loaded_codec(version):
    return fat_wheels.program(
        "import types\nmodule = types.ModuleType('crc32c')\nmodule.__file__ = '/site/crc32c/__init__.py'\n"
        f"module.__version__ = {version!r}\nsys.modules['crc32c'] = module"
    )


def test_a_loaded_dependency_that_is_new_enough_is_used_and_an_older_one_is_an_error(tmp_path):
    carrying = with_codec(tmp_path / "fat")
    outcome = fat_wheels.activate(carrying, tmp_path / "old", loaded_codec("2.6"))
    assert outcome["error"].startswith("crc32c 2.6 is loaded already from /site/crc32c/__init__.py; ")
    assert "needs 2.7 or later (spark_udfs contains 2.9)" in outcome["error"]
    assert not (tmp_path / "old").exists()
    outcome = fat_wheels.activate(carrying, tmp_path / "root", loaded_codec("2.7.1"))
    assert outcome["notes"] == ["crc32c 2.7.1 was imported before and stays"]


def test_two_versions_share_one_root(fake_fat, tmp_path):
    other = fat_wheels.fat_wheel(tmp_path / "other", "9.8.8")
    outcome = [fat_wheels.activate(each, tmp_path / "root") for each in (fake_fat, other, fake_fat)]
    assert [each["notes"] for each in outcome] == [[], [], []]
    assert outcome[0]["path"] == outcome[2]["path"] != outcome[1]["path"]


def test_a_source_checkout_needs_an_installed_kafkarec(tmp_path):
    without = shutil.ignore_patterns("_trees")  # which set-up puts there
    shutil.copytree(fat_wheels.ROOT / "spark_udfs", tmp_path / "checkout" / "spark_udfs", ignore=without)
    outcome = fat_wheels.activate(tmp_path / "checkout", tmp_path / "root")
    assert "contains no compiled packages, and kafkarec is not installed here" in outcome["error"]
