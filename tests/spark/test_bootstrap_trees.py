"""The trees inside of the wheel: which one is taken, and what is refused."""

import os
import platform
import zipfile

import fat_wheels
import pytest

from spark_udfs import bootstrap

HERE = {"python": bootstrap.python_tag(), "machine": platform.machine(), "glibc": [2, 17], "parts": ["one.zip"]}
OTHERS = [HERE | {"python": "cp310", "glibc": [2, 4]}, HERE | {"machine": "riscv64", "glibc": [2, 3]}]
OTHERS.append(HERE | {"glibc": [2, 99]})


def index(*trees):
    return {"trees": trees, "serves": "CPython 3.10 on riscv64", "parts": {"one.zip": {"sha256": "", "files": {}}}}


def test_the_tree_of_this_interpreter_is_taken():
    same = HERE | {"glibc": [int(number) for number in bootstrap.libc().removeprefix("glibc-").split(".")]}
    assert bootstrap.fitting_tree(index(*OTHERS, HERE))["glibc"] == [2, 17]
    assert bootstrap.fitting_tree(index(same, HERE))["glibc"] == same["glibc"]


def test_the_error_says_what_is_here_what_the_wheel_serves_and_what_to_do(monkeypatch):
    monkeypatch.setattr(bootstrap, "libc", lambda: "no glibc")
    with pytest.raises(bootstrap.BootstrapError) as caught:
        bootstrap.fitting_tree(index(*OTHERS, HERE))
    assert str(caught.value).startswith(
        f"this interpreter is {HERE['python']} on {HERE['machine']} with no glibc, and this spark_udfs wheel serves "
        f"CPython 3.10 on riscv64. `make wheelhouse` in kafkarec's checkout makes the one for CPython 3.11 to 3.14"
    )
    assert "pip install" in str(caught.value) and "--archives" in str(caught.value)


@pytest.mark.parametrize(
    "name, edit, message",
    [
        ("all.zip", lambda raw: raw[:-1] + b"\1", "refused: all.zip in {fat} has the sha256 "),
        ("all.zip", lambda raw: None, "{fat} lists all.zip but does not contain it"),
        (
            "index.json",
            lambda raw: raw.replace(b'"format": 2', b'"format": 3'),
            "{fat} has trees of format 3; this bootstrap reads format 2",
        ),
    ],
    ids=["changed", "missing", "newer"],
)
def test_a_spoiled_wheel_is_refused_and_leaves_nothing(tmp_path, name, edit, message):
    spoiled = fat_wheels.edited(fat_wheels.fat_wheel(tmp_path / "fat"), tmp_path / "spoiled.zip", name, edit)
    outcome = fat_wheels.activate(spoiled, tmp_path / "root")
    assert outcome["error"].startswith(message.format(fat=spoiled))
    assert [path for path in (tmp_path / "root").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_good_wheel_in_a_zip_on_a_relative_path_is_unpacked(tmp_path):
    """On executors sys.path holds `./x.zip`, and the process may change its working directory later."""
    fat = fat_wheels.fat_wheel(tmp_path / "wheels").rename(tmp_path / "spark_udfs.zip")
    code = "import os, sys; sys.argv[1] = './spark_udfs.zip'\n" + fat_wheels.program("os.chdir('/')")
    outcome = fat_wheels.activate(fat, tmp_path / "root", code, cwd=tmp_path)
    assert outcome["source"] == "unpacked"
    assert outcome["path"].startswith(str(tmp_path / "root" / f"kafkarec-cache-{os.geteuid()}"))


def test_an_unpacked_folder_works_as_an_archive_does(tmp_path):
    fat = fat_wheels.fat_wheel(tmp_path / "wheels")
    with zipfile.ZipFile(fat) as archive:
        archive.extractall(tmp_path / "site")
    assert fat_wheels.activate(tmp_path / "site", tmp_path / "root")["source"] == "unpacked"
